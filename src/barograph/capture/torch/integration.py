"""The PyTorch integration, based on the official global hooks.

The order of one step: modules are called (outputs), `backward` starts from a tensor (the loss), gradients
may be clipped (gradients before), an optimizer steps (gradients, then weights). The step ends when
`optimizer.step` returns.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any, cast

import torch
from torch import nn

from barograph.capture.allowance import Allowance
from barograph.capture.imports import after_import, forget
from barograph.capture.orders import NotDone
from barograph.capture.session import Session
from barograph.capture.steps import Steps
from barograph.capture.torch.actions import TorchActions
from barograph.capture.torch.by_hand import HandSteps
from barograph.capture.torch.clipping_listener import ClippingListener
from barograph.capture.torch.compiling import mark_for_compiler
from barograph.capture.torch.data import DataRecorder
from barograph.capture.torch.entry_point import HOOKS_WARNING, HookState, entry_point
from barograph.capture.torch.facts import FactRecorder
from barograph.capture.torch.feeding import Feeding
from barograph.capture.torch.forward import ForwardRecorder
from barograph.capture.torch.hand_step_recorder import HandStepRecorder
from barograph.capture.torch.interventions import Interventions
from barograph.capture.torch.light import TOTAL, LightSteps
from barograph.capture.torch.light_step_recorder import LightStepRecorder
from barograph.capture.torch.loss_listener import LossListener
from barograph.capture.torch.losses import LossRecorder
from barograph.capture.torch.names import ModelNames
from barograph.capture.torch.optimizer_listener import OptimizerListener
from barograph.capture.torch.optimizers import OptimizerBook
from barograph.capture.torch.outputs import OutputRecorder
from barograph.capture.torch.parameters import ParameterRecorder
from barograph.capture.torch.phase import Phase
from barograph.capture.torch.probe import TorchProbe
from barograph.capture.torch.read import Reader
from barograph.capture.torch.recorders import Recorders
from barograph.capture.torch.scaler_listener import ScalerListener
from barograph.capture.torch.step_bounds import StepBounds
from barograph.capture.torch.stepping import Stepping
from barograph.capture.torch.withholding import Withholding
from barograph.capture.torch.wrappers import Listeners, Wrappers
from barograph.measures import native
from barograph.model.actions import ActionName
from barograph.model.probe import ProbeSettings
from barograph.model.selection import Selection
from barograph.model.step import Mode
from barograph.runs.state.control import Request

if TYPE_CHECKING:
    from barograph.capture.torch.recorder import TorchRecorder

_COMPILER = "torch._dynamo"


class TorchIntegration:
    """Connects the objects that convert the operations of a PyTorch script to steps, and receives the script's calls.

    Args:
        session: Publishes steps.
        only: Record only the models and optimizers passed to `watch_model` and `watch_optimizer`.
        explicit_steps: The script ends its steps itself, with `end_explicit_step`.

    Attributes:
        session: See above.
        hooks: State shared by the hooks.
        names: The models.
        optimizers: The optimizers.
        stepping: Determines whose step is running.
        feeding: Follows passes over data.
    """

    def __init__(self, session: Session, *, only: bool = False, explicit_steps: bool = False) -> None:
        session.script.end_steps(explicit_steps)
        self.session = session
        self.hooks = hooks = HookState(session)
        self.names = names = ModelNames()
        self.optimizers = optimizers = OptimizerBook(names, session.counts.label_of_first_training)
        self.stepping = Stepping()
        self._allowance = Allowance(session)
        self._phase = phase = Phase(session, names, self._allowance)
        self._recorders = recorders = self._begin_recorders()
        self._recorder = recorder = self._begin_recorder()
        self._probe = TorchProbe(hooks, names, session.settings.probe)
        phase.before_evaluation_ends.append(self._probe.evaluation_ends)
        self.feeding = Feeding(hooks, names, optimizers, recorders.data.loaders, recorder)
        self._forwards = forwards = ForwardRecorder(
            hooks, names, optimizers, phase, only=only, outputs=recorders.outputs, losses=recorders.losses,
            facts=recorders.facts, data=recorders.data, feeding=self.feeding, recorder=recorder,
            probe=self._probe)
        self._light = light = LightSteps(session, recorders.facts.miss_backward, phase.take_collected)
        session.collect_with(light)
        self._bounds = bounds = StepBounds(session, optimizers, phase, recorders, forwards, self.feeding, recorder)
        by_hand, withholding = HandSteps(names, optimizers), Withholding()
        hand_steps = HandStepRecorder(
            hooks, by_hand, optimizers, phase, recorders=recorders, forwards=forwards, bounds=bounds, only=only,
            held=recorder is not None)
        forwards.call_before_pass(hand_steps.look)
        actions = TorchActions(session, optimizers, withholding)
        self._steps = OptimizerListener(
            hooks, optimizers, phase, self.stepping, light=light, recorders=recorders, forwards=forwards, bounds=bounds,
            by_hand=by_hand,
            light_steps=LightStepRecorder(
                hooks, optimizers, phase, light, recorders=recorders, forwards=forwards, feeding=self.feeding,
                stepping=self.stepping, actions=actions, recorder=recorder),
            interventions=Interventions(
                hooks, optimizers, phase, forwards=forwards, facts=recorders.facts, actions=actions,
                withholding=withholding, recorder=recorder))
        self._listeners = Listeners(
            losses=LossListener(hooks, phase, light, recorders=recorders, forwards=forwards, feeding=self.feeding,
                                bounds=bounds, hand_steps=hand_steps, recorder=recorder, probe=self._probe),
            clipping=ClippingListener(hooks, phase, parameters=recorders.parameters, forwards=forwards, light=light,
                                      recorder=recorder),
            scaler=ScalerListener(hooks, optimizers, self.stepping, bounds=bounds, facts=recorders.facts,
                                  forwards=forwards, light=light, recorder=recorder),
            optimizers=self._steps, evaluations=self)
        self._wrappers = Wrappers(self._listeners, self.feeding)
        self._filter: Any = None
        session.before_close(hand_steps.take_last)
        session.before_close(self._flush)

    def _begin_recorders(self) -> Recorders:
        session, names, reader = self.session, self.names, Reader()
        return Recorders(
            OutputRecorder(session, names, reader), ParameterRecorder(session, names, self.optimizers, reader),
            LossRecorder(session, self._phase), FactRecorder(session, names, self.optimizers, self._phase),
            DataRecorder(session, names, reader))

    def _begin_recorder(self) -> TorchRecorder | None:
        settings = self.session.settings.recorder
        if settings is None:
            self.session.steering.set_handler(ActionName.CAPSULE, _no_recorder, always=True)
            return None
        # Imported only here: otherwise every training would load the modules that write capsules.
        from barograph.capture.torch.recorder import TorchRecorder

        return TorchRecorder(self.hooks, self.names, self.optimizers, settings)

    # Installation and removal

    def install(self, *, torch_is_new: bool = False) -> None:
        """Install the global hooks and the wrappers.

        Args:
            torch_is_new: PyTorch has just been imported, so the script has not used it yet.
        """
        warnings.filterwarnings("ignore", message=HOOKS_WARNING)
        self._filter = warnings.filters[0]
        after_import(_COMPILER, mark_for_compiler)
        if not torch_is_new:
            self.optimizers.find_made()
        self.optimizers.hear(True)
        self.start_observing()
        self._wrappers.install()
        if not native.available():
            self.session.guard.note("The native statistics code is missing (no C compiler when Barograph was "
                                    "installed). The slower Python code is used.")

    def remove(self) -> None:
        """Remove every hook and wrapper; nothing of Barograph remains in PyTorch."""
        self.stop_observing()
        forget(mark_for_compiler)
        self.optimizers.hear(False)
        self._wrappers.undo()
        if self.feeding.checkpointer is not None:
            self.feeding.checkpointer.close()
        if self._filter is not None and self._filter in warnings.filters:
            cast("list[Any]", warnings.filters).remove(self._filter)

    def stop_observing(self) -> None:
        """Observe nothing until `start_observing`: another integration records."""
        self._light.stop()
        self._forwards.stop_observing()
        self._steps.stop_observing()
        self._wrappers.notify(None)

    def start_observing(self) -> None:
        """Start observing, or restart after `stop_observing`."""
        self._steps.start_observing()
        self._forwards.start_observing()
        self._wrappers.notify(self._listeners)

    # Selecting what to record

    def watch_model(self, model: nn.Module, label: str = "") -> None:
        """Name a model that the user passes."""
        known = self.names.module(model)
        if known is None or known.path:
            self.names.add_root(model, label)
        elif label:
            known.root.name(label)

    def watch_optimizer(self, optimizer: torch.optim.Optimizer, label: str = "") -> None:
        """Name an optimizer that the user passes."""
        self.optimizers.label(optimizer, label)

    def ask_for(self, selections: Iterable[Selection]) -> None:
        """Record more from now on."""
        self.session.plan.add(selections)
        self._recorders.plan_changed()

    @property
    def explicit_steps(self) -> bool:
        """Whether the script ends its steps itself, with `end_explicit_step`."""
        return self.session.script.explicit_steps

    def let_script_end_steps(self, explicit_steps: bool) -> None:
        """Let the script end steps, or optimizers."""
        self.session.script.end_steps(explicit_steps)

    def observe(self, settings: ProbeSettings, given: Any) -> None:
        """Store outputs of a layer at evaluations.

        Args:
            settings: Which samples and layer.
            given: Samples of the script; None: those of the evaluation data.

        Raises:
            SettingsError: `given` holds no samples.
        """
        self._probe.observe(settings, given)

    # Evaluations

    def mode_set(self, training: bool) -> None:
        """Observe a possible evaluation, if anything of it is recorded."""
        self._light.stop()
        self._forwards.mode_set(training)

    def gradients_turned_off(self) -> None:
        """Observe a possible evaluation, unless an optimizer has disabled gradients."""
        if not self.stepping.running:
            self._forwards.gradients_turned_off()

    @entry_point("changing the mode")
    def mode_changes(self, mode: Mode | None) -> None:
        """End the current evaluation, and observe the one that the script starts."""
        self._light.stop()
        self._phase.end_evaluation()
        if mode is not None and mode is not Mode.TRAIN and not self._forwards.observing:
            self._forwards.observe_evaluation(mode)

    # Calls of the script

    def step_of_another(self, optimizer: Any, make: Callable[[], Any]) -> Any:
        """Make and record a step of an optimizer that is not PyTorch's and calls no hooks.

        Args:
            optimizer: The optimizer, with `param_groups` and `state` as PyTorch's have.
            make: Makes the step.
        """
        return self._steps.step_of_another(optimizer, make)

    def steps_begin(self, steps: Steps) -> Iterator[int]:
        """Return an iterator that counts the steps of a loop."""
        begun: Iterator[int] = self.feeding.steps_begin(steps)
        return begun

    @entry_point("ending a step")
    def end_explicit_step(self, loss: Any = None) -> None:
        """End the script's step.

        Args:
            loss: The step's loss, a number or a tensor of one element.
        """
        self._light.stop()
        train = self._phase.train
        self.session.began()
        self._phase.end_evaluation()
        self._forwards.settle_names()
        if loss is not None and not train.losses.get(TOTAL):
            tensor = loss if isinstance(loss, torch.Tensor) else torch.tensor(float(loss), dtype=torch.float64)
            self._recorders.losses.add(TOTAL, tensor, train)
        self.session.counts.start_at("", 0)
        self._allowance.for_forward()
        self._recorders.parameters.models(self._allowance.whole_mask(), train)
        self._bounds.publish("", "", skipped=False)

    @entry_point("saving a tensor")
    def save(self, name: str, tensor: Any) -> None:
        """Record a complete tensor of the script in the current step."""
        self._light.stop()
        self._allowance.wake()
        self.session.began()
        self._recorders.parameters.save(name, tensor, self._phase.train)

    @entry_point("saving predictions")
    def save_predictions(self, targets: Any, predictions: Any, name: str) -> None:
        """Count targets and predictions that the script passes, in the current step or evaluation."""
        self._light.stop()
        self.session.began()
        mode = self._phase.of_predictions()
        if mode is Mode.TRAIN:
            self._allowance.wake()
        else:
            self._phase.evaluation_mask_for(mode)
        self._recorders.data.named(name, targets, predictions, self._phase.buffer_of(mode))

    @entry_point("publishing pending records")
    def _flush(self) -> None:
        self._light.stop()
        self._bounds.flush()


def _no_recorder(request: Request) -> str:
    raise NotDone("the flight recorder is off; start the training with --record")
