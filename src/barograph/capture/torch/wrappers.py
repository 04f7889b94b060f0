"""The reversible wrappers: the only places where Barograph replaces PyTorch functions.

Everything else uses PyTorch's official global hooks. There are no hooks for these:

- `torch.autograd.backward`: its root is the loss (`Tensor.backward` calls it).
- `torch.autograd.grad`: the same for scripts without an optimizer, which subtract the gradients from their weights.
- `torch.nn.utils.clip_grad._clip_grads_with_norm_`: gradients before clipping. `clip_grad_norm_` always calls it, under
  whatever name a script imported that.
- `torch.nn.utils.clip_grad_value_`, also in `clip_grad`: the same for clipping by value.
- `FullyShardedDataParallel.clip_grad_norm_`, once the script has loaded it: the same for FSDP1.
- `torch.amp.GradScaler.scale`: the loss before scaling.
- `torch.amp.GradScaler.step`: a skipped step calls no optimizer hook.
- `torch.optim.lr_scheduler.LRScheduler.step`, and those of PyTorch's schedulers with their own `step`: the number of
  scheduler steps.
- the loss functions of `torch.nn.functional`: the loss in evaluations, where nothing calls `backward`, and their
  arguments: labels, predictions, targets. The function objects do not change, since models reference and pickle them;
  only their code is replaced.
- `torch.optim.Optimizer.__init__`: an optimizer is created; no search among all objects is needed.
- `torch.nn.Module.train`: `eval()` calls it. An evaluation starts, whose forward passes may have to be observed.
- `torch.utils.data.DataLoader.__iter__` and `_BaseDataLoaderIter.__next__` of `torch.utils.data.dataloader`: a pass
  over the data starts, and how long training waits for a batch. The batch itself is not inspected.
- `_BaseDataLoaderIter._next_index`: the sample indices of a batch.
- `torch.distributed.destroy_process_group`: other threads first release what they reference of the last step.
- `torch.no_grad.__enter__` and `torch.inference_mode.__enter__`: an evaluation may follow, whose forward pass must be
  observed although those of the steps around it are not.

Each calls the original with the same arguments and returns its result. `undo` restores the originals, unless another
library has wrapped ours in the meantime: then ours remains and only calls the original.
"""

from __future__ import annotations

import functools
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from types import FunctionType
from typing import Any, Protocol

import torch
from torch.nn.utils import clip_grad
from torch.optim import lr_scheduler
from torch.utils.data import DataLoader
from torch.utils.data.dataloader import _BaseDataLoaderIter

from barograph.capture.imports import after_import, forget

_FLAT = "torch.distributed.fsdp.fully_sharded_data_parallel"

LOSS_FUNCTIONS = (
    "binary_cross_entropy", "binary_cross_entropy_with_logits", "cosine_embedding_loss", "cross_entropy", "ctc_loss",
    "gaussian_nll_loss", "hinge_embedding_loss", "huber_loss", "kl_div", "l1_loss", "margin_ranking_loss", "mse_loss",
    "multi_margin_loss", "multilabel_margin_loss", "multilabel_soft_margin_loss", "nll_loss", "poisson_nll_loss",
    "smooth_l1_loss", "soft_margin_loss", "triplet_margin_loss", "triplet_margin_with_distance_loss",
)


SCHEDULERS = tuple(
    kind for kind in vars(lr_scheduler).values()
    if isinstance(kind, type) and issubclass(kind, lr_scheduler.LRScheduler) and "step" in vars(kind)
    and kind is not lr_scheduler.LRScheduler
)
"""PyTorch's schedulers that have their own `step`."""

_TURNS_SECS = 0.05
"""Time in which every waiting thread gets the interpreter lock, which is released every 5 ms."""

_passages: dict[str, Callable[[Any, Any], Any]] = {}


class LossListener(Protocol):
    """Is called around `backward` and loss functions."""

    def backward_begins(self, tensors: Any) -> None: ...
    def backward_ended(self) -> None: ...
    def gradients_asked(self, outputs: Any, inputs: Any, grad_outputs: Any) -> bool: ...
    def gradients_returned(self, inputs: Any, gradients: Any) -> None: ...
    def loss_scaled(self, outputs: Any, scaled: Any) -> None: ...
    def takes_loss(self, name: str, loss: Any, args: Any, kwargs: Any) -> bool: ...
    def loss_returned(self, name: str, loss: Any, args: Any, kwargs: Any) -> None: ...
    def loss_raised(self, name: str, args: Any, kwargs: Any) -> None: ...


