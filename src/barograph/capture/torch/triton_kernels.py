# These functions are in Triton's language, not Python; its constants have uppercase names.
# mypy: ignore-errors
# ruff: noqa: N803
"""The Triton kernels of `triton.py`. Importing this file imports triton.

A tensor is divided into chunks of CHUNK elements, one program per chunk. Like the CPU implementation it sums in float32
without checks for NaN; if the chunk contains a non-finite value, or its squares exceed float32, the program reads the
chunk again in float64.
"""

from __future__ import annotations

import triton
import triton.language as tl


@triton.jit
def summarize_chunks(
    pointers, sizes, chunk_tensor, chunk_first, partials,
    ELEMENT: tl.constexpr, WIDE: tl.constexpr, ALIGNED: tl.constexpr, CHUNK: tl.constexpr, BLOCK: tl.constexpr,
):
    """Write ten moments of each chunk into its row of `partials` (float64)."""
    chunk = tl.program_id(0)
    tensor = tl.load(chunk_tensor + chunk)
    first = tl.load(chunk_first + chunk)
    count = tl.minimum(tl.load(sizes + tensor) - first, CHUNK)
    elements = tl.load(pointers + tensor).to(tl.pointer_type(ELEMENT)) + first
    lanes = tl.arange(0, BLOCK)
    real: tl.constexpr = tl.float64 if WIDE else tl.float32
    infinity: tl.constexpr = float("inf")

    total = tl.zeros([BLOCK], real)
    total_abs = tl.zeros([BLOCK], real)
    total_sq = tl.zeros([BLOCK], real)
    low = tl.full([BLOCK], infinity, real)
    high = tl.full([BLOCK], -infinity, real)
    zeros = tl.zeros([BLOCK], tl.int32)
    strange = tl.zeros([BLOCK], tl.int32)
    whole = count // BLOCK * BLOCK
    for tail in tl.static_range(2):  # full blocks need no mask, and are read in wide loads
        for start in range(whole if tail else 0, count if tail else whole, BLOCK):
            if tail:
                inside = start + lanes < count
                x = tl.load(elements + start + lanes, mask=inside, other=0).to(real)
            else:
                inside = lanes >= 0
                block = elements + start + lanes
                if ALIGNED:
                    block = tl.multiple_of(block, 16)
                x = tl.load(block).to(real)
            magnitude = tl.abs(x)
            finite = magnitude < infinity  # false for NaN
            total += x
            total_abs += magnitude
            total_sq += x * x
            low = tl.minimum(low, tl.where(inside & finite, x, infinity))
            high = tl.maximum(high, tl.where(inside & finite, x, -infinity))
            zeros += (inside & (magnitude == 0)).to(tl.int32)
            strange += (inside & (finite == 0)).to(tl.int32)

    sum_ = tl.sum(total.to(tl.float64), axis=0)
    sum_abs = tl.sum(total_abs.to(tl.float64), axis=0)
    sum_sq = tl.sum(total_sq.to(tl.float64), axis=0)
    nan = tl.sum(strange, axis=0)
    posinf = nan * 0
    neginf = nan * 0
    # 2**-118 as on the CPU: a smaller sum of squares may have lost some to underflow.
    careful = (nan > 0) | ((sum_sq < infinity) == 0)
    if not WIDE:
        careful = careful | ((sum_sq < 3.009265538105056e-36) & (sum_abs > 0))
    if careful:
        total64 = tl.zeros([BLOCK], tl.float64)
        abs64 = tl.zeros([BLOCK], tl.float64)
        sq64 = tl.zeros([BLOCK], tl.float64)
        nans = tl.zeros([BLOCK], tl.int32)
        posinfs = tl.zeros([BLOCK], tl.int32)
        neginfs = tl.zeros([BLOCK], tl.int32)
        for start in range(0, count, BLOCK):
            inside = start + lanes < count
            x = tl.load(elements + start + lanes, mask=inside, other=0).to(tl.float64)
            known = tl.where(tl.abs(x) < infinity, x, 0.0)
            total64 += known
            abs64 += tl.abs(known)
            sq64 += known * known
            nans += (x != x).to(tl.int32)
            posinfs += (x == infinity).to(tl.int32)
            neginfs += (x == -infinity).to(tl.int32)
        sum_ = tl.sum(total64, axis=0)
        sum_abs = tl.sum(abs64, axis=0)
        sum_sq = tl.sum(sq64, axis=0)
        nan = tl.sum(nans, axis=0)
        posinf = tl.sum(posinfs, axis=0)
        neginf = tl.sum(neginfs, axis=0)

    row = partials + chunk.to(tl.int64) * 10
    tl.store(row, count.to(tl.float64))
    tl.store(row + 1, nan.to(tl.float64))
    tl.store(row + 2, posinf.to(tl.float64))
    tl.store(row + 3, neginf.to(tl.float64))
    tl.store(row + 4, tl.sum(zeros, axis=0).to(tl.float64))
    tl.store(row + 5, tl.min(low, axis=0).to(tl.float64))
    tl.store(row + 6, tl.max(high, axis=0).to(tl.float64))
    tl.store(row + 7, sum_)
    tl.store(row + 8, sum_sq)
    tl.store(row + 9, sum_abs)


