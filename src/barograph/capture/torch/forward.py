"""Records forward passes: which model runs, in training or evaluation, with which inputs and outputs."""

from __future__ import annotations

import math
import sys
import weakref
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import torch
from torch import nn

from barograph.capture.thread_clock import cpu_secs
from barograph.capture.torch.data import DataRecorder
from barograph.capture.torch.entry_point import HookState, entry_point, in_backward, in_graph_capture, in_transform
from barograph.capture.torch.facts import FactRecorder
from barograph.capture.torch.feeding import Feeding
from barograph.capture.torch.losses import LossRecorder
from barograph.capture.torch.module_hooks import ModuleHooks
from barograph.capture.torch.names import ModelNames, Root, is_compiled
from barograph.capture.torch.optimizers import OptimizerBook, parameters_of
from barograph.capture.torch.outputs import OutputRecorder
from barograph.capture.torch.phase import Phase
from barograph.capture.torch.recomputation import gets_gradients
from barograph.model.step import Mode

if TYPE_CHECKING:
    from barograph.capture.torch.probe import TorchProbe
    from barograph.capture.torch.recorder import TorchRecorder

_STEPS_ALONE = 10
"""Number of steps after which a script that has only trained passed models is expected to continue like that."""


class ForwardRecorder:
    """Hooks into PyTorch modules while anything of them is requested.

    Args:
        hooks: State shared by the hooks.
        names: The models, which are discovered here.
        optimizers: Optimizers of the script.
        phase: Activity of the script.
        only: Record only models that the script passes.
        outputs, losses, facts, data: Record outputs, losses, facts and inputs.
        feeding: Knows whether checkpoints are saved.
        recorder: Keeps inputs of steps; None: off.
        probe: Stores outputs of a layer at evaluations.

    Attributes:
        hooks: See above.
        seen: A forward pass was observed since the last backward pass.
        observes_evaluation: It observes because of an evaluation.
        observes_always: It observes every step, since only a forward pass shows whose loss comes next: the script
            trains other models than the passed ones, or may do so.
    """

    def __init__(
        self,
        hooks: HookState,
        names: ModelNames,
        optimizers: OptimizerBook,
        phase: Phase,
        *,
        only: bool,
        outputs: OutputRecorder,
        losses: LossRecorder,
        facts: FactRecorder,
        data: DataRecorder,
        feeding: Feeding,
        recorder: TorchRecorder | None,
        probe: TorchProbe,
    ) -> None:
        self.hooks = hooks
        self._probe = probe
        self.seen = self.observes_evaluation = False
        self.observes_always = only
        self._session = hooks.session
        self._place = hooks.place
        self._names = names
        self._optimizers = optimizers
        self._phase = phase
        self._allowance = phase.allowance
        self._only = only
        self._outputs = outputs
        self._losses = losses
        self._facts = facts
        self._data = data
        self._feeding = feeding
        self._recorder = recorder
        self._looked_for: list[Root] = []
        self._hooks = ModuleHooks(self._forward_begins, self._forward_ended)
        self._is_aside = False
        self._has_unknown_models = False
        self._own_steps = 0
        self._before_pass: Callable[[], None] = lambda: None
        self._light_module: Callable[[], nn.Module | None] = lambda: None
        self._light_root: Root | None = None

    @property
    def observing(self) -> bool:
        """Whether forward passes are listened to."""
        return self._hooks.are_in

    def start_observing(self) -> None:
        """Listen, or listen again after `stop_observing`."""
        self._is_aside = False
        self._listen(True)

    def stop_observing(self) -> None:
        """Observe nothing until `start_observing`."""
        self._listen(False)
        self._is_aside = True

    def prepare(self, mask: int) -> None:
        """Observe the forward passes of the next step, if anything of them is recorded."""
        self.observes_evaluation = False
        self._hooks.all_again()  # also after an aborted pass
        if self.observes_always and not self._has_unknown_models:
            self._own_steps += 1
            self.observes_always = self._own_steps < _STEPS_ALONE or self._recorder is not None
        self._listen(self._outputs.asked(mask) or self._data.asked(mask) or self._outputs.always or self.observes_always
                     or self._recorder is not None)

    def observe_next(self) -> None:
        """Observe the next step, although only numbers are recorded: its model may be new."""
        self._listen(True)

    def observe_always(self) -> None:
        """Note that the script trains a model that was not passed: from now on each step is observed."""
        if not self.observes_always:
            # The models called in the current step are unknown, so the next loss is ignored.
            self.observes_always = self.seen = True
            self._listen(True)
        self._has_unknown_models = True

    def expects_backward(self) -> bool:
        """Return whether the backward pass that starts now belongs to a recorded model."""
        if self.observes_always and not self.seen:
            self.observe_always()
            return False
        self.seen = False
        return True

    def trains_unknown_model(self, optimizer: Any) -> bool:
        """Return whether an optimizer trains no passed model, if only those are recorded."""
        if not self._only or any(self._names.parameter(item) is not None for item in parameters_of(optimizer)):
            return False
        if not self.observes_always:
            # The model of this step's losses was not observed.
            self._phase.train.losses.clear()
        self.observe_always()
        return True

    def call_before_pass(self, action: Callable[[], None]) -> None:
        """Call `action` at the start of a model's forward pass, before anything of it is recorded."""
        self._before_pass = action

    def _listen(self, wanted: bool) -> None:
        """Install or remove the hooks: each costs some microseconds per module, even if it does nothing."""
        if wanted:
            self._session.publish_collected()
        if wanted and not self._is_aside:
            self._hooks.put_in()
        elif not wanted:
            self._hooks.take_out()
            self._place.forget_root()

    # An evaluation

    def mode_set(self, training: bool) -> None:
        """Observe the forward passes of the evaluation that starts, if it is recorded."""
        if not (training or self.observing or self._place.busy):
            self._await_evaluation(Mode.EVAL)

    @entry_point("starting an evaluation")
    def _await_evaluation(self, mode: Mode) -> None:
        self.observe_evaluation(mode)

    def observe_evaluation(self, mode: Mode) -> None:
        if self._data.asked_in_evaluations or self._probe.on:
            # Also if nothing of it is recorded now: only the passes show which data it uses.
            self._phase.evaluation_mask_for(mode)
            self.observes_evaluation = True
            self._listen(True)

    def gradients_turned_off(self) -> None:
        """Start observing, because an evaluation may follow."""
        if not (self.observing or self._place.busy) and (self._probe.on or self._facts.wants_to_observe()):
            self._observe()

    @entry_point("hooking into an evaluation")
    def _observe(self) -> None:
        if not in_backward():
            self._listen(True)

    # One pass

    def _forward_begins(self, module: nn.Module, args: Any) -> None:
        if torch.compiler.is_compiling():
            return
        place = self._place
        # A model within its own forward pass starts another: the one before raised, so no hook reported its end.
        if (place.root is None or place.root is module) and not place.busy:
            self._before_pass()
            if not (self._allowance.light and self._enters_lightly(module, args)):
                self._enter(module, args)
            if place.root is module:
                if place.mode is Mode.TRAIN:
                    self._session.progress.times.forward.begins()
                if self._asks_nothing_inside(module):
                    self._hooks.only(module)

    def _enters_lightly(self, module: nn.Module, args: Any) -> bool:
        """Start a training pass of the same model as before, of which only a returned loss is recorded.

        Returns:
            False if the pass must be inspected fully: it may be another model's, or not training.
        """
        root, session, phase = self._light_root, self._session, self._phase
        if root is None or self._light_module() is not module or not module.training:
            return False
        begin = cpu_secs()
        if (
            self._recorder is not None or session.closed or session.script.mode is not None or not gets_gradients()
            or phase.evaluates or phase.is_provisional or in_backward() or in_transform() or in_graph_capture()
            or _is_hollow(args)
        ):
            return False
        self._place.enter(module)
        self._place.record(Mode.TRAIN)
        self._place.take(0, 0)
        self._facts.called(root)
        phase.last_forward = Mode.TRAIN
        self.seen = True
        session.price.charge(cpu_secs() - begin)
        return True

    def _asks_nothing_inside(self, module: nn.Module) -> bool:
        # Other hooks would recompile a compiled model; replicas of a parallel one are observed separately.
        is_asked = self._place.mode is not None and self._place.mask
        if self._probe.looks_inside:
            return False
        return not (is_asked or self._outputs.always or isinstance(module, nn.DataParallel))

    @entry_point("starting a forward pass")
    def _enter(self, module: nn.Module, args: Any) -> None:
        if in_backward() or _is_hollow(args):
            return
        place, phase = self._place, self._phase
        place.enter(module)
        root = self._root_of(module)
        if root is None:
            # It may contain a known model, such as a wrapper of a passed one.
            place.forget_root()
            return
        self._facts.called(root)
        if not self._is_trained(root) or in_transform():
            return
        mode = phase.of_forward(module, root)
        place.record(mode)
        self.seen = True
        self._outputs.entered(module)
        self._session.began()
        if mode is Mode.TRAIN:
            phase.end_evaluation()
            if self._recorder is not None:
                self._recorder.forward_begins(root)
            mask = self._allowance.for_forward()
        else:
            phase.evaluation_calls(root, self._data.loaders.take_evaluated(), _rows(args))
            mask = phase.evaluation_mask_for(mode)
            if self._probe.on and mode is Mode.EVAL and not getattr(module, "_is_replica", False):
                self._probe.begins(module, root, args, phase.evaluation)
        self._facts.forward(root, mode, mask)
        place.take(mask if mask and self._outputs.asked(mask) else 0,
                   mask if self._data.asked(mask, training=mode is Mode.TRAIN) else 0)
        if args and place.fed_mask:
            self._feed(module, args, {}, mode)
        is_plain = not (is_compiled(module) or isinstance(module, nn.DataParallel))
        if mode is Mode.TRAIN and is_plain and self._light_module() is not module:
            self._light_module, self._light_root = weakref.ref(module), root

    def _feed(self, module: nn.Module, args: Any, kwargs: Any, mode: Mode) -> None:
        """Record the inputs of a model: positional ones before it runs, which may change them, others after."""
        name, mask = self._names.module(module), self._place.take_fed()
        if name is not None:
            buffer = self._phase.buffer_of(mode)
            self._data.fed(module, name.root, args, kwargs, mask, buffer, training=mode is Mode.TRAIN)

    def _root_of(self, module: nn.Module) -> Root | None:
        """Return the model that a module is or belongs to; None if it is not recorded."""
        name = self._names.module(module)
        if name is None and getattr(module, "_is_replica", False):
            name = self._outputs.adopt_replica(module)
        if name is None and not self._only and next(module.parameters(), None) is not None:
            self._names.add_root(module)
        self.settle_names()
        # A larger model that contains this one may have been found and replaced it.
        found = self._names.module(module)
        return found.root if found is not None else None

    def settle_names(self) -> None:
        """Find the other models of this script, if it has several, before anything is named."""
        if self._names.frozen:
            return
        with self._session.startup.timed():
            self._names.freeze([] if self._only else self._optimizers.survey())
            if self._feeding.checkpointer is not None:
                self._names.label_all()  # as a resumed script will
            self._session.counts.note_loaded(self._optimizers.steps_loaded())

    def _is_trained(self, root: Root) -> bool:
        """Return whether a model is trained here: a frozen teacher or a target network is not."""
        if root.trained:
            return True
        module = root.module()
        if module is None or self._is_held(module):
            return True
        if self._recorder is None or any(known is root for known in self._looked_for):
            return False
        # Another training may start with it, whose first step must be checked, too.
        self._looked_for.append(root)
        self._optimizers.look_again()
        return self._is_held(module)

    def _is_held(self, module: nn.Module) -> bool:
        trained = self._optimizers.parameters()
        return not trained or any(id(item) in trained for item in module.parameters())

    def _forward_ended(self, module: nn.Module, args: Any, kwargs: Any, output: Any) -> None:
        if torch.compiler.is_compiling():
            return
        place = self._place
        self._hooks.all_again()
        if place.root is None or place.busy:
            return
        if output is None and sys.exc_info()[0] is not None:
            place.leave()  # it raised
            return
        if module is place.root and self._allowance.light and self._takes_lightly(module, output):
            self._session.progress.times.forward.ended()
            place.leave()
            return
        if module is place.root and place.mode is Mode.TRAIN:
            self._session.progress.times.forward.ended()
            if self._recorder is not None:
                self._recorder.forward_ended(module, args, kwargs)
        if self._probe.looks_inside and place.mode is Mode.EVAL:
            self._probe.module_ended(module, args, output)
        if place.mode is not None and (place.mask or module is place.root):
            self._take_outputs(module, args, kwargs, output, place.mask)
        if module is place.root:
            place.leave()

    def _takes_lightly(self, module: nn.Module, output: Any) -> bool:
        """Record the losses that a model returns in a step with only numbers; False: inspect it fully."""
        place, session = self._place, self._session
        if place.mode is not Mode.TRAIN or place.mask or place.fed_mask or self._recorder is not None or (
                session.closed or in_backward() or in_transform()):
            return False
        begin = cpu_secs()
        try:
            found = list(self._outputs.losses_of(module, output))
            if not all(self._losses.is_number(loss) for _, loss in found):
                return False
            numbers = [(path, loss.item()) for path, loss in found]
            if not all(math.isfinite(number) for _, number in numbers):
                return False
            for path, number in numbers:
                self._losses.take_number(path, number)
        except Exception as error:  # noqa: BLE001 - the guard handles all our errors
            session.guard.caught(error, "reading a model's loss")
        session.price.charge(cpu_secs() - begin)
        return True

    @entry_point("reading a layer's output")
    def _take_outputs(self, module: nn.Module, args: Any, kwargs: Any, output: Any, mask: int) -> None:
        mode = self._place.mode
        if in_backward() or mode is None:
            return
        buffer = self._phase.buffer_of(mode)
        if module is self._place.root:
            if self._place.fed_mask:
                self._feed(module, (), kwargs, mode)
            for path, loss in self._outputs.losses_of(module, output):
                self._losses.add(path, loss, buffer)
            if self._probe.on and mode is Mode.EVAL:
                self._probe.ended(module, args, kwargs, output)
        if mask:
            self._outputs.take(module, args, output, mask, buffer, training=mode is Mode.TRAIN)


def _rows(args: Any) -> int:
    """Return the number of samples of a model's call; 0 if unknown."""
    first = args[0] if args else None
    return first.size(0) if isinstance(first, torch.Tensor) and first.dim() else 0


def _is_hollow(args: Any) -> bool:
    """Return whether a model is called with tensors without elements, to infer the shapes of its outputs."""
    return any(isinstance(item, torch.Tensor) and (item.is_meta or type(item).__name__ == "FakeTensor")
               for item in args)
