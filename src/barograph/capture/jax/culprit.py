"""Finds the operation that made a loss non-finite, by rerunning the traced step one operation at a time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
from jax.extend import core

from barograph.capture.jax.calls import called
from barograph.capture.jax.marks import MARK

_MOST_OPERATIONS = 4096

_NAMES: Mapping[str, str] = {"log": "log", "log1p": "log", "log2": "log", "div": "div", "exp": "exp", "exp2": "exp",
                             "expm1": "exp", "sqrt": "sqrt", "rsqrt": "sqrt"}
"""Operations by the names that rules know them by; any other has its own."""

_BELOW_DOMAIN: Mapping[str, tuple[float, str]] = {
    "log": (0.0, "log_of_negative"), "log1p": (-1.0, "log_of_negative"), "log2": (0.0, "log_of_negative"),
    "sqrt": (0.0, "sqrt_of_negative"), "rsqrt": (0.0, "sqrt_of_negative"),
}
"""Operations with the limit of their domain, and their name for inputs beyond it."""

_GIVEN = ""
"""Stands for non-finite inputs of the step: no operation is the cause."""


def bad_operation(closed: Any, leaves: Sequence[Any]) -> str:
    """Return the operation that made the non-finite values of the loss from finite ones.

    Args:
        closed: The traced step.
        leaves: Its input arrays, which must not be donated.

    Returns:
        "log", "exp", "div", "sqrt", or JAX's name of another operation; "" if an input of the step is non-finite, its
        results are finite, or the step is too long.
    """
    if _length(closed.jaxpr) > _MOST_OPERATIONS or any(_is_gone(leaf) for leaf in leaves):
        return ""
    known = dict(zip(closed.jaxpr.constvars, closed.consts, strict=True))
    known.update(zip(closed.jaxpr.invars, leaves, strict=True))
    origins = {var: _GIVEN for var, value in known.items() if not _is_finite(value)}
    found = _run(closed.jaxpr, known, origins)
    # A scalar first: it is the loss.
    results = sorted(zip(closed.jaxpr.outvars, found, strict=True), key=lambda pair: jnp.ndim(pair[1]))
    return next((origins.get(atom, _GIVEN) for atom, value in results
                 if not isinstance(atom, core.Literal) and not _is_finite(value)), "")


def _run(jaxpr: Any, known: dict[Any, Any], origins: dict[Any, str]) -> list[Any]:
    def value(atom: Any) -> Any:
        return atom.val if isinstance(atom, core.Literal) else known[atom]

    # All values of a large step together would not fit on its device.
    used_last = {atom: number for number, eqn in enumerate(jaxpr.eqns) for atom in _variables(eqn.invars)}
    for atom in _variables(jaxpr.outvars):
        used_last[atom] = len(jaxpr.eqns)
    for number, eqn in enumerate(jaxpr.eqns):
        given = [value(atom) for atom in eqn.invars]
        bad = [origins[atom] for atom in eqn.invars if not isinstance(atom, core.Literal) and atom in origins]
        found, within = _evaluate(eqn, given, bad)
        for var, result, origin in zip(eqn.outvars, found, within, strict=True):
            known[var] = result
            if not _is_finite(result):
                origins[var] = origin if origin is not None else _name(eqn, given)
        for atom in {*_variables(eqn.invars), *eqn.outvars}:
            if used_last.get(atom, number) <= number:
                del known[atom]
    return [value(atom) for atom in jaxpr.outvars]


def _variables(atoms: Sequence[Any]) -> set[Any]:
    return {atom for atom in atoms if not isinstance(atom, core.Literal)}


def _evaluate(eqn: Any, given: list[Any], bad: list[str]) -> tuple[Sequence[Any], list[str | None]]:
    """Return the results of an operation, and for each the origin of non-finite values; None: this operation."""
    if eqn.primitive is MARK:
        return given[:1], [bad[0] if bad else None]
    inner = called(eqn)
    if inner is not None:
        body, consts = inner
        known = dict(zip((*body.constvars, *body.invars), (*consts, *given), strict=True))
        origins = {var: _GIVEN for var, constant in zip(body.constvars, consts, strict=True)
                   if not _is_finite(constant)}
        blamed = iter(bad)
        origins.update({var: next(blamed, _GIVEN) for var, part in zip(body.invars, given, strict=True)
                        if not _is_finite(part)})
        found = _run(body, known, origins)
        return found, [None if isinstance(atom, core.Literal) else origins.get(atom) for atom in body.outvars]
    with eqn.ctx.manager:
        found = eqn.primitive.bind(*given, **eqn.primitive.get_bind_params(eqn.params))
    results = found if eqn.primitive.multiple_results else [found]
    # An infinite literal, as in a mask, is intended.
    meant = bad or [_GIVEN for part in given if not _is_finite(part)]
    return results, [meant[0] if meant else None] * len(results)


def _name(eqn: Any, given: Sequence[Any]) -> str:
    below = _BELOW_DOMAIN.get(eqn.primitive.name)
    if below is not None and bool((jnp.asarray(given[0]) < below[0]).any()):
        return below[1]
    if eqn.primitive.name == "integer_pow" and eqn.params["y"] < 0:
        return "div"
    return _NAMES.get(eqn.primitive.name, str(eqn.primitive.name))


def _is_finite(value: Any) -> bool:
    dtype = getattr(value, "dtype", None)
    if dtype is None:
        return not isinstance(value, float) or bool(jnp.isfinite(value))
    return not jnp.issubdtype(dtype, jnp.inexact) or bool(jnp.isfinite(value).all())


def _is_gone(leaf: Any) -> bool:
    return isinstance(leaf, jax.Array) and leaf.is_deleted()


def _length(jaxpr: Any) -> int:
    return sum(1 + sum(map(_length, core.jaxprs_in_params(eqn.params))) for eqn in jaxpr.eqns)
