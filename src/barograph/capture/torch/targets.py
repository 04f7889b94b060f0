"""Reads the targets of losses: statistics, whether they are class numbers, whether the input contains them."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

import torch

from barograph.capture.buffer import StepBuffer
from barograph.capture.class_numbers import ClassNumbers
from barograph.capture.session import Session
from barograph.capture.torch.batches import Fed
from barograph.capture.torch.gathering import evenly, gather, gather_share, wide
from barograph.capture.torch.loss_arguments import LossArguments
from barograph.capture.torch.read import Reader, raw_tensor, subject_of
from barograph.errors import UnsupportedCapture
from barograph.model.facts import Fact, fact
from barograph.model.key import Key, Kind

if TYPE_CHECKING:
    from numpy.typing import NDArray

_MOST_VALUES = 1024
_MOST_COMPARED = 1 << 16
_MOST_COLUMNS = 1024
_LEAST_ROWS = 8
_NAMED_FROM = 0.5


class TargetRecorder:
    """Records the targets of regression losses."""

    def __init__(self, session: Session, reader: Reader) -> None:
        self._session = session
        self._reader = reader
        self._class_numbers: dict[str, ClassNumbers] = {}

    def statistics(self, name: str, target: torch.Tensor, mask: int, buffer: StepBuffer) -> None:
        """Record the statistics of floating-point targets."""
        key = Key(Kind.TARGET, name)
        taking = self._session.plan.taking(mask, key)
        if taking is None or not target.is_floating_point():
            return
        row = self._session.output.table.row(subject_of(key, "", target))
        try:
            self._reader.read(target, row, taking, buffer)
            if taking.raw:
                buffer.tensors[key] = raw_tensor(target)
        except UnsupportedCapture as error:
            self._session.seen.reasons[f"target {error}"] = f"targets of {name}: {error}"

    def class_numbers(self, name: str, given: LossArguments, buffer: StepBuffer) -> None:
        """Check whether a distance to class numbers is computed."""
        target = given.target
        if not target.numel() or target.is_complex():
            return
        lone = given.outputs.dim() <= 1 or given.outputs.shape[-1] == 1
        flat = target.reshape(-1)
        places = evenly(flat.numel(), _MOST_VALUES, flat.device)
        numbers = self._class_numbers.setdefault(name, ClassNumbers())
        values = wide(flat.clone() if places is None else flat[places])
        gather(buffer, f"values of {name}", functools.partial(_record_class_numbers, numbers, lone), values)


def _record_class_numbers(
    numbers: ClassNumbers, lone: bool, buffer: StepBuffer, values: NDArray[Any], training: bool
) -> None:
    numbers.note(values)
    verdict = numbers.verdict
    if verdict is not None:
        buffer.scalars[fact(Fact.CLASS_NUMBERS_REGRESSED)] = float(verdict and lone)


def compare_with_input(given: LossArguments, fed: Fed, buffer: StepBuffer) -> None:
    """Check whether the model's input contains the targets.

    Args:
        given: Arguments of the loss function.
        fed: Last input of the model: tokens are compared with tokens at the same, previous and next position; one
            target per sample with each number of the sample.
        buffer: Destination.
    """
    target = given.target
    for tensor in fed.tensors.values():
        if tensor.dim() < 2 or tensor.device != target.device or not fed.rows or tensor.shape[0] != fed.rows:
            continue
        if tensor.is_floating_point():
            if target.numel() == fed.rows >= _LEAST_ROWS:
                _compare_columns(target, tensor, buffer)
        elif tensor.dim() == 2 and not (target.is_floating_point() or target.numel() % fed.rows):
            _compare_tokens(target.reshape(fed.rows, -1), tensor, given.ignored, buffer)


def _compare_tokens(target: torch.Tensor, tokens: torch.Tensor, ignored: int, buffer: StepBuffer) -> None:
    length = target.shape[1]
    if length < 2 or tokens.shape[1] - length not in (0, 1):
        return
    rows = max(1, _MOST_COMPARED // length)
    target, tokens = target[:rows], tokens[:rows]
    asked = target != ignored
    for shift in (-1, 0, 1):
        first, last = max(0, -shift), min(length, tokens.shape[1] - shift)
        same = (target[:, first:last] == tokens[:, first + shift : last + shift]) & asked[:, first:last]
        gather_share(buffer, fact(Fact.TARGET_IS_INPUT, shift), same, of=asked[:, first:last])


def _compare_columns(target: torch.Tensor, tensor: torch.Tensor, buffer: StepBuffer) -> None:
    columns = tensor.detach().reshape(len(tensor), -1)
    if not 0 < columns.shape[1] <= _MOST_COLUMNS:
        return
    rows = max(_LEAST_ROWS, _MOST_COMPARED // columns.shape[1])
    columns, values = columns[:rows], target.reshape(-1, 1)[:rows].to(tensor.dtype)
    equal = (columns == values).sum(0)
    # If all targets are equal, an equal constant column proves nothing.
    varied = (values != values[0]).any().to(equal.dtype)
    known = torch.stack([varied, torch.full_like(varied, len(values))])
    gather(buffer, f"columns of {columns.shape[1]}", _record_columns, torch.cat([known, equal])[:, None])


def _record_columns(buffer: StepBuffer, counts: NDArray[Any], training: bool) -> None:
    varied, rows, *equal = counts.sum(1).tolist()
    if not varied:
        return
    share = max(equal) / rows
    buffer.scalars[fact(Fact.TARGET_IS_INPUT)] = share
    if share >= _NAMED_FROM:
        buffer.scalars[fact(Fact.TARGET_IS_INPUT, f"column {equal.index(max(equal))}")] = share
