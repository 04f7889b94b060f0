"""The flight recorder of a JAX training: withholds the update of a failing step and saves its inputs.

The compiled step itself selects between the old and the new state; so an update is also withheld when the user donates
the old state's memory. Conditions that only the host can check (a loss above its level, a function of the user) are
undone afterwards, which needs a copy of the state.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from barograph.capture.array_integration import ArrayIntegration
from barograph.capture.held_steps import HeldSteps, Packed
from barograph.capture.jax.harvest import GATE
from barograph.capture.jax.numbers import losses_in
from barograph.capture.jax.packed import copied_arguments, packed_call, seen_of
from barograph.capture.jax.program import Compiled, Harvested
from barograph.capture.verdict import UserConditions, Verdict, of_gradients, of_loss, of_norm
from barograph.model.capsule import Held
from barograph.model.recorder import RecorderSettings, UpdateSeen


class JaxGuard:
    """Checks the gradient measurements of each call.

    Args:
        integration: Integration of the series of steps.
        settings: Settings of the flight recorder.
        compiled: The step.
        loss: Finds the loss in its results; None: search.
    """

    def __init__(self, integration: ArrayIntegration, settings: RecorderSettings, compiled: Compiled,
                 loss: Callable[[Any], Any] | None) -> None:
        self._integration, self._settings = integration, settings
        self._compiled, self._loss = compiled, loss
        self._asked_for = UserConditions(settings, integration.session.steering.request_stop)
        self._held = HeldSteps(integration.session, settings)

    @property
    def bound(self) -> float:
        """Maximum norm of all gradients of an accepted update."""
        return math.inf if self._settings.norm_above is None else self._settings.norm_above

    @property
    def keeps(self) -> bool:
        """Whether a step may have to be undone after it was made."""
        return self._settings.loss_above is not None or self._settings.when is not None

    def looks(self, harvested: Harvested, steps: int) -> tuple[int, ...]:
        """Check the steps of a call, save the call if any is withheld, and return those steps.

        Waits for the device, once per call.

        Args:
            harvested: Inputs and results of the call. If a step is undone here, its results are restored.
            steps: Number of steps of the call.
        """
        held: list[int] = []
        for step, (update, bad) in enumerate(updates_seen(harvested, steps, self._loss, first=self._integration.step)):
            verdict = self._verdict(update, bad)
            if verdict is not None:
                held.append(step)
                self._hold(verdict, harvested, step, steps)
        return tuple(held)

    def _verdict(self, update: UpdateSeen, bad: Sequence[str]) -> Verdict | None:
        loss = update.losses[0] if update.losses else None
        numbers = {"norm": update.norm, **({} if loss is None else {"loss": loss})}
        if bad:
            return of_gradients(bad, numbers)
        if loss is not None and not math.isfinite(loss):
            return of_loss(loss, numbers)
        if update.norm > self.bound:
            return of_norm(update.norm, self.bound, numbers)
        return self._asked_for.verdict(update, numbers)

    def _hold(self, verdict: Verdict, harvested: Harvested, step: int, steps: int) -> None:
        """Save the call, and make sure that the update is withheld, also after an error of ours."""
        number = self._integration.step + step
        withheld = self._put_back(verdict, harvested, steps)
        self._held.hold(
            verdict, number,
            lambda: self._held.save(verdict, number, self._packed(harvested), later=step, withheld=withheld),
            could_not="" if withheld else "the step returns no new state")

    def _packed(self, harvested: Harvested) -> Packed:
        """Return the inputs of a call, and the result of the user's function."""
        packed = packed_call(harvested, self._compiled.name)
        program = harvested.version.program
        try:
            args, kwargs = copied_arguments(harvested)
            packed.content["seen"] = seen_of(program, self._compiled.function(*args, **kwargs), self._loss)
        except Exception as error:  # noqa: BLE001 - memory may not suffice; the step is saved anyway
            self._integration.session.guard.caught(error, "running the held step with the user's own function")
            packed.content["seen"] = {"losses": [], "gradients": {}, "results": {}}
        return packed

    def _put_back(self, verdict: Verdict, harvested: Harvested, steps: int) -> bool:
        """Restore carried values unless the compiled step has; return whether the update is withheld."""
        carried = harvested.version.program.carried
        if _in_the_step(verdict) and (steps > 1 or carried):
            return True
        if not carried or harvested.version.donated & set(carried.values()):
            return False
        for place, source in carried.items():
            harvested.outs[place] = harvested.given[source]
        return True


def updates_seen(
    harvested: Harvested, steps: int, loss: Callable[[Any], Any] | None, *, first: int
) -> Iterator[tuple[UpdateSeen, list[str]]]:
    """Yield the measurements of each step of a call, and the paths of non-finite gradients.

    Waits for the device.

    Args:
        harvested: Results of the call.
        steps: Number of steps.
        loss: Finds the loss; None: search.
        first: Number of the first step.
    """
    judged = _judged(harvested, steps)
    losses = losses_in(harvested.results, steps, loss, mapped=harvested.version.program.is_mapped)
    for step in range(steps):
        of_step = {path: values[step] for path, values in judged.items()}
        norms = {path: math.sqrt(squares) if squares >= 0 else math.nan for path, (squares, _) in of_step.items()}
        whole = math.hypot(*norms.values()) if norms else 0.0
        yield (UpdateSeen(first + step, "", tuple(losses[step:step + 1]), whole, norms),
               [path for path, (_, is_bad) in of_step.items() if is_bad])


def _in_the_step(verdict: Verdict) -> bool:
    return verdict.held is Held.NORM or (verdict.held is Held.NOT_FINITE and "parameters" in verdict.numbers)


def _judged(harvested: Harvested, steps: int) -> dict[str, list[tuple[float, bool]]]:
    """Return the sum of squares of each gradient, and whether it is non-finite, in each step of a call."""
    found = {}
    for item, value in zip(harvested.version.found, harvested.values, strict=True):
        if item.mark.role == GATE:
            rows = np.asarray(value).reshape(steps, -1, 2) if item.axes and steps > 1 else (
                np.asarray(value).reshape(1, -1, 2).repeat(steps, 0))
            found[item.mark.path] = [(float(row[:, 0].max()), bool(row[:, 1].any())) for row in rows]
    return found
