"""The agent of an instance: prepares its directories, starts the script, and stores what comes out.

    python -m barograph.jobs.agent URL JOB ATTEMPT INDEX WORK CACHE

Whatever happens, its last event says how the instance ended.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import threading
import time
import traceback
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING

from barograph.errors import BarographError, JobError, SettingsError, StoreError
from barograph.jobs.algorithms.registry import algorithm_named
from barograph.jobs.channels import delivered, opened_before, read_channels
from barograph.jobs.channels import failure_of as delivery_failure
from barograph.jobs.code import unpack
from barograph.jobs.data.progress import DeliveryCancelled, DeliveryProgress
from barograph.jobs.engines.engine import CPUS_VARIABLE, NETWORK_VARIABLE
from barograph.jobs.environment import prepare
from barograph.jobs.failure_rate import launch_after
from barograph.jobs.instance_log import InstanceLog
from barograph.jobs.interruptions.sources import NoticeWatch, sources_named
from barograph.jobs.isolation import Confinement, confined
from barograph.jobs.job_log import CODE, NOW, EventLog, NotLeading, instance_folder
from barograph.jobs.job_packages import known_pins, write_pins
from barograph.jobs.last_error import last_error
from barograph.jobs.launchers import LaunchPlan, World, free_ports, launch_plan
from barograph.jobs.layout import InstanceLayout, Place, failure_of, filled, variables, write_config
from barograph.jobs.requirements import Requirements, requirements_of
from barograph.jobs.resuming import Resuming, resuming
from barograph.jobs.script import GRACE_SECS, Script, recording_environment
from barograph.jobs.spec import JobSpec
from barograph.jobs.state import Ended, Outcome
from barograph.jobs.submission import Submission, read_submission
from barograph.jobs.uploads import CheckpointSync, upload_outputs
from barograph.jobs.watcher import RunWatcher
from barograph.processes.command import Command
from barograph.processes.process import ended_reason
from barograph.provenance.secrets import Secrets
from barograph.runs.format.metadata import sealed
from barograph.runs.state.claim import begin_attempt
from barograph.runs.state.process import process_now, this_process
from barograph.store.base import Store
from barograph.store.urls import store_from_url
from barograph.watch.figures import size

if TYPE_CHECKING:
    from barograph.jobs.data.delivery import Delivery

_TURN_SECS = 0.1
_PORTS = 16
"""Ports for the rendezvous: one for each process of an instance, if the framework needs that many."""
_HEARTBEAT_SECS = 2.0
_SYNC_SECS = 10.0
_PEERS_SECS = 600.0
_UPLOAD_SECS = 2.0
"""Time between the end of the script and that of the instance, to store what it left."""
_STORE_SECS = 600.0
"""How long the end of an instance waits for a store that is unreachable."""


class _Cancelled(Exception):
    """The agent was asked to end."""


class Agent:
    """Runs one instance of a job.

    Args:
        store: Store of the job.
        attempt: Attempt of the job.
        index: Which of its instances.
        work: Directory for the instance.
        cache: Directory that the jobs of this machine share.
    """

    def __init__(self, store: Store, attempt: int, index: int, work: Path, cache: Path) -> None:
        self._store, self._attempt, self._index, self._cache = store, attempt, index, cache
        self._layout = InstanceLayout(work)
        self._events = EventLog(store, instance_folder(attempt, index))
        self._asked_to_end = threading.Event()
        self._notice = ""
        self._grace_secs = GRACE_SECS
        self._notices = NoticeWatch(())
        self._beat, self._beat_at, self._sync_at = 0, 0.0, 0.0
        self._secrets = Secrets(os.environ)
        self._log = InstanceLog(store, attempt, index, secrets=self._secrets)

    def ask_to_end(self, number: int = 0, frame: FrameType | None = None) -> None:
        """Save and end soon; a signal handler."""
        self._asked_to_end.set()

    def run(self) -> Ended:
        """Run the instance to its end, and write how it ended.

        Raises:
            NotLeading: Another agent runs this instance.
            StoreError: The store was unreachable for ten minutes.
        """
        port = free_ports(_PORTS)
        self._note("ready", **asdict(this_process()), address=_address(), port=port)
        ended = self._to_the_end(port)
        _patiently(lambda: self._log.write(last=True))
        self._note("ended", outcome=ended.outcome, exit_code=ended.exit_code, reason=self._secrets.hide(ended.reason))
        return ended

    def _note(self, kind: str, **data: object) -> None:
        """Write an event, once the store can be reached."""
        _patiently(lambda: self._events.append(kind, **data))

    def _to_the_end(self, port: int) -> Ended:
        try:
            return self._run(read_submission(self._store), port)
        except (_Cancelled, DeliveryCancelled):
            return Ended(Outcome.INTERRUPTED, None, self._notice or "It was asked to end before the script started.")
        except StoreError as error:
            return Ended(Outcome.FAILED, None, f"The store of the job failed: {error}")
        except (JobError, SettingsError) as error:
            return Ended(Outcome.SCRIPT, None, str(error))
        except BarographError as error:
            return Ended(Outcome.FAILED, None, str(error))
        except Exception as error:  # noqa: BLE001 - any error is reported, and the instance ends
            print(self._secrets.hide(traceback.format_exc()), file=sys.stderr)
            return Ended(Outcome.FAILED, None, f"The instance failed: {type(error).__name__}: {error}.")

    def _run(self, submission: Submission, port: int) -> Ended:
        spec = submission.spec
        self._secrets = self._log.secrets = Secrets(os.environ, named=spec.environment)
        # On this machine only tests announce interruptions; elsewhere whoever provides the machine does.
        self._notices = NoticeWatch(sources_named("auto" if spec.spot or spec.engine != "local" else "file",
                                                  directory=self._layout.base))
        signal.signal(signal.SIGTERM, self.ask_to_end)
        self._layout.make()
        if submission.code:
            unpack(bytes(self._store.get(f"{CODE}.{submission.code}")), self._layout.code)
        place = Place(self._index, self._peers(spec.instances), port if self._index == 0 else self._first_port())
        write_config(self._layout, spec, place)
        sync = CheckpointSync(self._store, self._layout.checkpoints, self._index)
        if self._attempt:
            sync.download()
        channels = read_channels(self._store, spec)
        if channels:
            self._note("downloading")
        with delivered(channels, self._layout.data, index=self._index, count=spec.instances,
                       cancelled=self._asked_to_end, cache=self._cache / "data",
                       progress=self._tell_progress,
                       opened_epochs=opened_before(self._store, self._attempt, self._index)) as deliveries:
            return self._with_data(submission, place, sync, deliveries)

    def _with_data(
        self, submission: Submission, place: Place, sync: CheckpointSync, deliveries: list[Delivery]
    ) -> Ended:
        """Run the script, once its data is there."""
        spec = submission.spec
        going_on = resuming(self._store, self._attempt, self._layout.base)
        if self._attempt:
            self._note("resumed", steps=going_on.steps, repeated=going_on.repeated)
        self._check_asked_to_end()
        python = self._python(submission)
        plan = self._plan(submission, place, going_on, python)
        limits = [self._confined(command, spec) for command in plan.commands]
        self._check_asked_to_end()
        self._note("training")
        code, tail = self._train(submission, [item.command for item in limits], sync, deliveries)
        if code != 0 and (failure := delivery_failure(deliveries)) is not None:
            return Ended(Outcome.SCRIPT if isinstance(failure, JobError) else Outcome.FAILED, code, str(failure))
        self._note("uploading")
        _patiently(sync.upload)
        if code == 0 or not self._asked_to_end.is_set():
            _patiently(lambda: upload_outputs(self._store, self._layout, self._index, now_unix=time.time()))
        if code != 0 and any(item.was_out_of_memory() for item in limits):
            return Ended(Outcome.SCRIPT, code, f"The script used more than its {size(spec.memory_bytes)} of memory. "
                                               "Raise --memory, or make the batches smaller.")
        return self._ended(code, tail, going_on)

    def _train(
        self, submission: Submission, commands: Sequence[Command], sync: CheckpointSync, deliveries: list[Delivery]
    ) -> tuple[int, str]:
        """Run the script; return its exit code and the end of its output."""
        watcher = RunWatcher(self._store, self._attempt, self._log) if self._index == 0 and submission.launch else None
        script = Script(commands, self._log, ends_with_us=submission.spec.engine != "local")
        try:
            if self._index == 0:
                process = process_now(script.pid)
                _patiently(lambda: begin_attempt(self._store, self._attempt, started_unix=time.time(), process=process))
            while (code := script.turn(_TURN_SECS)) is None:
                self._take_notice()
                if self._asked_to_end.is_set():
                    script.terminate(self._grace_secs)
                elif delivery_failure(deliveries) is not None:
                    script.terminate(_TURN_SECS)  # it would wait for data for ever
                self._care(sync, max((item.opened_epochs for item in deliveries), default=0))
                if watcher:
                    watcher.turn()
        finally:
            script.kill()
        if watcher:
            # The next attempt's watcher continues where this one stops; an instance that is taken away has no time.
            watcher.finish(patient=not self._asked_to_end.is_set())
        return code, script.tail

    def _python(self, submission: Submission) -> str:
        """Return the Python of the script; "": this one."""
        if not submission.code:
            return ""
        found = requirements_of(self._layout.code, submission.spec.requirements)
        if found is None:
            return submission.python if Path(submission.python).exists() else ""
        self._note("preparing")
        prepared = prepare(replace(found, pins=self._pins(found)), self._layout.code,
                           cache=self._cache / "environments", progress=self._say,
                           cancelled=self._asked_to_end.is_set)
        _patiently(lambda: write_pins(self._store, found, self._layout.code, prepared.pins))
        return str(prepared.python)

    def _pins(self, found: Requirements) -> str:
        """Return the versions of an earlier attempt or of the first instance, which resolves them for all."""
        while True:
            with contextlib.suppress(StoreError):
                pins = known_pins(self._store, found, self._layout.code)
                if pins is not None or self._index == 0:
                    return pins or ""
            self._check_asked_to_end(_TURN_SECS)

    def _say(self, text: str) -> None:
        self._log.add(f"barograph: {text}\n".encode())

    def _confined(self, command: Command, spec: JobSpec) -> Confinement:
        """Return a command with the limits of the instance."""
        cpus, network = os.environ.get(CPUS_VARIABLE, ""), int(os.environ.get(NETWORK_VARIABLE, 0)) or None
        return confined(
            command, directory=self._layout.base / "limits", network_of=network, cpus=spec.cpus,
            cpu_set=tuple(map(int, cpus.split(","))) if cpus else None, memory_bytes=spec.memory_bytes or None,
            no_network=spec.no_network)

    def _plan(self, submission: Submission, place: Place, going_on: Resuming, python: str) -> LaunchPlan:
        """Return the commands that start the script here."""
        spec = submission.spec
        words = spec.words
        if spec.algorithm:
            target = ("--target", spec.target) if spec.target else ()
            words = (str(algorithm_named(spec.algorithm).copy_script(self._layout.code)), *words, *target)
        environment = {**os.environ, **variables(self._layout, spec, place, job=submission.name, gpus=spec.gpus)}
        # Another machine need not have the directory of the submitting shell.
        has_own = submission.code or spec.algorithm or spec.engine != "local"
        directory = self._layout.code if has_own else Path(submission.directory)
        return launch_plan(
            filled(words, self._layout, list(spec.data), environment),
            World(place.addresses, place.index, spec.processes, place.port, f"{submission.name}-{self._attempt}"),
            directory=directory, python=python, cpus=spec.cpus, environment=recording_environment(
                environment, launch_after(submission.launch, spec, self._store), attempt=self._attempt,
                resume=going_on.order))

    def _tell_progress(self, progress: Mapping[str, DeliveryProgress]) -> None:
        """Say how much of the data is there, at most twice a second; notices come meanwhile, too."""
        self._take_notice()
        if (now := time.monotonic()) >= self._beat_at:
            self._beat_at = now + _HEARTBEAT_SECS / 4
            with contextlib.suppress(StoreError):
                self._put_heartbeat(done_bytes=sum(item.done_bytes for item in progress.values()),
                                    total_bytes=sum(item.total_bytes for item in progress.values()),
                                    waiting=next((item.waiting for item in progress.values() if item.waiting), ""))

    def _put_heartbeat(self, **data: object) -> None:
        self._beat += 1
        self._store.put(f"{instance_folder(self._attempt, self._index)}/{NOW}",
                        sealed({"beat": self._beat, "time_unix": time.time(), **data}))

    def _take_notice(self) -> None:
        """Ask for the end when this instance is about to be taken away."""
        notice = self._notices.poll()
        if notice is None:
            return
        with contextlib.suppress(StoreError):  # save a checkpoint even if the notice cannot be stored
            self._events.append("notice", **notice.to_json())
        if not notice.advisory:
            self._notice = f"The instance was taken away: {notice.reason.rstrip('.')}."
            if notice.deadline_unix is not None:
                self._grace_secs = max(1.0, min(GRACE_SECS, notice.deadline_unix - time.time() - _UPLOAD_SECS))
            self._asked_to_end.set()

    def _care(self, sync: CheckpointSync, opened_epochs: int) -> None:
        """Do what is due while the script runs. A store that is unreachable for a while is no reason to end it."""
        now = time.monotonic()
        try:
            self._log.write()
            if now >= self._beat_at:
                self._beat_at = now + _HEARTBEAT_SECS
                self._put_heartbeat(opened_epochs=opened_epochs)
            if now >= self._sync_at:
                self._sync_at = now + _SYNC_SECS
                sync.upload(is_stopping=self._asked_to_end.is_set)
        except StoreError:
            self._beat_at = now + _HEARTBEAT_SECS  # what was not written is written later

    def _ended(self, code: int, tail: str, going_on: Resuming) -> Ended:
        if code == 0:
            return Ended(Outcome.FINISHED, 0)
        if self._asked_to_end.is_set():
            return Ended(Outcome.INTERRUPTED, code, self._notice or "It was asked to end.")
        why = failure_of(self._layout) or going_on.failure() or last_error(tail)
        return Ended(Outcome.SCRIPT, code, f"The script {ended_reason(code)}{f': {why}' if why else '.'}")

    def _peers(self, count: int) -> tuple[str, ...]:
        """Return the addresses of all instances, once all are ready."""
        found: dict[int, str] = {self._index: _address()}
        deadline = time.monotonic() + _PEERS_SECS
        while len(found) < count:
            for index in set(range(count)) - set(found):
                with contextlib.suppress(StoreError):
                    for event in EventLog(self._store, instance_folder(self._attempt, index)).new()[:1]:
                        found[index] = str(event.data["address"])
            self._take_notice()
            self._check_asked_to_end(_TURN_SECS / 2)
            if time.monotonic() > deadline:
                missing = sorted(set(range(count)) - set(found))
                raise StoreError(f"instance {missing[0] + 1} of {count} was not ready within {_PEERS_SECS:g} s.")
        return tuple(found[index] for index in range(count))

    def _first_port(self) -> int:
        return int(EventLog(self._store, instance_folder(self._attempt, 0)).new()[0].data["port"])

    def _check_asked_to_end(self, wait_secs: float = 0.0) -> None:
        if self._asked_to_end.wait(wait_secs):
            raise _Cancelled


def _patiently(do: Callable[[], object]) -> None:
    """Do something at the store, and again for a while if it is unreachable."""
    deadline, pause = time.monotonic() + _STORE_SECS, 0.2
    while True:
        try:
            do()
            return
        except StoreError:
            if time.monotonic() >= deadline:
                raise
        time.sleep(pause)
        pause = min(10.0, 2 * pause)


def _address() -> str:
    return os.environ.get("BAROGRAPH_ADDRESS") or "127.0.0.1"


def main(url: str, attempt: int, index: int, work: Path, cache: Path) -> int:
    """Run an instance; return 0 if all that happened is in the store."""
    agent = Agent(store_from_url(url), attempt, index, work, cache)
    signal.signal(signal.SIGTERM, agent.ask_to_end)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        agent.run()
    except NotLeading:
        print("Another agent runs this instance.", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], int(sys.argv[3]), int(sys.argv[4]), Path(sys.argv[5]), Path(sys.argv[6])))
