"""Listens to a PyTorch training through the official global hooks, and tells the session.

The order of one step: modules are called (outputs), `backward` starts from a tensor (the loss), gradients
may be clipped (gradients before), an optimizer steps (gradients, then weights). The step ends when
`optimizer.step` returns.
"""

from __future__ import annotations

import functools
import math
import threading
import time
import warnings
from collections.abc import Callable
from typing import Any, Concatenate, ParamSpec, cast

import torch
from torch import nn
from torch.nn.modules import module as module_hooks
from torch.optim import optimizer as optimizer_hooks

from barograph.capture.buffer import StepBuffer
from barograph.capture.session import Session
from barograph.capture.torch_device import fetch_number_later
from barograph.capture.torch_names import ModelNames, Root
from barograph.capture.torch_optimizers import Entry, OptimizerBook, steps_loaded
from barograph.capture.torch_outputs import OutputTap
from barograph.capture.torch_parameters import ParameterTap
from barograph.capture.torch_read import Reader
from barograph.capture.torch_wrappers import Wrappers
from barograph.model.key import Key, Kind
from barograph.model.records import Subject
from barograph.model.step import Mode

_P = ParamSpec("_P")


class _Thread(threading.local):
    """Where one thread is: in which model's forward, what for, and whether code of ours runs."""

    root: nn.Module | None = None
    known: Root | None = None
    mode: Mode | None = None
    busy: bool = False


def _entry_point(
    doing: str,
) -> Callable[[Callable[Concatenate[TorchTap, _P], None]], Callable[Concatenate[TorchTap, _P], None]]:
    """Make a method one of the doors into training: guarded, paid for, and deaf to what it causes itself."""

    def decorate(method: Callable[Concatenate[TorchTap, _P], None]) -> Callable[Concatenate[TorchTap, _P], None]:
        @functools.wraps(method)
        def enter(self: TorchTap, *args: _P.args, **kwargs: _P.kwargs) -> None:
            if self._thread.busy or self.session.closed:
                return
            self._thread.busy = True
            begin = time.perf_counter()
            try:
                method(self, *args, **kwargs)
            except Exception as error:  # noqa: BLE001 - the guard is where all errors of ours end
                self.session.guard.caught(error, doing)
            finally:
                self._thread.busy = False
                secs = time.perf_counter() - begin
                self.session.price.charge(secs)
                self._step_secs += secs

        return cast("Callable[Concatenate[TorchTap, _P], None]", enter)

    return decorate


def in_backward() -> bool:
    """Return whether the autograd engine runs in this thread: what is called now is recomputation."""
    return torch._C._current_graph_task_id() != -1