class ClippingListener(Protocol):
    """Is called around functions that clip gradients."""

    def before_clip(self, parameters: Any, *, by_value: bool) -> None: ...
    def after_clip(self, total_norm: Any) -> None: ...


class ScalerListener(Protocol):
    """Is called around `GradScaler.step`."""

    def scaler_step_begins(self, scaler: Any, optimizer: Any) -> None: ...
    def scaler_step_ended(self, scaler: Any, optimizer: Any) -> None: ...


class OptimizerListener(Protocol):
    """Is called for new optimizers and for steps of schedulers."""

    def scheduler_stepped(self, scheduler: Any) -> None: ...
    def optimizer_made(self, optimizer: Any) -> None: ...


class EvaluationListener(Protocol):
    """Is called when an evaluation may start."""

    def mode_set(self, training: bool) -> None: ...
    def gradients_turned_off(self) -> None: ...


@dataclass(frozen=True, slots=True)
class Listeners:
    """Receive the wrappers' calls; the methods must not raise, except on purpose."""

    losses: LossListener
    clipping: ClippingListener
    scaler: ScalerListener
    optimizers: OptimizerListener
    evaluations: EvaluationListener


class Feeder(Protocol):
    """Receives calls of data loaders; the methods must not raise, except on purpose."""

    @property
    def traces(self) -> bool: ...
    def loader_will_begin(self, loader: Any) -> None: ...
    def loader_begins(self, loader: Any, iterator: Any, secs: float) -> None: ...
    def loader_asked(self, iterator: Any) -> None: ...
    def loader_gave(self, iterator: Any, secs: float, *batch: Any) -> None: ...
    def loader_draws(self, iterator: Any) -> None: ...
    def loader_drew(self, iterator: Any, drawn: Any) -> None: ...
    def loader_ended(self, iterator: Any) -> None: ...
    def batch_came(self, iterator: Any, batch: Any) -> None: ...


