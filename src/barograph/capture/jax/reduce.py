"""Reduces tensors inside a compiled JAX step to a few numbers, from which the host computes statistics.

The device's counterpart of `measures.summary`. Integer results are exact even if the device flushes denormals: they are
computed from the bits of the elements. Sums are in float32 (float64 if enabled in JAX), and rescaled if squares would
leave its range.
"""

from __future__ import annotations

import math
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.sharding import PartitionSpec
from numpy.typing import NDArray

from barograph.capture.jax.meshes import explicit_axes
from barograph.measures.sampling import SAMPLED_FROM, sampled_indices
from barograph.measures.summary import identity_rows
from barograph.model.selection import Histogram
from barograph.model.summary import EXPONENT_BINS, MOMENT_FIELDS, UNIT_FIELDS

Reduced = dict[str, Any]
"""`exact`: count, NaN, +inf, −inf, zeros, and the keys of minimum and maximum. `sums`: of x, x², |x|, and the power of
two that they are divided by. `counts` of exponents and `units` (see `_units`), if requested."""

_ROW = 4096
_LARGE, _SMALL = 127 + 60, 127 - 60
"""Biased exponents beyond which squares are rescaled."""


def reduce(
    array: Any, histogram: Histogram = Histogram.NONE, *, units: bool = False, bound: float = math.nan
) -> Reduced:
    """Return the statistics of all elements, as arrays with fixed shapes.

    Args:
        array: Traced array, of any type of JAX.
        histogram: Histogram mode.
        units: The last axis is that of units, each with its own statistics.
        bound: Elements of units with |x| >= bound count as beyond; NaN: none.
    """
    axes = explicit_axes(array)
    if not axes:
        return _reduce(array, histogram, units=units, bound=bound)
    within = jax.sharding.auto_axes(lambda array: _reduce(array, histogram, units=units, bound=bound),
                                    axes=axes, out_sharding=PartitionSpec())
    reduced: Reduced = within(array)
    return reduced


def _reduce(array: Any, histogram: Histogram, *, units: bool, bound: float) -> Reduced:
    values = _values(array)
    bits, width = _bits(values)
    counts = {} if not histogram else {"counts": _counts(values, histogram)}
    columns = {} if not units or array.ndim < 2 else {"units": _units(values.reshape(array.shape), bound)}
    return {"exact": _exact(array, bits, width), "sums": _sums(values, bits, width), **counts, **columns}


def identity_like(shapes: Any) -> Any:
    """Return the identity of merging, in the shapes that `reduce` returned: all zeros, count 0."""
    return jax.tree.map(lambda item: jnp.zeros(item.shape, item.dtype), shapes)


def moments_of(reduced: Reduced, dtypes: Any) -> NDArray[np.float64]:
    """Return rows of moments from reduced numbers.

    Args:
        reduced: Fetched results, with any leading axes.
        dtypes: Name of the element type, or an array of names along the last of these axes.

    Returns:
        Shape (…, 10), columns as in `MOMENT_FIELDS`.
    """
    exact, sums = np.asarray(reduced["exact"]), np.asarray(reduced["sums"], np.float64)
    rows = np.broadcast_to(identity_rows(1)[0], (*exact.shape[:-1], len(MOMENT_FIELDS))).copy()
    rows[..., :5] = exact[..., :5]
    some = exact[..., 0] > exact[..., 1:4].sum(-1)
    for column, key in ((5, exact[..., 5]), (6, exact[..., 6])):
        rows[..., column] = np.where(some, _from_key(key, np.asarray(dtypes)), rows[..., column])
    scale = sums[..., 3]
    rows[..., 7], rows[..., 9] = np.ldexp(sums[..., 0], scale.astype(int)), np.ldexp(sums[..., 2], scale.astype(int))
    rows[..., 8] = np.ldexp(sums[..., 1], 2 * scale.astype(int))
    return rows


