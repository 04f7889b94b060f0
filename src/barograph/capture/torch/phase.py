"""What a script is doing now (training or evaluating), and the buffer of each."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import nn

from barograph.capture.allowance import Allowance
from barograph.capture.buffer import StepBuffer
from barograph.capture.session import Session
from barograph.capture.torch.evaluation_passes import EvaluationPasses
from barograph.capture.torch.light import TOTAL
from barograph.capture.torch.names import ModelNames, Root
from barograph.capture.torch.recomputation import gets_gradients
from barograph.capture.torch.splits import look
from barograph.model.key import Key
from barograph.model.step import Mode

_MOST_BACKWARDS = 1024
"""Backward passes after which no step is expected any more: the script updates its weights in another way."""


@dataclass(slots=True)
class Phase:
    """The current step and the current evaluation, each with its buffer.

    Attributes:
        session: Publishes.
        names: The known models.
        allowance: Determines what to record of the step.
        train: Records of the current optimizer step.
        evaluation_mask: What to record of this evaluation; None: no forward pass yet.
        last_forward: Mode of the last observed forward pass; None: unknown.
        before_evaluation_ends: Called with the buffer and the mode of an evaluation before it is published.
    """

    session: Session
    names: ModelNames
    allowance: Allowance
    train: StepBuffer = field(default_factory=StepBuffer)
    evaluation_mask: int | None = None
    last_forward: Mode | None = None
    before_evaluation_ends: list[Callable[[StepBuffer, Mode], None]] = field(default_factory=list)
    _passes: EvaluationPasses = field(default_factory=EvaluationPasses)
    _evaluation_mode: Mode = Mode.EVAL
    _provisional: Root | None = None
    _without_gradients: bool = False
    _metrics_in_training: bool = False
    _backwards: int = 0

    @property
    def evaluation(self) -> StepBuffer:
        """Records of the current evaluation, in the current pass over data."""
        return self._passes.current.buffer

    def evaluation_calls(self, root: Root | None, loader: Any, rows: int = 0) -> None:
        """Note that the script evaluates a model, and determine on which data.

        Args:
            root: The model; None: unknown.
            loader: Loader of the last batch; None: unknown.
            rows: Number of samples in the call; 0: unknown.
        """
        # Calls that may turn out to be training are kept together.
        self._passes.calls(0 if root is None else id(root), look(loader), loader, rows,
                           may_split=self._provisional is None)

    def of_forward(self, module: nn.Module, root: Root) -> Mode:
        """Return the mode of a forward pass that starts now."""
        self._provisional = None
        if self.session.script.mode is not None:
            mode = self.session.script.mode
        elif not gets_gradients():
            mode = Mode.EVAL
            self._without_gradients = True
        elif module.training or root.trains_in_eval:
            mode = Mode.TRAIN
        else:
            # In eval mode with gradients on: an evaluation without no_grad, or a training in eval mode.
            # If `backward` follows, it was training.
            self._hold(root)
            mode = Mode.EVAL
        self.last_forward = mode
        if mode is not Mode.TRAIN:
            self._evaluation_mode = mode
        return mode

    def of_loss(self, loss: torch.Tensor, *, forward_seen: bool) -> Mode:
        """Return the mode of a loss that a loss function has just returned.

        Args:
            loss: The loss.
            forward_seen: Forward passes are observed, so the last one determines the mode.
        """
        mode = self.session.script.mode or self._guess_of_loss(loss, forward_seen=forward_seen)
        if mode is not Mode.TRAIN:
            self._evaluation_mode = mode
        return mode

    def _guess_of_loss(self, loss: torch.Tensor, *, forward_seen: bool) -> Mode:
        differentiable = torch.is_grad_enabled() and loss.requires_grad
        if forward_seen and self.last_forward is not None:
            if not differentiable and self.last_forward is Mode.TRAIN:
                # A number computed on the side; remembered for steps without observed forward passes.
                self._metrics_in_training = True
            return Mode.TRAIN if differentiable and self._provisional is None else self.last_forward
        if not differentiable:
            self._without_gradients = not self._metrics_in_training
            return Mode.TRAIN if self._metrics_in_training else Mode.EVAL
        self._provisional = None
        if (root := next((root for root in self.names.roots if root.seems_evaluated), None)) is not None:
            self._hold(root)
        return Mode.TRAIN if self._provisional is None else Mode.EVAL

    def _hold(self, root: Root) -> None:
        """Hold a possible evaluation until a backward pass shows that it was training."""
        if self._without_gradients:
            # No backward pass can follow: it is a separate evaluation, and none of its samples were trained on.
            self.end_evaluation()
        self._provisional = root

    def of_predictions(self) -> Mode:
        """Return the mode of targets and predictions that the script passes now."""
        if self.session.script.mode is not None:
            mode = self.session.script.mode
        elif not torch.is_grad_enabled() or self.last_forward not in (None, Mode.TRAIN):
            mode = Mode.EVAL
        else:
            mode = Mode.EVAL if any(root.seems_evaluated for root in self.names.roots) else Mode.TRAIN
        if mode is not Mode.TRAIN:
            self._evaluation_mode = mode
        return mode

    @property
    def evaluates(self) -> bool:
        """Whether an evaluation may be running."""
        return self.evaluation_mask is not None or self._passes.have_losses

    def evaluation_mask_for(self, mode: Mode) -> int:
        """Return what to record of the current evaluation, or of the one that starts now."""
        if self.evaluation_mask is None:
            self.evaluation_mask = self.session.choice.choose(self.session.counts.of_training, mode)
        elif not self.session.choice.evaluation_goes_on(self.evaluation_mask):
            # Sums over part of an evaluation would be recorded as sums over all of it.
            self.evaluation_mask = 0
            self.evaluation.gathered.clear()
        return self.evaluation_mask

    def backward_begins(self) -> None:
        """Decide what was provisional: `backward` means training, and ends an evaluation."""
        self._backwards += 1
        if self._backwards == _MOST_BACKWARDS:
            self.allowance.give_up()
        if self._provisional is not None:
            self._provisional.note_trains_in_eval()
            self._provisional = None
            if self.train.empty:
                self.train, self._passes.current.buffer = self.evaluation, self.train
                self.evaluation_mask = None
        self.last_forward = Mode.TRAIN
        self.end_evaluation()

    def light_backward(self) -> None:
        """Count a backward pass of a step with only numbers, outside of evaluations."""
        self._backwards += 1
        self.last_forward = Mode.TRAIN

    @property
    def surely_trains(self) -> bool:
        """Return whether a loss with a gradient must be a training loss: no model is in evaluation mode."""
        if self.session.script.mode is not None:
            return self.session.script.mode is Mode.TRAIN
        if self.evaluates or self._provisional is not None:
            return False
        return not any(root.seems_evaluated for root in self.names.roots)

    def end_evaluation(self) -> None:
        """Publish the current evaluation, if any."""
        self._without_gradients = False
        if not self.evaluates:
            return
        mask = self.evaluation_mask or 0
        passes, self._passes, self.evaluation_mask = list(self._passes.named()), EvaluationPasses(), None
        # Facts about the complete evaluation are recorded with the pass that rules compare with training.
        whole = next((buffer for prefix, buffer in passes if not prefix), None)
        for prefix, buffer in passes or [("", StepBuffer())]:
            buffer.prefix = prefix
            if whole is None or buffer is whole:
                whole = buffer
                for notify in self.before_evaluation_ends:
                    notify(buffer, self._evaluation_mode)
            buffer.settle(training=False)
            if not buffer.empty:
                self.session.end_evaluation(buffer, self._evaluation_mode, mask)
                mask = 0
        self.session.progress.evaluation_ended()

    @property
    def backwards(self) -> int:
        """Number of backward passes of the current step."""
        return self._backwards

    @property
    def is_provisional(self) -> bool:
        """Whether the last forward pass, taken for an evaluation, may turn out to be training."""
        return self._provisional is not None

    def note_loss(self, mode: Mode) -> None:
        """Note that a loss function has returned in this mode."""
        if mode is not Mode.TRAIN:
            self._passes.note_loss()

    def buffer_of(self, mode: Mode) -> StepBuffer:
        """Return the buffer of this mode."""
        return self.train if mode is Mode.TRAIN else self.evaluation

    def take_collected(self, values: list[Any]) -> None:
        """Continue a step of which `LightSteps` has collected numbers: path or key, and number, alternating."""
        for place in range(0, len(values), 2):
            path, number = values[place], values[place + 1]
            if isinstance(path, Key):
                self.train.scalars[path] = number
                continue
            total, count = self.train.losses.get(path, (0.0, 0))
            self.train.losses[path] = total + number, count + 1
            if path == TOTAL:
                self.light_backward()
                self.session.saw_loss(number)

    def light_numbers(self) -> dict[Any, tuple[float, int]]:
        """Return the numbers of a step with nothing else, as `Session.end_light_step` expects them."""
        return {**self.train.losses, **{key: (number, 1) for key, number in self.train.scalars.items()}}

    def forget_light_step(self) -> None:
        """Start the next step in the buffer of a published step with only numbers."""
        self.train.losses.clear()
        self.train.scalars.clear()
        self._backwards = 0

    def take_step(self) -> StepBuffer:
        """Return the records of the step that ends, and start the next."""
        ended, self.train, self._backwards = self.train, StepBuffer(), 0
        ended.settle(training=True)
        return ended
