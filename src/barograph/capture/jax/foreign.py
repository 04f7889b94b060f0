"""Statistics computed by the native loop inside a compiled program, on the CPU.

The host's counterpart of `reduce`. Results of a program stay in memory until they are read, while inputs of native
calls need not. And the statistics are bit-identical to those of every other integration.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.experimental.layout import Layout

from barograph.capture.jax.meshes import explicit_axes
from barograph.measures import native
from barograph.measures.summary import identity_rows
from barograph.model.selection import Histogram
from barograph.model.summary import EXPONENT_BINS, MOMENT_FIELDS, UNIT_FIELDS

if TYPE_CHECKING:
    from numpy.typing import NDArray

Statistics = Mapping[str, Any]
"""Statistics of one tensor: `moments` and, if requested, `bins` and `columns` (per unit); traced or fetched. 64-bit
numbers, which a program may not support, are two 32-bit words on the last axis."""

_TARGET = "barograph_summarize"
_WORDS = 2
_NOT_ASKED = -1


def is_on_host() -> bool:
    """Return whether compiled programs run on the host."""
    return all(device.platform == "cpu" for device in jax.devices())


@functools.cache
def is_there() -> bool:
    """Return whether compiled programs can call the native loop here."""
    handler = native.xla_handler()
    if handler is None:
        return False
    # Registering before XLA is initialized would fail in the user's first operation.
    jax.devices("cpu")
    try:
        jax.ffi.register_ffi_target(_TARGET, handler, platform="cpu")
    except Exception:  # noqa: BLE001 - an XLA version without such handlers: continue without them
        return False
    return True


def takes(array: Any) -> bool:
    """Return whether the native loop supports a traced tensor."""
    return not explicit_axes(array) and jnp.dtype(array.dtype).name in native.DTYPE_CODES


def summarize(
    array: Any, histogram: Histogram, *, order: tuple[int, ...] = (), fixed: bool = False, units: bool = False,
    bound: float = math.nan,
) -> Statistics:  # fmt: skip
    """Return the statistics of all elements.

    Args:
        array: Traced array.
        histogram: Histogram mode.
        order: Axes in memory order, the outermost first, in which they are read; (): in order of their numbers. If the
            layout differs, the program copies the array. Not with units.
        fixed: The compiler must use that layout for all uses of the array.
        units: The last axis is that of units, each with its own statistics; not for a vector.
        bound: Elements of units with |x| >= bound count as beyond; NaN: none.
    """
    units = units and array.ndim > 1 and array.shape[-1] > 0
    shapes = {**_shapes(histogram), **({"columns": (array.shape[-1], _WORDS * len(UNIT_FIELDS))} if units else {})}
    layouts = [Layout(order)] if order and fixed and not units else None
    if layouts is None:
        array = flat(array.transpose(order) if order and not units else array, units=units)
    return _call([array], [shapes], layouts, mode=histogram, units=units, bound=bound)[0]


def summarize_change(
    array: Any, before: Any, histogram: Histogram | None, of_change: Histogram
) -> tuple[Statistics | None, Statistics]:  # fmt: skip
    """Return the statistics of all elements, and of their differences from others, in one pass.

    Args:
        array: Traced array.
        before: The others, with the same shape and type.
        histogram: Histogram mode of the elements; None: not requested, and None is returned.
        of_change: Histogram mode of the differences.
    """
    shapes = [*([] if histogram is None else [_shapes(histogram)]), _shapes(of_change)]
    *itself, change = _call([flat(array), flat(before)], shapes, None,
                            mode=_NOT_ASKED if histogram is None else histogram, change=of_change)
    return itself[0] if itself else None, change


def flat(array: Any, *, units: bool = False) -> Any:
    """Return an array flattened, or flattened to (rows, units).

    Otherwise the compiler would use the layout of our call for the operation that makes the array: a matrix product has
    two axes whatever its shape as a gradient, and the sum of its squares follows them. A reshape of our own leaves
    the layout of the step free.
    """
    shape = (-1, array.shape[-1]) if units else (-1,)
    return array.reshape((1, *shape) if array.ndim == len(shape) else shape)


def _shapes(histogram: Histogram) -> dict[str, tuple[int, ...]]:
    return {"moments": (_WORDS * len(MOMENT_FIELDS),), **({"bins": (_WORDS * EXPONENT_BINS,)} if histogram else {})}


def _call(arrays: Sequence[Any], shapes: Sequence[Mapping[str, tuple[int, ...]]], layouts: Sequence[Layout] | None,
          *, mode: int, change: int = _NOT_ASKED, units: bool = False, bound: float = math.nan) -> list[Statistics]:
    results = [jax.ShapeDtypeStruct(shape, jnp.uint32) for one in shapes for shape in one.values()]
    call = jax.ffi.ffi_call(_TARGET, results, input_layouts=layouts)
    found = iter(call(*arrays, dtype=np.int64(native.dtype_code(jnp.dtype(arrays[0].dtype).name)), mode=np.int64(mode),
                      change=np.int64(change), units=np.int64(units), bound=np.float64(bound)))
    return [dict(zip(one, found, strict=False)) for one in shapes]


def moments_of(words: Any) -> NDArray[np.float64]:
    """Return rows of moments, shape (…, 10), from the program's words."""
    rows = np.asarray(words).view(np.float64)
    # Zeros mean a branch that was not taken.
    return np.where(rows[..., :1] > 0, rows, identity_rows(1)[0])


def bins_of(words: Any) -> NDArray[np.int64]:
    """Return histograms, shape (…, 512), from the program's words."""
    return np.asarray(words).view(np.int64)


def columns_of(words: Any) -> NDArray[np.float64]:
    """Return the statistics of units, shape (…, units, 7), from the program's words."""
    return np.asarray(words).view(np.float64)