def columns_of(units: Any) -> NDArray[np.float64]:
    """Return the statistics of units from reduced numbers.

    Args:
        units: Fetched results, with any leading axes.

    Returns:
        Shape (…, units, 7), columns as in `UNIT_FIELDS`.
    """
    columns = np.array(units, np.float64)
    scale = columns[..., -1].astype(int)
    for name, power in (("sum", 1), ("sum_sq", 2)):
        columns[..., UNIT_FIELDS.index(name)] = np.ldexp(columns[..., UNIT_FIELDS.index(name)], power * scale)
    return columns[..., :-1]


def _values(array: Any) -> Any:
    """Return the elements side by side, in the floating type that they are summed in."""
    flat = array.reshape(-1)
    if jnp.issubdtype(flat.dtype, jnp.complexfloating):
        flat = jnp.abs(flat)
    wide = flat.dtype.itemsize == 8
    if flat.dtype == jnp.bfloat16:
        # From the bits: a conversion may flush denormals.
        bits = lax.bitcast_convert_type(flat, jnp.uint16).astype(jnp.uint32)
        return lax.bitcast_convert_type(bits << 16, jnp.float32)
    return flat.astype(jnp.float64 if wide else jnp.float32)


def _bits(values: Any) -> tuple[Any, int]:
    """Return the bits of float elements as signed integers, and the number of fraction bits."""
    wide = values.dtype.itemsize == 8
    return lax.bitcast_convert_type(values, jnp.int64 if wide else jnp.int32), 52 if wide else 23


def _exact(array: Any, bits: Any, width: int) -> Any:
    kind = bits.dtype
    magnitude, infinite = bits & np.iinfo(kind).max, (0xFF if width == 23 else 0x7FF) << width
    finite = magnitude < infinite
    key = _native_key(array)
    keys = key if key is not None else bits ^ ((bits >> (kind.itemsize * 8 - 1)) & np.iinfo(kind).max)
    low, high = np.array(np.iinfo(kind).max, kind), np.array(np.iinfo(kind).min, kind)
    count = bits.size
    operands = [(magnitude > infinite).astype(kind), ((magnitude == infinite) & (bits > 0)).astype(kind),
                ((magnitude == infinite) & (bits < 0)).astype(kind), (magnitude == 0).astype(kind),
                jnp.where(finite, keys, low), jnp.where(finite, keys, high)]
    zero = np.array(0, kind)
    found = lax.reduce(operands, [zero] * 4 + [low, high], _merge_exact, [0])
    return jnp.stack([jnp.asarray(count, kind), *found])


def _merge_exact(one: Any, other: Any) -> Any:
    added = [a + b for a, b in zip(one[:4], other[:4], strict=True)]
    return (*added, lax.min(one[4], other[4]), lax.max(one[5], other[5]))


def _native_key(array: Any) -> Any:
    """Return 32-bit integers as keys: float32 cannot represent all of them."""
    flat = array.reshape(-1)
    if flat.dtype == jnp.int32:
        return flat
    if flat.dtype == jnp.uint32:
        return lax.bitcast_convert_type(flat ^ np.uint32(1 << 31), jnp.int32)
    return None


def _from_key(key: NDArray[Any], dtypes: NDArray[np.str_]) -> NDArray[np.float64]:
    signed = np.where(key < 0, key ^ np.iinfo(key.dtype).max, key).astype(key.dtype)
    found = signed.view(np.float64 if key.dtype.itemsize == 8 else np.float32).astype(np.float64)
    found = np.where(dtypes == "int32", key, found)
    return np.where(dtypes == "uint32", key + float(1 << 31), found)


