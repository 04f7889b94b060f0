"""Reads elements of PyTorch tensors: selects them, and the rows of their statistics."""

from __future__ import annotations

from array import array
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import torch

from barograph.capture.buffer import StepBuffer
from barograph.capture.plan import Taking
from barograph.capture.torch.device import fetch_later, fetch_units_later
from barograph.errors import UnsupportedCapture
from barograph.measures import native
from barograph.model.key import Key
from barograph.model.records import Subject
from barograph.model.selection import Histogram
from barograph.model.summary import MOMENT_FIELDS
from barograph.model.tensor import RawTensor

if TYPE_CHECKING:
    from collections.abc import Sequence

_COUNT, _ZEROS = MOMENT_FIELDS.index("count"), MOMENT_FIELDS.index("zeros")
_MIN, _MAX = MOMENT_FIELDS.index("min"), MOMENT_FIELDS.index("max")

_NAMES = {
    torch.float32: "float32", torch.float64: "float64", torch.float16: "float16", torch.bfloat16: "bfloat16",
    torch.float8_e4m3fn: "float8_e4m3fn", torch.float8_e5m2: "float8_e5m2", torch.int8: "int8",
    torch.int16: "int16", torch.int32: "int32", torch.int64: "int64", torch.uint8: "uint8", torch.bool: "bool",
    torch.complex64: "complex64", torch.complex128: "complex128",
}
_NO_ROW = -1
_PLAIN = frozenset({torch.Tensor, torch.nn.Parameter, torch.nn.Buffer})
_CODES = {dtype: native.DTYPE_CODES[name] for dtype, name in _NAMES.items()}


def dtype_name(dtype: torch.dtype) -> str:
    """Return the name of an element type in records."""
    return _NAMES.get(dtype, str(dtype).removeprefix("torch."))


def local(tensor: torch.Tensor) -> torch.Tensor:
    """Return the elements this process is responsible for: a distributed tensor's own shard, else the tensor.

    If shards are replicated too (hybrid sharding), the first replica is responsible and the others have nothing, so
    that merging over workers counts each element once.

    Raises:
        UnsupportedCapture: A tensor whose elements cannot be read in place.
    """
    if type(tensor) in _PLAIN and not torch._C._functorch.is_functorch_wrapped_tensor(tensor):
        return tensor
    if hasattr(tensor, "to_local"):
        with torch.no_grad():
            return _own_part(tensor)
    if torch._C._functorch.is_functorch_wrapped_tensor(tensor):
        raise UnsupportedCapture("tensors inside a torch.func transform cannot be read")
    return tensor.detach()


def _own_part(tensor: Any) -> torch.Tensor:
    """Return the part of a DTensor this worker is responsible for."""
    part: torch.Tensor = tensor.to_local()
    placements = tensor.placements
    if any(placement.is_partial() for placement in placements):
        raise UnsupportedCapture("a distributed tensor that is not reduced yet has no statistics")
    if any(placement.is_shard() for placement in placements):
        coordinate = tensor.device_mesh.get_coordinate() or ()
        for placement, position in zip(placements, coordinate, strict=False):
            if placement.is_replicate() and position != 0:
                return part.new_empty(0)
    return part


def is_shard(tensor: torch.Tensor) -> bool:
    """Return whether `tensor` is split over workers (a DTensor with a sharded placement)."""
    placements = getattr(tensor, "placements", ())
    return any(placement.is_shard() for placement in placements)


def dense(tensor: torch.Tensor) -> torch.Tensor:
    """Return a tensor with contiguous elements, in any order of the axes.

    Statistics do not depend on the order, so a transposed or channels-last tensor is not copied; only one with gaps or
    overlaps is.
    """
    if tensor.is_neg():
        return tensor.resolve_neg().contiguous()
    if tensor.is_contiguous() or (tensor.dim() == 4 and tensor.is_contiguous(memory_format=torch.channels_last)):
        return tensor
    if tensor.dim() == 2 and tensor.t().is_contiguous():
        return tensor
    return tensor.contiguous()


def plainly_finite(tensors: Sequence[torch.Tensor]) -> bool:
    """Return whether all tensors are in host memory and finite; False also if that is unknown.

    It is unknown for tensors on a device, split over workers or sparse, and without the native loop, whose Python
    equivalent is slower than PyTorch.
    """
    if not native.available():
        return False
    pointers, numels, codes, copies = array("q"), array("q"), array("i"), []
    for tensor in tensors:
        # Called before every update for every gradient: each check costs a microsecond of training.
        code = _CODES.get(tensor.dtype)
        if code is None or type(tensor) not in _PLAIN or not tensor.is_cpu or tensor.layout is not torch.strided:
            return False
        if torch._C._functorch.is_functorch_wrapped_tensor(tensor):
            return False
        if not tensor.is_contiguous():
            tensor = dense(tensor)
            copies.append(tensor)
        pointers.append(tensor.data_ptr())
        numels.append(tensor.numel())
        codes.append(code)
    return native.all_finite(
        np.frombuffer(pointers, np.int64), np.frombuffer(numels, np.int64), np.frombuffer(codes, np.int32))


