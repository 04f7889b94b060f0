"""Reduces many tensors on a CUDA device to their statistics in two or three launches, without waiting.

The fused equivalent of `device.py`: it reads each tensor once (twice with a histogram, the second time from the cache),
allocates no temporary of its size, and does not launch a dozen kernels per tensor.

Tested: with Triton's interpreter on CPU tensors, against the NumPy reference; with Triton's compiler, for compute
capability 8.0 and 9.0; and on one H100. Where kernels cannot run, `unavailable_reason` says so beforehand.
"""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from contextlib import nullcontext
from functools import cache, lru_cache
from typing import Any, NamedTuple

import torch

from barograph.measures.sampling import SAMPLED_FROM
from barograph.model.selection import Histogram
from barograph.model.summary import EXPONENT_BINS, MOMENT_FIELDS

CHUNK = 16_384
"""Elements per program: enough to amortize its start, few enough to fill the device with one layer."""

_BLOCK = 1024
_MERGED_AT_ONCE = 64

_AS_THEY_ARE = (torch.float32, torch.float16, torch.bfloat16, torch.float64)
_NARROW = (torch.float8_e4m3fn, torch.float8_e5m2, torch.int8, torch.uint8, torch.int16, torch.uint16, torch.bool)


@cache
def unavailable_reason(device: torch.device) -> str:
    """Return why tensors on `device` cannot be reduced here; "" if they can.

    Tries it once per device, on a tensor with one element: Triton needs a C compiler, and a supported GPU.
    """
    if device.type != "cuda":
        return f"a tensor on {device.type} is not on a CUDA device"
    try:
        reduce_many([torch.ones(1, device=device)], [Histogram.EXACT])
    except Exception as error:  # noqa: BLE001 - any compiler error: use the implementation without Triton
        return f"{type(error).__name__}: {error}"
    return ""


def reduce_many(
    tensors: Sequence[torch.Tensor], histograms: Sequence[Histogram]
) -> tuple[torch.Tensor, torch.Tensor | None]:
    """Return the statistics of each tensor, on its device; does not wait.

    Sums are within 2**-17 of the sum of magnitudes, as `measures.summary` states; the rest is exact.

    Args:
        tensors: At least one; all on one device, of any type that `measures.elements.DTYPE_CODES` has, dense.
        histograms: Kind of histogram of each.

    Returns:
        Moments, float64, shape (len(tensors), 10), columns as in `MOMENT_FIELDS`; and exponents, int64, shape
        (len(tensors), 512), in which the rows of tensors without a histogram are zero, or None if all are without.
    """
    device = tensors[0].device
    elements = [_readable(tensor) for tensor in tensors]
    moments = torch.empty(len(elements), len(MOMENT_FIELDS), dtype=torch.float64, device=device)
    exponents = (torch.zeros(len(elements), EXPONENT_BINS, dtype=torch.int64, device=device)
                 if any(histograms) else None)
    # Triton launches on the current device; tests with the interpreter have none.
    with torch.cuda.device(device) if device.type == "cuda" else nullcontext():
        for (dtype, histogram), members in _groups(elements, histograms).items():
            _reduce_group(dtype, histogram, members, elements, moments, exponents)
    return moments, exponents


class _Layout(NamedTuple):
    """The chunk layout of tensors of certain sizes, on the device."""

    sizes: torch.Tensor
    chunk_tensor: torch.Tensor
    chunk_first: torch.Tensor
    first_chunk: torch.Tensor
    chunks: int


