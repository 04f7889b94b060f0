"""Brings a restarted script to the position of a checkpoint, and restores its state there.

The script runs as usual. Of each pass over a loader that started before the checkpoint, it gets one batch and then the
end: so its own loops keep counting, whatever they do once per pass, and the variables used after a loop exist. When it
requests the second batch of the pass in which the checkpoint was saved, models, optimizers, schedulers, the position in
the data, the script's own variables and all generators are restored, and the loader continues with the next batch.

A script may need all batches of an evaluation, for example to compare all predictions with all targets. If it fails on
the way, after an evaluation was shortened, the run notes it, and later attempts repeat evaluations in full. An
evaluation is a pass in which no optimizer has stepped.

Until then, the script's standard output is not shown, and its calls of `torch.save` write nothing: they would show and
store wrong values.
"""

from __future__ import annotations

import functools
import os
import sys
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any, NoReturn

import torch
from torch import distributed
from torch.nn.modules import module as module_hooks
from torch.optim import optimizer as optimizer_hooks
from torch.utils.data import DataLoader
from torch.utils.data.dataloader import _BaseDataLoaderIter

from barograph.capture.frames import count_on, frames_of_script
from barograph.capture.steps import Steps, StepsIterator
from barograph.capture.torch.joining import before_joining, is_child
from barograph.capture.torch.names import ModelNames
from barograph.capture.torch.optimizers import OptimizerBook
from barograph.capture.torch.passes import LoaderNames, Pass, PassName, begun_again
from barograph.capture.torch.putting_back import PuttingBack, put_settings
from barograph.capture.torch.unpacking import Unpacker
from barograph.capture.torch.variables import put_back
from barograph.errors import EXIT_STOPPED, BarographError, ResumeFailed
from barograph.model.resume import ResumeOrder, ResumeResult, result_of_worker
from barograph.runs.state.checkpoints import (
    Checkpoint,
    name_of_worker,
    need_full_evaluations,
    needs_full_evaluations,
    read_checkpoint,
    read_next,
)
from barograph.store.base import Store

if TYPE_CHECKING:
    from barograph.capture.torch.feeding import Feeding
    from barograph.capture.torch.integration import TorchIntegration


_ENDED_BEFORE = "The script ended before it reached the position of the checkpoint"
_MOST_CHARS = 300


class PassedOver:
    """The iterator a script gets over a loader until its training resumes.

    Args:
        resuming: Determines when that is.
        loader: The loader.
        name: Name of the pass.
        steps: Optimizer steps since the script started.
    """

    def __init__(self, resuming: Resuming, loader: Any, name: PassName, steps: int) -> None:
        self.loader, self.name, self.steps = loader, name, steps
        self.batches: Any = None
        self.given = 0
        self.real: Any = None
        self._resuming = resuming

    def __iter__(self) -> PassedOver:
        return self

    def __len__(self) -> int:
        return len(self.loader)

    def __next__(self) -> Any:
        if self.real is None:
            batch = self._resuming.next_of(self)
            if self.real is None:
                return batch
        return next(self.real)


