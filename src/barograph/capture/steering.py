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
        guard: Hears of errors of those who carry something out.
        clock: Time.
        allow: Actions that the training allows.
        attempt: Of the run.
        steps_made: Returns how many steps the training has made.

    Attributes:
        stopped_by: Why the training was stopped; "": it was not.
        orders: What was asked, and what became of it.
        own_end: Loops of frameworks that end in their own way.
        allowed: Names of actions that are carried out.
        save_checkpoint: The script's own function that saves a checkpoint and returns where; "" where that is not
            known. None: the script gave none, and integrations that know how are asked.
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
        """Ask for training to be stopped; safe from any thread, and heard once.

        Args:
            reason: One sentence for people.
            after_steps: Steps to be made before; 0: stop after the one under way.
            finding_id: The finding that asks.
            checkpoint: Save a checkpoint first, with `save_checkpoint`.
            again: Heard also where the training was stopped before, and the script has caught that and gone on.
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
        """Whether `raise_if_stopped` may have anything to do."""
        return self._stop_reason is not None or bool(self.orders.waiting) or self.own_end.under_way

    def raise_if_stopped(self) -> None:
        """Do what was asked, in the thread that trains, between two steps; and raise where that is to stop.

        Where the loop of a framework is under way, that is told to end, and who called it is told afterwards.

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
        """Let an integration save a checkpoint where the script has no function of its own that does.

        Args:
            save: As `save_checkpoint`; raises NotDone where it cannot, and the next one is asked.
        """
        self._savers.append(save)

    def lend_hand(self, action: str, hand: Hand, *, always: bool = False) -> None:
        """Let an integration carry out what is asked: where it is allowed; or always, since it changes nothing."""
        self._hands[str(action)] = hand
        if always:
            self.allowed.add(str(action))

    def report(self, request: Request, result: str, *, done: bool = True) -> None:
        """Say what became of a request."""
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
            except Exception as error:  # noqa: BLE001 - the guard decides; what is asked must not end a training
                self.report(request, f"failed: {type(error).__name__}: {error}", done=False)
                self._guard.caught(error, f"taking a finding's action ({request.action})")
            else:
                if result is not None:
                    self.report(request, result)

    def _checkpointed(self) -> str:
        """Save a checkpoint, and return what became of that."""
        savers = self._savers if self.save_checkpoint is None else [self.save_checkpoint]
        reasons = []
        for save in savers:
            try:
                place = save()
            except NotDone as error:
                reasons.append(str(error))
            except Exception as error:  # noqa: BLE001 - the script's own function may raise anything; it stops all the same
                return f"could not save a checkpoint: {type(error).__name__}: {error}"
            else:
                return f"saved a checkpoint in {place}" if place else "saved a checkpoint"
        why = "; ".join(reasons) or "unknown for this framework; pass attach(checkpoint=…) a function that saves one"
        return f"saved no checkpoint: {why}"
