"""Marks values of a JAX step with an identity operation that can be found in the traced step.

Marks pass through `jit`, `grad`, `vmap`, `scan` and other transformations, and leave no trace in the compiled program.
`harvest.py` reads the marks of a step and builds a second program that also returns the marked values.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import jax
from jax.extend.core import Primitive
from jax.interpreters import ad, batching, mlir

from barograph.model.key import Kind


@dataclass(frozen=True, slots=True)
class Mark:
    """The meaning of a marked tensor.

    Attributes:
        kind: What it is.
        path: Path in the model.
        layer: Class of its layer; "": unknown.
        role: "labels" and "predictions" belong together by path, "codes" has both in one integer, "number" is a plain
            number and not a tensor.
        classes: Of "codes": how many there are.
    """

    kind: Kind
    path: str
    layer: str = ""
    role: str = ""
    classes: int = 0


MARK = Primitive("barograph_mark")
"""Takes an array, and where it is known what stood in its place before: of weights that an update was applied to."""


def mark_number(number: Any, what: Mark) -> Any:
    """Return a plain number marked, also one that does not depend on what the step is given."""
    return MARK.bind(jax.numpy.asarray(number, jax.numpy.float32), mark=what)


def mark(array: Any, what: Mark, before: Any = None) -> Any:
    """Return an array as it is, marked where it is being traced.

    Args:
        array: Any.
        what: It is.
        before: What stood in its place until now, of the same shape and type; None: that is not known.
    """
    return MARK.bind(array, *_known(before), mark=what) if isinstance(array, jax.core.Tracer) else array


def _known(before: Any) -> tuple[Any, ...]:
    return () if before is None else (before,)


class Observing(threading.local):
    """State of the observed call in this thread; framework functions mark values only inside one.

    Attributes:
        depth: Calls within each other.
        updating: An optimizer's update is under way, whose inner updates are not marked.
        hearing: A loss function's arguments are being marked.
        differentiating: Functions within each other whose values and gradients are being computed.
    """

    def __init__(self) -> None:
        self.depth = 0
        self.updating = False
        self.hearing = False
        self.differentiating = 0


observing = Observing()
_traced_anew = jax.make_user_context(None)


@contextmanager
def observed_call() -> Iterator[None]:
    """Have frameworks' own functions mark what they see, within a `with` block."""
    observing.depth += 1
    try:
        # What was traced before has no marks, and JAX must not take it for the same.
        with _traced_anew("observed"):
            yield
    finally:
        observing.depth -= 1


def _jvp(primals: Any, tangents: Any, *, mark: Mark) -> tuple[Any, Any]:
    return MARK.bind(*primals, mark=mark), tangents[0]


def _batched(args: Any, axes: Any, *, mark: Mark) -> tuple[Any, Any]:
    (array, *before), (axis, *others) = args, axes
    # The samples come first, as without `vmap`: the last axis goes on telling the units apart.
    moved = _first(array, axis)
    stood = [jax.numpy.broadcast_to(_first(one, other), moved.shape) for one, other in zip(before, others, strict=True)
             if axis is not None or other is None]
    return MARK.bind(moved, *stood, mark=mark), axis if axis is None else 0


def _first(array: Any, axis: int | None) -> Any:
    return array if axis is None else jax.numpy.moveaxis(array, axis, 0)


MARK.def_impl(lambda array, *before, mark: array)
MARK.def_abstract_eval(lambda aval, *before, mark: aval)
ad.primitive_jvps[MARK] = _jvp
batching.primitive_batchers[MARK] = _batched
mlir.register_lowering(MARK, lambda ctx, array, *before, mark: [array])