class Difference(NamedTuple):
    """A tensor before and after a step, and the row for the statistics of after − before."""

    after: torch.Tensor
    before: torch.Tensor
    row: int
    taking: Taking


class Reader:
    """Reads tensors into a `StepBuffer`.

    A tensor in CPU memory is read at once, by the native pass. One on a device is reduced there, and its results are
    fetched after the step (see `device.py`).
    """

    def read(self, tensor: torch.Tensor, row: int, taking: Taking, buffer: StepBuffer) -> None:
        """Merge the statistics of all elements of `tensor` into row `row` of `buffer`.

        Raises:
            UnsupportedCapture: Its elements cannot be read.
        """
        self.read_many([tensor], [row], [taking], buffer)

    def read_many(
        self, tensors: Sequence[torch.Tensor], rows: Sequence[int], takings: Sequence[Taking], buffer: StepBuffer
    ) -> None:
        """Merge the statistics of each tensor into its row: one native call for all that are in host memory.

        Raises:
            UnsupportedCapture: One cannot be read; then none was.
        """
        kept = [
            (_elements(tensor, row, buffer), row, taking.histogram)
            for tensor, row, taking in zip(tensors, rows, takings, strict=True)
        ]
        by_device: dict[str, list[tuple[torch.Tensor, int, Histogram]]] = {}
        for item in kept:
            by_device.setdefault(str(item[0].device), []).append(item)
        for device, items in by_device.items():
            elements, places, histograms = zip(*items, strict=True)
            if device == "cpu":
                self._read_memory(elements, places, histograms, buffer)
            else:
                buffer.defer(fetch_later(elements, places, histograms))

    def _read_memory(
        self,
        tensors: Sequence[torch.Tensor],
        rows: Sequence[int],
        histograms: Sequence[Histogram],
        buffer: StepBuffer,
    ) -> None:
        buffer.reserve(max(rows) + 1, histogram=any(histograms))
        native.summarize_many(
            np.array([item.data_ptr() for item in tensors], np.int64),
            np.array([item.numel() for item in tensors], np.int64),
            np.array([_CODES[item.dtype] for item in tensors], np.int32),
            np.array(rows, np.int64),
            buffer.moments,
            buffer.exponents,
            np.array(histograms, np.uint8),
        )

    def read_plain(
        self, tensor: torch.Tensor, dtype: torch.dtype, row: int, histogram: Histogram, buffer: StepBuffer
    ) -> bool:
        """Read a tensor whose type and row are known; False if it is not a simple case."""
        if tensor.dtype is not dtype or not tensor.is_cpu or not tensor.is_contiguous() or tensor.is_neg():
            return False
        buffer.reserve(row + 1, histogram=histogram is not Histogram.NONE)
        native.summarize_into(
            tensor.data_ptr(), tensor.numel(), _CODES[dtype], buffer.moments, row, buffer.exponents, histogram
        )
        return True

    def read_differences(self, differences: Sequence[Difference], buffer: StepBuffer) -> None:
        """Merge the statistics of each tensor's change: one native call for all that are in host memory.

        Raises:
            UnsupportedCapture: One cannot be read.
        """
        lying = []
        for item in differences:
            after = local(item.after).detach()
            if after.is_contiguous() and item.before.is_contiguous() and after.device.type == "cpu":
                lying.append((after.data_ptr(), item.before.data_ptr(), after.numel(), _code(after), item.row,
                              item.taking.histogram))
            else:
                self.read(after - item.before, item.row, item.taking, buffer)
        if not lying:
            return
        afters, befores, numels, codes, rows, histograms = zip(*lying, strict=True)
        buffer.reserve(max(rows) + 1, histogram=any(histograms))
        native.difference_many(
            np.array(afters, np.int64), np.array(befores, np.int64), np.array(numels, np.int64),
            np.array(codes, np.int32), np.full(len(lying), _NO_ROW), np.array(rows, np.int64), buffer.moments,
            buffer.exponents, 0, np.array(histograms, np.uint8),
        )

    def read_units(self, tensor: torch.Tensor, row: int, axis: int, bound: float, buffer: StepBuffer) -> None:
        """Merge per-unit statistics into the units of row `row`.

        Args:
            tensor: At least one axis.
            row: Row of the buffer.
            axis: The axis of units; may be negative.
            bound: Elements with |x| >= bound count as beyond; NaN: none do.
            buffer: Destination.
        """
        tensor = local(tensor).detach()
        if tensor.is_nested:
            return  # each of its samples has its own shape
        axis %= tensor.dim()
        if axis == 1 and tensor.dim() == 4 and tensor.is_contiguous(memory_format=torch.channels_last):
            outer, units, inner = tensor.numel() // max(tensor.shape[1], 1), tensor.shape[1], 1
            tensor = tensor.permute(0, 2, 3, 1)
        else:
            tensor = tensor.contiguous()
            outer = int(np.prod(tensor.shape[:axis], dtype=np.int64))
            units = tensor.shape[axis]
            inner = int(np.prod(tensor.shape[axis + 1 :], dtype=np.int64))
        if tensor.device.type != "cpu":
            buffer.defer(fetch_units_later(tensor.reshape(outer, units, inner), row, bound))
            return
        columns = buffer.unit_columns(row, units, outer * inner, bound)
        native.units_into(tensor.data_ptr(), outer, units, inner, _code(tensor), bound, columns)


