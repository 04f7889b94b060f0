"""Small tensors collected over the calls of a step, and copied to the host together."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np
import torch

from barograph.capture.torch.device import FetchedTensor
from barograph.model.key import Key

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from barograph.capture.buffer import StepBuffer

MOST_COLUMNS = 1 << 20
"""Maximum number of columns per step or evaluation; further ones are ignored."""

_PIECES = 64

Report = Callable[["StepBuffer", "NDArray[np.float64] | NDArray[np.int64]", bool], None]


class Gathering:
    """Columns of one kind, collected per micro-batch: labels or digests.

    Tensors in host memory are available at once. Tensors on a device stay there until the step or the evaluation ends,
    and are then copied after the step's own work: nothing blocks.

    Args:
        report: Called once with the buffer, all columns concatenated, and whether this was training: at the end of the
            step or, for columns from a device, in the writer's thread.
    """

    __slots__ = ("_columns", "_pieces", "_report")

    def __init__(self, report: Report) -> None:
        self._report = report
        self._pieces: list[torch.Tensor] = []
        self._columns = 0

    @property
    def full(self) -> bool:
        """Whether no more is gathered."""
        return self._columns >= MOST_COLUMNS

    def add(self, piece: torch.Tensor) -> None:
        """Add columns.

        Args:
            piece: Its last axis is that of columns; all pieces have the same other axes and type.
        """
        self._columns += piece.shape[-1]
        self._pieces.append(piece.detach())
        if len(self._pieces) >= _PIECES:
            self._pieces = [self._joined()]

    def settle(self, buffer: StepBuffer, *, training: bool) -> None:
        """End the collection: report now, or later if a transfer from a device is pending."""
        if not self._pieces:
            return
        joined = self._joined()
        self._pieces = []
        if joined.device.type == "cpu":
            self._report(buffer, joined.numpy(), training)
            return
        fetch = FetchedTensor(joined)
        buffer.defer(lambda late: self._report(late, fetch.numbers(), training))

    def _joined(self) -> torch.Tensor:
        if len(self._pieces) == 1:
            return self._pieces[0]
        # The parts of a model may be on several devices.
        device = self._pieces[0].device
        return torch.cat([piece.to(device, non_blocking=True) for piece in self._pieces], dim=-1)


def evenly(count: int, most: int, device: torch.device) -> torch.Tensor | None:
    """Return the indices of at most `most` of `count` elements, evenly spread; None: all of them.

    Example:
        >>> evenly(10, 4, torch.device("cpu")).tolist()
        [0, 2, 5, 7]
    """
    if count <= most:
        return None
    return torch.arange(most, device=device) * count // most


def gather(buffer: StepBuffer, name: str, report: Report, piece: torch.Tensor) -> None:
    """Add to the collection with that name in a buffer, or to a new one.

    Args:
        buffer: Buffer of the step or the evaluation.
        name: Name of the collection; the same name means the same kind of columns.
        report: Reports the columns; used for the first piece.
        piece: The new piece; a separate tensor, since it is read when the step ends.
    """
    gathering = buffer.gathered.get(name)
    if gathering is None:
        gathering = buffer.gathered[name] = Gathering(report)
    if isinstance(gathering, Gathering) and not gathering.full:
        gathering.add(piece)


def gather_share(buffer: StepBuffer, key: Key, hits: torch.Tensor, of: torch.Tensor | None = None) -> None:
    """Record a share of true values, over all calls of the step or the evaluation.

    Args:
        buffer: Buffer of the step or the evaluation.
        key: Key of the share.
        hits: Boolean tensor of any shape.
        of: Boolean tensor of the elements to count; None: all.
    """

    def report(late: StepBuffer, columns: NDArray[np.float64] | NDArray[np.int64], training: bool) -> None:
        held, looked_at = columns.sum(1).tolist()
        if looked_at:
            late.scalars[key] = held / looked_at

    held = hits.sum()
    number = torch.full_like(held, hits.numel()) if of is None else of.sum()
    gather(buffer, str(key), report, torch.stack([held, number])[:, None])


def wide(tensor: torch.Tensor) -> torch.Tensor:
    """Return the numbers as float64; as float32 if the device does not support it."""
    return tensor.to(torch.float32 if tensor.device.type == "mps" else torch.float64)