class Wrappers:
    """Installs and removes the wrappers.

    Args:
        listeners: Receive calls.
        feeder: Receives calls of loaders.
    """

    def __init__(self, listeners: Listeners, feeder: Feeder) -> None:
        self._listeners: Listeners | None = listeners
        self._feeder = feeder
        self._undo: list[Callable[[], None]] = []
        self._in_scheduler = False

    def install(self) -> None:
        """Wrap everything in the list above."""
        self._wrap(torch.autograd, "backward", self._backward)
        self._wrap(torch.autograd, "grad", self._grad)
        self._wrap(clip_grad, "_clip_grads_with_norm_", self._clip_with_norm)
        self._wrap(clip_grad, "clip_grad_value_", self._clip_value)
        self._wrap(torch.nn.utils, "clip_grad_value_", self._clip_value)
        # Only if loaded: most scripts do not use it.
        after_import(_FLAT, self._wrap_flat)
        self._wrap(torch.amp.GradScaler, "scale", self._scale)
        self._wrap(torch.amp.GradScaler, "step", self._scaler_step)
        self._wrap(lr_scheduler.LRScheduler, "step", self._scheduler_step)
        for scheduler in SCHEDULERS:
            self._wrap(scheduler, "step", self._scheduler_step)
        self._wrap(torch.optim.Optimizer, "__init__", self._make_optimizer)
        self._wrap(torch.nn.Module, "train", self._train)
        self._wrap(DataLoader, "__iter__", self._loader_iter)
        self._wrap(_BaseDataLoaderIter, "__next__", self._loader_next)
        if self._feeder.traces:
            self._wrap(_BaseDataLoaderIter, "_next_index", self._next_index)
        if hasattr(torch.distributed, "destroy_process_group"):
            self._wrap(torch.distributed, "destroy_process_group", self._leave_group)
        self._wrap(torch.no_grad, "__enter__", self._turn_off)
        self._wrap(torch.inference_mode, "__enter__", self._turn_off)
        for name in LOSS_FUNCTIONS:
            function = getattr(torch.nn.functional, name, None)
            if isinstance(function, FunctionType):
                self._listen_in(function, name)

    def notify(self, listeners: Listeners | None) -> None:
        """Call these listeners from now on; None: none, and the wrappers only call the originals."""
        self._listeners = listeners

    def undo(self) -> None:
        """Restore the originals; wrappers built on top of ours keep working."""
        self._listeners = None
        forget(self._wrap_flat)
        while self._undo:
            self._undo.pop()()

    def _wrap(self, holder: Any, name: str, around: Callable[..., Any]) -> None:
        original = holder.__dict__[name]

        @functools.wraps(original)
        def wrapper(*args: Any, **kwargs: Any) -> Any:
            # A tracing compiler sees a constant: nothing of ours enters its graph.
            if torch.compiler.is_compiling() or self._listeners is None:
                return original(*args, **kwargs)
            return around(original, self._listeners, args, kwargs)

        def put_back() -> None:
            if holder.__dict__.get(name) is wrapper:
                setattr(holder, name, original)

        setattr(holder, name, wrapper)
        self._undo.append(put_back)

    def _listen_in(self, function: FunctionType, name: str) -> None:
        """Notify the listener of a function's results by replacing its code, not the function.

        The function object remains the same under every name in a script or a model: it can be pickled, compared,
        scripted and imported by name as before. Meanwhile its code calls the original code.
        """
        plain = FunctionType(
            function.__code__, function.__globals__, function.__name__, function.__defaults__, function.__closure__
        )
        plain.__kwdefaults__ = function.__kwdefaults__
        had_wrapped = function.__dict__.get("__wrapped__")

        def call(args: Any, kwargs: Any) -> Any:
            try:
                result = plain(*args, **kwargs)
            except Exception:
                if self._listeners is not None and not _is_traced(args, kwargs):
                    self._listeners.losses.loss_raised(name, args, kwargs)
                raise
            listeners = self._listeners
            if listeners is None or torch.compiler.is_compiling() or listeners.losses.takes_loss(
                    name, result, args, kwargs):
                return result
            if not _is_traced(args, kwargs):
                listeners.losses.loss_returned(name, result, args, kwargs)
            return result

        _passages[name] = call
        passage: dict[str, Any] = {}
        exec(
            f"def {name}(*args, **kwargs):\n"
            f"    from barograph.capture.torch.wrappers import _passages\n"
            f"    return _passages[{name!r}](args, kwargs)\n",
            passage,
        )
        code = passage[name].__code__

        def put_back() -> None:
            if function.__code__ is code:
                function.__code__ = plain.__code__
                if had_wrapped is None:
                    function.__dict__.pop("__wrapped__", None)
                else:
                    function.__dict__["__wrapped__"] = had_wrapped

        # Inspecting source and signature must find those of the original function.
        function.__dict__["__wrapped__"] = plain
        function.__code__ = code
        self._undo.append(put_back)

    @staticmethod
    def _backward(original: Any, listeners: Listeners, args: Any, kwargs: Any) -> Any:
        args, kwargs, (tensors,) = _read(args, kwargs, "tensors")
        listeners.losses.backward_begins(tensors)
        result = original(*args, **kwargs)
        listeners.losses.backward_ended()
        return result

    @staticmethod
    def _grad(original: Any, listeners: Listeners, args: Any, kwargs: Any) -> Any:
        args, kwargs, (outputs, inputs, grad_outputs, _, create_graph, _, _, is_batch) = _read(
            args, kwargs, "outputs", "inputs", "grad_outputs", "retain_graph", "create_graph", "only_inputs",
            "allow_unused", "is_grads_batched")
        # Gradients with a graph are part of a loss.
        expected = not (create_graph or is_batch) and listeners.losses.gradients_asked(outputs, inputs, grad_outputs)
        gradients = original(*args, **kwargs)
        if expected:
            listeners.losses.gradients_returned(inputs, gradients)
        return gradients

    @staticmethod
    def _make_optimizer(original: Any, listeners: Listeners, args: Any, kwargs: Any) -> Any:
        result = original(*args, **kwargs)
        listeners.optimizers.optimizer_made(args[0])
        return result

    @staticmethod
    def _train(original: Any, listeners: Listeners, args: Any, kwargs: Any) -> Any:
        listeners.evaluations.mode_set(bool(args[1] if len(args) > 1 else kwargs.get("mode", True)))
        return original(*args, **kwargs)

    def _loader_iter(self, original: Any, _: Listeners, args: Any, kwargs: Any) -> Any:
        self._feeder.loader_will_begin(args[0])
        begin = time.perf_counter()
        iterator = original(*args, **kwargs)
        self._feeder.loader_begins(args[0], iterator, time.perf_counter() - begin)
        return iterator

    def _loader_next(self, original: Any, _: Listeners, args: Any, kwargs: Any) -> Any:
        self._feeder.loader_asked(args[0])
        begin = time.perf_counter()
        try:
            batch = original(*args, **kwargs)
        except BaseException as error:
            self._feeder.loader_gave(args[0], time.perf_counter() - begin)
            if isinstance(error, StopIteration):
                self._feeder.loader_ended(args[0])
            raise
        self._feeder.loader_gave(args[0], time.perf_counter() - begin, batch)
        self._feeder.batch_came(args[0], batch)
        return batch

    def _next_index(self, original: Any, _: Listeners, args: Any, kwargs: Any) -> Any:
        self._feeder.loader_draws(args[0])
        drawn = original(*args, **kwargs)
        self._feeder.loader_drew(args[0], drawn)
        return drawn

    @staticmethod
    def _clip_with_norm(original: Any, listeners: Listeners, args: Any, kwargs: Any) -> Any:
        # The caller may pass a generator, which both of us must iterate.
        parameters = args[0] if args else kwargs.pop("parameters")
        parameters = [parameters] if isinstance(parameters, torch.Tensor) else list(parameters)
        listeners.clipping.before_clip(parameters, by_value=False)
        result = original(parameters, *args[1:], **kwargs)
        listeners.clipping.after_clip(args[2] if len(args) > 2 else kwargs.get("total_norm"))
        return result

    def _wrap_flat(self) -> None:
        if self._listeners is not None:
            self._wrap(sys.modules[_FLAT].FullyShardedDataParallel, "clip_grad_norm_", self._clip_flat)

    @staticmethod
    def _clip_flat(original: Any, listeners: Listeners, args: Any, kwargs: Any) -> Any:
        listeners.clipping.before_clip(list(args[0].parameters()), by_value=False)
        total_norm = original(*args, **kwargs)
        listeners.clipping.after_clip(total_norm)
        return total_norm

    @staticmethod
    def _clip_value(original: Any, listeners: Listeners, args: Any, kwargs: Any) -> Any:
        parameters = args[0] if args else kwargs.pop("parameters")
        parameters = [parameters] if isinstance(parameters, torch.Tensor) else list(parameters)
        listeners.clipping.before_clip(parameters, by_value=True)
        return original(parameters, *args[1:], **kwargs)

    @staticmethod
    def _scale(original: Any, listeners: Listeners, args: Any, kwargs: Any) -> Any:
        scaled = original(*args, **kwargs)
        listeners.losses.loss_scaled(args[1] if len(args) > 1 else kwargs.get("outputs"), scaled)
        return scaled

    @staticmethod
    def _scaler_step(original: Any, listeners: Listeners, args: Any, kwargs: Any) -> Any:
        scaler, optimizer = args[0], args[1] if len(args) > 1 else kwargs.get("optimizer")
        listeners.scaler.scaler_step_begins(scaler, optimizer)
        result = original(*args, **kwargs)
        listeners.scaler.scaler_step_ended(scaler, optimizer)
        return result

    @staticmethod
    def _leave_group(original: Any, _: Listeners, args: Any, kwargs: Any) -> Any:
        # Threads of gloo reference Python objects until they get the interpreter lock once more. When the group is
        # destroyed, PyTorch waits for these threads with that lock: a deadlock unless they get their turn first.
        time.sleep(_TURNS_SECS)
        return original(*args, **kwargs)

    @staticmethod
    def _turn_off(original: Any, listeners: Listeners, args: Any, kwargs: Any) -> Any:
        listeners.evaluations.gradients_turned_off()
        return original(*args, **kwargs)

    def _scheduler_step(self, original: Any, listeners: Listeners, args: Any, kwargs: Any) -> Any:
        if self._in_scheduler:
            return original(*args, **kwargs)  # a scheduler that steps others counts once
        self._in_scheduler = True
        try:
            result = original(*args, **kwargs)
        finally:
            self._in_scheduler = False
        listeners.optimizers.scheduler_stepped(args[0])
        return result


def _read(args: Any, kwargs: Any, *names: str) -> tuple[tuple[Any, ...], dict[str, Any], list[Any]]:
    """Return the arguments, iterators as tuples since they can be read only once; and those of these names."""
    args = tuple(tuple(item) if isinstance(item, Iterator) else item for item in args)
    kwargs = {name: tuple(item) if isinstance(item, Iterator) else item for name, item in kwargs.items()}
    return args, kwargs, [args[at] if len(args) > at else kwargs.get(name) for at, name in enumerate(names)]


def _is_traced(args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
    """Return whether a compiler makes the call, which computes nothing yet.

    Before 2.13, PyTorch's compiler does not report that while it infers the shape of a function's result: its arguments
    then have no elements.
    """
    return torch.compiler.is_compiling() or any(
        type(value).__name__ == "FakeTensor" for value in (*args, *kwargs.values()))
