"""The agent of an instance: prepares its directories, starts the script, and stores what comes out.

    python -m barograph.jobs.agent URL JOB ATTEMPT INDEX WORK CACHE

Its last event always says how the instance ended.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import sys
import time
import traceback
from collections.abc import Callable, Mapping
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, TypeVar

from barograph.errors import (
    BarographError,
    JobError,
    SettingsError,
    StoreDenied,
    StoreFull,
    StoreUnavailable,
)
from barograph.jobs.channels import delivered, opened_before, read_channels
from barograph.jobs.channels import failure_of as delivery_failure
from barograph.jobs.code import unpack
from barograph.jobs.data.progress import DeliveryCancelled, DeliveryProgress
from barograph.jobs.ending import Cancelled, EndRequest
from barograph.jobs.engines.engine import INSTANCE_VARIABLE
from barograph.jobs.heartbeat import Heartbeat
from barograph.jobs.instance_limits import InstanceLimits
from barograph.jobs.instance_log import InstanceLog
from barograph.jobs.job_log import CODE, EventLog, NotLeading, instance_folder
from barograph.jobs.last_error import DISK_FULL, last_error
from barograph.jobs.launchers import free_ports
from barograph.jobs.layout import InstanceLayout, Place, failure_of, write_config
from barograph.jobs.patience import Patience, full_reason
from barograph.jobs.peers import Peers
from barograph.jobs.preparing import Preparation
from barograph.jobs.resuming import Resuming, resuming
from barograph.jobs.script import Trained
from barograph.jobs.state import Ended, Outcome
from barograph.jobs.submission import Submission, read_submission
from barograph.jobs.training import Training
from barograph.jobs.unable import Unable, not_the_users_fault
from barograph.jobs.uploads import CheckpointSync, upload_outputs
from barograph.machine.host import interface_of
from barograph.machine.marked import kill_unmarked_below
from barograph.processes.orphans import adopt_orphans
from barograph.processes.process import ended_reason
from barograph.provenance.secrets import Secrets
from barograph.runs.state.process import this_process
from barograph.store.base import Store
from barograph.store.failures import UNREACHABLE
from barograph.store.urls import store_from_url

if TYPE_CHECKING:
    from barograph.jobs.data.delivery import Delivery

_T = TypeVar("_T")
_PORTS = 16
"""Ports for the rendezvous: one for each process of an instance, if the framework needs that many."""
_REACH_SECS = 20.0
"""How long an instance tries to reach the store when it begins. With three attempts, a job fails after two minutes."""
_MOST_UPLOADS = 5
"""Tries to store checkpoints that something still writes after the end of the script."""


class Agent:
    """Runs one instance of a job.

    Args:
        store: Store of the job.
        attempt: Attempt of the job.
        index: Index of the instance.
        work: Directory for the instance.
        cache: Directory that the jobs of this machine share.
        patience: Retries while the store is unreachable.
        end_strays: Ends processes of the script that cannot be recognized as such.
    """

    def __init__(
        self, store: Store, attempt: int, index: int, work: Path, cache: Path, *,
        patience: Patience | None = None, end_strays: Callable[[], object] = lambda: None,
    ) -> None:
        self._store, self._attempt, self._index, self._cache = store, attempt, index, cache
        self._layout = InstanceLayout(work)
        self._events = EventLog(store, instance_folder(attempt, index), reads=False)
        self._patiently = patience or Patience()
        self._end_strays = end_strays
        self._end = EndRequest(self._events)
        self._heartbeat = Heartbeat(store, attempt, index)
        self._patiently.tell = self._heartbeat.tell_full
        self._secrets = Secrets(os.environ)
        self._log = InstanceLog(store, attempt, index, secrets=self._secrets)

    def ask_to_end(self, number: int = 0, frame: FrameType | None = None) -> None:
        """Signal handler: save, then end."""
        self._end.asked.set()

    def run(self) -> Ended:
        """Run the instance, and record how it ended.

        Raises:
            NotLeading: Another agent runs this instance.
            Unable: The store could not be reached at the beginning.
            StoreError: The store was unreachable for ten minutes.
        """
        port = free_ports(_PORTS)
        self._begin(port)
        self._heartbeat.start()
        try:
            return self._run_to_the_end(port)
        finally:
            self._heartbeat.close()
            self._end.close()

    def _run_to_the_end(self, port: int) -> Ended:
        ended = self._to_the_end(port)
        ended = replace(ended, reason=self._secrets.hide(ended.reason))
        with contextlib.suppress(StoreFull):
            self._patiently(lambda: self._log.write(last=True), waits_for_room=False)
        try:
            self._note("ended", waits_for_room=False, **asdict(ended))
        except StoreFull:
            self._make_room()
            self._note("ended", **asdict(ended))
        return ended

    def _begin(self, port: int) -> None:
        """Write the first event. A store that cannot be reached from this machine will not be reached later."""
        try:
            self._patiently(lambda: self._events.append("ready", **asdict(this_process()), address=_address(),
                                                        port=port), most_unreachable_secs=_REACH_SECS)
        except (StoreUnavailable, StoreDenied) as error:
            why = str(error).removeprefix(UNREACHABLE).strip()
            raise Unable(f"Cannot reach {self._store.url} from this instance. Check its network and its credentials. "
                         f"{why}") from error

    def _make_room(self) -> None:
        """Delete what would be deleted after the end: the store may be on the same disk."""
        for path in (self._layout.data, self._layout.model, self._layout.output, self._layout.checkpoints):
            shutil.rmtree(path, ignore_errors=True)

    def _note(self, kind: str, *, waits_for_room: bool = True, **data: object) -> None:
        """Write an event, once the store can be reached."""
        self._patiently(lambda: self._events.append(kind, **data), waits_for_room=waits_for_room)

    def _eventually(self, do: Callable[[], _T]) -> _T:
        """Return what is read from the store, once it can be reached; end if the instance must end before."""
        return self._patiently(do, check=self._end.check)

    def _to_the_end(self, port: int) -> Ended:
        try:
            return self._run(self._eventually(lambda: read_submission(self._store)), port)
        except (Cancelled, DeliveryCancelled):
            return self._end.ended(None, "It was asked to end before the script started.")
        except StoreFull as error:
            return Ended(Outcome.FAILED, None, full_reason(error))
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
        # Before the sources: they call it, and a signal is a notice, too.
        signal.signal(signal.SIGTERM, self.ask_to_end)
        # On this machine only tests announce interruptions; elsewhere whoever provides the machine does.
        self._end.listen("auto" if spec.spot or spec.engine != "local" else "file", self._layout.base)
        self._layout.make()
        if submission.code:
            archive = self._eventually(lambda: bytes(self._store.get(f"{CODE}.{submission.code}")))
            with not_the_users_fault():
                unpack(archive, self._layout.code)
        peers = Peers(self._store, self._attempt, spec.instances)
        addresses = peers.addresses(self._index, _address(), self._end.check)
        place = Place(self._index, addresses, port if self._index == 0 else self._eventually(peers.first_port),
                      interface_of(_address()))
        write_config(self._layout, spec, place)
        sync = CheckpointSync(self._store, self._layout.checkpoints, self._index, say=self._say)
        if self._attempt:
            self._eventually(sync.download)
        channels = self._eventually(lambda: read_channels(self._store, spec))
        opened = self._eventually(lambda: opened_before(self._store, self._attempt, self._index))
        if channels:
            self._note("downloading")
        with delivered(channels, self._layout.data, index=self._index, count=spec.instances,
                       cancelled=self._end.asked, cache=self._cache / "data",
                       progress=self._tell_progress,
                       opened_epochs=opened) as deliveries:
            return self._with_data(submission, place, sync, deliveries)

    def _with_data(
        self, submission: Submission, place: Place, sync: CheckpointSync, deliveries: list[Delivery]
    ) -> Ended:
        """Run the script, once its data is there."""
        spec = submission.spec
        going_on = self._eventually(lambda: resuming(self._store, self._attempt, self._layout.base))
        if self._attempt:
            self._note("resumed", steps=going_on.steps, repeated=going_on.repeated)
        self._end.check()
        prepared = Preparation(self._store, self._attempt, submission, place, self._layout, self._eventually)
        plan = prepared.plan(going_on, prepared.python(
            self._cache, self._end, begins=lambda: self._note("preparing"), say=self._say))
        limits = InstanceLimits(self._layout, spec, place, end_strays=self._end_strays)
        commands = [limits.confined(command) for command in plan.commands]
        self._end.check()
        self._note("training")
        try:
            trained = Training(
                self._store, self._attempt, self._index, log=self._log, heartbeat=self._heartbeat, end=self._end,
                patiently=self._patiently,
            ).run(commands, sync, deliveries, ends_with_us=spec.engine != "local", is_recorded=bool(submission.launch))
            return self._after(trained, limits, sync, deliveries, going_on)
        finally:
            limits.end_leftovers()

    def _after(
        self, trained: Trained, limits: InstanceLimits, sync: CheckpointSync,
        deliveries: list[Delivery], going_on: Resuming,
    ) -> Ended:
        """Store what the script left; return how it ended."""
        code = trained.code
        if self._end.was_given_up:  # what another attempt has stored must stay
            return self._end.ended(code, "Another machine gave this instance up.")
        if code != 0 and (failure := delivery_failure(deliveries)) is not None:
            return Ended(Outcome.SCRIPT if isinstance(failure, JobError) else Outcome.FAILED, code, str(failure))
        try:
            self._note("uploading", waits_for_room=code == 0, cores=trained.cores,
                       has_finished=code == 0 and not trained.was_asked)
            if code == 0 and not self._end.asked.is_set():
                # What the script left running may write to its outputs.
                limits.end_leftovers()
            self._store_all(trained, sync)
        except (StoreFull, SettingsError) as error:
            if code == 0:
                raise
            self._say(f"files of the script were not stored: {error}")
        if code != 0 and (why := limits.memory_reason()):
            return Ended(Outcome.SCRIPT, code, why)
        return self._ended(trained, going_on)

    def _store_all(self, trained: Trained, sync: CheckpointSync) -> None:
        """Store the checkpoints and, unless there is no time, what the script left."""
        waits = trained.code == 0
        has_time = trained.code == 0 or not self._end.asked.is_set()
        any(self._patiently(sync.upload, waits_for_room=waits) for _ in range(_MOST_UPLOADS))
        if has_time:
            self._patiently(lambda: upload_outputs(self._store, self._layout, self._index, now_unix=time.time()),
                            waits_for_room=waits)

    def _say(self, text: str) -> None:
        self._log.add(f"barograph: {text}\n".encode())

    def _tell_progress(self, progress: Mapping[str, DeliveryProgress]) -> None:
        """Say how much of the data is there; notices come meanwhile, too."""
        self._end.poll()
        self._heartbeat.tell(progress)

    def _ended(self, trained: Trained, going_on: Resuming) -> Ended:
        if trained.was_asked:
            # Also with exit code 0: scripts that save and end when they are asked to have not finished.
            return self._end.ended(trained.code, "It was asked to end.")
        if trained.code == 0:
            return Ended(Outcome.FINISHED, 0)
        failure = going_on.failure()
        why = failure_of(self._layout) or (failure.failure if failure else "") or last_error(trained.tail)
        if DISK_FULL in why:
            why = f"{why.rstrip('.')}. The disk of the instance is full: free some space, or write less."
        why = f": {why}" if why else "."
        # A shortened evaluation is our doing: another attempt repeats it in full.
        outcome = Outcome.FAILED if failure and failure.again else Outcome.SCRIPT
        return Ended(outcome, trained.code, f"The script {ended_reason(trained.code)}{why}")


def _address() -> str:
    return os.environ.get("BAROGRAPH_ADDRESS") or "127.0.0.1"


def main(url: str, attempt: int, index: int, work: Path, cache: Path) -> int:
    """Run an instance; return 0 if all events are in the store."""
    adopt_orphans()
    agent = Agent(store_from_url(url), attempt, index, work, cache,
                  end_strays=partial(kill_unmarked_below, os.getpid(), INSTANCE_VARIABLE))
    signal.signal(signal.SIGTERM, agent.ask_to_end)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        agent.run()
    except NotLeading:
        print("Another agent runs this instance.", file=sys.stderr)
        return 1
    except BarographError as error:
        print(" ".join(str(error).split()), file=sys.stderr)  # the last line is the reason of the engine
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], int(sys.argv[3]), int(sys.argv[4]), Path(sys.argv[5]), Path(sys.argv[6])))
