"""Finds marked tensors that are constant zero in the traced step.

Behind `stop_gradient`, JAX creates zero gradients; an optimizer that freezes parameters (`optax.set_to_zero`) creates
zero updates. Both are constants in the traced step.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from jax.extend import core

from barograph.capture.jax.calls import called
from barograph.capture.jax.marks import MARK, Mark
from barograph.model.key import Kind

_KEEP_ZERO = frozenset({"broadcast_in_dim", "convert_element_type", "copy", "copy_p", "neg", "reshape", "squeeze",
                        "transpose", "slice", "abs", "sqrt", "square", "reduce_sum", "optimization_barrier", "sign",
                        "expand_dims", "reduce_precision", "stop_gradient", "cumsum"})
"""Operations with one operand that map zero to zero."""

_ALL_ZERO = frozenset({"add", "add_any", "sub", "max", "min", "concatenate"})
"""Operations whose result is zero if all operands are."""

_ANY_ZERO = frozenset({"mul", "dot_general"})
"""Operations whose result is zero if one operand is, in a finite step."""


@dataclass(frozen=True, slots=True)
class Stillness:
    """Parameters that cannot change, according to the trace.

    Attributes:
        parameters: Paths of all parameters with a marked gradient.
        unreached: Those whose gradient is always zero: the loss does not depend on them.
        held: Parameters with a gradient and a zero update: the optimizer leaves them unchanged.
    """

    parameters: frozenset[str] = frozenset()
    unreached: frozenset[str] = frozenset()
    held: frozenset[str] = frozenset()


def stillness_of(jaxpr: Any, consts: Sequence[Any] = ()) -> Stillness:
    """Return the parameters that cannot change in a traced step.

    Args:
        jaxpr: The step, with marks.
        consts: Its constants.
    """
    zero: dict[Mark, bool] = {}
    _walk(jaxpr, [_is_zero(const) for const in consts], [False] * len(jaxpr.invars), zero)
    gradients = {mark.path: still for mark, still in zero.items() if mark.kind is Kind.GRADIENT}
    updates = {mark.path: still for mark, still in zero.items() if mark.kind is Kind.UPDATE}
    unreached = frozenset(path for path, still in gradients.items() if still)
    held = frozenset(path for path, still in updates.items() if still and path in gradients) - unreached
    return Stillness(frozenset(gradients), unreached, held)


def _walk(jaxpr: Any, consts: Sequence[bool], given: Sequence[bool], zero: dict[Mark, bool]) -> list[bool]:
    """Note which marks are of zeros; return which results are."""
    known: dict[Any, bool] = dict(zip((*jaxpr.constvars, *jaxpr.invars), (*consts, *given), strict=True))

    def still(atom: Any) -> bool:
        return _is_zero(atom.val) if isinstance(atom, core.Literal) else known.get(atom, False)

    for eqn in jaxpr.eqns:
        operands = [still(atom) for atom in eqn.invars]
        if eqn.primitive is MARK:
            mark = eqn.params["mark"]
            # If a tensor is marked twice, as in two branches, all must be zero.
            zero[mark] = operands[0] and zero.get(mark, True)
        known.update(zip(eqn.outvars, _results(eqn, operands, zero), strict=True))
    return [still(atom) for atom in jaxpr.outvars]


def _results(eqn: Any, operands: list[bool], zero: dict[Mark, bool]) -> list[bool]:
    name = eqn.primitive.name
    inner = called(eqn)
    if inner is not None:
        body, consts = inner
        return _walk(body, [_is_zero(const) for const in consts], operands, zero)
    for within in core.jaxprs_in_params(eqn.params):
        # The inputs of a loop's or a branch's function are unknown.
        _walk(within, [False] * len(within.constvars), [False] * len(within.invars), zero)
    one = bool(operands) and (
        (eqn.primitive is MARK and operands[0])
        or (name in _KEEP_ZERO and operands[0])
        or (name in _ALL_ZERO and all(operands))
        or (name in _ANY_ZERO and any(operands))
        or (name == "div" and operands[0] and not operands[1])
        or (name == "select_n" and all(operands[1:]))
    )
    return [one] * len(eqn.outvars)


def _is_zero(value: Any) -> bool:
    try:
        array = np.asarray(value)
    except (TypeError, ValueError):
        return False  # a random key, for example
    return array.dtype.kind in "biufcV" and array.size > 0 and not np.any(array != 0)