def _reduce_group(
    dtype: torch.dtype, histogram: Histogram, members: list[int], elements: list[torch.Tensor],
    moments: torch.Tensor, exponents: torch.Tensor | None,
) -> None:
    kernels, device = _kernels(), moments.device
    layout = _layout(tuple(elements[member].numel() for member in members), device)
    pointers = _to_device([elements[member].data_ptr() for member in members], torch.int64, device)
    where = (pointers, layout.sizes, layout.chunk_tensor, layout.chunk_first)
    aligned = all(elements[member].data_ptr() % 16 == 0 for member in members)
    # Without fused multiply-add, rounding matches the CPU implementation.
    kind = {"ELEMENT": _triton_type(dtype), "WIDE": dtype == torch.float64, "CHUNK": CHUNK, "BLOCK": _BLOCK,
            "enable_fp_fusion": False}
    partials = torch.empty(layout.chunks, len(MOMENT_FIELDS), dtype=torch.float64, device=device)
    merged = torch.empty(len(members), len(MOMENT_FIELDS), dtype=torch.float64, device=device)
    if layout.chunks:
        kernels.summarize_chunks[(layout.chunks,)](*where, partials, ALIGNED=aligned, **kind)
    kernels.merge_chunks[(len(members),)](partials, layout.first_chunk, merged, BLOCK=_MERGED_AT_ONCE,
                                          enable_fp_fusion=False)
    places = _to_device(members, torch.int64, device)
    moments.index_copy_(0, places, merged)
    if histogram and exponents is not None and layout.chunks:
        counted = torch.zeros(len(members), EXPONENT_BINS, dtype=torch.int64, device=device)
        sampled = histogram is Histogram.SAMPLED
        kernels.count_exponents[(layout.chunks,)](*where, counted, SAMPLED=sampled, **kind)
        exponents.index_copy_(0, places, counted)


def _groups(
    elements: list[torch.Tensor], histograms: Sequence[Histogram]
) -> dict[tuple[torch.dtype, Histogram], list[int]]:
    """Group the tensors that one kernel can process: same type, same histogram."""
    groups: dict[tuple[torch.dtype, Histogram], list[int]] = {}
    for number, (tensor, histogram) in enumerate(zip(elements, histograms, strict=True)):
        small = histogram is Histogram.SAMPLED and tensor.numel() < SAMPLED_FROM
        kind = Histogram.EXACT if small else Histogram(histogram)
        groups.setdefault((tensor.dtype, kind), []).append(number)
    return groups


@lru_cache(maxsize=64)
def _layout(sizes: tuple[int, ...], device: torch.device) -> _Layout:
    # A model requests the same few layouts in every step, unless its activations change size.
    chunks = [-(-size // CHUNK) for size in sizes]
    return _Layout(
        sizes=_to_device(sizes, torch.int64, device),
        chunk_tensor=_to_device([number for number, n in enumerate(chunks) for _ in range(n)], torch.int32, device),
        chunk_first=_to_device([chunk * CHUNK for n in chunks for chunk in range(n)], torch.int64, device),
        first_chunk=_to_device([sum(chunks[:number]) for number in range(len(chunks) + 1)], torch.int32, device),
        chunks=sum(chunks),
    )


def _readable(tensor: torch.Tensor) -> torch.Tensor:
    """Return the elements as a type that the kernels read: widened if necessary; magnitudes of complex numbers."""
    tensor = tensor.detach()
    if tensor.dtype in _AS_THEY_ARE:
        return tensor
    if tensor.is_complex():
        return tensor.to(torch.complex128).abs()
    return tensor.to(torch.float32 if tensor.dtype in _NARROW else torch.float64)


def _to_device(numbers: Sequence[int], dtype: torch.dtype, device: torch.device) -> torch.Tensor:
    on_host = torch.tensor(numbers, dtype=dtype, device="cpu")
    # Only from pinned memory does a copy to CUDA run asynchronously.
    return on_host.pin_memory().to(device, non_blocking=True) if device.type == "cuda" else on_host


@cache
def _kernels() -> Any:
    return importlib.import_module("barograph.capture.torch.triton_kernels")


def _triton_type(dtype: torch.dtype) -> Any:
    language = importlib.import_module("triton.language")
    name = {torch.float32: "float32", torch.float16: "float16", torch.bfloat16: "bfloat16", torch.float64: "float64"}
    return getattr(language, name[dtype])
