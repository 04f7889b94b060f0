"""Ends steps of which only numbers are recorded, in a few operations each."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from barograph.capture.thread_clock import cpu_secs
from barograph.capture.torch.actions import TorchActions
from barograph.capture.torch.entry_point import HookState
from barograph.capture.torch.feeding import Feeding
from barograph.capture.torch.forward import ForwardRecorder
from barograph.capture.torch.light import LightSteps
from barograph.capture.torch.optimizer_entry import Entry
from barograph.capture.torch.optimizers import OptimizerBook
from barograph.capture.torch.phase import Phase
from barograph.capture.torch.recorders import Recorders
from barograph.capture.torch.stepping import Stepping

if TYPE_CHECKING:
    from barograph.capture.torch.recorder import TorchRecorder


class LightStepRecorder:
    """Publishes steps with only numbers, and collects the next ones if that is safe.

    Args:
        hooks: State shared by the hooks.
        optimizers: Optimizers of the script.
        phase: The current step and evaluation.
        light: Collects steps.
        recorders: Read tensors.
        forwards: Observes forward passes.
        feeding: Knows whether checkpoints are saved.
        stepping: Determines whose step is running.
        actions: Withholds updates.
        recorder: Keeps inputs of steps; None: off.
    """

    def __init__(
        self, hooks: HookState, optimizers: OptimizerBook, phase: Phase, light: LightSteps, *, recorders: Recorders,
        forwards: ForwardRecorder, feeding: Feeding, stepping: Stepping, actions: TorchActions,
        recorder: TorchRecorder | None,
    ) -> None:
        self._session = hooks.session
        self._place = hooks.place
        self._optimizers = optimizers
        self._phase = phase
        self._allowance = phase.allowance
        self._light = light
        self._parameters = recorders.parameters
        self._facts = recorders.facts
        self._forwards = forwards
        self._feeding = feeding
        self._stepping = stepping
        self._actions = actions
        self._recorder = recorder

    def end_collected(self, optimizer: Any) -> None:
        """End a step that is being collected."""
        steering, light = self._session.steering, self._light
        try:
            if light.end_step(optimizer):
                if not steering.waits:
                    return
                light.stop()
            if (entry := self._optimizers.known(optimizer)) is not None:
                self._go_on_after(entry, optimizer)
        except Exception as error:  # noqa: BLE001 - the guard handles all our errors
            self._session.guard.caught(error, "counting a step")
        if steering.waits:
            steering.raise_if_stopped()

    def end(self, optimizer: Any, *, withheld: bool) -> bool:
        """Publish a step with only numbers; False: there is more to record.

        Args:
            optimizer: Optimizer of the step.
            withheld: Its update was withheld.
        """
        begin, session, phase = cpu_secs(), self._session, self._phase
        try:
            entry = self._optimizers.known(optimizer)
            if (
                entry is None or entry.is_new or withheld or phase.evaluates or not phase.train.holds_numbers_alone
                or self._place.busy or session.closed or not session.declared or was_skipped(optimizer)
            ):
                return False
            rates = self._parameters.plain_rates(entry, optimizer)
            if rates is None:
                return False
            session.end_light_step(entry.label, phase.light_numbers(), rates)
            phase.forget_light_step()
            self._go_on_after(entry, optimizer)
        except Exception as error:  # noqa: BLE001 - the guard handles all our errors
            session.guard.caught(error, "counting a step")
        session.price.charge(cpu_secs() - begin)
        return True

    def _go_on_after(self, entry: Entry, optimizer: Any) -> None:
        """Choose what to record of the step after one with only numbers."""
        next_label = self._optimizers.note_step(entry)
        self._allowance.prepare(next_label)
        if not self._allowance.light:
            self._facts.looks_next(entry)
            self._forwards.prepare(self._allowance.mask or 0)
            return
        if self._forwards.observing:
            self._forwards.prepare(0)
        if (
            next_label == entry.label and self._recorder is None and self._feeding.checkpointer is None
            and not (self._session.script.explicit_steps or self._forwards.observes_always or self._forwards.observing
                     or self._actions.withholds or self._stepping.are_nested or self._session.steering.waits)
            and self._facts.scaler is None and self._phase.surely_trains
            and self._parameters.plain_rates(entry, optimizer) is not None
        ):
            self._light.begin(entry, optimizer, self._session.choice.steps_until_round(entry.label),
                              rates_wanted=self._parameters.rates_wanted)


def was_skipped(optimizer: Any) -> bool:
    """Return whether a fused optimizer withheld the update, if that is known without waiting for a device."""
    found_inf = getattr(optimizer, "found_inf", None)
    return found_inf is not None and found_inf.device.type == "cpu" and bool(found_inf)
