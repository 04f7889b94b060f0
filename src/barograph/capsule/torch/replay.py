"""Replays the step of a capsule inside the user's script, in place of its first step.

The script builds its models, optimizers and loss as usual. Before its first training step, everything is restored to
the state before the saved step. The loader yields the saved batches, and models and loss functions get their original
arguments. The script exits before the update.
"""

from __future__ import annotations

import functools
import math
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from torch import nn
from torch.nn.modules import module as module_hooks
from torch.optim import optimizer as optimizer_hooks
from torch.utils import checkpoint as checkpointing
from torch.utils._python_dispatch import _disable_current_modes as aside
from torch.utils._python_dispatch import _get_current_dispatch_mode
from torch.utils.data.dataloader import _BaseDataLoaderIter

from barograph.capsule.ending import FAILURES, end, failed
from barograph.capsule.grading import graded
from barograph.capsule.kept_apart import KeptApart
from barograph.capsule.order import Grade, ReplayOrder, ReplayResult
from barograph.capsule.remedies import remedy_from
from barograph.capsule.torch.alone import stand_alone
from barograph.capsule.torch.asking import Asking
from barograph.capsule.torch.blame import Blame
from barograph.capsule.torch.fastai import asked_by_fastai, hear_fastai
from barograph.capsule.torch.parts import Parts
from barograph.capsule.torch.phases import Phases
from barograph.capsule.torch.sameness import differs, needs_gradients, overwritten, same
from barograph.capsule.torch.stopping import Stopping
from barograph.capsule.torch.trial import TorchTrial
from barograph.capsule.torch.where import Where
from barograph.capsule.torch.wrapping import wrap
from barograph.capture.torch.capsule import seen_of
from barograph.capture.torch.closure import closure_of, with_closure
from barograph.capture.torch.entry_point import HOOKS_WARNING, in_backward
from barograph.capture.torch.graph import given_tensors
from barograph.capture.torch.kept import loss_value
from barograph.capture.torch.names import ModelNames, unwrapped
from barograph.capture.torch.optimizers import OptimizerBook
from barograph.capture.torch.putting_back import PuttingBack, put_settings
from barograph.capture.torch.recomputation import gets_gradients, is_made_again
from barograph.capture.torch.step_variables import put_variables
from barograph.capture.torch.unpacking import Unpacker
from barograph.capture.torch.wrappers import LOSS_FUNCTIONS
from barograph.errors import ReplayFailed
from barograph.runs.state.capsules import Capsule, read_capsule
from barograph.store.urls import store_from_url


