"""The recording of this process: its start, its integrations, and its end."""

from __future__ import annotations

import contextlib
import functools
import os
import socket
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from barograph.capture import replaying, surroundings
from barograph.capture.armed import begin_if_armed
from barograph.capture.imports import after_import, forget
from barograph.capture.integration import Observing
from barograph.capture.integrations import install, installed_integrations, versions
from barograph.capture.process_end import ProcessEnd
from barograph.capture.session import Session
from barograph.capture.termination import finished_first
from barograph.capture.this_worker import Rank, ThisWorker
from barograph.errors import AlreadyAttached, SettingsError, TrainingStopped, UnsupportedCapture
from barograph.model.clock import SystemClock
from barograph.model.launch import LAUNCH_VARIABLE, InstalledIntegration, Launch, launch_from_environment
from barograph.model.manifest import CAUGHT, EndState, Heartbeat
from barograph.runs.state.claim import new_claim
from barograph.runs.writing.writer_client import WriterClient
from barograph.version import __version__

if TYPE_CHECKING:
    from barograph.capture.array_integration import ArrayIntegration
    from barograph.capture.integration import Integration, ScriptIntegration
    from barograph.capture.torch.integration import TorchIntegration
    from barograph.capture.torch.resuming import Resuming
    from barograph.capture.torch.sources import Source
    from barograph.model.capsule import CapsuleHead
    from barograph.model.probe import ProbeSettings
    from barograph.model.selection import Selection
    from barograph.model.step import Mode
    from barograph.model.tensor import RawTensor
    from barograph.runs.writing.record_writer import RecordWriter
    from barograph.runs.writing.writer_messages import ActionMessage, StopMessage

_current: Recording | None = None

NO_PROBE = ("the probe: PyTorch and Keras only; in JAX, observe the evaluation function, or call barograph.jax.probe "
            "at each evaluation")


