"""Statistics that the native loop makes of tensors inside a compiled program, on a CPU, where the program has them.

The host's twin of `reduce`. What a program returns must stay in memory until it is read; what it calls the loop for
need not. And the figures are those of every other door, to the last bit.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import numpy as np

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
    explicit = getattr(jax.typeof(array).sharding.mesh, "explicit_axes", ())
    return not explicit and jnp.dtype(array.dtype).name in native.DTYPE_CODES


def tell(array: Any, histogram: Histogram, *, units: bool = False, bound: float = math.nan) -> Told:
    """Return the statistics of all elements.

    Args:
        array: Being traced.
        histogram: What histogram is taken.
        units: The last axis tells units apart, each with statistics of its own; not that of a vector.
        bound: Elements of units with |x| >= bound count as beyond; NaN: none do.
    """
    units = units and array.ndim > 1 and array.shape[-1] > 0
    shapes = {"moments": (_WORDS * len(MOMENT_FIELDS),),
              **({"bins": (_WORDS * EXPONENT_BINS,)} if histogram else {}),
              **({"columns": (array.shape[-1], _WORDS * len(UNIT_FIELDS))} if units else {})}
    call = jax.ffi.ffi_call(_TARGET, [jax.ShapeDtypeStruct(shape, jnp.uint32) for shape in shapes.values()])
    found = call(array, dtype=np.int64(native.dtype_code(jnp.dtype(array.dtype).name)), mode=np.int64(histogram),
                 units=np.int64(units), bound=np.float64(bound))
    return dict(zip(shapes, found, strict=True))


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


class Places:
    """Where the statistics of tensors lie in what `joined` makes of them.

    Args:
        told: Of each such tensor, by its number: the shapes of what is told.

    Attributes:
        moments: The row of each, by its number.
        bins: Likewise, of those that have a histogram.
        columns: Where its units lie, of those that have statistics of them.
    """

    def __init__(self, told: Mapping[int, Mapping[str, tuple[int, ...]]]) -> None:
        self.moments = {number: row for row, number in enumerate(told)}
        self.bins = {number: row for row, number in enumerate(n for n, shapes in told.items() if "bins" in shapes)}
        sizes = {number: shapes["columns"][0] for number, shapes in told.items() if "columns" in shapes}
        ends = itertools.accumulate(sizes.values())
        self.columns = {number: slice(end - size, end) for (number, size), end in zip(sizes.items(), ends, strict=True)}


def joined(told: Sequence[Told]) -> dict[str, Any]:
    """Put what is told of many tensors into few arrays: few results cost less than many.

    Returns:
        Of each kind of statistics that there is, the rows of all tensors that have it, in their order.
    """
    names = dict.fromkeys(name for one in told for name in one)
    return {name: (jnp.concatenate if name == "columns" else jnp.stack)([one[name] for one in told if name in one])
            for name in names}