@triton.jit
def merge_chunks(partials, first_chunk, moments, BLOCK: tl.constexpr):
    """Merge the partial rows of each tensor's chunks into its row of `moments`, in a fixed order."""
    tensor = tl.program_id(0)
    begin = tl.load(first_chunk + tensor)
    end = tl.load(first_chunk + tensor + 1)
    columns = tl.arange(0, 16)  # ten, rounded up to a power of two
    lanes = tl.arange(0, BLOCK)
    neutral = tl.where(columns == 5, float("inf"), tl.where(columns == 6, -float("inf"), 0.0)).to(tl.float64)
    added = tl.zeros([BLOCK, 16], tl.float64)
    low = tl.full([BLOCK, 16], float("inf"), tl.float64)
    high = tl.full([BLOCK, 16], -float("inf"), tl.float64)
    for start in range(begin, end, BLOCK):
        rows = (start + lanes).to(tl.int64)
        inside = (rows < end)[:, None] & (columns < 10)[None, :]
        there = partials + rows[:, None] * 10 + columns[None, :]
        part = tl.where(inside, tl.load(there, mask=inside, other=0.0), neutral[None, :])
        low = tl.minimum(low, part)
        high = tl.maximum(high, part)
        added += part
    merged = tl.where(columns == 5, tl.min(low, axis=0), tl.where(columns == 6, tl.max(high, axis=0),
                                                                 tl.sum(added, axis=0)))
    tl.store(moments + tensor.to(tl.int64) * 10 + columns, merged, mask=columns < 10)


@triton.jit
def count_exponents(
    pointers, sizes, chunk_tensor, chunk_first, exponents,
    ELEMENT: tl.constexpr, WIDE: tl.constexpr, SAMPLED: tl.constexpr, CHUNK: tl.constexpr, BLOCK: tl.constexpr,
):
    """Add the exponents of each chunk to its tensor's row of `exponents` (int64, 512 bins)."""
    chunk = tl.program_id(0)
    tensor = tl.load(chunk_tensor + chunk)
    first = tl.load(chunk_first + chunk)
    size = tl.load(sizes + tensor) - first
    elements = tl.load(pointers + tensor).to(tl.pointer_type(ELEMENT)) + first
    lanes = tl.arange(0, BLOCK)
    bins = tl.arange(0, 512)
    counts = tl.zeros([512], tl.int32)
    step: tl.constexpr = 8 if SAMPLED else 1
    for start in range(0, tl.minimum(size, CHUNK), BLOCK * step):
        if SAMPLED:  # every eighth, from a random position per run of 64: see measures/sampling.py
            run = start // 64 + lanes // 8
            hashed = (first // 64 + run + 1).to(tl.uint32) * 0x85EBCA6B
            place = ((hashed ^ (hashed >> 15)) * 0xC2B2AE35) >> 29
            at = run * 64 + place.to(tl.int32) + 8 * (lanes % 8)
        else:
            at = start + lanes
        # A chunk is a multiple of the block size, so elements beyond the chunk are beyond the tensor.
        inside = at < size
        if WIDE:
            bits = tl.load(elements + at, mask=inside, other=0).to(tl.float64).to(tl.int64, bitcast=True)
            field = (bits >> 52) & 2047
            strange = (field == 2047) | ((bits & 0x7FFFFFFFFFFFFFFF) == 0)
            field = tl.minimum(tl.maximum(field - 896, 0), 254)
            index = (field + tl.where(bits < 0, 256, 0)).to(tl.int32)
        else:
            bits = tl.load(elements + at, mask=inside, other=0).to(tl.float32).to(tl.int32, bitcast=True)
            index = (bits >> 23) & 511
            strange = ((index & 255) == 255) | ((bits & 0x7FFFFFFF) == 0)
        index = tl.where(inside & (strange == 0), index, 255)  # an otherwise unused bin
        counts += tl.histogram(index, 512)
    there = exponents + tensor.to(tl.int64) * 512 + bins
    tl.atomic_add(there, counts.to(tl.int64), mask=(counts > 0) & (bins != 255))
