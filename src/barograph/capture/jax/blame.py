"""Finds the operation that made the first non-finite loss of a JAX training, also if the loss arrives late.

On a device, in long steps and on a busy machine, a call returns before its loss is available. If the step's inputs are
small, they are kept until then. The writer's thread reads the loss and runs the step again.
"""

from __future__ import annotations

import math
import weakref
from collections.abc import Callable, Mapping
from typing import Any

from barograph.capture.array_integration import ArrayIntegration
from barograph.capture.buffer import StepBuffer
from barograph.capture.jax.culprit import bad_operation
from barograph.capture.jax.program import Program
from barograph.model.facts import Fact, fact
from barograph.model.key import Key, Kind

_MOST_KEPT_BYTES = 256 * 2**20
"""Limit over all calls with pending losses: their inputs would otherwise be freed."""

_MOST_CALLS = 32
"""Maximum number of such calls: a host does not run much further ahead of its device."""

_MOST_LOOKS = 3
"""Maximum number of searches: after the first non-finite step, all later ones have non-finite inputs."""

Given = tuple[tuple[Any, ...], Mapping[str, Any]]


class _Call:
    """A call and its arguments."""

    __slots__ = ("__weakref__", "given", "program")

    def __init__(self, program: Program, given: Given) -> None:
        self.program, self.given = program, given


class Blame:
    """Checks the losses of one observed step.

    Args:
        integration: Records the operation.
    """

    def __init__(self, integration: ArrayIntegration) -> None:
        self._integration = integration
        self._kept: weakref.WeakSet[_Call] = weakref.WeakSet()
        self._looks = 0

    def take(self, loss: float | Callable[[], float], program: Program | None, given: Given | None) -> None:
        """Check the loss of a call with one step, now or when it is available.

        Args:
            loss: The loss, or a function that waits for it.
            program: Traced program of the step; None: there is none.
            given: Inputs of the call; None: unknown.
        """
        if given is None or program is None or program.many_devices or self._looks >= _MOST_LOOKS:
            return
        if not callable(loss):
            if not math.isfinite(loss):
                with self._integration.session.startup.apart_from_training():
                    self._integration.numbers(self._look(_Call(program, given)))
        elif self._may_keep(program) and self._integration.asks_ever(Kind.FACT):
            call = _Call(program, given)
            self._kept.add(call)
            self._integration.defer(lambda buffer: self._look_late(loss, call, buffer))

    def _may_keep(self, program: Program) -> bool:
        """Return whether the inputs of a call may be kept until its loss is available; donated ones are gone by
        then."""
        if program.gives_away or len(self._kept) >= _MOST_CALLS:
            return False
        kept_bytes = sum(call.program.given_bytes for call in list(self._kept))
        return kept_bytes + program.given_bytes <= _MOST_KEPT_BYTES

    def _look_late(self, loss: Callable[[], float], call: _Call, buffer: StepBuffer) -> None:
        if math.isfinite(loss()) or self._looks >= _MOST_LOOKS:
            return
        try:
            buffer.scalars.update(self._look(call))
        except Exception as error:  # noqa: BLE001 - in another thread, where it would fail the whole step
            self._integration.session.guard.caught(error, "finding the operation that failed")

    def _look(self, call: _Call) -> dict[Key, float]:
        self._looks += 1
        name = bad_operation(call.program.closed, call.program.leaves(*call.given))
        return {fact(Fact.BAD_OPERATION): 1.0, fact(Fact.BAD_OPERATION, name): 1.0} if name else {}
