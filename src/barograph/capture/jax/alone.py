"""Finds the result of a traced JAX step that is exactly the mean of one loss function's values."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from jax.extend import core

from barograph.capture.jax.calls import called, scanned
from barograph.capture.jax.marks import MARK
from barograph.model.key import Kind

_AS_IT_IS = frozenset({"convert_element_type", "copy", "copy_p", "reshape", "squeeze", "transpose",
                       "optimization_barrier", "stop_gradient", "reduce_precision", "expand_dims"})


@dataclass(frozen=True, slots=True)
class _Part:
    """A value that is `factor` times a sum over the values of a loss function.

    Attributes:
        name: Name of the loss function.
        count: Number of its values.
        factor: See above.
        turn: It is already the mean, one per iteration of a loop.
    """

    name: str
    count: int
    factor: float = 1.0
    turn: bool = False

    @property
    def is_mean(self) -> bool:
        """Whether it is the mean, once all values are summed."""
        return self.turn or math.isclose(self.factor * self.count, 1.0, rel_tol=1e-4)


def losses_alone(jaxpr: Any) -> tuple[str, ...]:
    """Return for each result of a traced step the loss function whose mean it is; "" if none.

    For a loop of steps, the result with the mean of each iteration.
    """
    found = _walk(jaxpr, [None] * len(jaxpr.invars))
    return tuple(part.name if part is not None and _is_whole(part, atom.aval) else ""
                 for part, atom in zip(found, jaxpr.outvars, strict=True))


def _is_whole(part: _Part, aval: Any) -> bool:
    return part.is_mean and (part.turn or aval.shape == ())


def _walk(jaxpr: Any, given: Sequence[_Part | None]) -> list[_Part | None]:
    known: dict[Any, _Part | None] = dict(zip(jaxpr.invars, given, strict=True))

    def part_of(atom: Any) -> _Part | None:
        return None if isinstance(atom, core.Literal) else known.get(atom)

    for eqn in jaxpr.eqns:
        known.update(zip(eqn.outvars, _results(eqn, [part_of(atom) for atom in eqn.invars]), strict=True))
    return [part_of(atom) for atom in jaxpr.outvars]


def _results(eqn: Any, parts: list[_Part | None]) -> list[_Part | None]:
    name, inner = eqn.primitive.name, called(eqn)
    if eqn.primitive is MARK and eqn.params["mark"].kind is Kind.LOSS and not eqn.params["mark"].role:
        return [_Part(eqn.params["mark"].path, math.prod(eqn.outvars[0].aval.shape))]
    if inner is not None:
        return _walk(inner[0], parts)
    if name == "scan":
        body = eqn.params["jaxpr"].jaxpr
        found = _walk(body, [None] * len(body.invars))
        turns = [replace(part, turn=True) if part is not None and _is_whole(part, atom.aval) else None
                 for part, atom in zip(found, body.outvars, strict=True)]
        _, carried = scanned(eqn)
        return [None] * carried + turns[carried:]
    return [_one(eqn, parts), *[None] * len(eqn.outvars)][: len(eqn.outvars)]


def _one(eqn: Any, parts: list[_Part | None]) -> _Part | None:
    name, part = eqn.primitive.name, parts[0] if parts else None
    if eqn.primitive is MARK or name in _AS_IT_IS or (name == "reduce_sum" and part is not None and not part.turn):
        return part
    if part is not None and name == "neg":
        return replace(part, factor=-part.factor, turn=False)
    if name in ("mul", "div") and len(parts) == 2:
        other = part if part is not None else parts[1]
        by = _number(eqn.invars[1 if part is not None else 0])
        if other is None or by is None or other.turn or (name == "div" and (part is None or by == 0)):
            return None
        return replace(other, factor=other.factor * by if name == "mul" else other.factor / by)
    return None


def _number(atom: Any) -> float | None:
    """Return the value of a literal."""
    if not isinstance(atom, core.Literal) or np.ndim(atom.val) != 0:
        return None
    return float(atom.val)
