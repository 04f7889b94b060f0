"""Saves checkpoints when the script requests its next batch: then the current step is complete.

A restarted script can be brought to this point. The start of the next step is saved too, so that a resumed training can
verify that it matches.
"""

from __future__ import annotations

import os
import shlex
import sys
import time
import weakref
from collections import deque
from collections.abc import Callable, Mapping
from types import FrameType
from typing import Any

import torch
from torch.optim import lr_scheduler

from barograph.capture.cadence import Cadence
from barograph.capture.frames import frames_of_script, requesting_library
from barograph.capture.live_objects import instances_of
from barograph.capture.orders import NotDone
from barograph.capture.termination import Termination
from barograph.capture.torch.agreement import Agreement
from barograph.capture.torch.checkpoint import are_finite, save
from barograph.capture.torch.entry_point import HookState, in_backward
from barograph.capture.torch.names import ModelNames
from barograph.capture.torch.next_step import NextStep
from barograph.capture.torch.optimizers import OptimizerBook
from barograph.capture.torch.packing import Packer
from barograph.capture.torch.passes import LoaderNames, Pass, PassBook, packed_pass, standing_of
from barograph.capture.torch.shards import part_of
from barograph.capture.torch.values import tensors_in
from barograph.capture.torch.variables import Variables
from barograph.model.checkpoints import CheckpointSettings
from barograph.runs.format.layout import CHECKPOINTS
from barograph.runs.state.checkpoints import keep_newest, write_next
from barograph.runs.state.control import CHECKPOINT, Request
from barograph.store.base import Store

_RECENT = 64
_SIGTERM = "SIGTERM"
_UNASKED_STEPS = 32
"""Number of steps after which a script that requested no batch counts as one without a loader."""