class Replayer:
    """Takes over the script for one step.

    Args:
        order: The step to replay, and the destination of the result.

    Raises:
        BarographError: The capsule cannot be read.
    """

    def __init__(self, order: ReplayOrder) -> None:
        self._order = order
        self._capsule: Capsule = read_capsule(store_from_url(order.place), order.name)
        self._content = self._capsule.content
        self._names = ModelNames()
        self._unpacker = Unpacker(self._capsule.tensors, self._capsule.where, apart=KeptApart(
            self._capsule.pickled, opens=order.opens_pickle, where=self._capsule.where), meshes=self._names.meshes)
        self._book = OptimizerBook(self._names)
        self._asking = Asking(order, self._capsule.head, self._names)
        self._putting = PuttingBack(self._content, self._unpacker, self._names, self._book)
        self._notes: list[str] = []
        self._begun = self._stepped = False
        self._phases = Phases(self._content, self._capsule.head.optimizer)
        self._inside: nn.Module | None = None
        self._where = Where(self._names)
        self._parts = Parts(self._content, self._unpacker, order)
        self._blame = Blame(self._where.now, self._where.of_node, self._where.handed_in, self._samples_now,
                            stopping=Stopping(order.stop) if order.stop is not None else None)
        self._trial = TorchTrial(remedy_from(order.remedy), order.steps) if order.remedy else None
        self._result: ReplayResult | None = None
        self._roots: list[torch.Tensor] = []
        self._put_in: set[str] = set()

    def _samples_now(self) -> int:
        calls = (self._phases.now or self._content)["calls"]
        return self._parts.samples_of(self._parts.batch_of(max(0, self._phases.called - 1), len(calls)))

    def install(self) -> None:
        """Hook into the script."""
        self._notes += put_settings(self._content)
        if self._order.alone:
            stand_alone()
            self._note("The capsules of the other workers are missing: the gradients are this worker's only.")
        warnings.filterwarnings("ignore", message=HOOKS_WARNING)
        module_hooks.register_module_forward_pre_hook(self._forward_begins)
        module_hooks.register_module_forward_hook(self._forward_ends, always_call=True)
        optimizer_hooks.register_optimizer_step_pre_hook(self._step_begins)
        optimizer_hooks.register_optimizer_step_post_hook(self._after_update)
        hear_fastai(self._step_begins, self._after_update)
        wrap(nn.Module, "__call__", self._module_called)
        wrap(torch.autograd, "backward", self._backward)
        wrap(torch.amp.GradScaler, "step", self._scaler_step)
        for holder, name in ((checkpointing, "_checkpoint_without_reentrant_generator"),
                             (checkpointing.CheckpointFunction, "apply")):
            wrap(holder, name, self._checkpointed)
        wrap(_BaseDataLoaderIter, "__next__", self._next_batch)
        self._asking.install()
        for name in LOSS_FUNCTIONS:
            wrap(torch.nn.functional, name, functools.partial(self._loss, name))

    # Events of the script

    def _next_batch(self, original: Callable[..., Any], args: Any, kwargs: Any) -> Any:
        phase = self._phases
        if phase.now is None or not torch.is_grad_enabled() or phase.fed >= len(phase.now["batches"]):
            return original(*args, **kwargs)
        self._begin()
        number, of = phase.fed, len(phase.now["batches"])
        phase.fed += 1
        with self._failing():
            batch = self._parts.unpacked(phase.now["batches"][number], number)
        self._where.fed(batch, f"batch {number}" if of > 1 else "batch")
        return batch

    def _module_called(self, original: Callable[..., Any], args: Any, kwargs: Any) -> Any:
        """Call a module; a model gets its original positional and keyword arguments."""
        phase = self._phases
        if phase.now is None or not self._is_outermost():
            return original(*args, **kwargs)
        self._begin()
        call = self._next_call(args[0], phase.now["calls"])
        if call is None or call["made"]:
            return original(*args, **kwargs)
        batch = self._parts.batch_of(phase.called - 1, len(phase.now["calls"]))
        with aside(), self._failing():
            wanted, named = (self._parts.unpacked(call[part], batch) for part in ("args", "kwargs"))
            is_same = same(args[1:], wanted) and same(kwargs, named)
        if is_same or self._trusts("calls"):
            return original(*args, **kwargs)
        self._put_in.add("calls")
        self._note("The model's inputs were taken from the capsule: the script's own preparation differs.")
        for handed in (wanted, named):
            self._where.fed(handed, "input of the model")
        with aside(), self._failing():
            # If the model gets its own tensors again, or gradients lead to them, they must hold the original values.
            own = args[1:], kwargs
            if (is_made_again() or needs_gradients(own)) and overwritten(own, (wanted, named)):
                wanted, named = args[1:], kwargs
        return original(args[0], *wanted, **named)

    def _checkpointed(self, original: Callable[..., Any], args: Any, kwargs: Any) -> Any:
        """Restore random states before activation checkpointing saves them for recomputation."""
        phase = self._phases
        if phase.now is not None and self._is_outermost():
            self._begin()
            if not phase.random_is_back:
                self._put_random_back(phase.now)
        return original(*args, **kwargs)

    def _is_outermost(self) -> bool:
        """Return whether the script itself makes this call, in training, rather than a model or a recomputation."""
        return self._inside is None and not in_backward() and gets_gradients()

    def _forward_begins(self, module: nn.Module, args: Any) -> None:
        """Restore random states and variables at the start of a model's forward pass."""
        if self._begun:
            self._where.entered(module)
        phase = self._phases
        if phase.now is None or not self._is_outermost():
            return
        self._inside = module
        if not phase.random_is_back:
            phase.random_is_back = True
            self._put_random_back(phase.now)
            with aside(), self._failing():
                put_variables(self._parts.variables_of(phase.now), self._is_to_be_put)

    def _forward_ends(self, module: nn.Module, args: Any, output: Any) -> None:
        if self._begun:
            self._where.left()
        if module is self._inside:
            self._inside = None

    def _loss(self, name: str, original: Callable[..., Any], args: Any, kwargs: Any) -> Any:
        phase = self._phases
        calls = phase.now["losses"] if phase.now is not None else ()
        if (phase.is_back and phase.lost < len(calls) and calls[phase.lost]["what"] == name
                and not in_backward() and gets_gradients()):
            with aside(), self._failing():
                wanted = self._parts.unpacked(calls[phase.lost]["args"], self._parts.batch_of(phase.lost, len(calls)))
                targets = tuple(self._target(now, then) for now, then in zip(args, wanted, strict=False))
            phase.lost += 1
            args = targets + args[len(wanted):]
        return original(*args, **kwargs)

    def _target(self, now: Any, then: Any) -> Any:
        """Return the arguments of a loss function: the input from the model, and the original targets."""
        made_here = isinstance(now, torch.Tensor) and (now.grad_fn is not None or now.requires_grad)
        if made_here or same(now, then) or self._trusts("losses"):
            return now
        self._put_in.add("losses")
        self._note("A loss function's arguments were taken from the capsule: the script's own differ.")
        return then.to(now.device) if isinstance(now, torch.Tensor) and isinstance(then, torch.Tensor) else then

    def _backward(self, original: Callable[..., Any], args: Any, kwargs: Any) -> Any:
        tensors = args[0] if args else kwargs.get("tensors")
        if self._begun and not in_backward():
            roots = [root.detach() for root in given_tensors(tensors)]
            self._roots += roots
            with aside():
                self._blame.loss(roots)
        with nullcontext() if self._trial is None else self._trial.backward():
            return original(*args, **kwargs)

    def _step_begins(self, optimizer: Any, args: Any, kwargs: Any) -> Any:
        self._names.freeze(() if self._names.frozen else self._book.survey())
        closure = closure_of(args, kwargs)
        if closure is None:
            self._before_update(optimizer)
            return None
        if self._phases.is_last and self._book.entry(optimizer).label == self._capsule.head.optimizer:
            if self._trial is not None:
                self._end(failed(ReplayFailed("remedies cannot be tried on a step whose gradients are computed in a "
                                              "closure")))
            # Before the optimizer uses its state.
            self._begin()

        def watched() -> Any:
            self._asking.restart(len(self._roots))
            result = closure()
            if len(self._roots) >= len(self._content["seen"]["losses"]):
                self._before_update(optimizer, updates=False)
            return result

        return with_closure(args, kwargs, watched)

    def _scaler_step(self, original: Callable[..., Any], args: Any, kwargs: Any) -> Any:
        result = original(*args, **kwargs)
        optimizer = asked_by_fastai(args[1] if len(args) > 1 else kwargs["optimizer"])
        if self._result is None and not self._stepped and optimizer is not None:
            # The scaler skipped the step, so no optimizer hook was called.
            self._before_update(optimizer, updates=False)
        self._stepped = False
        return result

    def _before_update(self, optimizer: Any, *, updates: bool = True) -> None:
        self._stepped = updates
        if not self._phases.is_back or not (self._phases.is_last or self._result is not None):
            return
        entry = self._book.entry(optimizer)
        if entry.label == self._capsule.head.optimizer:
            with aside():
                now = seen_of(self._roots, [(slot.path, slot.parameter) for slot in entry.slots])
                seen = self._asking.seen(entry, optimizer, self._roots)
            head = self._capsule.head
            with self._failing():
                result = graded(self._content["seen"], now, held=head.held.value, bound=head.numbers.get("bound"))
                result = replace(result, notes=(*self._notes, *self._putting.notes, *self._uncompiled(result)),
                                 bad_operation=None if result.finite else self._blame.verdict(),
                                 batches=tuple(self._parts.sizes),
                                 as_made=tuple(sorted({"calls", "losses", "variables"} - self._put_in)),
                                 norm=seen.norm, own=self._asking.answer(seen))
            self._result = self._result or result
            if self._trial is None or not updates:
                self._end(result)
                return
            loss = loss_value(self._roots[-1]) if self._roots else math.nan
            with aside():
                self._trial.before_update(optimizer, loss)
            self._roots.clear()

    def _uncompiled(self, result: ReplayResult) -> tuple[str, ...]:
        """Return the reason if the replay differs and the compiler may be the cause."""
        if result.grade is Grade.BITWISE or not self._content["settings"].get("compiled"):
            return ()
        return ("The step had used torch.compile, which may round differently: replayed without it.",)

    def _after_update(self, optimizer: Any, args: Any, kwargs: Any) -> None:
        label = self._book.entry(optimizer).label
        if self._result is None:
            self._phases.stepped(label)
            self._roots.clear()
        if self._result is not None and self._trial is not None and label == self._capsule.head.optimizer:
            with aside():
                trial = self._trial.after_update(optimizer)
            if trial is not None:
                self._end(replace(self._result, trial=trial))

    # The replay

    def _begin(self) -> None:
        """Restore everything at the start of each phase."""
        phase = self._phases
        if phase.is_back or phase.now is None:
            return
        phase.is_back = True
        with self._failing(), aside():
            self._names.freeze(() if self._names.frozen else self._book.survey())
            self._putting.everything(phase.now)
        self._blame.forget()
        if self._begun:
            return
        self._begun = True
        if self._trial is not None:
            self._trial.begin()
        # `_blame` reads the numbers. Anomaly mode stores with each graph node the line that made it.
        torch.autograd.set_detect_anomaly(True, check_nan=False)
        self._blame.__enter__()  # type: ignore[no-untyped-call]
        self._notes += [f"This machine has no {device}: its tensors were computed on the CPU."
                        for device in sorted(self._unpacker.moved)]

    def _put_random_back(self, phase: Mapping[str, Any]) -> None:
        with self._failing(), aside():
            self._putting.random(phase)

    def _next_call(self, module: nn.Module, calls: Sequence[Mapping[str, Any]]) -> Mapping[str, Any] | None:
        """Count and return the next call, if it is one of this module."""
        name = self._names.module(module) or self._names.module(unwrapped(module))
        number = self._phases.called
        if name is None or number >= len(calls) or calls[number]["what"] != self._names.path(name.root, name.path):
            return None
        self._phases.called += 1
        return calls[number]

    def _is_to_be_put(self, now: Any, then: Any) -> bool:
        """Return whether a variable of the script must be restored."""
        if not differs(now, then):
            return False
        if isinstance(then, torch.Tensor | np.ndarray):
            if self._trusts("variables"):
                return False
            self._put_in.add("variables")
        return True

    def _trusts(self, what: str) -> bool:
        """Return whether a reduced batch is fed, from which the script computes this as it did for the whole batch."""
        return bool(self._order.rows) and what in self._order.as_made

    def _note(self, text: str) -> None:
        if text not in self._notes:
            self._notes.append(text)

    @contextmanager
    def _failing(self) -> Iterator[None]:
        """End the script with a message if the capsule does not fit or is invalid."""
        try:
            yield
        except FAILURES as error:
            self._end(failed(error))

    def _end(self, result: ReplayResult) -> None:
        if _get_current_dispatch_mode() is self._blame:
            self._blame.__exit__(None, None, None)  # type: ignore[no-untyped-call]
        end(self._order, result)
