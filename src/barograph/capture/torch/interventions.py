"""Withholds the update of a step: for the flight recorder, or on request."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from barograph.capture.torch.actions import TorchActions
from barograph.capture.torch.entry_point import HookState, entry_point
from barograph.capture.torch.facts import FactRecorder
from barograph.capture.torch.forward import ForwardRecorder
from barograph.capture.torch.optimizers import OptimizerBook
from barograph.capture.torch.phase import Phase
from barograph.capture.torch.withholding import Withholding

if TYPE_CHECKING:
    from barograph.capture.torch.recorder import TorchRecorder


class Interventions:
    """Checks a step before its update, withholds the update if necessary, and restores hidden gradients.

    Args:
        hooks: State shared by the hooks.
        optimizers: Optimizers of the script.
        phase: The current step.
        forwards: Knows which optimizers train recorded models.
        facts: Has the gradient scaler and the schedulers.
        actions: Withholds updates that must be skipped.
        withholding: Hides gradients.
        recorder: Checks steps, and withholds failing ones; None: off.

    Attributes:
        hooks: See above.
        withheld: The update of the current step was withheld.
    """

    def __init__(
        self, hooks: HookState, optimizers: OptimizerBook, phase: Phase, *, forwards: ForwardRecorder,
        facts: FactRecorder, actions: TorchActions, withholding: Withholding, recorder: TorchRecorder | None,
    ) -> None:
        self.hooks = hooks
        self.withheld = False
        self._session = hooks.session
        self._optimizers = optimizers
        self._allowance = phase.allowance
        self._forwards = forwards
        self._facts = facts
        self._actions = actions
        self._withholding = withholding
        self._recorder = recorder

    def look(self, optimizer: Any, args: Any, kwargs: Any) -> None:
        """Check a step that starts; record more than numbers if its update may be withheld."""
        if self._actions.withholds:
            self._allowance.wake()
        if self._recorder is not None and not self._session.script.explicit_steps:
            self._look_before(optimizer, args, kwargs)

    @entry_point("checking a step before its update")
    def _look_before(self, optimizer: Any, args: Any, kwargs: Any) -> None:
        if self._recorder is None or self._forwards.trains_unknown_model(optimizer):
            return
        self._session.began()
        self._forwards.settle_names()
        self._recorder.before_update(
            self._optimizers.entry(optimizer), optimizer, closure=has_closure(args, kwargs), scaler=self._facts.scaler,
            schedulers=self._facts.schedulers)
        if self._recorder.holds:
            # It is reported, whatever the budget allows.
            self._allowance.wake()

    def hide(self, optimizer: Any, args: Any, kwargs: Any) -> tuple[tuple[Any, ...], dict[str, Any]] | None:
        """Withhold the next update if necessary; return other arguments for the step. None: the same."""
        if self._actions.withholds:
            self._withhold(optimizer, args, kwargs)
        if self._recorder is None:
            return None
        if self._recorder.take_held():
            # Only now: the records of the previous step are complete.
            self._withholding.hide(optimizer)
        changed: tuple[tuple[Any, ...], dict[str, Any]] | None = self._recorder.around_closure(args, kwargs)
        return changed

    @entry_point("withholding an update")
    def _withhold(self, optimizer: Any, args: Any, kwargs: Any) -> None:
        if not self._forwards.trains_unknown_model(optimizer):
            self._actions.before_update(optimizer, closure=has_closure(args, kwargs))

    def put_back(self, optimizer: Any) -> None:
        """Restore the hidden gradients of a step that has ended."""
        self.withheld = False
        if self._withholding.hides:
            self._give_back(optimizer)
        if self._recorder is not None:
            self._undo_closure()

    @entry_point("restoring weights")
    def _undo_closure(self) -> None:
        if self._recorder is not None and self._recorder.undo_closure():
            self.withheld = True
            self._allowance.wake()

    @entry_point("restoring gradients")
    def _give_back(self, optimizer: Any) -> None:
        self.withheld = self._withholding.give_back(optimizer)

    def forget(self) -> None:
        """Forget the state of a step that stops the training: a script may catch the error and continue."""
        if self._recorder is not None:
            self._recorder.forget()


def has_closure(args: Any, kwargs: Any) -> bool:
    """Return whether an optimizer's step got a closure."""
    # args[0] is the optimizer itself: PyTorch passes the arguments of the unbound `step`.
    return kwargs.get("closure") is not None or (len(args) > 1 and callable(args[1]))
