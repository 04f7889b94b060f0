"""The PyTorch integration, based on the official global hooks.

The order of one step: modules are called (outputs), `backward` starts from a tensor (the loss), gradients
may be clipped (gradients before), an optimizer steps (gradients, then weights). The step ends when
`optimizer.step` returns.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any, cast

import torch
from torch import nn
from torch.optim import optimizer as optimizer_hooks

from barograph.capture.allowance import Allowance
from barograph.capture.imports import after_import, forget
from barograph.capture.orders import NotDone
from barograph.capture.session import Session
from barograph.capture.steps import Steps
from barograph.capture.thread_clock import cpu_secs
from barograph.capture.torch.actions import TorchActions
from barograph.capture.torch.by_hand import HandSteps
from barograph.capture.torch.compiling import hear, mark_for_compiler
from barograph.capture.torch.data import DataRecorder
from barograph.capture.torch.entry_point import HOOKS_WARNING, Door, entry_point, in_backward, in_transform
from barograph.capture.torch.facts import FactRecorder
from barograph.capture.torch.feeding import Feeding
from barograph.capture.torch.forward import ForwardRecorder
from barograph.capture.torch.light import TOTAL, LightSteps
from barograph.capture.torch.loss_arguments import recorded_name
from barograph.capture.torch.losses import LossRecorder
from barograph.capture.torch.names import ModelNames
from barograph.capture.torch.optimizers import Entry, OptimizerBook, parameters_of, steps_loaded
from barograph.capture.torch.outputs import OutputRecorder
from barograph.capture.torch.parameters import ParameterRecorder
from barograph.capture.torch.phase import Phase
from barograph.capture.torch.read import Reader
from barograph.capture.torch.stepping import Stepping
from barograph.capture.torch.withholding import Withholding
from barograph.capture.torch.wrappers import Wrappers
from barograph.errors import TrainingStopped
from barograph.measures import native
from barograph.model.actions import ActionName
from barograph.model.key import Key, Kind
from barograph.model.selection import Selection
from barograph.model.step import Mode, is_of_later_training
from barograph.runs.state.control import Request

if TYPE_CHECKING:
    from barograph.capture.torch.recorder import TorchRecorder

_COMPILER = "torch._dynamo"
_CLIPPED_NORM = Key(Kind.SCALAR, "gradient_norm_before_clip")


class TorchIntegration:
    """Turns what a PyTorch script does into steps.

    Args:
        session: Who is told.
        only: Record the models and optimizers that `watch_model` and `watch_optimizer` name, and no others.
        explicit_steps: The script ends its steps itself, with `end_explicit_step`.

    Attributes:
        stepping: Knows whose step is being made.
    """

    def __init__(self, session: Session, *, only: bool = False, explicit_steps: bool = False) -> None:
        self.session = session
        self.door = Door(session)
        self.names = ModelNames()
        self.optimizers = OptimizerBook(self.names)
        self.optimizers.label_of_first = session.counts.label_of_first_training
        self.explicit_steps = explicit_steps
        self._only = only
        self._allowance = Allowance(session)
        self._phase = Phase(session, self.names, self._allowance)
        reader = Reader()
        self._outputs = OutputRecorder(session, self.names, reader)
        self._parameters = ParameterRecorder(session, self.names, self.optimizers, reader)
        self._losses = LossRecorder(session, self._phase)
        self._facts = FactRecorder(session, self.names, self.optimizers, self._phase)
        self._data = DataRecorder(session, self.names, reader)
        self._light = LightSteps(session, self._facts.miss_backward, self._phase.take_collected)
        session.collect_with(self._light)
        self._optimizer_handles: list[Any] = []
        self._place = self.door.place
        self.stepping = Stepping()
        self._withholding = Withholding()
        self._hands = TorchActions(session, self.optimizers, self._withholding)
        self._recorder = self._begin_recorder()
        self.feeding = Feeding(self.door, self.names, self.optimizers, self._data.loaders, self._recorder)
        self._forwards = ForwardRecorder(
            self.door, self.names, self.optimizers, self._phase, only=only, outputs=self._outputs, losses=self._losses,
            facts=self._facts, data=self._data, feeding=self.feeding, recorder=self._recorder)
        self._by_hand = HandSteps(self.names, self.optimizers)
        self._forwards.before_pass = self._look_for_hand_step
        self._wrappers = Wrappers(self, self.feeding)
        self._times = session.progress.times
        self._refused = False
        self._withheld = False
        self._filter: Any = None
        session.before_close(self._take_last_hand_step)
        session.before_close(self._flush)

    def _begin_recorder(self) -> TorchRecorder | None:
        settings = self.session.settings.recorder
        if settings is None:
            self.session.steering.lend_hand(ActionName.CAPSULE, _no_recorder, always=True)
            return None
        # Here alone: what it writes with would be loaded by every training.
        from barograph.capture.torch.recorder import TorchRecorder

        return TorchRecorder(self.door, self.names, self.optimizers, settings)

    # Coming and going

    def install(self, *, torch_is_new: bool = False) -> None:
        """Put in the global hooks and the wrappers.

        Args:
            torch_is_new: It has just been imported, so the script has made nothing with it yet.
        """
        warnings.filterwarnings("ignore", message=HOOKS_WARNING)
        self._filter = warnings.filters[0]
        after_import(_COMPILER, mark_for_compiler)
        if not torch_is_new:
            self.optimizers.find_made()
        self.optimizers.hears = True
        self.take_part()
        self._wrappers.install()
        if not native.available():
            self.session.guard.note("The native statistics code is missing (no C compiler when Barograph was "
                                    "installed). The slower Python code is used.")

    def remove(self) -> None:
        """Take out every hook and wrapper; nothing of Barograph is left in torch."""
        self.stand_aside()
        forget(mark_for_compiler)
        self.optimizers.hears = False
        self._wrappers.undo()
        if self.feeding.checkpointer is not None:
            self.feeding.checkpointer.close()
        if self._filter is not None and self._filter in warnings.filters:
            cast("list[Any]", warnings.filters).remove(self._filter)

    def stand_aside(self) -> None:
        """Hear nothing of what goes on until `take_part`: another integration records it."""
        self._light.stop()
        self._forwards.stand_aside()
        for handle in self._optimizer_handles:
            handle.remove()
        self._optimizer_handles = []
        self._wrappers.tell(None)

    def take_part(self) -> None:
        """Listen, or listen again after `stand_aside`."""
        self._optimizer_handles = [
            optimizer_hooks.register_optimizer_step_pre_hook(self._step_begins),
            optimizer_hooks.register_optimizer_step_post_hook(self._step_ended),
        ]
        self._forwards.take_part()
        self._wrappers.tell(self)

    def watch_model(self, model: nn.Module, label: str = "") -> None:
        """Name a model that the user hands over."""
        known = self.names.module(model)
        if known is None or known.path:
            self.names.add_root(model, label)
        elif label:
            known.root.label = label

    def ask_for(self, selections: Iterable[Selection]) -> None:
        """Record more from now on."""
        self.session.plan.add(selections)
        self._outputs.plan_changed()
        self._losses.plan_changed()
        self._facts.plan_changed()
        self._data.plan_changed()

    def watch_optimizer(self, optimizer: torch.optim.Optimizer, label: str = "") -> None:
        """Name an optimizer that the user hands over."""
        self.optimizers.label(optimizer, label)

    # Losses, clipping, scaling: called by the wrappers

    def optimizer_made(self, optimizer: Any) -> None:
        """Note an optimizer, and hear which model is called before its first step: it may be another training's."""
        self.optimizers.note_made(optimizer)
        if self._allowance.light and not self._place.busy:
            self._forwards.hear_next()

    def backward_begins(self, tensors: Any) -> None:
        """Record the tensors that a backward pass starts from."""
        self._look_for_hand_step(tensors)
        if self.feeding.checkpointer is not None:
            self.feeding.checkpointer.backward_begins(tensors)
        if self._recorder is not None:
            self._recorder.backward_begins(tensors)
        if not (self._allowance.light and self._takes_root(tensors)):
            self._read_roots(tensors)
            self._times.backward.begins()

    def backward_ended(self) -> None:
        """Note that a backward pass has ended."""
        if not self._allowance.light:
            self._times.backward.ended()
        if self._by_hand.watches and not self.explicit_steps:
            self._expect_hand_step()

    def _takes_root(self, loss: Any) -> bool:
        """Record the loss of a step of which nothing but numbers is taken; False: it must be looked at in full."""
        light = self._light
        if light.left:
            if (
                type(loss) is torch.Tensor and loss.is_cpu and loss.numel() == 1 and loss.is_floating_point()
                and not (self._place.busy or in_backward() or in_transform()) and light.take_loss(TOTAL, loss.item())
            ):
                return True
            light.stop()
        begin, phase, session = cpu_secs(), self._phase, self.session
        try:
            if (
                not self._losses.is_number(loss) or self._place.busy or session.closed or self._forwards.wary
                or phase.evaluates or phase.is_provisional or in_backward() or in_transform()
            ):
                return False
            number = loss.item()
            if not math.isfinite(number):
                # What made it so is to be seen.
                self._allowance.wake()
                return False
            self._losses.take_number(TOTAL, number)
            phase.light_backward()
            self._facts.miss_backward()
        except Exception as error:  # noqa: BLE001 - the guard is where all errors of ours end
            session.guard.caught(error, "reading the loss")
        session.price.charge(cpu_secs() - begin)
        return True

    @entry_point("reading the loss")
    def _read_roots(self, tensors: Any) -> None:
        self._light.stop()
        if in_backward():
            return
        self._facts.gradients_before_backward()
        if self._forwards.wary and not self._forwards.seen:
            self._forwards.beware()
            return  # of a model that was not handed over
        self._forwards.seen = False
        self._place.root = None
        self.session.began()
        self._phase.backward_begins()
        self._losses.roots(tensors)
        self._allowance.for_forward()
        self._facts.backward(tensors, self._allowance.whole_mask(), failed=self._allowance.alarmed)
        if self._by_hand.watches and not (self._only or self.explicit_steps):
            self._by_hand.backward_begins(tensors)

    def loss_returned(self, name: str, loss: Any, args: Any, kwargs: Any) -> None:
        """Record what a loss function of torch returned; in evaluation always, since that is rare."""
        self._look_for_hand_step()
        if self._recorder is not None:
            self._recorder.loss_returned(name, args, kwargs)
        self._read_loss(name, loss, args, kwargs)

    def takes_loss(self, name: str, loss: Any, args: Any, kwargs: Any) -> bool:
        """Record what a loss function returned in a step of which only numbers are taken; False: it has to be read."""
        name = recorded_name(name, args, kwargs)
        light = self._light
        if light.left and type(loss) is torch.Tensor and loss.requires_grad:
            if (
                loss.is_cpu and loss.numel() == 1 and loss.is_floating_point()
                and not (self._place.busy or in_backward() or in_transform()) and light.take_loss(name, loss.item())
            ):
                return True
            light.stop()
        if not (self._allowance.light and self._losses.is_number(loss) and loss.requires_grad) or (
                self._recorder is not None or self._place.busy or self.session.closed or self._forwards.wary
                or in_backward() or in_transform() or not self._phase.surely_trains):
            return False
        begin = cpu_secs()
        self._losses.take_number(name, loss.item())
        self.session.price.charge(cpu_secs() - begin)
        return True

    @entry_point("reading a loss function's result")
    def _read_loss(self, name: str, loss: Any, args: Any, kwargs: Any) -> None:
        self._light.stop()
        if in_backward() or not isinstance(loss, torch.Tensor) or not loss.is_floating_point() or in_transform():
            return
        if loss.is_meta:
            return  # it has no value
        if self._forwards.wary and not self._forwards.seen:
            return
        mode = self._phase.of_loss(loss, forward_seen=self._forwards.heard)
        if mode is not Mode.TRAIN:
            self._facts.evaluated(mode)
            if not self._forwards.heard:
                self._phase.evaluation_calls(None, self._data.loaders.take_evaluated())
            self._phase.told_loss(mode)
        buffer = self._phase.buffer_of(mode)
        # A sum over samples or tokens is no mean, and nothing that knows the level of a mean is to take it for one.
        self._losses.add(recorded_name(name, args, kwargs), loss, buffer)
        mask = self._allowance.for_forward() if mode is Mode.TRAIN else self._phase.evaluation_mask_for(mode)
        if mask:
            self._data.handed(name, args, kwargs, mask, buffer, training=mode is Mode.TRAIN)

    @entry_point("reading the arguments of a loss function that raised")
    def loss_raised(self, name: str, args: Any, kwargs: Any) -> None:
        """Record the labels that a loss function refused: the step may never end, and they may be why."""
        self._light.stop()
        mask = self._allowance.for_forward()
        if mask and torch.is_grad_enabled() and not in_transform():
            self._refused |= self._data.refused(name, args, kwargs, mask, self._phase.train)

    def mode_set(self, training: bool) -> None:
        """Hear of the evaluation that may begin, where something is asked of it."""
        self._light.stop()
        self._forwards.mode_set(training)

    def gradients_turned_off(self) -> None:
        """Likewise."""
        if not self.stepping.running:
            self._forwards.gradients_turned_off()

    def steps_begin(self, steps: Steps) -> Iterator[int]:
        """Return what counts the steps of a loop."""
        begun: Iterator[int] = self.feeding.steps_begin(steps)
        return begun

    def loss_scaled(self, outputs: Any, scaled: Any) -> None:
        """Remember what a scaled loss was before."""
        self._losses.scaled(outputs, scaled)

    def before_clip(self, parameters: Any, *, by_value: bool) -> None:
        """Record gradients as they are before the script clips them, and let the recorder look at them."""
        if self._recorder is not None:
            self._look_before_clip(parameters, by_value)
        if self._parameters.asks_for_gradients(self._allowance.whole_mask()):
            self._read_before_clip(parameters)

    @entry_point("checking gradients before clipping")
    def _look_before_clip(self, parameters: Any, by_value: bool) -> None:
        self._forwards.settle_names()
        if self._recorder is not None:
            self._recorder.before_clip(parameters, by_value=by_value)

    @entry_point("reading gradients before clipping")
    def _read_before_clip(self, parameters: Any) -> None:
        self._forwards.settle_names()
        self._parameters.before_clip({id(item) for item in parameters}, self._allowance.whole_mask(), self._phase.train)

    def after_clip(self, total_norm: Any) -> None:
        """Record the norm that clipping measured, where that makes nobody wait for a device."""
        if self._light.left and type(total_norm) is torch.Tensor and total_norm.is_cpu and not self._place.busy:
            self._light.take_number(_CLIPPED_NORM, total_norm.item())
        else:
            self._read_norm(total_norm)

    @entry_point("reading the clipped norm")
    def _read_norm(self, total_norm: Any) -> None:
        if isinstance(total_norm, torch.Tensor) and total_norm.device.type == "cpu":
            self._phase.train.scalars[_CLIPPED_NORM] = float(total_norm)

    def scaler_step_begins(self, scaler: Any, optimizer: Any) -> None:
        """Note that the optimizer steps through a gradient scaler."""
        self._light.stop()
        self._facts.scaler = scaler
        self.stepping.scaler_begins(self.stepping.behind(optimizer))

    def scaler_step_ended(self, scaler: Any, optimizer: Any) -> None:
        """Record a step that the scaler skipped: no hook of the optimizer fired."""
        optimizer = self.stepping.behind(optimizer)
        if self.stepping.scaler_skipped(optimizer) and scaler.is_enabled() and not self.explicit_steps:
            if self._recorder is not None:
                self._look_at_skipped(scaler, optimizer)
            self._scaler_skipped(optimizer)
            if self._recorder is not None:
                self._recorder.step_ended(optimizer)
            self.session.steering.raise_if_stopped()

    @entry_point("checking a skipped step")
    def _look_at_skipped(self, scaler: Any, optimizer: Any) -> None:
        if self._recorder is not None and not self._is_strange(optimizer):
            self._forwards.settle_names()
            self._recorder.scaler_skipped(self.optimizers.entry(optimizer), scaler, self._facts.schedulers)

    @entry_point("recording a skipped step")
    def _scaler_skipped(self, optimizer: Any) -> None:
        if not self._is_strange(optimizer):
            self._forwards.settle_names()
            # Its gradients are not judged and its weights have not moved: what was due is due at the next step.
            self._facts.step_ended(self.optimizers.entry(optimizer), 0, skipped=True)
            self._end(self.optimizers.entry(optimizer), skipped=True, took=False)

    @entry_point("counting a scheduler's step")
    def scheduler_stepped(self, scheduler: Any) -> None:
        """Count a step of a learning-rate scheduler."""
        self._facts.schedulers.stepped(scheduler)

    # The step

    def step_of_another(self, optimizer: Any, make: Callable[[], Any]) -> Any:
        """Make a step of an optimizer that is none of torch's and calls no hooks, and have it recorded.

        Args:
            optimizer: It; it shows `param_groups` and `state` as torch's do.
            make: Makes the step.
        """
        if not self._optimizer_handles:
            return make()  # another records it
        self._step_begins(optimizer, (), {})
        result = make()
        self._step_ended(optimizer, (), {})
        return result

    def _step_begins(self, optimizer: Any, args: Any, kwargs: Any) -> tuple[tuple[Any, ...], dict[str, Any]] | None:
        if not torch.compiler.is_compiling():
            if self._light.is_of(optimizer):
                return None
            self._light.stop()
        changed: tuple[tuple[Any, ...], dict[str, Any]] | None = hear(self._begins, optimizer, args, kwargs)
        return changed

    def _begins(self, optimizer: Any, args: Any, kwargs: Any) -> tuple[tuple[Any, ...], dict[str, Any]] | None:
        if not self.stepping.begins(optimizer):
            return None
        if self._by_hand.watches:
            self._by_hand.stop()
        if self._hands.withholds:
            self._allowance.wake()
        if self._recorder is not None and not self.explicit_steps:
            self._look_before(optimizer, args, kwargs)
        if not (self._allowance.light or self.explicit_steps):
            self._before_step(optimizer, args, kwargs)
            self._times.optimizer.begins()
        if self._hands.withholds:
            self._withhold(optimizer, args, kwargs)
        if self._recorder is None:
            return None
        if self._recorder.take_held():
            # Only now: what was recorded of the step before is what it held.
            self._withholding.hide(optimizer)
        return self._recorder.around_closure(args, kwargs)

    @entry_point("checking a step before its update")
    def _look_before(self, optimizer: Any, args: Any, kwargs: Any) -> None:
        if self._recorder is None or self._is_strange(optimizer):
            return
        self.session.began()
        self._forwards.settle_names()
        self._recorder.before_update(
            self.optimizers.entry(optimizer), optimizer, closure=_has_closure(args, kwargs), scaler=self._facts.scaler,
            schedulers=self._facts.schedulers)
        if self._recorder.holds:
            # It is told of, whatever the budget had in mind.
            self._allowance.wake()

    @entry_point("withholding an update")
    def _withhold(self, optimizer: Any, args: Any, kwargs: Any) -> None:
        if not self._is_strange(optimizer):
            self._hands.before_update(optimizer, closure=_has_closure(args, kwargs))

    @entry_point("reading gradients before a step")
    def _before_step(self, optimizer: Any, args: Any, kwargs: Any) -> None:
        if self._is_strange(optimizer):
            return
        phase = self._phase
        self._place.root = None
        self.session.began()
        self._forwards.settle_names()
        entry = self.optimizers.entry(optimizer, refresh=self._allowance.mask != 0)
        if entry.label not in self.session.counts.by_optimizer:
            self.session.counts.start_at(entry.label, steps_loaded(optimizer))
        # Only now: an evaluation before the first step belongs to the steps that a checkpoint brought.
        self._phase.end_evaluation()
        self._meet(entry)
        mask = self._allowance.for_step_of(entry.label)
        self._parameters.learning_rates(entry, optimizer, mask, phase.train)
        if mask:
            if not _has_closure(args, kwargs):
                self._parameters.gradients(entry, optimizer, mask, phase.train)
                self._facts.parameters(entry, optimizer, mask)
            self._parameters.keep_weights(entry, mask)

    def _meet(self, entry: Entry) -> None:
        """Note the first step of an optimizer: where one comes later, another training may have begun."""
        if not entry.is_new:
            return
        entry.is_new = False
        if self.session.counts.of_busiest > 0:
            if not entry.shares:
                self._data.begin_anew()
                self._facts.begin_anew()
                self.session.counts.begin_training(entry.label if is_of_later_training(entry.label) else "")
            self.session.choice.look_closely(entry.label)

    def _step_ended(self, optimizer: Any, args: Any, kwargs: Any) -> None:
        if not torch.compiler.is_compiling() and self._light.is_of(optimizer):
            self._collected(optimizer)
            return
        hear(self._ended, optimizer, args, kwargs)

    def _ended(self, optimizer: Any, args: Any, kwargs: Any) -> None:
        if not self.stepping.ended(optimizer):
            return
        self._withheld = False
        if self._withholding.hides:
            self._give_back(optimizer)
        if self._recorder is not None:
            self._undo_closure()
        if self.explicit_steps:
            return
        try:
            self._count(optimizer, args, kwargs)
            if self._recorder is not None:
                self._recorder.step_ended(optimizer)
            if self.feeding.checkpointer is not None:
                self.feeding.checkpointer.step_ended()
            self.session.steering.raise_if_stopped()
        except TrainingStopped:
            # A script may catch it and train on: what was kept of this step is none of the next one's.
            if self._recorder is not None:
                self._recorder.forget()
            raise

    def _count(self, optimizer: Any, args: Any, kwargs: Any) -> None:
        """Count a step, and record what is asked for of it."""
        if not self._allowance.light:
            self._times.optimizer.ended()
            self._after_step(optimizer, args, kwargs)
        elif not self._takes_step(optimizer):
            self._end_light_step(optimizer)

    def _collected(self, optimizer: Any) -> None:
        """End a step of a batch of those of which only numbers are taken."""
        steering, light = self.session.steering, self._light
        try:
            goes_on = light.end_step(optimizer)
            if goes_on and steering.waits:
                light.stop()
                goes_on = False
            if not goes_on and (entry := self.optimizers.known(optimizer)) is not None:
                self._go_on_after(entry, optimizer)
        except Exception as error:  # noqa: BLE001 - the guard is where all errors of ours end
            self.session.guard.caught(error, "counting a step")
        if steering.waits:
            steering.raise_if_stopped()

    def _go_on_after(self, entry: Entry, optimizer: Any) -> None:
        """Choose what is taken of the step after one of which only numbers were taken."""
        next_label = self.optimizers.note_step(entry)
        self._allowance.prepare(next_label)
        if not self._allowance.light:
            self._facts.looks_next(entry)
            self._forwards.prepare(self._allowance.mask or 0)
            return
        if self._forwards.heard:
            self._forwards.prepare(0)
        if (
            next_label == entry.label and self._recorder is None and self.feeding.checkpointer is None
            and not (self.explicit_steps or self._forwards.wary or self._forwards.heard or self._hands.withholds
                     or self.stepping.are_nested or self.session.steering.waits)
            and self._facts.scaler is None and self._phase.surely_trains
            and self._parameters.plain_rates(entry, optimizer) is not None
        ):
            self._light.begin(entry, optimizer, self.session.choice.steps_until_round(entry.label),
                              rates_wanted=self._parameters.rates_wanted)

    def _takes_step(self, optimizer: Any) -> bool:
        """Publish a step of which only numbers were taken; False: there is more to it."""
        begin, session, phase = cpu_secs(), self.session, self._phase
        try:
            entry = self.optimizers.known(optimizer)
            if (
                entry is None or entry.is_new or self._withheld or phase.evaluates or not phase.train.holds_losses_alone
                or self._place.busy or session.closed or not session.declared or _was_skipped(optimizer)
            ):
                return False
            rates = self._parameters.plain_rates(entry, optimizer)
            if rates is None:
                return False
            session.end_light_step(entry.label, phase.train.losses, rates)
            phase.forget_light_step()
            self._go_on_after(entry, optimizer)
        except Exception as error:  # noqa: BLE001 - the guard is where all errors of ours end
            session.guard.caught(error, "counting a step")
        session.price.charge(cpu_secs() - begin)
        return True

    @entry_point("restoring weights")
    def _undo_closure(self) -> None:
        if self._recorder is not None and self._recorder.undo_closure():
            self._withheld = True
            self._allowance.wake()

    @entry_point("restoring gradients")
    def _give_back(self, optimizer: Any) -> None:
        self._withheld = self._withholding.give_back(optimizer)

    @entry_point("counting a step")
    def _end_light_step(self, optimizer: Any) -> None:
        """Publish a step of which only numbers were taken, whoever's it is, and whatever went on beside it."""
        if self._is_strange(optimizer):
            return
        self.session.began()
        self._forwards.settle_names()
        entry = self.optimizers.entry(optimizer, refresh=False)
        if entry.label not in self.session.counts.by_optimizer:
            self.session.counts.start_at(entry.label, steps_loaded(optimizer))
        self._phase.end_evaluation()
        self._meet(entry)
        self._parameters.learning_rates(entry, optimizer, 0, self._phase.train)
        self._facts.step_ended(entry, 0)
        self._end(entry, skipped=self._withheld or _was_skipped(optimizer))

    @entry_point("reading weights after a step")
    def _after_step(self, optimizer: Any, args: Any, kwargs: Any) -> None:
        if self._is_strange(optimizer):
            return
        phase = self._phase
        entry = self.optimizers.entry(optimizer, refresh=False)
        mask = self._allowance.whole_mask()
        try:
            if mask:
                if _has_closure(args, kwargs):
                    self._parameters.gradients(entry, optimizer, mask, phase.train)
                    self._facts.parameters(entry, optimizer, mask)
                self._parameters.weights(entry, optimizer, mask, phase.train)
            self._facts.step_ended(entry, mask)
        finally:
            # A step of which something could not be read is a step all the same.
            self._end(entry, skipped=self._withheld or _was_skipped(optimizer))

    @entry_point("ending a step")
    def end_explicit_step(self, loss: Any = None) -> None:
        """End a step where the script says so.

        Args:
            loss: The step's loss, a number or a tensor of one element.
        """
        self._light.stop()
        phase = self._phase
        self.session.began()
        self._phase.end_evaluation()
        self._forwards.settle_names()
        if loss is not None and not phase.train.losses.get(TOTAL):
            tensor = loss if isinstance(loss, torch.Tensor) else torch.tensor(float(loss), dtype=torch.float64)
            self._losses.add(TOTAL, tensor, phase.train)
        self.session.counts.start_at("", 0)
        self._allowance.for_forward()
        self._parameters.models(self._allowance.whole_mask(), phase.train)
        self._publish("", "", skipped=False)

    def _end(self, entry: Entry, *, skipped: bool, took: bool = True) -> None:
        self._publish(entry.label, self.optimizers.note_step(entry), skipped=skipped, took=took)

    def _publish(self, label: str, next_label: str, *, skipped: bool, took: bool = True) -> None:
        mask = self._allowance.close_step()
        self._data.end_step(mask if took else 0, self._phase.train)
        buffer, self._refused = self._phase.take_step(), False
        self._parameters.forget_step()
        self._outputs.forget_step()
        self.session.end_step(buffer, optimizer=label, mask=mask if took else 0, skipped=skipped)
        self._prepare(next_label)

    def _prepare(self, next_label: str) -> None:
        self._allowance.prepare(next_label)
        self._forwards.prepare(self._allowance.mask or 0)

    @entry_point("changing the mode")
    def mode_changes(self, mode: Mode | None) -> None:
        """End the evaluation that goes on, and listen for the one that the script begins."""
        self._light.stop()
        self._phase.end_evaluation()
        if mode is not None and mode is not Mode.TRAIN and not self._forwards.heard:
            self._forwards.hear_evaluation(mode)

    # A step that the script makes by hand

    @entry_point("waiting for a step without an optimizer")
    def _expect_hand_step(self) -> None:
        if in_backward():
            return
        self._forwards.settle_names()
        if not self._by_hand.backward_ended() or self._allowance.light:
            return
        optimizer = self._by_hand.optimizer
        entry = self.optimizers.entry(optimizer)
        mask = self._allowance.for_step_of(entry.label)
        self._facts.parameters(entry, optimizer, mask)
        self._parameters.keep_weights(entry, mask)
        if self._parameters.asks_for_gradients(mask):
            self._by_hand.keep_gradients(entry.slots)

    def _look_for_hand_step(self, tensors: Any = None) -> None:
        """Record the step that the script has made by hand since the last backward pass, if it has."""
        if self._by_hand.waits and not (self._place.busy or in_backward()) and (
                self._by_hand.moved() or (tensors is not None and self._by_hand.replaced(tensors))):
            self._take_hand_step()
            self.session.steering.raise_if_stopped()

    def _take_last_hand_step(self) -> None:
        if self._by_hand.waits and (self._by_hand.moved() or self._by_hand.replaces):
            self._take_hand_step()
        backwards = self._phase.backwards
        if backwards and not any(self.session.counts.by_optimizer.values()):
            times = "once" if backwards == 1 else f"{backwards:,} times"
            self.session.seen.reasons["no step"] = (
                f"no training step was recorded: backward() ran {times}, but no optimizer stepped and no weight "
                "changed. Mark the end of each step: attach(explicit_steps=True), then run.step(loss)")

    def _take_hand_step(self) -> None:
        optimizer = self._by_hand.optimizer
        self._record_hand_step(optimizer)
        self._by_hand.took()
        if self._recorder is not None:
            self.session.seen.reasons["recorder by hand"] = (
                "the flight recorder: the script updates its weights without an optimizer, so no update can be "
                "withheld")
            self._recorder.step_ended(optimizer)
        if self.feeding.checkpointer is not None:
            self.feeding.checkpointer.step_ended()

    @entry_point("recording a step without an optimizer")
    def _record_hand_step(self, optimizer: Any) -> None:
        entry = self.optimizers.entry(optimizer, refresh=False)
        self.session.counts.start_at(entry.label, 0)
        self._phase.end_evaluation()
        self._meet(entry)
        mask = self._allowance.whole_mask()
        try:
            if mask:
                self._parameters.kept_gradients(entry, self._by_hand.gradient, mask, self._phase.train)
                if self._by_hand.becomes_what_is_now():
                    entry = self.optimizers.entry(optimizer)
                    self._parameters.weights(entry, optimizer, mask, self._phase.train)
            self._facts.step_ended(entry, mask)
        finally:
            self._end(entry, skipped=False)

    # Small things

    def _is_strange(self, optimizer: Any) -> bool:
        """Return whether an optimizer trains nothing that was handed over, where only that is recorded."""
        if not self._only or any(self.names.parameter(item) is not None for item in parameters_of(optimizer)):
            return False
        if not self._forwards.wary:
            # Nobody listened to whose the losses of this step are.
            self._phase.train.losses.clear()
        self._forwards.beware()
        return True

    @entry_point("saving a tensor")
    def save(self, name: str, tensor: Any) -> None:
        """Record a tensor of the script's own, whole, with the step that is under way."""
        self._light.stop()
        self._allowance.wake()
        self.session.began()
        self._parameters.save(name, tensor, self._phase.train)

    @entry_point("saving predictions")
    def save_predictions(self, targets: Any, predictions: Any, name: str) -> None:
        """Count labels and answers that the script names, with the step or the evaluation that is under way."""
        self._light.stop()
        self.session.began()
        mode = self._phase.of_predictions()
        if mode is Mode.TRAIN:
            self._allowance.wake()
        else:
            self._phase.evaluation_mask_for(mode)
        self._data.named(name, targets, predictions, self._phase.buffer_of(mode))

    @entry_point("publishing pending records")
    def _flush(self) -> None:
        self._light.stop()
        self._phase.end_evaluation()
        if self._phase.train.tensors or self._refused:
            self.session.end_evaluation(self._phase.train, Mode.TRAIN)


def _has_closure(args: Any, kwargs: Any) -> bool:
    # args[0] is the optimizer itself: torch hands over the arguments of the unbound `step`.
    return kwargs.get("closure") is not None or (len(args) > 1 and callable(args[1]))


def _was_skipped(optimizer: Any) -> bool:
    """Return whether a fused optimizer withheld the update, as far as that is known without waiting for a device."""
    found_inf = getattr(optimizer, "found_inf", None)
    return found_inf is not None and found_inf.device.type == "cpu" and bool(found_inf)


def _no_recorder(request: Request) -> str:
    raise NotDone("the flight recorder is off; start the training with --record")
