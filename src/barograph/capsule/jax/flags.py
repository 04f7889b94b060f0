"""Finds the non-finite values inside a traced JAX function by running it again.

The function is interpreted while another is traced, so that all of it is compiled as one program, like the step.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.extend import core

from barograph.capture.jax.marks import MARK

NAN, POSITIVE, NEGATIVE = 1, 2, 4
"""Kinds of non-finite values: NaN, positive and negative infinity."""


def flags_of(jaxpr: Any, consts: Sequence[Any], args: Sequence[Any]) -> dict[Any, int]:
    """Return the non-finite kinds of each variable of a traced function: a sum of the constants above, or 0."""
    variables: list[Any] = []

    def run(consts: Sequence[Any], args: Sequence[Any]) -> list[Any]:
        variables.clear()
        found: list[Any] = []

        def look(variable: Any, value: Any) -> None:
            variables.append(variable)
            found.append(_flags(value))

        _interpret(jaxpr, consts, args, look)
        return found

    numbers = jax.jit(run)(list(consts), list(args))
    return {variable: int(number) for variable, number in zip(variables, numbers, strict=True)}


def values_around(jaxpr: Any, consts: Sequence[Any], args: Sequence[Any], number: int) -> tuple[list[Any], list[Any]]:
    """Return the inputs and outputs of one equation of a traced function."""
    eqn = jaxpr.eqns[number]

    def run(consts: Sequence[Any], args: Sequence[Any]) -> tuple[list[Any], list[Any]]:
        known: dict[Any, Any] = {}
        _interpret(jaxpr, consts, args, known.__setitem__, until=number)
        return [atom.val if isinstance(atom, core.Literal) else known[atom] for atom in eqn.invars], [
            known[variable] for variable in eqn.outvars]

    found: tuple[list[Any], list[Any]] = jax.jit(run)(list(consts), list(args))
    return found


def literal_flags(literal: Any) -> int:
    """Return the non-finite kinds of a literal."""
    array = np.asarray(literal.val)
    if array.dtype.kind not in "fc":
        return 0
    return (NAN * bool(np.isnan(array).any()) + POSITIVE * bool(np.isposinf(array.real).any())
            + NEGATIVE * bool(np.isneginf(array.real).any()))


def _interpret(jaxpr: Any, consts: Sequence[Any], args: Sequence[Any], look: Callable[[Any, Any], None],
               until: int | None = None) -> None:
    known: dict[Any, Any] = {}

    def know(variable: Any, value: Any) -> None:
        known[variable] = value
        look(variable, value)

    for variable, value in zip((*jaxpr.constvars, *jaxpr.invars), (*consts, *args), strict=True):
        know(variable, value)
    for number, eqn in enumerate(jaxpr.eqns):
        given = [atom.val if isinstance(atom, core.Literal) else known[atom] for atom in eqn.invars]
        if eqn.primitive is MARK:
            found = given[:1]
        else:
            with eqn.ctx.manager:
                made = eqn.primitive.bind(*given, **eqn.primitive.get_bind_params(eqn.params))
            found = made if eqn.primitive.multiple_results else [made]
        for variable, value in zip(eqn.outvars, found, strict=True):
            know(variable, value)
        if number == until:
            return


def _flags(value: Any) -> Any:
    dtype = getattr(value, "dtype", np.asarray(value).dtype if not hasattr(value, "dtype") else None)
    if dtype is None or not jnp.issubdtype(dtype, jnp.inexact):
        return jnp.int32(0)
    real = jnp.real(value)
    return (NAN * jnp.isnan(value).any() + POSITIVE * jnp.isposinf(real).any()
            + NEGATIVE * jnp.isneginf(real).any()).astype(jnp.int32)