class Resuming:
    """Restores the checkpoint of the script.

    Args:
        checkpoint: The checkpoint.
        order: The order to resume.
        names: The models, which are discovered on the way.
        optimizers: The optimizers, which are discovered on the way.
        loaders: Names passes.
        arrived: Called once everything is restored, with the passes that continue, by their iterators.
        feeding: Is notified of indices drawn on the way.
        in_full: Repeats evaluations in full.
        need_full: Called if the script failed after an evaluation was shortened.

    Attributes:
        over: The training continues, or never will.
    """

    def __init__(
        self, checkpoint: Checkpoint, order: ResumeOrder, names: ModelNames, optimizers: OptimizerBook,
        loaders: LoaderNames, arrived: Callable[[list[tuple[Any, Pass]]], None], feeding: Feeding, *,
        in_full: bool, need_full: Callable[[], None],
    ) -> None:
        self._content = checkpoint.content
        self._checkpoint = checkpoint
        self._order = order
        self._names = names
        self._optimizers = optimizers
        self._loaders = loaders
        self._arrived = arrived
        self._feeding = feeding
        self._in_full, self._need_full = in_full, need_full
        self._steps = 0
        self._has_shortened = False
        self._unpacker = Unpacker(checkpoint.tensors, checkpoint.name, meshes=names.meshes)
        self._targets = {_name_of(item): item for item in self._content["place"]["passes"]}
        self._first = _name_of(self._content["place"]["passes"][0])
        self._under_way: dict[PassName, PassedOver] = {}
        self._batches: dict[int, Any] = {}
        self._undo: list[Callable[[], None]] = []
        self._notes: list[str] = []
        self._iterate: Callable[[Any], Any] = iter
        self.over = False
        self._pid = os.getpid()

    def install(self) -> None:
        """Start to restore the checkpoint."""
        self._notes += put_settings(self._content)
        original = DataLoader.__iter__
        self._iterate = lambda loader: StepsIterator(loader) if isinstance(loader, Steps) else original(loader)

        def begins(loader: DataLoader[Any]) -> Any:
            return self.begins(loader)

        self._put(DataLoader, "__iter__", begins)
        self._put(torch, "save", lambda *args, **kwargs: None)
        handles = [module_hooks.register_module_forward_pre_hook(self._forward_begins),
                   optimizer_hooks.register_optimizer_step_post_hook(self._stepped)]
        self._undo += [handle.remove for handle in handles]

    def ends(self, error: str = "") -> None:
        """Note that the script has ended: report if it did not reach its checkpoint.

        Args:
            error: The exception that ended it; "": none.

        Raises:
            StoreError: The store rejected the note that evaluations must be repeated in full.
        """
        if self.over or os.getpid() != self._pid or self._is_said():
            return
        self._undo_all()
        again = self._has_shortened and bool(error) and not error.startswith(KeyboardInterrupt.__name__)
        line = error.partition("\n")[0][:_MOST_CHARS].rstrip(".")
        why = f": {line}." if line else "."
        hint = " Evaluations were shortened; the next attempt repeats them in full." if again else ""
        if again:
            self._need_full()
        self._say(ResumeResult(self._checkpoint.steps, f"{_ENDED_BEFORE}{why}{hint}", again=again))

    # Until the script reaches its checkpoint

    def begins(self, loader: Any) -> PassedOver:
        """Return the iterator over a loader that a script gets."""
        self._quiet()
        passed = PassedOver(self, loader, self._loaders.begins(loader), self._steps)
        self._under_way[passed.name] = passed
        return passed

    def next_of(self, passed: PassedOver) -> Any:
        """Return a batch of a skipped pass; nothing if the training continues here.

        Raises:
            StopIteration: The script already got all batches it gets.
        """
        if passed.given and passed.name == self._first and not self.over:
            self._arrive(passed, sys._getframe(1))
            return None
        try:
            batch = self._in_full_of(passed) if self._in_full else self._first_of(passed)
        except StopIteration:
            self._under_way.pop(passed.name, None)
            raise
        passed.given += 1
        return batch

    def _in_full_of(self, passed: PassedOver) -> Any:
        """Return the next batch, until an optimizer steps."""
        if self.over or self._steps > passed.steps:
            raise StopIteration
        if passed.batches is None:
            passed.batches = self._iterate(passed.loader)
        return next(passed.batches)

    def _first_of(self, passed: PassedOver) -> Any:
        if passed.given:
            self._has_shortened = self._has_shortened or self._steps == passed.steps
            raise StopIteration
        return self._batch_of(passed.loader)

    def _batch_of(self, loader: Any) -> Any:
        key = id(loader)
        if key not in self._batches:
            self._batches[key] = (loader, next(self._iterate(loader)))
        return self._batches[key][1]

    def _forward_begins(self, module: torch.nn.Module, args: Any) -> None:
        # As the integration does it, so that all labels are the same as before.
        if self._names.module(module) is None and next(module.parameters(), None) is not None:
            self._names.add_root(module)
        if not self._names.frozen:
            self._names.freeze(self._optimizers.survey())
            self._names.label_all()

    def _stepped(self, optimizer: Any, args: Any, kwargs: Any) -> None:
        self._steps += 1
        self._optimizers.entry(optimizer).meet()

    def _quiet(self) -> None:
        if self.over or "stdout" in self.__dict__:
            return
        shown = self.stdout = sys.stdout
        silent = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115 - until the training goes on
        sys.stdout = silent

        def speak() -> None:
            if sys.stdout is silent:
                sys.stdout = shown
            silent.close()

        self._undo.append(speak)

    # At the checkpoint

    def _arrive(self, passed: PassedOver, frame: FrameType) -> None:
        try:
            with torch.no_grad():
                going_on = self._put_back(passed, frame)
        except (BarographError, KeyError, TypeError, ValueError, RuntimeError, StopIteration) as error:
            text = str(error) if isinstance(error, BarographError) else f"{type(error).__name__}: {error}"
            self._fail(text)
        if self._notes and not self._order.inexact:
            self._fail(f"The training would differ from the original: {' '.join(self._notes)}")
        self.over = True
        self._undo_all()
        self.say()
        self._arrived(going_on)

    def _put_back(self, passed: PassedOver, frame: FrameType) -> list[tuple[Any, Pass]]:
        going_on = []
        self._follow_loaders()
        for name, packed in self._targets.items():
            stub = self._under_way.get(name)
            if stub is None:
                raise ResumeFailed(f"The checkpoint was saved during a pass over {name.loader}, which the script "
                                   "has not started.")
            iterator, known = begun_again(stub.loader, packed, self._unpacker, self._iterate)
            going_on.append((iterator, known))
            count_on(stub, int(packed["given"]) - stub.given, frame)
            stub.real = iterator
        self._names.freeze(self._optimizers.survey())
        putting = PuttingBack(self._content, self._unpacker, self._names, self._optimizers, held_by="checkpoint",
                              failure=ResumeFailed)
        putting.everything()
        self._notes += putting.notes
        self._notes += put_back(self._content["place"]["variables"], frames_of_script(frame), self._unpacker)
        self._notes += [f"This machine has no {device}." for device in sorted(self._unpacker.moved)]
        putting.random()
        return going_on

    def _follow_loaders(self) -> None:
        """Notify the data trace of draws, including those ahead by workers: later entries depend on them."""
        draw, give = _BaseDataLoaderIter._next_index, _BaseDataLoaderIter.__next__

        def next_index(iterator: Any) -> Any:
            return self._feeding.pass_is_passed_over(iterator, draw)

        def next_batch(iterator: Any) -> Any:
            return self._feeding.batch_is_passed_over(iterator, give)

        self._put(_BaseDataLoaderIter, "_next_index", next_index)
        self._put(_BaseDataLoaderIter, "__next__", next_batch)

    def _fail(self, text: str) -> NoReturn:
        self.over = True
        self._undo_all()
        self._say(ResumeResult(self._checkpoint.steps, text))
        raise SystemExit(EXIT_STOPPED)

    def say(self, proof: str = "") -> None:
        """Report to the sender of the order that the training continues, and how that was verified."""
        self._say(ResumeResult(self._checkpoint.steps, notes=tuple(self._notes), proof=proof))

    def _is_said(self) -> bool:
        """Return whether another process has reached the checkpoint: this one only loads its data."""
        return bool(self._order.result) and Path(self._order.result).exists()

    def _say(self, result: ResumeResult) -> None:
        if self._order.result:
            Path(self._order.result).write_text(result.to_text(), encoding="utf-8")

    def _put(self, holder: Any, name: str, value: Any) -> None:
        original = holder.__dict__[name]
        setattr(holder, name, value)

        def put_back_original() -> None:
            if holder.__dict__.get(name) is value:
                setattr(holder, name, original)

        self._undo.append(put_back_original)

    def _undo_all(self) -> None:
        while self._undo:
            self._undo.pop()()
        self._batches.clear()


