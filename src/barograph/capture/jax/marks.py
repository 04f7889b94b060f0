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
        kind: Kind of the tensor.
        path: Path in the model.
        layer: Class of its layer; "": unknown.
        role: "labels" and "predictions" belong together by path, "codes" has both in one integer, "number" is a plain
            number rather than a tensor. `SCORES` and `TARGETS` are for the probe only.
        classes: Number of classes of "codes".
    """

    kind: Kind
    path: str
    layer: str = ""
    role: str = ""
    classes: int = 0


SCORES, TARGETS = "scores of the probe", "targets of the probe"
"""Roles of the arguments of a loss, marked while an evaluation is traced for the probe."""

MARK = Primitive("barograph_mark")
"""Takes an array and, for weights after an update, the earlier array if known."""


def mark_number(number: Any, what: Mark) -> Any:
    """Return a marked plain number, even if it does not depend on the arguments of the step."""
    return MARK.bind(jax.numpy.asarray(number, jax.numpy.float32), mark=what)


def mark(array: Any, what: Mark, before: Any = None) -> Any:
    """Return the array, marked if it is traced.

    Args:
        array: Any array.
        what: Its mark.
        before: Earlier value, with the same shape and type; None: unknown.
    """
    return MARK.bind(array, *_known(before), mark=what) if isinstance(array, jax.core.Tracer) else array


def _known(before: Any) -> tuple[Any, ...]:
    return () if before is None else (before,)


class Observing(threading.local):
    """State of the observed call in this thread; framework functions mark values only inside one.

    Attributes:
        depth: Number of nested calls.
        updating: An optimizer's update is running, whose inner updates are not marked.
        hearing: A loss function's arguments are being marked.
        differentiating: Nested functions whose values and gradients are being computed.
        probed: The call is traced for the probe, too.
    """

    def __init__(self) -> None:
        self.depth = 0
        self.updating = False
        self.hearing = False
        self.differentiating = 0
        self.probed = False


observing = Observing()
_retraced = jax.make_user_context(None)


@contextmanager
def observed_call(*, probed: bool = False) -> Iterator[None]:
    """Make framework functions mark their values within a `with` block, those for the probe if `probed`."""
    observing.depth += 1
    before, observing.probed = observing.probed, probed
    try:
        # Earlier traces have no marks, so JAX must not reuse them.
        with _retraced("probed" if probed else "observed"):
            yield
    finally:
        observing.depth -= 1
        observing.probed = before


def mark_rows(name: str, scores: Any, targets: Any) -> None:
    """Mark the scores and targets of samples, if the current call is traced for the probe."""
    if observing.probed:
        for array, role in ((scores, SCORES), (targets, TARGETS)):
            if array is not None:
                mark(array, Mark(Kind.CUSTOM, name, role=role))


def _jvp(primals: Any, tangents: Any, *, mark: Mark) -> tuple[Any, Any]:
    return MARK.bind(*primals, mark=mark), tangents[0]


def _batched(args: Any, axes: Any, *, mark: Mark) -> tuple[Any, Any]:
    (array, *before), (axis, *others) = args, axes
    # Samples first, as without `vmap`, so that the last axis remains that of units.
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