def _sums(values: Any, bits: Any, width: int) -> Any:
    infinite = (0xFF if width == 23 else 0x7FF) << width
    magnitude = bits & np.iinfo(bits.dtype).max
    known = jnp.where(magnitude < infinite, values, np.zeros((), values.dtype))
    if width != 23:
        return jnp.stack([*_three_sums(known), np.zeros((), values.dtype)])
    exponent = _scale(jnp.where(magnitude < infinite, magnitude, 0))
    return jnp.stack([*_three_sums(known * _power_of_two(-exponent)), exponent.astype(known.dtype)])


def _scale(magnitude: Any, axes: tuple[int, ...] | None = None) -> Any:
    """Return the power of two to divide float32 elements by, so that their squares can be summed.

    Args:
        magnitude: Bits of the finite ones without sign, 0 in place of others.
        axes: Axes of the sum; None: all.
    """
    greatest = jnp.max(magnitude, axes, initial=0) >> 23
    # Without a branch, which would synchronize with the host; dividing by 1 changes nothing.
    leaves = (greatest > _LARGE) | ((greatest < _SMALL) & (greatest > 0))
    return jnp.where(leaves, jnp.clip(greatest - 127, -125, 125), 0)


def _power_of_two(exponent: Any) -> Any:
    return lax.bitcast_convert_type((exponent + 127) << 23, jnp.float32)


def _three_sums(known: Any) -> list[Any]:
    return [_sum(known), _sum(known * known), _sum(jnp.abs(known))]


def _sum(values: Any) -> Any:
    """Return a sum computed in rows, so that few additions form one chain, however the device adds."""
    rows = values.size // _ROW
    if rows < 2:
        return jnp.sum(values)
    head = jnp.sum(values[: rows * _ROW].reshape(rows, _ROW), axis=1)
    return _sum(head) + jnp.sum(values[rows * _ROW :])


def _counts(values: Any, histogram: Histogram) -> Any:
    if histogram is Histogram.SAMPLED and values.size >= SAMPLED_FROM:
        values = values[jnp.asarray(sampled_indices(values.size))]
    bits, width = _bits(values)
    magnitude, infinite = bits & np.iinfo(bits.dtype).max, (0xFF if width == 23 else 0x7FF) << width
    field = magnitude >> width
    if width == 52:
        # Elements beyond float32 keep their position at the end of the range.
        field = jnp.where(magnitude > 0, jnp.clip(field - 1023 + 127, 0, 254), 0)
    index = field.astype(jnp.int32) + jnp.where(bits < 0, 256, 0)
    counted = ((magnitude > 0) & (magnitude < infinite)).astype(jnp.int32)
    return jnp.zeros(EXPONENT_BINS, jnp.int32).at[index].add(counted, mode="promise_in_bounds")


def _units(values: Any, bound: float) -> Any:
    """Return the statistics of each unit, shape (units, 8): `UNIT_FIELDS`, and the power of two of its sums."""
    axes = tuple(range(values.ndim - 1))
    finite = jnp.isfinite(values)
    known = jnp.where(finite, values, 0)
    bits, width = _bits(known)
    exponent, scaled = np.zeros((), np.int32), known
    if width == 23:
        # A separate scale for each unit: next to a large one, squares of others would be flushed to zero.
        exponent = _scale(bits & np.iinfo(bits.dtype).max, axes)
        scaled = known * _power_of_two(-exponent)
    columns = {
        "zeros": jnp.sum(values == 0, axes),
        "beyond": jnp.sum(jnp.abs(values) >= bound, axes),
        "nonfinite": jnp.sum(~finite, axes),
        "min": jnp.min(jnp.where(finite, values, jnp.inf), axes, initial=jnp.inf),
        "max": jnp.max(jnp.where(finite, values, -jnp.inf), axes, initial=-jnp.inf),
        "sum": jnp.sum(scaled, axes),
        "sum_sq": jnp.sum(scaled * scaled, axes),
    }
    of_each = [*(columns[name] for name in UNIT_FIELDS), jnp.broadcast_to(exponent, values.shape[-1:])]
    return jnp.stack([column.astype(values.dtype) for column in of_each], axis=-1)
