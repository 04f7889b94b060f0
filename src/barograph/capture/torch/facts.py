"""Records facts about the loop, the parameters and the loss, beside tensor statistics.

Facts are checked in the steps whose mask requests them. Two that cost next to nothing, whether gradients were reset and
how many backward passes there were, are also checked in steps with only numbers, and recorded there if they have
changed.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import Any

import torch

from barograph.capture.buffer import StepBuffer
from barograph.capture.session import Session
from barograph.capture.torch.bad_operation import averages_nothing, bad_operations, steep_operations
from barograph.capture.torch.device import fetch_number_later
from barograph.capture.torch.graph import roots_of
from barograph.capture.torch.loss_graph import facts_of_loss
from barograph.capture.torch.modes import ModeFacts
from barograph.capture.torch.names import ModelNames, Root
from barograph.capture.torch.optimizer_entry import Entry, Slot
from barograph.capture.torch.optimizers import OptimizerBook
from barograph.capture.torch.parameter_facts import BOOK, GROUPS, ParameterFacts, Put
from barograph.capture.torch.phase import Phase
from barograph.capture.torch.resets import GradientResets
from barograph.capture.torch.schedulers import SchedulerBook
from barograph.model.facts import Fact, fact
from barograph.model.key import Key
from barograph.model.step import Mode

_MODES = frozenset({Fact.LAYERS_IN_EVAL, Fact.MODEL_IN_EVAL})
_LOSS = frozenset({Fact.SOFTMAX_TWICE, Fact.SOFTMAX_AXIS, Fact.BROADCAST})
_SCHEDULERS = frozenset({Fact.SCHEDULER_STEPS, Fact.SCHEDULER_HORIZON})
_KEPT, _BACKWARDS = fact(Fact.GRADIENTS_KEPT), fact(Fact.BACKWARDS)
_FAILURES = 3
"""Number of non-finite losses whose graph is searched; after that the cause is known or will not be found."""

_OFTEN = 16
"""Number of times that disabling gradients triggers observation of forward passes, before only powers of two do."""

_STEEP_NODES = 128
_STEEP_SECS = 0.0005


class FactRecorder:
    """Records the facts that the plan requests.

    Attributes:
        schedulers: Schedulers that have stepped.
        scaler: Gradient scaler of the current step.
    """

    def __init__(self, session: Session, names: ModelNames, optimizers: OptimizerBook, phase: Phase) -> None:
        self._session = session
        self._names = names
        self._phase = phase
        self._resets = GradientResets()
        self._modes = ModeFacts()
        self._parameters = ParameterFacts(session, names, optimizers)
        self.schedulers = SchedulerBook()
        self.scaler: Any = None
        self._recorded_kept: dict[str, float] = {}
        self._recorded_backwards: dict[str, float] = {}
        self._failures = 0
        self._without_gradients = 0
        self._steep: dict[str, torch.Tensor] = {}
        phase.before_evaluation_ends.append(self._end_evaluation)
        self.plan_changed()

    def scaled_by(self, scaler: Any) -> None:
        """Note the gradient scaler that the step under way goes through."""
        self.scaler = scaler

    def plan_changed(self) -> None:
        """Check the plan again."""
        self._asked_by_mask: dict[int, frozenset[Fact]] = {0: frozenset()}
        self._keys: dict[tuple[int, Fact, str | int], Key | None] = {}
        self._ever = self._asked(self._session.plan.everything())
        self._kept_ever = Fact.GRADIENTS_KEPT in self._ever
        self._backwards_ever = Fact.BACKWARDS in self._ever

    def _asked(self, mask: int) -> frozenset[Fact]:
        known = self._asked_by_mask.get(mask)
        if known is None:
            taking = self._session.plan.taking
            known = frozenset(item for item in Fact if taking(mask, fact(item)) or taking(mask, fact(item, "group0")))
            self._asked_by_mask[mask] = known
        return known

    def _put(self, mask: int, buffer: StepBuffer) -> Put:
        def put(name: Fact, about: str | int, value: float) -> bool:
            question = mask, name, about
            key = self._keys[question] if question in self._keys else self._key(question)
            if key is not None:
                buffer.scalars[key] = float(value)
            return key is not None

        return put

    def _key(self, question: tuple[int, Fact, str | int]) -> Key | None:
        mask, name, about = question
        key = fact(name, about)
        self._keys[question] = key if self._session.plan.taking(mask, key) is not None else None
        return self._keys[question]

    # Forward passes and evaluations

    def called(self, root: Root) -> None:
        """Note any call of a model."""
        self._parameters.called(root)

    def restart(self) -> None:
        """Note that another model is trained from now on."""
        self._parameters.restart()

    def forward(self, root: Root, mode: Mode, mask: int) -> None:
        """Note in which mode a model is called."""
        if mode is Mode.TRAIN:
            if self._asked(mask) & _MODES:
                self._modes.in_training(root)
        elif self._phase.is_provisional:
            self._modes.perhaps_in_training(root)
        elif self._asks_evaluations(mode):
            self._modes.in_evaluation(root)

    def _asks_evaluations(self, mode: Mode) -> bool:
        # Evaluations are rare, and this is cheap, so it does not wait for a step with recorded tensors.
        return Fact.LAYERS_IN_TRAIN in self._asked(self._session.plan.everything(mode))

    def wants_to_observe(self) -> bool:
        """Return whether to observe forward passes now that gradients are disabled, as in an evaluation.

        Observing costs a little in every layer, and gradients may be disabled at every step, so it becomes less and
        less frequent.
        """
        if not self._asks_evaluations(Mode.EVAL):
            return False
        self._without_gradients += 1
        return self._without_gradients <= _OFTEN or self._without_gradients & (self._without_gradients - 1) == 0

    def evaluated(self, mode: Mode) -> None:
        """Note a loss of an evaluation, whose forward pass may not have been observed."""
        if not self._asks_evaluations(mode) or self._phase.is_provisional or self._modes.evaluation_observed():
            return
        # Then the called model is unknown; if several are trained, none is reported.
        trained = [root for root in self._names.roots if root.trained and root.module() is not None]
        if len(trained) == 1:
            self._modes.in_evaluation(trained[0])

    def _end_evaluation(self, buffer: StepBuffer, mode: Mode) -> None:
        if self._modes.evaluation_observed():
            share = self._modes.end_evaluation(self._session.counts.of_busiest, with_losses=bool(buffer.losses))
            if share is not None:
                self._put(self._session.plan.everything(mode), buffer)(Fact.LAYERS_IN_TRAIN, "", share)

    # Backward passes

    def miss_backward(self, times: int = 1) -> None:
        """Count backward passes that are not inspected."""
        self._resets.missed += times

    def gradients_before_backward(self) -> None:
        """Check whether gradients were reset."""
        if self._kept_ever:
            self._resets.backward_begins()

    def backward(self, tensors: Any, mask: int, *, failed: bool) -> None:
        """Inspect the graph of a loss before the backward pass frees it.

        Args:
            tensors: Roots of the backward pass.
            mask: Mask of this step.
            failed: A loss of this step is non-finite.
        """
        asked = self._asked(mask)
        if not asked:
            self._parameters.backward_unwalked()
            return
        if asked & _MODES:
            self._modes.backward_begins(self._names.roots)
        roots = roots_of(tensors)
        if Fact.UNREACHED in asked:
            self._parameters.walk(roots)
        else:
            self._parameters.backward_unwalked()
        put = self._put(mask, self._phase.train)
        if asked & _LOSS:
            for root in roots:
                self._of_loss(facts_of_loss(root), put)
        if Fact.BAD_OPERATION in asked:
            self._look_for_bad_operation(roots, put, failed=failed)

    def _of_loss(self, found: Mapping[Fact, float], put: Put) -> None:
        """Record facts of a graph; of several losses in one step, the worst counts."""
        for name, value in found.items():
            put(name, "", max(value, self._phase.train.scalars.get(fact(name), 0.0)))

    def _look_for_bad_operation(self, roots: list[Any], put: Put, *, failed: bool) -> None:
        self._steep = {}
        if not failed:
            self._steep = steep_operations(roots, most_nodes=_STEEP_NODES, most_secs=_STEEP_SECS)
            put(Fact.BAD_OPERATION, "", 0)
        elif averages_nothing(roots):
            # Such a step may spoil nothing, and recur: record each, near the loss.
            self._blame({"mean": 1.0}, put)
        elif self._failures < _FAILURES:
            self._failures += 1
            self._blame(bad_operations(roots), put)

    def _blame(self, operations: Mapping[str, float], put: Put) -> None:
        for name, weight in operations.items():
            put(Fact.BAD_OPERATION, "", 1)
            put(Fact.BAD_OPERATION, name, weight)

    # The step

    def looks_next(self, entry: Entry) -> None:
        """Note that the next step of an optimizer is inspected, although this one was not."""
        if self._kept_ever:
            self._resets.step_ended(entry.label, entry.slots)

    def parameters(self, entry: Entry, optimizer: Any, mask: int) -> None:
        """Record facts about an optimizer's parameters, while their gradients are those of its step."""
        asked = self._asked(mask)
        if not asked:
            return
        put = self._put(mask, self._phase.train)
        if asked & BOOK:
            self._parameters.record(entry, asked, put)
        if asked & GROUPS:
            self._parameters.groups(entry, optimizer, put)
        if Fact.OPTIMIZERS_MADE in asked:
            put(Fact.OPTIMIZERS_MADE, "", entry.made)
        if Fact.DETERMINISTIC in asked:
            put(Fact.DETERMINISTIC, "", torch.are_deterministic_algorithms_enabled())
        if asked & _SCHEDULERS:
            self._of_schedulers(optimizer, put)
        if self._steep:
            self._confirm_bad_operation(entry.slots, mask)

    def _of_schedulers(self, optimizer: Any, put: Put) -> None:
        total, horizons = 0, []
        for name, steps, horizon in self.schedulers.of(optimizer):
            total += steps
            put(Fact.SCHEDULER_STEPS, name, steps)
            if horizon is not None:
                horizons.append(horizon)
                put(Fact.SCHEDULER_HORIZON, name, horizon)
        put(Fact.SCHEDULER_STEPS, "", total)
        if horizons:
            put(Fact.SCHEDULER_HORIZON, "", min(horizons))

    def _confirm_bad_operation(self, slots: tuple[Slot, ...], mask: int) -> None:
        """Record the operations with an infinite derivative if gradients are indeed non-finite.

        Not under a gradient scaler: its scale makes gradients infinite from time to time, and it handles that.
        """
        gradients = [gradient for slot in slots if (gradient := slot.parameter.grad) is not None]
        plain = all(type(item) is torch.Tensor and not item.is_sparse for item in gradients)
        if self.scaler is not None or not gradients or not plain:
            return
        steep, self._steep = self._steep, {}
        put = self._put(mask, self._phase.train)
        by_device: dict[torch.device, list[torch.Tensor]] = {}
        for gradient in gradients:
            by_device.setdefault(gradient.device, []).append(gradient)
        for device, there in by_device.items():
            # A sum of norms is non-finite if any element is; to overflow it takes gradients of 1e38.
            lost = ~torch.stack([norm.float() for norm in torch._foreach_norm(there)]).sum().isfinite()
            for name, flag in steep.items():
                if flag.device == device:
                    self._blame_later(name, lost & flag, put)

    def _blame_later(self, name: str, guilty: torch.Tensor, put: Put) -> None:
        def use(is_guilty: float) -> None:
            if is_guilty:
                self._blame({name: 1.0}, put)

        if guilty.device.type == "cpu":
            use(float(guilty))
        else:
            self._phase.train.defer(fetch_number_later(guilty, use))

    def step_ended(self, entry: Entry, mask: int, *, skipped: bool = False) -> None:
        """Record facts about the whole step."""
        if not self._ever:
            return
        label, scalars, asked = entry.label, self._phase.train.scalars, self._asked(mask)
        if self._kept_ever:
            kept = self._resets.step_ended(label, entry.slots)
            if kept is not None and (self._recorded_kept.get(label) != kept or Fact.GRADIENTS_KEPT in asked):
                scalars[_KEPT] = self._recorded_kept[label] = kept
        if self._backwards_ever:
            backwards = self._phase.backwards
            if self._recorded_backwards.get(label) != backwards or Fact.BACKWARDS in asked:
                scalars[_BACKWARDS] = self._recorded_backwards[label] = float(backwards)
        self._parameters.end_step()
        if asked or skipped:
            self._end_asked_step(entry, mask, asked, skipped=skipped)

    def _end_asked_step(self, entry: Entry, mask: int, asked: frozenset[Fact], *, skipped: bool) -> None:
        put = self._put(mask, self._phase.train)
        if asked & _MODES:
            for name, value in self._modes.end_step(entry).items():
                put(name, "", value)
        if Fact.LOSS_SCALE in asked or (skipped and Fact.LOSS_SCALE in self._ever):
            self._of_scale(self._session.plan.everything())
        self.scaler = None

    def _of_scale(self, mask: int) -> None:
        scale = getattr(self.scaler, "_scale", None)
        if scale is None or not self.scaler.is_enabled():
            return
        buffer = self._phase.train
        use = functools.partial(self._put(mask, buffer), Fact.LOSS_SCALE, "")
        if not isinstance(scale, torch.Tensor) or scale.device.type == "cpu":
            use(float(scale))
        else:
            buffer.defer(fetch_number_later(scale, use))