class TorchTap:
    """Turns what a PyTorch script does into steps.

    Args:
        session: Who is told.
        only: Record the models and optimizers that `watch` names, and no others.
    """

    def __init__(self, session: Session, *, only: bool = False, explicit_steps: bool = False) -> None:
        self.session = session
        self.names = ModelNames()
        self.optimizers = OptimizerBook(self.names)
        self.explicit_steps = explicit_steps
        self._only = only
        self._reader = Reader()
        self._outputs = OutputTap(session, self.names, self._reader)
        self._parameters = ParameterTap(session, self.names, self.optimizers, self._reader)
        self._wrappers = Wrappers(self)
        self._handles: list[Any] = []
        self._thread = _Thread()
        self._train = StepBuffer()
        self._evaluation = StepBuffer()
        self._evaluation_mode = Mode.EVAL
        self._mask: int | None = None
        self._evaluation_mask: int | None = None
        self._next_label = ""
        self._last_label = ""
        self._last_forward: Mode | None = None
        self._provisional: Root | None = None
        self._alarmed = False
        self._in_step = 0
        self._hooked_during_scaler: set[int] = set()
        self._scaled: tuple[Any, Any] | None = None
        self._step_secs = 0.0
        session.before_close(self._flush)

    # Coming and going

    def install(self) -> None:
        """Put in the global hooks and the wrappers."""
        # torch warns whoever compiles a model that global hooks fire once more for it: ours mind that.
        warnings.filterwarnings("ignore", message=r"Using `torch\.compile\(module\)` when there are global hooks")
        self._handles = [
            module_hooks.register_module_forward_pre_hook(self._forward_begins),
            module_hooks.register_module_forward_hook(self._forward_ended),
            optimizer_hooks.register_optimizer_step_pre_hook(self._step_begins),
            optimizer_hooks.register_optimizer_step_post_hook(self._step_ended),
        ]
        self._wrappers.install()

    def remove(self) -> None:
        """Take out every hook and wrapper; nothing of Barograph is left in torch."""
        for handle in self._handles:
            handle.remove()
        self._handles = []
        self._wrappers.undo()

    def watch_model(self, model: nn.Module, label: str = "") -> None:
        """Name a model that the user hands over."""
        known = self.names.module(model)
        if known is None or known.path:
            self.names.add_root(model, label)
        elif label:
            known.root.label = label

    def watch_optimizer(self, optimizer: torch.optim.Optimizer, label: str = "") -> None:
        """Name an optimizer that the user hands over."""
        self.optimizers.label(optimizer, label)

    # Forward

    def _forward_begins(self, module: nn.Module, args: Any) -> None:
        if torch.compiler.is_compiling():
            return
        if self._thread.root is None and not self._thread.busy:
            self._enter(module)

    @_entry_point("at the start of a forward pass")
    def _enter(self, module: nn.Module) -> None:
        if in_backward():
            return
        thread = self._thread
        thread.root, thread.mode, thread.known = module, None, None
        name = self.names.module(module)
        if name is None and getattr(module, "_is_replica", False):
            name = self._outputs.adopt_replica(module)
        if name is None:
            if self._only or next(module.parameters(), None) is None:
                return
            root = self.names.add_root(module)
        else:
            root = name.root
        self._settle_names()
        # A whole that holds this model may have been found, and taken its place.
        found = self.names.module(module)
        root = found.root if found is not None else root
        if not self._belongs(root):
            return
        thread.known = root
        thread.mode = self._mode_of(module, root)
        self._last_forward = thread.mode
        self._outputs.entered(module)
        self.session.began()
        if thread.mode is Mode.TRAIN:
            self._end_evaluation()
            if self._mask is None:
                self._mask = self._choose()
        else:
            self._evaluation_mode = thread.mode
            if self._evaluation_mask is None:
                self._evaluation_mask = self.session.choose(self.session.steps_made, thread.mode)

    def _settle_names(self) -> None:
        """Before anything is named: find the other models of this script, if it has several."""
        if not self.names.frozen:
            if not self._only:
                self.optimizers.survey()
            self.names.freeze()

    def _belongs(self, root: Root) -> bool:
        """Return whether a model is trained here: a frozen teacher or a target network is not."""
        trained = self.optimizers.parameters()
        module = root.module()
        return not trained or module is None or any(id(item) in trained for item in module.parameters())

    def _mode_of(self, module: nn.Module, root: Root) -> Mode:
        if self.session.mode is not None:
            return self.session.mode
        self._provisional = None
        if not torch.is_grad_enabled():
            return Mode.EVAL
        if module.training or root.trains_in_eval:
            return Mode.TRAIN
        # In eval mode with gradients on: an evaluation that forgot no_grad, or a training in eval mode.
        # If `backward` follows, it was training.
        self._provisional = root
        return Mode.EVAL

    def _forward_ended(self, module: nn.Module, args: Any, output: Any) -> None:
        if torch.compiler.is_compiling():
            return
        thread = self._thread
        if thread.root is None or thread.busy:
            return
        if thread.mode is not None:
            mask = self._mask if thread.mode is Mode.TRAIN else self._evaluation_mask
            if mask or module is thread.root:
                self._take_outputs(module, args, output, mask or 0)
        if module is thread.root:
            thread.root = thread.mode = None

    @_entry_point("reading a layer's output")
    def _take_outputs(self, module: nn.Module, args: Any, output: Any, mask: int) -> None:
        if in_backward():
            return
        training = self._thread.mode is Mode.TRAIN
        buffer = self._train if training else self._evaluation
        if module is self._thread.root:
            for path, loss in self._outputs.losses_of(module, output):
                self._add_loss(path, loss, buffer)
        if mask:
            self._outputs.take(module, args, output, mask, buffer, training=training)

    # Losses

    @_entry_point("reading the loss")
    def backward_begins(self, tensors: Any) -> None:
        """Record the tensors that a backward pass starts from."""
        if in_backward():
            return
        self._thread.root = None
        self.session.began()
        if self._provisional is not None:
            self._was_training(self._provisional)
        self._last_forward = Mode.TRAIN
        self._end_evaluation()
        roots = [tensors] if isinstance(tensors, torch.Tensor) else list(tensors or ())
        for root in roots:
            if isinstance(root, torch.Tensor):
                self._add_loss("total", self._unscaled(root), self._train)

    def _was_training(self, root: Root) -> None:
        root.trains_in_eval = True
        self._provisional = None
        if self._train.empty:
            self._train, self._evaluation = self._evaluation, self._train

    def loss_scaled(self, outputs: Any, scaled: Any) -> None:
        """Remember what a scaled loss was before."""
        if isinstance(scaled, torch.Tensor) and isinstance(outputs, torch.Tensor):
            self._scaled = (scaled.detach(), outputs.detach())

    def _unscaled(self, loss: torch.Tensor) -> torch.Tensor:
        if self._scaled is not None and self._scaled[0].data_ptr() == loss.data_ptr():
            return self._scaled[1]  # type: ignore[no-any-return]
        return loss

    @_entry_point("reading what a loss function returned")
    def loss_returned(self, name: str, loss: Any) -> None:
        """Record what a loss function of torch returned."""
        if in_backward() or not isinstance(loss, torch.Tensor) or not loss.is_floating_point():
            return
        evaluating = self._last_forward not in (None, Mode.TRAIN) and not (
            torch.is_grad_enabled() and loss.requires_grad and self._provisional is None
        )
        if self._only and self._last_forward is None:
            return
        self._add_loss(name, loss, self._evaluation if evaluating else self._train)

    def _add_loss(self, path: str, loss: torch.Tensor, buffer: StepBuffer) -> None:
        if Kind.LOSS not in self.session.plan.kinds(self.session.plan.everything()):
            return
        row = self.session.table.row(Subject(Key(Kind.LOSS, path), dtype="float64"))
        buffer.reserve(row + 1, histogram=False)
        value = loss.detach()
        value = value if value.numel() == 1 else value.float().mean()
        if value.device.type == "cpu":
            self._note_loss(path, row, float(value), buffer)
        else:
            # Asking a device for a number would make training wait for it.
            note = functools.partial(self._note_loss, path, row, buffer=buffer)
            buffer.deferred.append(fetch_number_later(value, note))

    def _note_loss(self, path: str, row: int, number: float, buffer: StepBuffer) -> None:
        buffer.losses.setdefault(row, []).append(number)
        if path == "total" or not self.session.seen.loss:
            self.session.saw_loss(number)
        if buffer is self._train and not math.isfinite(number):
            self._alarmed = True

    # Clipping and scaling

    @_entry_point("reading gradients before clipping")
    def before_clip(self, parameters: Any) -> None:
        """Record gradients as they are before the script clips them."""
        self._parameters.before_clip({id(item) for item in parameters}, self._mask_for_model(), self._train)

    @_entry_point("reading the clipped norm")
    def after_clip(self, parameters: Any, total_norm: Any) -> None:
        """Record the norm that clipping measured."""
        if isinstance(total_norm, torch.Tensor) and total_norm.device.type == "cpu":
            self._train.scalars[Key(Kind.SCALAR, "gradient_norm_before_clip")] = float(total_norm)

    def scaler_step_begins(self, scaler: Any, optimizer: Any) -> None:
        """Note that the optimizer steps through a gradient scaler."""
        self._hooked_during_scaler.discard(id(optimizer))

    def scaler_step_ended(self, scaler: Any, optimizer: Any) -> None:
        """Record a step that the scaler skipped: no hook of the optimizer fired."""
        if id(optimizer) not in self._hooked_during_scaler and scaler.is_enabled():
            self._scaler_skipped(optimizer)
            self.session.raise_if_stopped()

    @_entry_point("recording a skipped step")
    def _scaler_skipped(self, optimizer: Any) -> None:
        if self._only and not self._is_watched(optimizer):
            return
        self._end(self.optimizers.entry(optimizer), skipped=True)

    # The step

    def _step_begins(self, optimizer: Any, args: Any, kwargs: Any) -> None:
        if torch.compiler.is_compiling():
            return
        self._in_step += 1
        if self._in_step == 1:
            self._hooked_during_scaler.add(id(optimizer))
            self._before_step(optimizer, args, kwargs)

    @_entry_point("reading gradients before a step")
    def _before_step(self, optimizer: Any, args: Any, kwargs: Any) -> None:
        if self._only and not self._is_watched(optimizer):
            return
        self._thread.root = None
        self.session.began()
        self._end_evaluation()
        self._settle_names()
        entry = self.optimizers.entry(optimizer)
        if entry.label not in self.session.steps_by_optimizer:
            self.session.start_at(entry.label, steps_loaded(optimizer))
        if self._mask is None or entry.label != self._next_label:
            # The guess of who steps next was wrong, or nothing was called: decide now.
            self._next_label = entry.label
            self._mask = (self._mask or 0) | self._choose()
        self._parameters.learning_rates(optimizer, self._train)
        if not _has_closure(args, kwargs):
            self._parameters.gradients(entry, optimizer, self._mask_for_model(), self._train)
        self._parameters.keep_weights(entry, self._mask_for_model())

    def _step_ended(self, optimizer: Any, args: Any, kwargs: Any) -> None:
        if torch.compiler.is_compiling():
            return
        self._in_step = max(0, self._in_step - 1)
        if self._in_step == 0:
            self._after_step(optimizer, args, kwargs)
            self.session.raise_if_stopped()

    @_entry_point("reading weights after a step")
    def _after_step(self, optimizer: Any, args: Any, kwargs: Any) -> None:
        if self._only and not self._is_watched(optimizer):
            return
        entry = self.optimizers.entry(optimizer)
        mask = self._mask_for_model()
        if _has_closure(args, kwargs):
            self._parameters.gradients(entry, optimizer, mask, self._train)
        self._parameters.weights(entry, optimizer, mask, self._train)
        found_inf = getattr(optimizer, "found_inf", None)
        skipped = found_inf is not None and found_inf.device.type == "cpu" and bool(found_inf)
        if not self.explicit_steps:
            self._end(entry, skipped=skipped)

    @_entry_point("ending a step")
    def end_explicit_step(self, loss: Any = None) -> None:
        """End a step where the script says so.

        Args:
            loss: The step's loss, a number or a tensor of one element.
        """
        self.session.began()
        self._end_evaluation()
        if loss is not None:
            tensor = loss if isinstance(loss, torch.Tensor) else torch.tensor(float(loss), dtype=torch.float64)
            self._add_loss("total", tensor, self._train)
        if self._mask is None:
            self._mask = self._choose()
        self._parameters.models(self._mask_for_model(), self._train)
        self._publish("", skipped=False)

    def _end(self, entry: Entry, *, skipped: bool) -> None:
        previous = next((item for item in self.optimizers if item.label == self._last_label), None)
        if previous is not None:
            previous.next_label = entry.label
        self._last_label = entry.label
        self._next_label = entry.next_label
        self._publish(entry.label, skipped=skipped)

    def _publish(self, label: str, *, skipped: bool) -> None:
        mask, buffer = self._mask_for_model(), self._train
        self._train, self._mask, self._alarmed = StepBuffer(), None, False
        cost_secs, self._step_secs = self._step_secs, 0.0
        self._parameters.forget_step()
        self.session.end_step(buffer, optimizer=label, mask=mask, cost_secs=cost_secs, skipped=skipped)

    # Small things

    def _choose(self) -> int:
        return self.session.choose(self.session.made(self._next_label))

    def _mask_for_model(self) -> int:
        """Return what is taken of weights and gradients; all there is, once the loss is not finite."""
        mask = self._mask or 0
        return mask | self.session.plan.everything() if self._alarmed else mask

    def _is_watched(self, optimizer: Any) -> bool:
        return any(
            self.names.parameter(item) is not None for group in optimizer.param_groups for item in group["params"]
        )

    def _end_evaluation(self) -> None:
        if self._evaluation_mask is None and not self._evaluation.losses:
            return
        buffer, self._evaluation, self._evaluation_mask = self._evaluation, StepBuffer(), None
        if not buffer.empty:
            self.session.end_evaluation(buffer, self._evaluation_mode)

    @_entry_point("saving a tensor")
    def save(self, name: str, tensor: Any) -> None:
        """Record a tensor of the script's own, whole, with the step that is under way."""
        self.session.began()
        self._parameters.save(name, tensor, self._train)

    @_entry_point("publishing what was pending")
    def _flush(self) -> None:
        self._end_evaluation()
        if self._train.tensors:
            self.session.end_evaluation(self._train, Mode.TRAIN)


def _has_closure(args: Any, kwargs: Any) -> bool:
    # args[0] is the optimizer itself: torch hands over the arguments of the unbound `step`.
    return kwargs.get("closure") is not None or (len(args) > 1 and callable(args[1]))