class Recording:
    """A session with its integrations, for the life of this process or of a `with` block.

    Each framework that the process has imported, or imports later, is recorded by its own integration.

    Args:
        launch: The run, and how to record it.
        only: Record only models and optimizers that the script passes.
        explicit_steps: The script ends its steps itself.
    """

    def __init__(self, launch: Launch, *, only: bool = False, explicit_steps: bool = False) -> None:
        self.url = launch.settings.to
        self.launch = launch
        self.only = only
        self.explicit_steps = explicit_steps
        worker = ThisWorker(launch.attempt, _rank, self._write_capsule)
        self.session = Session(launch.settings, launch.needs, self._open_writer, worker=worker)
        self.torch: TorchIntegration | None = None
        self.source: Source | None = None
        self.resuming: Resuming | None = None
        self.observed: tuple[ProbeSettings | None, Any] = launch.settings.probe, None
        self._integrations: list[Integration] = []
        self._arrays: dict[str, ArrayIntegration] = {}
        self._aside: dict[str, int] = {}
        self._frameworks: tuple[str, ...] = ()
        self._claim = new_claim()
        self._surroundings = surroundings.begin() if launch.settings.origin and not self.url.startswith("memory:") \
            else None
        self._write_answers: Callable[[], None] = lambda: None
        self._failure: tuple[EndState, str] | None = None
        self._afterwards: Callable[[], None] = lambda: None
        self._waiting: list[Callable[[], None]] = []
        self._has_begun = False
        self._listen()
        self._has_begun = True

    # Integrations

    def _listen(self) -> None:
        """Install the integration of each loaded framework, and of others when they are imported."""
        found = self.launch.integrations
        if found is None:
            found, problems = installed_integrations()
            for problem in problems:
                self.session.guard.report(problem)
        self._frameworks = tuple(dict.fromkeys(integration.framework for integration in found))
        # A replay takes the place of torch's integration; it gets the steps of Keras and JAX from their integrations.
        if replaying.is_replaying("torch"):
            return
        by_listener = {item.listener: _once(functools.partial(self._install, item)) for item in reversed(found)}
        self._waiting.extend(by_listener.values())
        for item in found:
            after_import(item.module, by_listener[item.listener])

    def _install(self, integration: InstalledIntegration) -> None:
        begin, spent_secs = time.perf_counter(), self.session.startup.secs
        install(integration, self)
        if self._has_begun:
            # The start of the recording counts the time for frameworks that are already loaded.
            self.session.startup.add(time.perf_counter() - begin - (self.session.startup.secs - spent_secs))

    def add_integration(self, integration: Integration) -> None:
        """Add an integration to this recording, which removes it at its end."""
        self._integrations.append(integration)

    def add_torch(self, integration: TorchIntegration) -> None:
        """Add torch's integration to this recording; it gets the data that the script passes."""
        self.torch = integration
        self.add_integration(integration)
        self.name_samples(self.source)

    def resume(self, resuming: Resuming) -> None:
        """Resume the script from a checkpoint first."""
        self.resuming = resuming

    def array_integration(self, name: str = "") -> ArrayIntegration:
        """Return the array integration with that name, or a new one."""
        if name not in self._arrays:
            from barograph.capture.array_integration import ArrayIntegration

            self._arrays[name] = ArrayIntegration(self.session, name or None)
            self._add_array_integration(self._arrays[name])
        return self._arrays[name]

    def new_array_integration(self) -> ArrayIntegration:
        """Return a new array integration, for a separate series of steps."""
        from barograph.capture.array_integration import ArrayIntegration

        integration = ArrayIntegration(self.session)
        self._add_array_integration(integration)
        return integration

    def _add_array_integration(self, integration: ArrayIntegration) -> None:
        self.add_integration(integration)
        settings = self.session.settings
        for name, wanted in (("the flight recorder", settings.recorder), ("checkpoints", settings.checkpoints)):
            if wanted is not None and self.torch is None:
                self.session.seen.reasons[name] = f"{name}: PyTorch only"
        if self.observed[0] is not None and not any(isinstance(item, Observing) for item in self._integrations):
            self.session.seen.reasons["the probe"] = NO_PROBE

    @contextlib.contextmanager
    def aside(self, framework: str) -> Iterator[None]:
        """Disable the integration of a framework within a `with` block in which another one records."""
        self._aside[framework] = self._aside.get(framework, 0) + 1
        integration = self.torch if framework == "torch" else None
        if integration is not None and self._aside[framework] == 1:
            integration.stop_observing()
        try:
            yield
        finally:
            self._aside[framework] -= 1
            integration = self.torch if framework == "torch" else None
            if integration is not None and not self._aside[framework] and not self.session.closed:
                integration.start_observing()

    def is_aside(self, framework: str) -> bool:
        """Return whether the integration of a framework is currently disabled."""
        return self._aside.get(framework, 0) > 0

    # Data and requests from the script

    @property
    def integration(self) -> ScriptIntegration:
        """The integration for data that the script passes: torch's if torch is used, otherwise an array integration.

        Data of explicitly reported steps goes to the integration that gets these steps.
        """
        arrays = self._arrays.get("")
        if self.torch is None or (arrays is not None and arrays.has_begun):
            return self.array_integration()
        return self.torch

    def let_script_end_steps(self, wanted: bool) -> None:
        """Let the script end steps itself, if wanted, instead of ending them when an optimizer steps."""
        self.explicit_steps = self.explicit_steps or wanted
        if self.torch is not None:
            self.torch.let_script_end_steps(self.explicit_steps)

    def name_samples(self, source: Source | None) -> None:
        """Set the user's function that names samples in the data trace."""
        self.source = source if source is not None else self.source
        if self.torch is not None and self.source is not None:
            self.torch.feeding.name_samples(self.source)

    def observe(self, settings: ProbeSettings | None, given: Any) -> None:
        """Store outputs of a layer at evaluations.

        Args:
            settings: Which samples and layer; None: nothing more than before.
            given: Samples of the script; None: those of the evaluation data.

        Raises:
            SettingsError: `given` holds no samples.
        """
        if settings is None:
            return
        self.observed = settings, given
        observing = [integration for integration in self._integrations if isinstance(integration, Observing)]
        refused = []
        for integration in observing:
            try:
                integration.observe(settings, given)
            except SettingsError as error:  # samples of one framework may be invalid in another
                refused.append(error)
        if refused and len(refused) == len(observing):
            raise refused[0]
        if not observing:
            self.session.seen.reasons["the probe"] = NO_PROBE

    def ask_for(self, selections: Iterable[Selection]) -> None:
        """Record more from now on."""
        self.session.plan.add(selections)
        for integration in self._integrations:
            integration.ask_for(())

    def set_mode(self, mode: Mode | None) -> None:
        """Set the activity of the script."""
        if mode is not self.session.script.mode:
            for integration in self._integrations or [self.integration]:
                integration.mode_changes(mode)
            self.session.script.set_mode(mode)

    def ask_for_checkpoint(self) -> None:
        """Save a checkpoint when the script requests its next batch, or its next step from `steps`."""
        if self.torch is not None:
            self.torch.feeding.begin_checkpointer().ask_for_one("the script requested it")
            return
        missing = UnsupportedCapture("Barograph saves checkpoints of PyTorch trainings only. Save one with the "
                                     "framework's own API, and pass attach(first_step=…) when you resume from it.")
        self.session.guard.caught(missing, "saving a checkpoint")

    def _open_writer(self, rank: Rank, status: Callable[[], Heartbeat]) -> RecordWriter:
        settings, attempt = self.launch.settings, self.launch.attempt
        if not self.url.startswith("memory:"):
            return WriterClient(
                self.url, claim=self._claim, attempt=attempt, rank=rank.index, world_size=rank.world_size,
                versions=self._versions(), settings=settings, status=status, on_stop=self._hear_stop,
                on_request=self._hear, reports=self.session.steering.orders.reports,
                on_loss=self.session.lost_some,
                on_trouble=functools.partial(self.session.guard.report, outcome="Nothing is lost so far."),
                around=self._surroundings,
            )
        from barograph.capture.memory_writer import memory_writer

        writer, self._write_answers = memory_writer(
            self.session, settings, attempt, rank, status, self._versions(), self._claim)
        return writer

    def _versions(self) -> dict[str, str]:
        found = {"barograph": __version__, "python": sys.version.split()[0], "host": socket.gethostname()}
        return {**found, **versions(self._frameworks)}

    def _hear_stop(self, asked: StopMessage) -> None:
        self.session.steering.request_stop(asked.reason, asked.after_steps, finding_id=asked.finding_id,
                                  checkpoint=asked.checkpoint)

    def _hear(self, asked: ActionMessage) -> None:
        self.session.steering.orders.hear(asked.request, asked.after_steps)

    def _write_capsule(
        self, head: CapsuleHead, content: Mapping[str, Any], tensors: Mapping[str, RawTensor], pickled: bytes | None
    ) -> str:
        """Write a capsule into the run, under this process's name; return its location."""
        from barograph.runs.state.capsules import write_capsule
        from barograph.runs.state.claim import claim_worker
        from barograph.store.urls import store_from_url

        rank, store = _rank(), store_from_url(self.url)
        # The writer may have claimed the place already or not yet; the result is the same.
        worker = claim_worker(store, attempt=self.launch.attempt, rank=rank.index, world_size=rank.world_size,
                              clock=SystemClock(), versions=self._versions(), claim=self._claim)
        mine = replace(head, attempt=worker.attempt, worker=worker.name, run_id=worker.run_id)
        with finished_first():
            folder = write_capsule(store, mine, content, tensors, pickled)
        return f"{self.url.rstrip('/')}/{folder}"

    @property
    def is_resuming(self) -> bool:
        """Whether the script is still being resumed: its forked children are not trainings."""
        return self.resuming is not None and not self.resuming.over

    def failed(self, kind: type[BaseException], error: BaseException | None) -> None:
        """Note the exception that ends the script."""
        if issubclass(kind, SystemExit) and self.session.steering.stopped_by:
            return  # it caught the stop, and chose its exit code
        if issubclass(kind, TrainingStopped):
            self._failure = (EndState.STOPPED, str(error))
        elif not (issubclass(kind, SystemExit) and getattr(error, "code", 1) in (None, 0)):
            text = str(error)
            self._failure = (EndState.FAILED, f"{kind.__name__}: {text}" if text else kind.__name__)

    def ended(self, state: EndState, reason: str) -> None:
        """Note how the run ends according to the script."""
        self._failure = (state, reason)

    def after_close(self, action: Callable[[], None]) -> None:
        """Call `action` once everything is published, however the process ends."""
        self._afterwards = action

    def close(self) -> None:
        """Remove every hook, publish pending records, and write the ending; later calls do nothing."""
        state, reason = self._failure or (EndState.FINISHED, "")
        if self._failure is None and self.session.steering.stopped_by:
            state, reason = EndState.STOPPED, self.session.steering.stopped_by + CAUGHT
        with contextlib.ExitStack() as stack:
            # From the last to the first. If one fails, the others are still removed.
            stack.callback(self._guarded, "closing the recording", self._take_afterwards())
            stack.callback(self._let_go)
            for integration in reversed(self._integrations):
                stack.callback(self._guarded, "removing hooks", integration.remove)
            for enter in self._waiting:
                stack.callback(forget, enter)
            if self._surroundings is not None:
                stack.callback(self._guarded, "removing integrations", self._surroundings.stop)
            stack.callback(self._guarded, "ending the recording", lambda: self._write_answers())
            stack.callback(self._guarded, "ending the recording", lambda: self.session.close(state, reason))
            if self.resuming is not None:
                ends = functools.partial(self.resuming.ends, reason if state is EndState.FAILED else "")
                stack.callback(self._guarded, "ending the recording", ends)

    def _guarded(self, doing: str, action: Callable[[], object]) -> None:
        try:
            action()
        except Exception as error:  # noqa: BLE001 - the guard handles all our errors
            self.session.guard.caught(error, doing)

    def _take_afterwards(self) -> Callable[[], None]:
        action, self._afterwards = self._afterwards, lambda: None
        return action

    def _let_go(self) -> None:
        global _current
        if _current is self:
            _current = None
            if not self.session.steering.stopped_by:
                # The exception that stops the script may still propagate, and has its own exit code.
                _end.forget()


