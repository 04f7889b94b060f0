"""Computes the learning rates of a JAX step from its arguments, in a small separate program.

The step counts and injected hyperparameters that a rate depends on are arguments of the step. Its results may contain
them too, but their memory is often donated to the next call.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import jax
import numpy as np
from jax.extend import core
from jax.interpreters.partial_eval import dce_jaxpr

from barograph.capture.jax.harvest import Basket, Found, harvest, places_of
from barograph.capture.jax.marks import MARK
from barograph.capture.jax.reading import group_number
from barograph.capture.plan import Taking
from barograph.model.key import Kind

if TYPE_CHECKING:
    from barograph.capture.jax.marks import Mark
    from barograph.capture.jax.program import Program

_MOST_ELEMENTS = 64
"""Maximum size of an argument that a rate may depend on: more than counts or hyperparameters per device."""


class StepRates:
    """A program that computes the learning rates of one traced form of a step.

    Attributes:
        found: The results of the program.
        places: Empty: no results are joined.
        groups: Number of the parameter group of each result.
        are_plain: Each result is one number, that of the only step of a call.
        constants: The rates by group, if they depend on no argument; then the program need not be called.

    Args:
        structure: Structure of the arguments.
        found: The results of the program.
        jaxpr: The program.
        used: Positions of its arguments among those of the step.
    """

    def __init__(self, structure: Any, found: Sequence[Found], jaxpr: Any, used: Sequence[int]) -> None:
        self.structure, self.found, self.places = structure, tuple(found), places_of(())
        self.groups = [group_number(item.mark.path) for item in found]
        self.are_plain = not any(item.axes or item.shape for item in found) and len(set(self.groups)) == len(found)
        self._used = tuple(used)
        self._run = jax.jit(core.jaxpr_as_fun(jaxpr))
        self.constants: Mapping[int, float] = {}
        if not used:
            self.constants = {group: float(np.ravel(value)[-1])
                              for group, value in zip(self.groups, self._run(), strict=True)}

    def __call__(self, leaves: Sequence[Any]) -> Sequence[Any]:
        """Return the rates, which may still be in computation.

        Args:
            leaves: The arguments of the step, before it is called.
        """
        values: Sequence[Any] = self._run(*(leaves[number] for number in self._used))
        return values


def step_rates(program: Program) -> StepRates | None:
    """Return the program for the learning rates of a step.

    Returns:
        None if the step has no known learning rate, or one that depends on more than counts and hyperparameters, such
        as on gradients.
    """
    jaxpr, avals = program.closed.jaxpr, program.avals
    if len(avals) != len(jaxpr.invars) or not any(mark.kind is Kind.LEARNING_RATE for mark in program.marks):
        return None
    small = _needed_for_rates(jaxpr)
    found: list[Found] = []

    def run(*leaves: Any) -> list[Any]:
        basket = Basket(_wants, wholes=False)
        harvest(small, program.closed.consts, leaves, basket)
        found[:] = basket.found
        return basket.values

    traced = jax.make_jaxpr(run)(*avals)
    final, used = dce_jaxpr(traced.jaxpr, True)
    sizes = [math.prod(var.aval.shape) for var in final.invars]
    if not found or final.effects or max(sizes, default=0) > _MOST_ELEMENTS:
        return None
    return StepRates(program.structure, found, core.ClosedJaxpr(final, traced.consts),
                     [number for number, needed in enumerate(used) if needed])


def _needed_for_rates(jaxpr: Any) -> Any:
    """Return a traced function without the operations that rates do not depend on, and without results.

    It is traced once more, which takes long for a large model. Marks have no results, so the inside of operations is
    unchanged.
    """
    kept, needed = [], set[Any]()
    for eqn in reversed(jaxpr.eqns):
        if _has_rate(eqn) or not needed.isdisjoint(eqn.outvars):
            kept.append(eqn)
            needed.update(atom for atom in eqn.invars if not isinstance(atom, core.Literal))
    return jaxpr.replace(outvars=[], eqns=kept[::-1])


def _has_rate(eqn: Any) -> bool:
    if eqn.primitive is MARK:
        return bool(eqn.params["mark"].kind is Kind.LEARNING_RATE)
    return any(_has_rate(inner) for jaxpr in core.jaxprs_in_params(eqn.params) for inner in jaxpr.eqns)


def _wants(mark: Mark) -> Taking | None:
    return Taking() if mark.kind is Kind.LEARNING_RATE else None
