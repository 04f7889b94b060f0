"""Records the steps of optimizers, with hooks before and after each."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch.optim import optimizer as optimizer_hooks

from barograph.capture.torch.by_hand import HandSteps
from barograph.capture.torch.compiling import hear
from barograph.capture.torch.entry_point import HookState, entry_point
from barograph.capture.torch.forward import ForwardRecorder
from barograph.capture.torch.interventions import Interventions, has_closure
from barograph.capture.torch.light import LightSteps
from barograph.capture.torch.light_step_recorder import LightStepRecorder, was_skipped
from barograph.capture.torch.optimizers import OptimizerBook
from barograph.capture.torch.phase import Phase
from barograph.capture.torch.recorders import Recorders
from barograph.capture.torch.step_bounds import StepBounds
from barograph.capture.torch.stepping import Stepping
from barograph.errors import TrainingStopped


class OptimizerListener:
    """Converts optimizer steps to recorded steps.

    Args:
        hooks: State shared by the hooks.
        optimizers: Optimizers of the script.
        phase: The current step and evaluation.
        stepping: Determines whose step is running.
        light: Collects steps with only numbers.
        light_steps: Ends such steps.
        recorders: Read tensors.
        forwards: Observes forward passes.
        bounds: Starts and ends steps.
        interventions: Withholds updates.
        by_hand: Detects steps without an optimizer, which end once an optimizer steps.

    Attributes:
        hooks: See above.
    """

    def __init__(
        self, hooks: HookState, optimizers: OptimizerBook, phase: Phase, stepping: Stepping, *, light: LightSteps,
        light_steps: LightStepRecorder, recorders: Recorders, forwards: ForwardRecorder, bounds: StepBounds,
        interventions: Interventions, by_hand: HandSteps,
    ) -> None:
        self.hooks = hooks
        self._session = hooks.session
        self._script = hooks.session.script
        self._optimizers = optimizers
        self._phase = phase
        self._allowance = phase.allowance
        self._stepping = stepping
        self._light = light
        self._light_steps = light_steps
        self._recorders = recorders
        self._forwards = forwards
        self._bounds = bounds
        self._interventions = interventions
        self._by_hand = by_hand
        self._time = hooks.session.progress.times.optimizer
        self._handles: list[Any] = []

    def start_observing(self) -> None:
        """Install the hooks."""
        self._handles = [
            optimizer_hooks.register_optimizer_step_pre_hook(self._step_begins),
            optimizer_hooks.register_optimizer_step_post_hook(self._step_ended),
        ]

    def stop_observing(self) -> None:
        """Remove the hooks."""
        for handle in self._handles:
            handle.remove()
        self._handles = []

    def optimizer_made(self, optimizer: Any) -> None:
        """Note an optimizer, and observe which model is called before its first step: it may be another training's."""
        self._optimizers.note_made(optimizer)
        if self._allowance.light and not self.hooks.place.busy:
            self._forwards.observe_next()

    @entry_point("counting a scheduler's step")
    def scheduler_stepped(self, scheduler: Any) -> None:
        """Count a step of a learning-rate scheduler."""
        self._recorders.facts.schedulers.stepped(scheduler)

    def step_of_another(self, optimizer: Any, make: Callable[[], Any]) -> Any:
        """Make and record a step of an optimizer that is not PyTorch's and calls no hooks.

        Args:
            optimizer: The optimizer, with `param_groups` and `state` as PyTorch's have.
            make: Makes the step.
        """
        if not self._handles:
            return make()  # another integration records it
        self._step_begins(optimizer, (), {})
        result = make()
        self._step_ended(optimizer, (), {})
        return result

    # Before the update

    def _step_begins(self, optimizer: Any, args: Any, kwargs: Any) -> tuple[tuple[Any, ...], dict[str, Any]] | None:
        if not torch.compiler.is_compiling():
            if self._light.is_of(optimizer):
                return None
            self._light.stop()
        changed: tuple[tuple[Any, ...], dict[str, Any]] | None = hear(self._begins, optimizer, args, kwargs)
        return changed

    def _begins(self, optimizer: Any, args: Any, kwargs: Any) -> tuple[tuple[Any, ...], dict[str, Any]] | None:
        if not self._stepping.begins(optimizer):
            return None
        if self._by_hand.watches:
            self._by_hand.stop()
        self._interventions.look(optimizer, args, kwargs)
        if not (self._allowance.light or self._script.explicit_steps):
            self._before_step(optimizer, args, kwargs)
            self._time.begins()
        return self._interventions.hide(optimizer, args, kwargs)

    @entry_point("reading gradients before a step")
    def _before_step(self, optimizer: Any, args: Any, kwargs: Any) -> None:
        if self._forwards.trains_unknown_model(optimizer):
            return
        buffer, parameters = self._phase.train, self._recorders.parameters
        self.hooks.place.forget_root()
        self._session.began()
        self._forwards.settle_names()
        entry = self._optimizers.entry(optimizer, refresh=self._allowance.mask != 0)
        self._bounds.begin(entry, optimizer)
        mask = self._allowance.for_step_of(entry.label)
        parameters.learning_rates(entry, optimizer, mask, buffer)
        if mask:
            if not has_closure(args, kwargs):
                parameters.gradients(entry, optimizer, mask, buffer)
                self._recorders.facts.parameters(entry, optimizer, mask)
            parameters.keep_weights(entry, mask)

    # After the update

    def _step_ended(self, optimizer: Any, args: Any, kwargs: Any) -> None:
        if not torch.compiler.is_compiling() and self._light.is_of(optimizer):
            self._light_steps.end_collected(optimizer)
            return
        hear(self._ended, optimizer, args, kwargs)

    def _ended(self, optimizer: Any, args: Any, kwargs: Any) -> None:
        if not self._stepping.ended(optimizer):
            return
        self._interventions.put_back(optimizer)
        if self._script.explicit_steps:
            return
        try:
            self._count(optimizer, args, kwargs)
            self._bounds.let_others_follow(optimizer)
            self._session.steering.raise_if_stopped()
        except TrainingStopped:
            # A script may catch the error and continue: the state of this step must not affect the next one.
            self._interventions.forget()
            raise

    def _count(self, optimizer: Any, args: Any, kwargs: Any) -> None:
        """Count a step, and record what is due for it."""
        if not self._allowance.light:
            self._time.ended()
            self._after_step(optimizer, args, kwargs)
        elif not self._light_steps.end(optimizer, withheld=self._interventions.withheld):
            self._end_light_step(optimizer)

    @entry_point("counting a step")
    def _end_light_step(self, optimizer: Any) -> None:
        """Publish a step with only numbers, of whatever optimizer."""
        if self._forwards.trains_unknown_model(optimizer):
            return
        self._session.began()
        self._forwards.settle_names()
        entry = self._optimizers.entry(optimizer, refresh=False)
        self._bounds.begin(entry, optimizer)
        self._recorders.parameters.learning_rates(entry, optimizer, 0, self._phase.train)
        self._recorders.facts.step_ended(entry, 0)
        self._bounds.end(entry, skipped=self._interventions.withheld or was_skipped(optimizer))

    @entry_point("reading weights after a step")
    def _after_step(self, optimizer: Any, args: Any, kwargs: Any) -> None:
        if self._forwards.trains_unknown_model(optimizer):
            return
        buffer, parameters, facts = self._phase.train, self._recorders.parameters, self._recorders.facts
        entry = self._optimizers.entry(optimizer, refresh=False)
        mask = self._allowance.whole_mask()
        try:
            if mask:
                if has_closure(args, kwargs):
                    parameters.gradients(entry, optimizer, mask, buffer)
                    facts.parameters(entry, optimizer, mask)
                parameters.weights(entry, optimizer, mask, buffer)
            facts.step_ended(entry, mask)
        finally:
            # A step with an unreadable value still counts.
            self._bounds.end(entry, skipped=self._interventions.withheld or was_skipped(optimizer))