def current() -> Recording | None:
    """Return the recording of this process; None if there is none."""
    return _current


def launched() -> Recording | None:
    """Return the recording that `barograph run` started in this process; None if there is none."""
    if not os.environ.get(LAUNCH_VARIABLE):
        return None
    begin_if_armed()
    return _current


def expect_recording(what: str) -> Recording:
    """Return the recording of this process, which the caller requires.

    Raises:
        SettingsError: There is none.
    """
    found = launched() or _current
    if found is None:
        raise SettingsError(f"{what} needs a run that is being recorded. Call barograph.attach(…) before it, "
                            "or start the script with `barograph run`.")
    return found


def start(launch: Launch, *, only: bool = False, explicit_steps: bool = False) -> Recording:
    """Start recording this process.

    Raises:
        AlreadyAttached: It is already recorded.
    """
    global _current
    if _current is not None:
        raise AlreadyAttached(f"This process is already being recorded to {_current.url}. Close that run first.")
    _current = Recording(launch, only=only, explicit_steps=explicit_steps)
    _end.watch()
    return _current


def start_from_launch(environment: Mapping[str, str], begin: float) -> None:
    """Start recording for `barograph run`; the time since `begin` (`perf_counter`) counts as start-up."""
    launch = launch_from_environment(environment)
    if launch is None or _current is not None:
        return
    recording = start(launch)
    recording.session.startup.add(time.perf_counter() - begin)


def _after_fork() -> None:
    """Disable recording in a forked child, unless training had not started; the run stays its parent's."""
    global _current
    if _current is not None and (_current.session.declared or _current.is_resuming):
        _current.session.abandon()
        _current = None


_end = ProcessEnd(current, _after_fork)


def _rank() -> Rank:
    torch = sys.modules.get("torch")
    distributed = getattr(torch, "distributed", None)
    if distributed is not None and distributed.is_available() and distributed.is_initialized():
        return Rank(distributed.get_rank(), distributed.get_world_size())
    rank, world = os.environ.get("RANK", ""), os.environ.get("WORLD_SIZE", "")
    if rank.isdigit() and world.isdigit():
        return Rank(int(rank), int(world))
    return Rank()


def _once(action: Callable[[], None]) -> Callable[[], None]:
    """Return a function that calls `action` on its first call only."""
    waiting = [action]

    def call() -> None:
        if waiting:
            waiting.pop()()

    return call