class Checkpointer:
    """Saves checkpoints when they are due.

    Args:
        hooks: State shared by the hooks.
        names: Names of the models.
        optimizers: Optimizers of the script.
        settings: Settings of checkpoints.
        loaders: Names passes; includes those started before.
        store: Opens the store of the run.

    Attributes:
        loaders: See above.
        passes: Position of the script in its data.
        next_step: Observes the step after a checkpoint.
        costs_secs: Costs of the last checkpoints.
    """

    def __init__(
        self, hooks: HookState, names: ModelNames, optimizers: OptimizerBook, settings: CheckpointSettings, *,
        loaders: LoaderNames, store: Callable[[], Store],
    ) -> None:
        self.hooks = hooks
        self.loaders = loaders
        self.passes = PassBook(loaders)
        self.next_step = NextStep()
        self._session = hooks.session
        self._names = names
        self._optimizers = optimizers
        self._settings = settings
        self._open_store = store
        self._store: Store | None = None
        self.costs_secs: deque[float] = deque(maxlen=_RECENT)
        self._cadence = Cadence(settings, now_secs=self._session.clock.monotonic())
        self._agreement = Agreement(self._session.worker.attempt)
        self._variables: Variables | None = None
        self._wanted = ""
        self._asked_to_stop = ""
        self._steps_at_stop = self._steps_asked = self._steps_agreeing = 0
        self._saved: list[str] = []
        self._beside = _Beside(optimizers)
        self._batch: Any = None
        self._goes_on = False
        self._carries: bool | None = None
        self._looks_at_gradients = False
        self._requests: list[Request] = []
        self._session.steering.set_handler(CHECKPOINT, self._hear, always=True)
        self._termination = Termination(self._asked_to_end) if settings.on_sigterm else None

    # Events of the script

    def will_begin(self, loader: Any) -> None:
        """Save the state before a pass over a loader starts."""
        self._guarded("noting the start of a pass", lambda: self.passes.will_begin(loader))

    def asked(self, iterator: Any) -> None:
        """Save a checkpoint if one is due, because the script requests its next batch.

        Raises:
            TrainingStopped: SIGTERM was received.
        """
        self._guarded("saving a checkpoint", lambda: self._ask(iterator))
        if self._asked_to_stop and not self._wanted:
            self._stop()

    def gave(self, iterator: Any, batch: Any) -> None:
        """Note a batch of a loader when the script gets it, which excludes prefetched batches."""
        current = self.passes.of(iterator)
        if current is None:
            return
        current.given += 1
        self._batch = batch
        self._looks_at_gradients = True
        if self.next_step.waits:
            self._guarded("noting the state before the next step", lambda: self.next_step.batch_came(batch))

    def ended(self, iterator: Any) -> None:
        """Note that a loader has no more in this pass."""
        current = self.passes.of(iterator)
        if current is not None:
            current.ended = True

    def backward_begins(self, tensors: Any) -> None:
        """Note the loss of the step after a checkpoint, and whether gradients accumulate over steps."""
        if in_backward() or self.hooks.place.busy:
            return
        if self._looks_at_gradients and self._carries is not True:
            self._guarded("checking gradients", self._look_at_gradients)
        if self.next_step.waits:
            self._guarded("noting the loss of the next step", lambda: self.next_step.backward_begins(tensors))

    def step_ended(self) -> None:
        """Save a due checkpoint, or stop, if the script requests no batches from a loader.

        Raises:
            TrainingStopped: SIGTERM was received.
        """
        steps = self._steps()
        self._cadence.begins(steps)
        if steps >= self._steps_asked + _UNASKED_STEPS:
            self._guarded("saving a checkpoint", lambda: self._save_within(steps))
        if self._asked_to_stop and steps > max(self._steps_at_stop, self._agreement.after_steps - 1,
                                               self._steps_agreeing) + 1:
            self._stop(within=True)

    def ask_for_one(self, why: str) -> None:
        """Save a checkpoint when the script next requests a batch."""
        self._wanted = self._wanted or why

    def _hear(self, request: Request) -> None:
        """Save a checkpoint for a finding when the script next requests a batch, and report it then."""
        self._requests.append(request)
        self.ask_for_one(request.reason)

    def close(self) -> None:
        """Restore signal handling."""
        if self._termination is not None:
            self._termination.close()

    # Between two steps

    def _ask(self, iterator: Any) -> None:
        current = self.passes.of(iterator)
        if current is None:
            return
        frame = sys._getframe(1)
        if self._variables is None:
            self._variables = Variables(frames_of_script(frame), self._known())
        steps = self._steps_asked = self._steps()
        if current.first is None and (loader := current.loader()) is not None:
            current.first = standing_of(loader)
        self._cadence.begins(steps)
        before, current.asked_at = current.asked_at, steps
        if before is None or steps <= before:
            return
        if self._is_due(steps):
            self._save(lambda packer: self._place(current, frame, packer))

    def _is_due(self, steps: int) -> bool:
        """Return whether to save now: with several workers, all save after the same step."""
        now = self._session.clock.monotonic()
        wanted, self._wanted = self._wanted, ""
        if not self._is_of_several:
            return bool(wanted) or self._cadence.due(steps, now)
        self._steps_agreeing = steps
        is_time = self._session.worker.rank[0] == 0 and self._cadence.due_by_time(now)
        try:
            why = self._agreement.reached(steps, now, wanted or ("it was time" if is_time else ""))
        except NotDone as error:
            self._say_not_saved(error)
            return self._cadence.due_by_steps(steps)
        if why == _SIGTERM:
            self._asked_to_stop = _SIGTERM
        elif not why or wanted == _SIGTERM:
            # The others have yet to reach the agreed step; or they stop only on request.
            self._wanted = wanted
        return bool(why) or self._cadence.due_by_steps(steps)

    @property
    def _is_of_several(self) -> bool:
        return self._session.worker.rank[1] > 1

    def _save(self, place: Callable[[Packer], Mapping[str, Any]]) -> None:
        session, several = self._session, self._is_of_several
        begin = time.perf_counter()
        try:
            store = self._store = self._store or self._open_store()
            if not are_finite(self._names):
                raise NotDone("the weights are not finite")
            # Beside saving: of steps that are not made again, the records must not be lost either.
            session.output.flush()
            who, steps = f"r{session.worker.rank[0]}" if several else f"pid{os.getpid()}", session.counts.of_busiest
            save(store, self._names, self._optimizers, attempt=session.worker.attempt, steps=steps, who=who,
                 scaler=next(iter(self._beside.of(torch.amp.GradScaler)), None),
                 schedulers=self._beside.of(lr_scheduler.LRScheduler), made=session.counts.by_optimizer,
                 gradients=self._carries is not False,
                 place=place, finite=True, worker=session.worker.rank)
            name = f"{CHECKPOINTS}/{session.worker.attempt:04d}-{steps:08d}-{who}.json"
            self._saved.append(name)
            self.next_step.write_with(lambda seen: write_next(store, name, seen))
            self._answer(f"saved a checkpoint in {name}", done=True)
            keep_newest(store, self._settings.keep, self._saved, who=who if several else "",
                        workers=session.worker.rank[1])
        except NotDone as error:
            self._say_not_saved(error)
        finally:
            now = session.clock.monotonic()
            self.costs_secs.append(time.perf_counter() - begin)
            self._cadence.took(self._steps(), now, cost_secs=self.costs_secs[-1])
            # Its duration is not part of a step's.
            session.price.forget_step()
            session.progress.times.evaluation_ended(now)

    def _say_not_saved(self, error: NotDone) -> None:
        self._session.guard.report(f"no checkpoint was saved: {error}")
        self._answer(f"saved no checkpoint: {error}", done=False)

    def _answer(self, result: str, *, done: bool) -> None:
        requests, self._requests = self._requests, []
        for request in requests:
            self._session.steering.report(request, result, done=done)

    def _save_within(self, steps: int) -> None:
        """Save a checkpoint within a step: better than none, although a training cannot resume from it
        automatically."""
        if self._wanted or self._cadence.due(steps, self._session.clock.monotonic()):
            self._wanted = ""
            self._session.guard.report(
                "this training cannot be resumed: its loop uses no DataLoader. Count its steps with "
                "run.steps. Checkpoints hold its models and optimizers")
            self._save(lambda packer: {"why_not": "the script's loop uses no DataLoader and does not "
                                                  "count its steps with run.steps"})

    def _place(self, current: Pass, frame: FrameType, packer: Packer) -> Mapping[str, Any]:
        library = requesting_library(frame)
        self._goes_on = not library
        if library:
            self._session.guard.note(f"{library} runs the loop over the data: barograph resume cannot "
                                     "continue from these checkpoints.")
            return {"why_not": f"{library} runs the loop over the data; resume with {library}"}
        others = [item for item in self.passes.open() if item is not current]
        passes = [packed_pass(item, packer, f"passes/{number}") for number, item in enumerate([current, *others])]
        batch = {id(tensor) for _, tensor in tensors_in(self._batch)}
        variables = self._variables.changed(frames_of_script(frame), self._known() | batch, packer) if (
            self._variables is not None) else {}
        return {"passes": passes, "variables": variables}

    def _known(self) -> set[int]:
        """Return the identities of objects that are saved anyway: trained models, and state of their training."""
        known: set[int] = set()
        for root in self._names.roots:
            module = root.module()
            if module is not None and root.trained:
                known.update(id(part) for part in module.modules())
                known.update(id(item) for item in module.parameters())
        return known

    def _look_at_gradients(self) -> None:
        self._looks_at_gradients = False
        there = [part_of(item.grad) for item, _ in self._names.trainable() if item.grad is not None]
        self._carries = bool(there) and any(bool(norm) for norm in torch._foreach_norm(there))

    # SIGTERM

    def _asked_to_end(self) -> bool:
        """Return whether there is something to save before the end."""
        self._steps_at_stop = self._steps()
        if self._steps_at_stop:
            self._asked_to_stop = self._wanted = _SIGTERM
        return self._steps_at_stop > 0

    def _stop(self, *, within: bool = False) -> None:
        reason, self._asked_to_stop = self._asked_to_stop, ""
        saved = ""
        if self._saved and not within:
            saved = f" A checkpoint was saved in {self._saved[-1]}."
            if self._goes_on and self._store is not None:
                saved += f" To resume: barograph resume {shlex.quote(self._store.url)}"
        self._session.steering.request_stop(f"Received {reason}.{saved}", checkpoint=within)
        self._session.steering.raise_if_stopped()

    # Small things

    def _steps(self) -> int:
        return sum(self._session.counts.by_optimizer.values())

    def _guarded(self, doing: str, action: Callable[[], None]) -> None:
        place = self.hooks.place
        if place.busy or self._session.closed:
            return
        place.begin_own_work()
        try:
            with self.hooks.lock, torch.no_grad():
                action()
        except Exception as error:  # noqa: BLE001 - the guard handles all our errors
            self._session.guard.caught(error, doing)
        finally:
            place.end_own_work()


class _Beside:
    """Schedulers and scalers, cached per set of optimizers: searching all objects is slow."""

    def __init__(self, optimizers: OptimizerBook) -> None:
        self._optimizers = optimizers
        self._found_for: list[int] = []
        self._found: list[weakref.ref[Any]] = []

    def of(self, kind: type) -> list[Any]:
        """Return the objects of a class that are in use."""
        there = [id(entry.optimizer()) for entry in self._optimizers]
        if there != self._found_for:
            items = [*instances_of(lr_scheduler.LRScheduler), *instances_of(torch.amp.GradScaler)]
            self._found_for, self._found = there, [weakref.ref(item) for item in items]
        found = [item for reference in self._found if isinstance(item := reference(), kind)]
        return [item for item in found if not isinstance(item, torch.amp.GradScaler) or item.is_enabled()]
