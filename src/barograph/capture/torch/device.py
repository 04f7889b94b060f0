"""Computes statistics on the tensor's device with PyTorch operations, and fetches the results later.

This is the portable way, for every device of torch; on CUDA the fused version in `triton.py` is faster. Nothing here
waits
for the device: the numbers are copied after the step's own work, and the writer's thread waits for the copy.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from barograph.capture.torch import triton as torch_triton
from barograph.measures.sampling import RUN, SAMPLED_FROM, STRIDE
from barograph.measures.summary import merge_rows, merge_unit_columns
from barograph.model.selection import Histogram
from barograph.model.summary import EXPONENT_BINS, MOMENT_FIELDS, UNIT_FIELDS

if TYPE_CHECKING:
    from barograph.capture.buffer import StepBuffer

_MANTISSA_BITS = 23
_WORD = 0xFFFFFFFF


def reduce_moments(tensor: torch.Tensor) -> torch.Tensor:
    """Return the moments of all elements as float64 on the tensor's device, columns as `MOMENT_FIELDS`."""
    values = _real(tensor)
    finite = torch.isfinite(values)
    known = torch.where(finite, values, torch.zeros((), dtype=values.dtype, device=values.device))
    low = torch.where(finite, values, torch.full((), float("inf"), dtype=values.dtype, device=values.device))
    high = torch.where(finite, values, torch.full((), -float("inf"), dtype=values.dtype, device=values.device))
    empty = values.numel() == 0
    infinity = torch.full((), float("inf"), dtype=torch.float64, device=values.device)
    columns = {
        "count": torch.full((), float(values.numel()), dtype=torch.float64, device=values.device),
        "nan": torch.isnan(values).sum(),
        "posinf": (values == float("inf")).sum(),
        "neginf": (values == -float("inf")).sum(),
        "zeros": (values == 0).sum(),
        "min": infinity if empty else low.min(),
        "max": -infinity if empty else high.max(),
        "sum": known.sum(),
        "sum_sq": (known * known).sum(),
        "sum_abs": known.abs().sum(),
    }
    return torch.stack([columns[name].to(torch.float64) for name in MOMENT_FIELDS])


def reduce_exponents(tensor: torch.Tensor, histogram: Histogram) -> torch.Tensor:
    """Return the exponent histogram as int64 on the tensor's device, bins as `EXPONENT_BINS`.

    Sampled: the elements selected by `measures.sampling`.
    """
    values = _real(tensor)
    if histogram is Histogram.SAMPLED and values.numel() >= SAMPLED_FROM:
        values = _sample(values)
    # Elements beyond float32 keep their position at the end of the range instead of becoming inf or zero.
    small, large = torch.finfo(torch.float32).smallest_normal / 2, torch.finfo(torch.float32).max
    magnitude = values.abs().clamp(small, large)
    single = torch.where(values < 0, -magnitude, magnitude).to(torch.float32).contiguous()
    bins = (single.view(torch.int32) >> _MANTISSA_BITS) & (EXPONENT_BINS - 1)
    counted = (torch.isfinite(values) & (values != 0)).to(torch.int64)
    histogram_out = torch.zeros(EXPONENT_BINS, dtype=torch.int64, device=values.device)
    return histogram_out.index_add_(0, bins.to(torch.int64), counted)


