"""Statistics computed by the native loop inside a compiled program, on the CPU.

The host's twin of `reduce`. What a program returns must stay in memory until it is read; what it calls the loop for
need not. And the figures are those of every other integration, to the last bit.
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

Told = Mapping[str, Any]
"""Of one tensor: `moments`, and where they are asked for `bins` and `columns`, the statistics of its units; being
traced, or fetched. Numbers of 64 bits, which a program may not have, are two words of 32 on the last axis."""

_TARGET = "barograph_summarize"
_WORDS = 2
_NOT_ASKED = -1


def is_on_host() -> bool:
    """Return whether compiled programs run where we do."""
    return all(device.platform == "cpu" for device in jax.devices())


@functools.cache
def is_there() -> bool:
    """Return whether compiled programs can call the native loop here."""
    handler = native.xla_handler()
    if handler is None:
        return False
    # Told of it before it has begun, XLA would refuse in the middle of somebody else's first operation.
    jax.devices("cpu")
    try:
        jax.ffi.register_ffi_target(_TARGET, handler, platform="cpu")
    except Exception:  # noqa: BLE001 - an XLA that does not know such handlers, or not of this version: it goes without
        return False
    return True


def takes(array: Any) -> bool:
    """Return whether there are statistics of such a traced tensor that the native loop can make."""
    return not explicit_axes(array) and jnp.dtype(array.dtype).name in native.DTYPE_CODES


def tell(
    array: Any, histogram: Histogram, *, order: tuple[int, ...] = (), fixed: bool = False, units: bool = False,
    bound: float = math.nan,
) -> Told:  # fmt: skip
    """Return the statistics of all elements.

    Args:
        array: Being traced.
        histogram: What histogram is taken.
        order: The axes as they lie in memory, the outermost first, and are then read; (): in the order of their
            numbers. Where they do not lie so, the program copies them. Not where units are asked for.
        fixed: The compiler is held to that order wherever it uses the array.
        units: The last axis tells units apart, each with statistics of its own; not that of a vector.
        bound: Elements of units with |x| >= bound count as beyond; NaN: none do.
    """
    units = units and array.ndim > 1 and array.shape[-1] > 0
    shapes = {**_shapes(histogram), **({"columns": (array.shape[-1], _WORDS * len(UNIT_FIELDS))} if units else {})}
    layouts = [Layout(order)] if order and fixed and not units else None
    if layouts is None:
        array = flat(array.transpose(order) if order and not units else array, units=units)
    return _call([array], [shapes], layouts, mode=histogram, units=units, bound=bound)[0]


def tell_change(
    array: Any, before: Any, histogram: Histogram | None, of_change: Histogram
) -> tuple[Told | None, Told]:  # fmt: skip
    """Return the statistics of all elements, and of how they differ from others; both are read once.

    Args:
        array: Being traced.
        before: The others, of the same shape and type.
        histogram: What histogram is taken of the elements; None: they are not asked for, and None is returned.
        of_change: What histogram is taken of the differences.
    """
    shapes = [*([] if histogram is None else [_shapes(histogram)]), _shapes(of_change)]
    *itself, change = _call([flat(array), flat(before)], shapes, None,
                            mode=_NOT_ASKED if histogram is None else histogram, change=of_change)
    return itself[0] if itself else None, change


def flat(array: Any, *, units: bool = False) -> Any:
    """Return an array with its elements side by side, or its units, in a shape that is not its own.

    What makes an array may lay it out only for what uses it next, and the compiler goes on without that where nobody
    else asks for it: a product of matrices has two axes, whatever it is the gradient of, and the sum of its squares is
    made of these. Of a layout of our own the step's own can still be left out.
    """
    shape = (-1, array.shape[-1]) if units else (-1,)
    return array.reshape((1, *shape) if array.ndim == len(shape) else shape)


def _shapes(histogram: Histogram) -> dict[str, tuple[int, ...]]:
    return {"moments": (_WORDS * len(MOMENT_FIELDS),), **({"bins": (_WORDS * EXPONENT_BINS,)} if histogram else {})}


def _call(arrays: Sequence[Any], shapes: Sequence[Mapping[str, tuple[int, ...]]], layouts: Sequence[Layout] | None,
          *, mode: int, change: int = _NOT_ASKED, units: bool = False, bound: float = math.nan) -> list[Told]:
    results = [jax.ShapeDtypeStruct(shape, jnp.uint32) for one in shapes for shape in one.values()]
    call = jax.ffi.ffi_call(_TARGET, results, input_layouts=layouts)
    found = iter(call(*arrays, dtype=np.int64(native.dtype_code(jnp.dtype(arrays[0].dtype).name)), mode=np.int64(mode),
                      change=np.int64(change), units=np.int64(units), bound=np.float64(bound)))
    return [dict(zip(one, found, strict=False)) for one in shapes]


def moments_of(words: Any) -> NDArray[np.float64]:
    """Return rows of moments, shape (…, 10), as they were told."""
    rows = np.asarray(words).view(np.float64)
    # Zeros stand for a branch that was not taken.
    return np.where(rows[..., :1] > 0, rows, identity_rows(1)[0])


def bins_of(words: Any) -> NDArray[np.int64]:
    """Return histograms, shape (…, 512), as they were told."""
    return np.asarray(words).view(np.int64)


def columns_of(words: Any) -> NDArray[np.float64]:
    """Return the statistics of units, shape (…, units, 7), as they were told."""
    return np.asarray(words).view(np.float64)