class PreparedRead:
    """Reads the same list of tensors at every step in one native call, while their layout is unchanged.

    Checking each tensor again fully costs more than reading a small one.

    Args:
        tensors: Current tensors.
        rows, takings: One per tensor.
    """

    def __init__(self, tensors: Sequence[torch.Tensor], rows: Sequence[int], takings: Sequence[Taking]) -> None:
        self._looks = [(tensor.dtype, tensor.numel()) for tensor in tensors]
        self._numels = np.array([tensor.numel() for tensor in tensors], np.int64)
        self._codes = np.array([_CODES.get(tensor.dtype, 0) for tensor in tensors], np.int32)
        self._rows = np.array(rows, np.int64)
        self._modes = np.array([taking.histogram for taking in takings], np.uint8)
        self._room = max(rows, default=-1) + 1
        self._histogram = bool(self._modes.any())
        self._readable = all(tensor.dtype in _CODES for tensor in tensors) and not any(item.raw for item in takings)

    def read(self, tensors: Sequence[torch.Tensor | None], buffer: StepBuffer) -> bool:
        """Merge the statistics of each into its row; False if the layout of one has changed, and then nothing is
        done."""
        if not self._readable or len(tensors) != len(self._looks):
            return False
        pointers = []
        for tensor, (dtype, numel) in zip(tensors, self._looks, strict=True):
            if (
                tensor is None
                or type(tensor) not in _PLAIN
                or tensor.dtype is not dtype
                or tensor.numel() != numel
                or not tensor.is_cpu
                or tensor.layout is not torch.strided
                or not tensor.is_contiguous()
                or tensor.is_neg()
            ):
                return False
            pointers.append(tensor.data_ptr())
        buffer.reserve(self._room, histogram=self._histogram)
        native.summarize_many(
            np.array(pointers, np.int64), self._numels, self._codes, self._rows, buffer.moments, buffer.exponents,
            self._modes,
        )
        return True


def subject_of(key: Key, layer: str, tensor: torch.Tensor) -> Subject:
    """Return the subject of a tensor: its description in records."""
    shard = is_shard(tensor)
    return Subject(key, layer, dtype_name(tensor.dtype), shard, tensor.numel() if shard else 0)


def raw_tensor(tensor: torch.Tensor, *, copy: bool = True) -> RawTensor:
    """Return the complete tensor (this worker's shard) as bytes.

    Args:
        tensor: Any tensor.
        copy: False: use the memory of a contiguous tensor in host memory without a copy.
    """
    item = local(tensor).detach()
    if item.layout != torch.strided:
        item = item.to_dense()
    item = item.to("cpu").contiguous()
    shape = tuple(item.shape)
    shown = item.reshape(-1).view(torch.uint8).numpy().data if item.numel() else b""
    return RawTensor(dtype_name(tensor.dtype), shape, bytes(shown) if copy else shown)


def _elements(tensor: torch.Tensor, row: int, buffer: StepBuffer) -> torch.Tensor:
    """Return dense elements: the values of a sparse tensor, counting its implicit zeros; all of a nested one."""
    item = local(tensor).detach()
    if item.layout == torch.sparse_coo:
        values = item.coalesce().values()
        buffer.reserve(row + 1, histogram=False)
        _count_zeros(buffer.moments[row], item.numel() - values.numel())
        item = values
    if item.is_nested:
        item = torch.cat([part.reshape(-1) for part in item.unbind()])
    if item.layout != torch.strided:
        raise UnsupportedCapture(f"tensors of layout {item.layout} cannot be read")
    _code(item)
    return dense(item)


def _count_zeros(moments: Any, zeros: int) -> None:
    if zeros:
        moments[_COUNT] += zeros
        moments[_ZEROS] += zeros
        moments[_MIN] = min(moments[_MIN], 0.0)
        moments[_MAX] = max(moments[_MAX], 0.0)


def _code(tensor: torch.Tensor) -> int:
    code = _CODES.get(tensor.dtype)
    if code is None:
        raise UnsupportedCapture(f"no statistics for elements of type {tensor.dtype}")
    return code