def begin_resuming(
    integration: TorchIntegration, store: Store, order: ResumeOrder, begun: Callable[[Resuming], None]
) -> None:
    """Restore a script's checkpoint, and record from there on.

    Each of several workers continues from its own part; a worker that the script starts itself does so once it has
    joined the others. A process that is not a worker, such as the one that starts them, has no part; if it trains
    anyway, it is ended.

    Args:
        integration: Not yet installed.
        store: Store of the run.
        order: The order to resume.
        begun: Called with the object that restores the checkpoint.

    Raises:
        ResumeFailed: There is no such checkpoint, or it cannot be resumed.
        DamagedChunk, StoreError: It cannot be read.
    """
    rank, world_size = integration.session.worker.rank
    # Before anything is read: forked workers would lack the store's threads.
    if order.workers != world_size:
        text = f"The checkpoint was saved by {order.workers} workers, but here {_are(world_size)}. Start as many."
        if world_size > 1 or not distributed.is_available() or distributed.is_initialized():
            raise ResumeFailed(text)
        trains = _refuse_to_train(order, text)

        def join(joins: functools.partial[None]) -> None:
            joins()
            trains.remove()
            try:
                begin_resuming(integration, store, order, begun)
            except BarographError as error:
                refuse(order, str(error))

        before_joining(join)
        return
    if order.child and not is_child():
        _refuse_to_train(order, "The checkpoint was saved by a child process of the script. A forked process cannot "
                                "resume from it: use multiprocessing's spawn, or train in the "
                                "script's own process.")
        return
    if rank:
        order = replace(order, checkpoint=name_of_worker(order.checkpoint, rank),
                        result=result_of_worker(order.result, rank))
    checkpoint = read_checkpoint(store, order.checkpoint)
    if checkpoint is None or checkpoint.why_not:
        why = checkpoint.why_not if checkpoint is not None else "it does not exist"
        raise ResumeFailed(f"Cannot resume from {order.checkpoint}: {why}.")
    begun(_from_checkpoint(integration, store, order, checkpoint))