def _sample(values: torch.Tensor) -> torch.Tensor:
    """Return the elements at `sampled_indices`, computed on the device, and possibly zeros, which are not counted."""
    runs = torch.nn.functional.pad(values, (0, -values.numel() % RUN)).reshape(-1, RUN // STRIDE, STRIDE)
    # The 32-bit hash in 64 bits, because torch has few unsigned operations.
    hashed = (torch.arange(1, len(runs) + 1, device=values.device) * 0x85EBCA6B) & _WORD
    places = (((hashed ^ (hashed >> 15)) * 0xC2B2AE35) & _WORD) >> 29
    return runs.gather(2, places[:, None, None].expand(-1, RUN // STRIDE, 1)).reshape(-1)


def reduce_many(
    tensors: Sequence[torch.Tensor], histograms: Sequence[Histogram]
) -> tuple[torch.Tensor, torch.Tensor | None]:
    """Return the moments of each tensor, and its histogram if requested, on their device.

    Returns:
        Shapes (len(tensors), len(MOMENT_FIELDS)) and (len(tensors), EXPONENT_BINS); a tensor without requested
        histogram has a row of zeros.
    """
    moments = torch.stack([reduce_moments(tensor) for tensor in tensors])
    if not any(histograms):
        return moments, None
    none = torch.zeros(EXPONENT_BINS, dtype=torch.int64, device=moments.device)
    bins = [
        reduce_exponents(tensor, histogram) if histogram else none
        for tensor, histogram in zip(tensors, histograms, strict=True)
    ]
    return moments, torch.stack(bins)


def fetch_later(
    tensors: Sequence[torch.Tensor], rows: Sequence[int], histograms: Sequence[Histogram]
) -> Callable[[StepBuffer], None]:
    """Reduce tensors on their device now, and return a function that merges the numbers into a buffer later.

    Args:
        tensors: Tensors on one device.
        rows: Row of the buffer for each.
        histograms: Histogram mode of each.
    """
    reduce = reduce_many if torch_triton.unavailable_reason(tensors[0].device) else torch_triton.reduce_many
    reduced, counted = reduce(tensors, histograms)
    moments = FetchedTensor(reduced)
    exponents = None if counted is None else FetchedTensor(counted)

    def merge_in(buffer: StepBuffer) -> None:
        buffer.reserve(max(rows) + 1, histogram=exponents is not None)
        for row, fetched in zip(rows, moments.numbers(), strict=True):
            merge_rows(buffer.moments[row : row + 1], fetched[np.newaxis])
        if exponents is not None and buffer.exponents is not None:
            for row, fetched in zip(rows, exponents.numbers(), strict=True):
                buffer.exponents[row] += fetched

    return merge_in


def reduce_units(tensor: torch.Tensor, bound: float) -> torch.Tensor:
    """Return the statistics of each unit as float64 on the tensor's device.

    Args:
        tensor: Shape (outer, units, inner).
        bound: Elements with |x| >= bound count as beyond; NaN: none.

    Returns:
        Shape (units, len(UNIT_FIELDS)), in that order.
    """
    units = tensor.shape[1]
    values = _real(tensor).reshape(tensor.shape).transpose(0, 1).reshape(units, -1)
    finite = torch.isfinite(values)
    known = torch.where(finite, values, torch.zeros((), dtype=values.dtype, device=values.device))
    infinity = torch.full((), float("inf"), dtype=values.dtype, device=values.device)
    columns = {
        "zeros": (values == 0).sum(1),
        "beyond": (values.abs() >= bound).sum(1),
        "nonfinite": (~finite).sum(1),
        "min": torch.where(finite, values, infinity).amin(1),
        "max": torch.where(finite, values, -infinity).amax(1),
        "sum": known.sum(1),
        "sum_sq": (known * known).sum(1),
    }
    return torch.stack([columns[name].to(torch.float64) for name in UNIT_FIELDS], dim=1)


def fetch_units_later(tensor: torch.Tensor, row: int, bound: float) -> Callable[[StepBuffer], None]:
    """Reduce the units of a tensor of shape (outer, units, inner) now, and return a function that merges them later."""
    outer, units, inner = tensor.shape
    fetch = FetchedTensor(reduce_units(tensor, bound))

    def merge_in(buffer: StepBuffer) -> None:
        merge_unit_columns(buffer.unit_columns(row, units, outer * inner, bound), fetch.numbers())

    return merge_in


def fetch_number_later(number: torch.Tensor, use: Callable[[float], object]) -> Callable[[StepBuffer], None]:
    """Copy one number from its device after the step's work, and return a function that passes it to `use` later."""
    wide = torch.float32 if number.device.type == "mps" else torch.float64
    fetch = FetchedTensor(number.detach().reshape(1).to(wide))

    def hand_over(buffer: StepBuffer) -> None:
        use(float(fetch.numbers()[0]))

    return hand_over


class FetchedTensor:
    """A copy to the host that is in transfer."""

    def __init__(self, source: torch.Tensor) -> None:
        cuda = source.device.type == "cuda"
        # Other devices do not report when an asynchronous copy is complete, so wait for it.
        self._host = _to_pinned(source) if cuda else source.to("cpu")
        self._event: Any = None
        if cuda:
            with torch.cuda.device(source.device):
                self._event = torch.cuda.Event()  # type: ignore[no-untyped-call]
                self._event.record()

    def numbers(self) -> Any:
        """Return the numbers, waiting for the copy if necessary."""
        if self._event is not None:
            self._event.synchronize()
        return self._host.numpy()


def _to_pinned(source: torch.Tensor) -> torch.Tensor:
    # Only into pinned memory does a copy from CUDA run behind the host's back.
    host = torch.empty(source.shape, dtype=source.dtype, device="cpu", pin_memory=True)
    return host.copy_(source, non_blocking=True)


def _real(tensor: torch.Tensor) -> torch.Tensor:
    """Return the elements as a flat floating tensor, wide enough that squares are exact enough."""
    flat = tensor.detach().reshape(-1)
    if flat.is_complex():
        flat = flat.abs()
    # Not every device supports float64 (Apple's GPUs do not): use float32 there.
    return flat.to(torch.float32 if flat.device.type == "mps" else torch.float64)
