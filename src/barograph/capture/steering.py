"""Requests to a running training, carried out in the training thread between two steps."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from barograph.capture.guard import Guard
from barograph.capture.orders import Hand, NotDone, Orders
from barograph.capture.own_end import OwnEnd
from barograph.errors import TrainingStopped
from barograph.model.clock import Clock
from barograph.runs.state.control import Request


class Steering:
    """Stops a training, and passes other requests to integrations.

    Args:
        guard: Handles errors of callbacks.
        clock: Time.
        allow: Actions that the training allows.
        attempt: Attempt of the run.
        steps_made: Returns the number of steps of the training.

    Attributes:
        stopped_by: Why the training was stopped; "": it was not.
        orders: Requests and their results.
        own_end: Loops of frameworks that end by their own mechanism.
        allowed: Names of allowed actions.
        save_checkpoint: Function of the script that saves a checkpoint and returns its location; "" if unknown. None:
            there is none, and integrations are asked.
    """

    def __init__(
        self, guard: Guard, clock: Clock, allow: Iterable[object], attempt: int, steps_made: Callable[[], int]
    ) -> None:
        self.stopped_by = ""
        self.orders = Orders()
        self.own_end = OwnEnd()
        self.allowed: set[str] = set()
        self.allow(allow)
        self.save_checkpoint: Callable[[], str] | None = None
        self._savers: list[Callable[[], str]] = []
        self._guard, self._clock, self._attempt, self._steps_made = guard, clock, attempt, steps_made
        self._hands: dict[str, Hand] = {}
        self._stop_reason: str | None = None
        self._stop_after = 0
        self._stop_finding = ""
        self._checkpoint_wanted = False

    def request_stop(
        self, reason: str, after_steps: int = 0, *, finding_id: str = "", checkpoint: bool = False, again: bool = False
    ) -> None:
        """Request to stop the training, once; thread-safe.

        Args:
            reason: One sentence for people.
            after_steps: Number of steps to complete first; 0: stop after the current one.
            finding_id: The finding that triggered it.
            checkpoint: Save a checkpoint first, with `save_checkpoint`.
            again: Also stop a training whose script has caught an earlier stop and continued.
        """
        if again or not self.stopped_by:
            self._stop_after = after_steps
            self._stop_finding, self._checkpoint_wanted = finding_id, checkpoint
            self._stop_reason = reason

    def allow(self, names: Iterable[object]) -> None:
        """Allow more actions, by their names."""
        self.allowed |= {str(name) for name in names}

    def save_checkpoint_with(self, save: Callable[[], str]) -> None:
        """Save checkpoints with the script's own function."""
        self.save_checkpoint = save

    @property
    def waits(self) -> bool:
        """Whether `raise_if_stopped` may have something to do."""
        return self._stop_reason is not None or bool(self.orders.waiting) or self.own_end.under_way

    def raise_if_stopped(self) -> None:
        """Carry out requests, in the training thread, between two steps; raise if one is to stop.

        A running loop of a framework is asked to end; its caller gets the exception afterwards.

        Raises:
            TrainingStopped: Once for each request.
        """
        if self.own_end.under_way:
            self.own_end.insist(self._steps_made())
        if self.orders.waiting:
            self._carry_out()
        if self._stop_reason is not None and self._steps_made() >= self._stop_after:
            reason, self._stop_reason = self._stop_reason, None
            self.stopped_by = reason
            saved = self._checkpointed() if self._checkpoint_wanted else ""
            result = f"stopped the training; {saved}" if saved else "stopped the training"
            self.orders.report_stop(self._stop_finding, self._attempt, result, step=self._steps_made(),
                                    now_unix=self._clock.unix())
            self.own_end.stop(TrainingStopped(f"{reason} Barograph {saved}." if saved else reason), self._steps_made())

    def offer_checkpoint(self, save: Callable[[], str]) -> None:
        """Register an integration's function that saves a checkpoint if the script has none.

        Args:
            save: As `save_checkpoint`; raises NotDone if it cannot, and the next one is tried.
        """
        self._savers.append(save)

    def set_handler(self, action: str, hand: Hand, *, always: bool = False) -> None:
        """Register an integration's handler for an action: used if the action is allowed; or always, if it changes
        nothing."""
        self._hands[str(action)] = hand
        if always:
            self.allowed.add(str(action))

    def report(self, request: Request, result: str, *, done: bool = True) -> None:
        """Report the result of a request."""
        self.orders.report(request, result, done=done, step=self._steps_made(), now_unix=self._clock.unix())

    def _carry_out(self) -> None:
        for request in self.orders.take_due(self._steps_made()):
            if request.action not in self.allowed:
                self.report(request, f"did nothing: {request.action} is not allowed; start the training with "
                                     f"--allow {request.action}, or attach(…, allow=…)", done=False)
                continue
            try:
                hand = self._hands.get(request.action)
                if hand is None:
                    raise NotDone("this framework does not support it")
                result = hand(request)
            except NotDone as error:
                self.report(request, f"did nothing: {error}", done=False)
            except Exception as error:  # noqa: BLE001 - the guard handles it; a request must not end a training
                self.report(request, f"failed: {type(error).__name__}: {error}", done=False)
                self._guard.caught(error, f"taking a finding's action ({request.action})")
            else:
                if result is not None:
                    self.report(request, result)

    def _checkpointed(self) -> str:
        """Save a checkpoint, and return the result in words."""
        savers = self._savers if self.save_checkpoint is None else [self.save_checkpoint]
        reasons = []
        for save in savers:
            try:
                place = save()
            except NotDone as error:
                reasons.append(str(error))
            except Exception as error:  # noqa: BLE001 - a script's function failed; the training stops anyway
                return f"could not save a checkpoint: {type(error).__name__}: {error}"
            else:
                return f"saved a checkpoint in {place}" if place else "saved a checkpoint"
        why = "; ".join(reasons) or "unknown for this framework; pass attach(checkpoint=…) a function that saves one"
        return f"saved no checkpoint: {why}"