def _from_checkpoint(
    integration: TorchIntegration, store: Store, order: ResumeOrder, checkpoint: Checkpoint
) -> Resuming:
    session, checkpointer = integration.session, integration.feeding.begin_checkpointer()

    def proved(text: str, same: bool) -> None:
        resuming.say(proof=text)
        if same:
            session.guard.note(f"Resumed from step {checkpoint.steps}: {text}.")
        else:
            session.guard.report(f"the resumed training differs from the original: {text}")

    def arrived(passes: list[tuple[Any, Pass]]) -> None:
        session.counts.resume_at({str(label): int(number) for label, number in checkpoint.content["steps"].items()})
        integration.hooks.place.end_own_work()
        session.script.pass_over(False)
        checkpointer.next_step.expect(read_next(store, checkpoint.name), proved)
        for iterator, item in passes:
            integration.feeding.pass_goes_on(iterator, item)
        integration.install()

    resuming = Resuming(checkpoint, order, integration.names, integration.optimizers, checkpointer.loaders, arrived,
                        integration.feeding, in_full=needs_full_evaluations(store),
                        need_full=lambda: need_full_evaluations(store))
    integration.feeding.resume(resuming)
    # Nothing is recorded on the way, whatever the script passes.
    integration.hooks.place.begin_own_work()
    session.script.pass_over(True)
    resuming.install()
    return resuming


def refuse(order: ResumeOrder, text: str) -> NoReturn:
    """End this process before it trains from the beginning instead of resuming.

    Raises:
        SystemExit: Always.
    """
    if order.result:
        Path(order.result).write_text(ResumeResult(0, text).to_text(), encoding="utf-8")
    raise SystemExit(EXIT_STOPPED)


def _refuse_to_train(order: ResumeOrder, text: str) -> Any:
    def refuse_step(optimizer: Any, args: Any, kwargs: Any) -> None:
        refuse(order, text)

    return optimizer_hooks.register_optimizer_step_pre_hook(refuse_step)


def _are(workers: int) -> str:
    return "is 1" if workers == 1 else f"are {workers}"


def _name_of(packed: Mapping[str, Any]) -> PassName:
    return PassName(packed["loader"], int(packed["number"]), int(packed["begun"]))
