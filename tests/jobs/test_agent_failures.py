"""What an instance reports when something fails: the real agent in this process, with real scripts."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict
from http.server import BaseHTTPRequestHandler, HTTPServer
from itertools import pairwise
from pathlib import Path
from typing import Any

import psutil
import pytest

from barograph.errors import StoreDenied, StoreFull, StoreUnavailable
from barograph.jobs import ending
from barograph.jobs.agent import Agent
from barograph.jobs.channels import listed_channels, write_channels
from barograph.jobs.code import pack
from barograph.jobs.data.lazy import lazy_problem
from barograph.jobs.decisions import end_of_lost
from barograph.jobs.engines.engine import ASKED, Order
from barograph.jobs.engines.local import LocalEngine
from barograph.jobs.heartbeat import Heartbeat
from barograph.jobs.home import JobsHome
from barograph.jobs.instance_log import MOST_BYTES, InstanceLog, LogReader
from barograph.jobs.interruptions.file import write_notice
from barograph.jobs.interruptions.notice import Notice
from barograph.jobs.interruptions.sources import sources_named
from barograph.jobs.job import SubmittedJob
from barograph.jobs.job_log import CODE, EVENTS, EventLog, instance_folder
from barograph.jobs.job_report import JobView
from barograph.jobs.outputs import fetched_model, outputs_of
from barograph.jobs.patience import Patience
from barograph.jobs.script import Script
from barograph.jobs.spec import JobSpec
from barograph.jobs.state import Ended, Outcome, Phase
from barograph.jobs.submission import Submission, write_submission
from barograph.jobs.unable import Unable
from barograph.jobs.uploads import CheckpointSync
from barograph.machine.marked import kill_marked, marked_processes
from barograph.model.clock import SystemClock
from barograph.model.settings import Settings
from barograph.processes.command import Command
from barograph.processes.local_process import LocalProcess
from barograph.provenance.secrets import Secrets
from barograph.runs.state.claim import create_run
from barograph.runs.state.places import new_manifest
from barograph.runs.state.process import process_now
from barograph.store.base import ObjectInfo, Store
from barograph.store.urls import store_from_url


class Failing:
    """A store of the five operations that calls something before each: with the verb, the name and the data."""

    def __init__(self, store: Store, before: Callable[[str, str, bytes], object]) -> None:
        self._store, self.before, self.url = store, before, store.url

    def put(self, name: str, data: bytes | Sequence[bytes | memoryview]) -> None:
        self.before("put", name, data if isinstance(data, bytes) else b"")
        self._store.put(name, data)

    def create(self, name: str, data: bytes) -> None:
        self.before("create", name, data)
        self._store.create(name, data)

    def get(self, name: str) -> memoryview:
        self.before("get", name, b"")
        return self._store.get(name)

    def list(self, folder: str = "") -> list[ObjectInfo]:
        self.before("list", folder, b"")
        return self._store.list(folder)

    def delete(self, name: str) -> None:
        self.before("delete", name, b"")
        self._store.delete(name)


class Forbidden(BaseHTTPRequestHandler):
    """A bucket that lets nobody in."""

    def do_PUT(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        self.send_error(403)

    def log_message(self, format: str, *args: object) -> None: ...


class Place:
    """A submitted job, and the instance that runs it."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.work, self.source = folder, folder / "work" / "0-0", folder / "source"
        self.source.mkdir()
        self.work.mkdir(parents=True)
        self.real = store_from_url(str(folder / "job"))
        self.store: Store = self.real
        self.waited_secs = 0.0

    def submit(self, *words: str, code: bool = False, **entries: Any) -> None:
        spec = JobSpec(words, **entries)
        packed = pack(self.source, secrets=Secrets()) if code else None
        if packed:
            self.real.put(f"{CODE}.{packed.digest}", packed.data)
        write_submission(self.real, Submission("digits", spec, "", str(self.folder),
                                               code=packed.digest if packed else ""))
        manifest = create_run(self.real, new_manifest(Settings(to=self.real.url), command=words, clock=SystemClock(),
                                                      name="digits"))
        channels, problems = listed_channels(spec, self.folder, JobsHome(self.folder / "home"))
        assert problems == []
        write_channels(self.real, manifest.run_id, channels, now_unix=0.0)

    def agent(self, attempt: int = 0) -> Agent:
        patience = Patience(self.wait, lambda: self.waited_secs)
        return Agent(self.store, attempt, 0, self.work, self.folder / "cache", patience=patience)

    def wait(self, secs: float) -> None:
        self.waited_secs += secs

    def before(self, do: Callable[[str, str, bytes], object]) -> None:
        """Have something done before each operation of the store."""
        self.store = Failing(self.real, do)

    def run(self, *words: str, **entries: Any) -> Ended:
        self.submit(*words, **entries)
        return self.agent().run()

    def shell(self, script: str, **entries: Any) -> Ended:
        return self.run("sh", "-c", script, **entries)

    @property
    def events(self) -> list[str]:
        return [event.kind for event in EventLog(self.real, instance_folder(0, 0)).new()]

    @property
    def output(self) -> str:
        return "".join(LogReader(self.real, 0, 0).new())

    @property
    def artifacts(self) -> list[str]:
        return [link.name for link in outputs_of(self.real)]

    def checkpoints(self) -> dict[str, str]:
        """Return the checkpoint files that the next attempt finds."""
        target = self.folder / "next"
        target.mkdir()
        CheckpointSync(self.real, target, 0).download()
        return {path.name: path.read_text().strip() for path in sorted(target.iterdir())}


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    former = signal.getsignal(signal.SIGTERM)
    yield Place(tmp_path)
    signal.signal(signal.SIGTERM, former)


def notice(secs: float | None) -> str:
    """Return a command that announces the end of the instance on which it runs."""
    body = {"source": "file", "reason": "a test", "deadline_unix": None if secs is None else time.time() + secs}
    return f"printf %s '{json.dumps(body)}' > $SM_MODEL_DIR/../notice.part; mv $SM_MODEL_DIR/../notice.part " \
           "$SM_MODEL_DIR/../notice.json"


TAKEN = "The instance was taken away: a test."
WAIT = "while :; do sleep 0.05; done"


# Notices.


def test_a_script_that_saves_and_ends_with_0_when_it_is_asked_to_has_not_finished(place: Place) -> None:
    ended = place.shell(f"trap 'echo 7 > $SM_CHECKPOINT_DIR/epoch; exit 0' TERM; {notice(3600)}; {WAIT}")
    assert ended == Ended(Outcome.INTERRUPTED, 0, TAKEN, announced=True)
    assert place.checkpoints() == {"epoch": "7"}


def test_a_script_that_ignores_sigterm_is_killed_before_the_instance_is_taken_away(place: Place) -> None:
    began = time.monotonic()
    ended = place.shell(f"trap '' TERM; echo 7 > $SM_CHECKPOINT_DIR/epoch; {notice(3)}; {WAIT}")
    assert ended == Ended(Outcome.INTERRUPTED, -9, TAKEN, announced=True)
    assert place.checkpoints() == {"epoch": "7"}
    assert time.monotonic() - began < 60  # and not the two minutes of a stop


def test_a_second_notice_that_is_earlier_leaves_less_time(place: Place) -> None:
    began = time.monotonic()
    ended = place.shell(f"again() {{ {notice(3)}; }}; trap again TERM; {notice(3600)}; {WAIT}")
    assert ended == Ended(Outcome.INTERRUPTED, -9, TAKEN, announced=True)
    assert time.monotonic() - began < 60


def test_a_notice_while_data_is_copied_ends_the_copying_and_leaves_no_data(place: Place) -> None:
    for number in range(3000):  # so many that the notice comes meanwhile
        (place.source / f"{number}").touch()
    write_notice(place.work, Notice("file", "a test", None))
    ended = place.shell("echo started", data={"train": "source"})
    assert list((place.work / "input" / "data").iterdir()) == []
    assert ended == Ended(Outcome.INTERRUPTED, None, TAKEN, announced=True)
    assert place.events == ["ready", "downloading", "notice", "ended"]
    assert place.output == ""


def test_a_notice_while_packages_are_installed_ends_the_installation(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:  # an index that never answers
        monkeypatch.setenv("UV_DEFAULT_INDEX", f"http://127.0.0.1:{silent.getsockname()[1]}/simple")
        (place.source / "requirements.txt").write_text("nosuch\n")
        place.before(lambda verb, name, data: write_notice(place.work, Notice("file", "a test", None))
                     if b'"preparing"' in data else None)
        ended = place.shell("echo started", code=True)
    assert ended == Ended(Outcome.INTERRUPTED, None, TAKEN, announced=True)
    assert list((place.folder / "cache" / "environments").iterdir()) == []


def test_a_notice_that_cannot_be_stored_still_saves(place: Place) -> None:
    def fail(verb: str, name: str, data: bytes) -> None:
        if b'"notice"' in data:
            raise StoreUnavailable("The store cannot be reached.")

    place.before(fail)
    ended = place.shell(f"trap 'echo 7 > $SM_CHECKPOINT_DIR/epoch; exit 1' TERM; {notice(3600)}; {WAIT}")
    assert ended == Ended(Outcome.INTERRUPTED, 1, TAKEN, announced=True)
    assert place.checkpoints() == {"epoch": "7"}


# Signals: of Slurm or Kubernetes, or of the engine.


@pytest.fixture
def signaled(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the agent listen to signals, and to no cloud."""
    monkeypatch.setattr(ending, "sources_named", lambda names, directory: sources_named("signals", directory=directory))
    monkeypatch.setenv("BAROGRAPH_GRACE", "3s")


def test_sigterm_is_a_notice_with_the_grace_of_the_machine(signaled: None, place: Place) -> None:
    began = time.monotonic()
    ended = place.shell(f"trap '' TERM; kill -TERM $PPID; {WAIT}")
    assert ended == Ended(Outcome.INTERRUPTED, -9, "The instance was taken away: received SIGTERM.", announced=True)
    assert time.monotonic() - began < 60  # and not the two minutes of a stop


def test_sigterm_of_the_engine_is_no_notice(signaled: None, place: Place) -> None:
    ended = place.shell(f"touch $SM_MODEL_DIR/../{ASKED}; kill -TERM $PPID; exec sleep 600")
    assert ended == Ended(Outcome.INTERRUPTED, -15, "It was asked to end.", announced=False)
    assert "notice" not in place.events


def test_the_engine_of_this_machine_says_that_its_signal_is_no_notice(tmp_path: Path) -> None:
    engine, process = LocalEngine(JobsHome(tmp_path / "home"), cores=1), LocalProcess(Command(("sleep", "600")))
    engine.ask_to_end({**asdict(process_now(process.pid)), "work": str(tmp_path)})
    assert process.wait() == -signal.SIGTERM
    assert (tmp_path / ASKED).exists()


# Being asked to end, as by `barograph stop`.


def test_an_instance_ends_when_the_engine_cannot_signal_it_but_shares_its_directory(place: Place) -> None:
    ended = place.shell(f"touch $SM_MODEL_DIR/../{ASKED}; exec sleep 600")
    assert ended == Ended(Outcome.INTERRUPTED, -15, "It was asked to end.", announced=False)


def test_an_instance_on_another_machine_is_asked_through_its_directory_and_keeps_it(tmp_path: Path) -> None:
    engine, process = LocalEngine(JobsHome(tmp_path / "home"), cores=1), LocalProcess(Command(("sleep", "600")))
    handle = {**asdict(process_now(process.pid)), "host": "elsewhere", "mark": "digits", "work": str(tmp_path)}
    for ask, text in ((engine.ask_to_end, ""), (engine.kill, "elsewhere")):
        ask(handle)
        assert (process.poll(), (tmp_path / ASKED).read_text()) == (None, text)
        (tmp_path / ASKED).unlink()
    process.kill()
    process.wait()


def test_an_instance_that_was_given_up_ends_at_once_and_stores_nothing_more(place: Place) -> None:
    began = time.monotonic()
    ended = place.shell(f"trap '' TERM; echo m > $SM_MODEL_DIR/m; echo c > $SM_CHECKPOINT_DIR/c; "
                        f"printf elsewhere > $SM_MODEL_DIR/../{ASKED}; {WAIT}")
    assert ended == Ended(Outcome.INTERRUPTED, -9, "Another machine gave this instance up.", announced=False)
    assert time.monotonic() - began < 60  # and not the two minutes of a stop
    assert (place.artifacts, place.checkpoints()) == ([], {})
    assert not (place.work / ASKED).exists()  # any machine may remove the directory now


@pytest.mark.parametrize(("event", "code", "outcome"), [
    ("ready", None, Outcome.INTERRUPTED), ("downloading", None, Outcome.INTERRUPTED),
    ("preparing", None, Outcome.INTERRUPTED), ("training", -15, Outcome.INTERRUPTED),
    ("uploading", 0, Outcome.FINISHED),
])
def test_an_instance_ends_in_every_phase_when_it_is_asked_to(
    place: Place, event: str, code: int | None, outcome: Outcome, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("UV_NO_INDEX", "1")
    if event == "preparing":
        (place.source / "requirements.txt").write_text("nosuch\n")
    (place.source / "a.bin").write_bytes(b"data")
    place.submit("sh", "-c", "echo m > $SM_MODEL_DIR/m; " + ("sleep 600" if event == "training" else "true"),
                 code=True, data={"train": "source/a.bin"})
    place.before(lambda verb, name, data: agent.ask_to_end() if f'"{event}"'.encode() in data else None)
    agent = place.agent()
    ended = agent.run()
    assert (ended.outcome, ended.exit_code, ended.announced) == (outcome, code, False)
    assert place.artifacts == (["model/m"] if event == "uploading" else [])
    assert marked_processes("SM_MODEL_DIR", str(place.work)) == []


@pytest.mark.parametrize(("script", "event", "has_finished"), [
    ("true", "uploading", True), ("exit 3", "uploading", False),
    ("trap 'exit 0' TERM; sleep 600 & wait", "training", False),
])
def test_the_agent_notes_whether_the_script_finished_before_files_are_stored(
    place: Place, script: str, event: str, has_finished: bool
) -> None:
    place.submit("sh", "-c", script)
    place.before(lambda verb, name, data: agent.ask_to_end() if f'"{event}"'.encode() in data else None)
    agent = place.agent()
    agent.run()
    (stored,) = [event for event in EventLog(place.real, instance_folder(0, 0)).new() if event.kind == "uploading"]
    assert stored.data["has_finished"] is has_finished


def test_a_script_that_failed_before_it_was_asked_to_end_has_failed(place: Place) -> None:
    place.submit("sh", "-c", "echo KeyError: lr; exit 3")
    place.before(lambda verb, name, data: agent.ask_to_end() if b'"uploading"' in data else None)
    agent = place.agent()
    assert agent.run() == Ended(Outcome.SCRIPT, 3, "The script ended with exit code 3: KeyError: lr")


def test_a_script_that_has_ended_does_not_run_although_its_output_is_open(place: Place) -> None:
    script = Script([Command(("sh", "-c", "sleep 600 & exit 3"))], InstanceLog(place.real, 0, 0, secrets=Secrets()))
    while script.is_running:
        assert script.turn(0.1) is None
    assert script.turn(0.0) is None
    script.kill()


# What the user gave.


def test_a_program_that_is_not_there_is_the_users_fault(place: Place) -> None:
    ended = place.run("./fit", code=True)
    assert (ended.outcome, ended.exit_code) in [(Outcome.SCRIPT, None), (Outcome.SCRIPT, 127)]
    assert "fit" in ended.reason
    assert "o such file" in ended.reason or "not found" in ended.reason


def test_requirements_that_cannot_be_met_are_the_users_fault_and_an_unreachable_index_is_not(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    (place.source / "requirements.txt").write_text("nosuch==1\n")
    monkeypatch.setenv("UV_NO_INDEX", "1")
    place.submit("true", code=True)
    ended = place.agent().run()
    assert ended.outcome is Outcome.SCRIPT
    assert ended.reason.startswith("The requirements cannot be installed: Because nosuch was not found")
    monkeypatch.delenv("UV_NO_INDEX")
    monkeypatch.setenv("UV_DEFAULT_INDEX", "http://127.0.0.1:9/simple")
    monkeypatch.setenv("UV_HTTP_RETRIES", "0")
    again = place.agent(attempt=1).run()
    assert again.outcome is Outcome.FAILED
    assert again.reason.startswith("Cannot build the environment: ")


def test_data_that_changed_before_it_was_copied_is_the_users_fault(place: Place) -> None:
    (place.source / "a.bin").write_bytes(b"first")
    place.submit("true", data={"train": "source"})
    (place.source / "a.bin").write_bytes(b"other data")
    ended = place.agent().run()
    assert (ended.outcome, ended.exit_code) == (Outcome.SCRIPT, None)
    assert ended.reason.startswith('"a.bin" changed after the job listed its data (5 bytes then, 10 now). Submit the '
                                   "job again when nothing writes there")


@pytest.mark.skipif(bool(lazy_problem()), reason="FUSE is not available")
def test_data_that_changes_while_it_is_read_lazily_fails_the_job_although_the_script_ignores_it(place: Place) -> None:
    (place.source / "a.bin").write_bytes(b"first")
    ended = place.shell(f"echo other data > {place.source}/a.bin; cat $SM_CHANNEL_TRAIN/a.bin; exit 0",
                        data={"train": "source:lazy"})
    assert ended.outcome is Outcome.SCRIPT
    assert ended.reason.startswith('"a.bin" changed after the job listed its data')
    assert not os.path.ismount(place.work / "input" / "data" / "train")


def test_a_script_that_uses_more_than_its_memory_is_killed_and_the_reason_says_what_to_do(place: Place) -> None:
    fill = "import time; kept = b'x' * 400_000_000; time.sleep(600)"
    ended = place.run(sys.executable, "-c", fill, memory_bytes=100 * 2**20)
    assert ended == Ended(Outcome.SCRIPT, -9, "The script used more than its 100.0 MiB of memory and was killed. Raise "
                                              "--memory, or make the batches smaller.")


# Outputs.


def test_outputs_may_have_any_name(place: Place) -> None:
    ended = place.shell("cd $SM_MODEL_DIR; printf 1 > \"$(printf 'a\\nb')\"; printf 2 > \"$(printf '\\377')\"; "
                        "printf 3 > ok; ln -s . loop; mkfifo fifo")
    assert ended == Ended(Outcome.FINISHED, 0)
    assert place.artifacts == ["model/%FF", "model/a%0Ab", "model/ok"]
    fetched = fetched_model(place.real, place.folder / "fetched")
    assert {path.name: path.read_text() for path in fetched.iterdir()} == {"a%0Ab": "1", "%FF": "2", "ok": "3"}


def test_outputs_that_cannot_be_read_are_the_scripts_fault_and_the_others_are_stored(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    access = os.access
    monkeypatch.setattr(os, "access", lambda path, mode: Path(path).name != "secret" and access(path, mode))
    ended = place.shell("echo 1 > $SM_MODEL_DIR/secret; echo 2 > $SM_MODEL_DIR/model")
    assert ended == Ended(Outcome.SCRIPT, None, "1 output of the script cannot be read, such as model/secret. Change "
                                                "the permissions in the script.")
    assert place.artifacts == ["model/model"]


# Scripts that leave, print or write too much.


def test_what_a_script_leaves_running_does_not_change_its_outputs(place: Place) -> None:
    ended = place.shell("setsid sh -c 'while :; do date >> $SM_MODEL_DIR/log; done' > /dev/null 2>&1 & "
                        "while [ ! -s $SM_MODEL_DIR/log ]; do sleep 0.01; done")
    assert ended == Ended(Outcome.FINISHED, 0)
    assert place.artifacts == ["model/log"]
    assert marked_processes("SM_MODEL_DIR", str(place.work)) == []


def test_processes_that_nothing_marks_are_ended_before_the_outputs_are_stored_and_at_the_end(place: Place) -> None:
    ends: list[tuple[list[str], list[str]]] = []
    place.submit("sh", "-c", "echo m > $SM_MODEL_DIR/m")
    agent = Agent(place.store, 0, 0, place.work, place.folder / "cache",
                  end_strays=lambda: ends.append((place.events, place.artifacts)))
    assert agent.run() == Ended(Outcome.FINISHED, 0)
    until = ["ready", "training", "uploading"]
    assert ends == [(until, []), (until, ["model/m"])]


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere they are not found")
@pytest.mark.parametrize("code", [0, 3])
def test_a_daemon_that_cleared_its_environment_is_ended_with_its_job(code: int, tmp_path: Path) -> None:
    engine, spec = LocalEngine(JobsHome(tmp_path / "home"), cores=1, memory=10**9, gpus=0), JobSpec(
        ("sh", "-c", f"(setsid env -i sh -c 'echo $$ > {tmp_path}/part; mv {tmp_path}/part {tmp_path}/pid; exec sleep "
                     f"600' &) > /dev/null 2>&1; while [ ! -s {tmp_path}/pid ]; do sleep 0.01; done; exit {code}"))
    store = store_from_url(str(tmp_path / "job"))
    write_submission(store, Submission("digits", spec, "", str(tmp_path)))
    create_run(store, new_manifest(Settings(to=store.url), command=spec.words, clock=SystemClock(), name="digits"))
    assert engine.reserve("digits", spec) == ""
    handle = engine.start(Order("digits", store.url, spec, 0, 0, dict(os.environ)))
    while not engine.is_gone(handle):
        time.sleep(0.05)
    process = Path("/proc", (tmp_path / "pid").read_text().strip(), "stat")
    assert not process.exists() or b") Z" in process.read_bytes()
    engine.release("digits")


def test_what_a_failed_script_leaves_running_does_not_hide_its_error(place: Place) -> None:
    ended = place.shell("head -c 30000000 /dev/zero > $SM_MODEL_DIR/large; "  # takes a while to be stored
                        "setsid sh -c 'while :; do echo x | tee -a $SM_MODEL_DIR/large >> $SM_MODEL_DIR/log; done' "
                        "> /dev/null 2>&1 & while [ ! -s $SM_MODEL_DIR/log ]; do sleep 0.01; done; "
                        "echo 'KeyError: lr'; exit 3")
    kill_marked("SM_MODEL_DIR", str(place.work))
    assert ended == Ended(Outcome.SCRIPT, 3, "The script ended with exit code 3: KeyError: lr")


def test_much_output_needs_little_memory_and_says_what_was_left_out(place: Place) -> None:
    process, most = psutil.Process(), [0]
    place.before(lambda verb, name, data: most.append(process.memory_info().rss))
    before = process.memory_info().rss
    ended = place.shell("echo begin; yes a line of output | head -c 100000000; echo end")
    assert ended == Ended(Outcome.FINISHED, 0)
    assert max(most) - before < 150e6
    output = place.output
    assert output.startswith("begin\n")
    assert output.endswith("end\n")
    assert len(output) < MOST_BYTES + 3 * 2**20
    left_out = re.search(r"\[barograph: ([\d,]+) bytes of output were left out\]\n", output)
    assert left_out is not None, re.findall(r"\[barograph: .*", output)
    # All output of the script, and the two lines that say what was left out.
    assert 100_000_000 < len(output) + int(left_out[1].replace(",", "")) < 100_000_500


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    disk = tmp_path / "small"
    disk.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", "size=2m", "tmpfs", str(disk)]
    if subprocess.run(command, check=False, capture_output=True).returncode != 0:
        pytest.skip("a small file system can be mounted by root on Linux only")
    yield disk
    subprocess.run(["umount", str(disk)], check=True)


FILL = "dd if=/dev/zero of=$SM_MODEL_DIR/big bs=16k 2>&1 | grep -v copied | grep -v records; exit 3"


def test_a_script_that_fills_the_disk_says_so(small_disk: Path, place: Place) -> None:
    place.work = small_disk / "0-0"
    assert place.shell(FILL) == Ended(
        Outcome.SCRIPT, 3, "The script ended with exit code 3: dd: error writing "
        f"'{place.work}/model/big': No space left on device. The disk of the instance is full: free some space, or "
        "write less.")
    assert place.waited_secs == 0.0


def test_a_script_that_fills_the_disk_of_the_store_too_says_so_at_once(small_disk: Path, tmp_path: Path) -> None:
    place = Place(small_disk)
    ended = place.shell(FILL)
    assert (ended.outcome, ended.exit_code) == (Outcome.SCRIPT, 3), ended.reason
    assert place.events[-1] == "ended"
    assert place.waited_secs == 0.0


def test_a_store_that_is_full_is_waited_for_before_a_trained_model_is_given_up(place: Place) -> None:
    def fail(verb: str, name: str, data: bytes) -> None:
        if "checkpoints" in name and verb == "put":
            raise StoreFull("The store is full.")

    place.before(fail)
    ended = place.shell("echo 7 > $SM_CHECKPOINT_DIR/epoch")
    assert ended == Ended(Outcome.FAILED, None, "The store is full. Free some space.")
    assert place.waited_secs >= 600


def test_while_the_store_is_full_the_job_says_so_and_what_to_do(place: Place) -> None:
    seen = set[str]()

    def fail(verb: str, name: str, data: bytes) -> None:
        if "checkpoints" in name and verb == "put" and place.waited_secs < 60:
            raise StoreFull(f"The store is full. (put {name}: No space left on device).")

    def look(secs: float) -> None:
        place.waited_secs += secs
        seen.add(JobView("digits", place.real).report().reason)

    place.before(fail)
    place.submit("sh", "-c", "echo 7 > $SM_CHECKPOINT_DIR/epoch")
    log = EventLog(place.real, EVENTS)
    log.append("starting", attempt=0)
    log.append("started", index=0, handle={})
    place.wait = look  # type: ignore[method-assign]
    ended = place.agent().run()
    assert ended == Ended(Outcome.FINISHED, 0)
    (reason,) = {re.sub(r"\(put job/checkpoints/0/.*/epoch:", "(put epoch:", text) for text in seen}
    assert reason == ("The store is full. Free some space; after 10 minutes the job fails. (put epoch: No space left "
                      "on device).")
    assert JobView("digits", place.real).report().reason == ""


def test_a_disk_without_a_free_byte_is_named_although_the_instance_cannot_say_so(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    place.submit("true")
    log = EventLog(place.real, EVENTS)
    log.append("starting", attempt=0)
    log.append("started", index=0, handle={})
    Heartbeat(place.real, 0, 0).beat()
    assert JobView("digits", place.real).report().reason == ""
    monkeypatch.setattr(shutil, "disk_usage", lambda path: shutil._ntuple_diskusage(100, 100, 0))
    assert JobView("digits", place.real).report().reason == f"The store is full. Free some space ({place.real.url})."


def test_the_model_of_a_job_is_a_directory_in_python(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BAROGRAPH_HOME", str(place.folder / "home"))
    assert place.shell("echo 7 > $SM_MODEL_DIR/weights").outcome is Outcome.FINISHED
    job = SubmittedJob(JobView("digits", place.real))
    assert (job.model / "weights").read_text() == "7\n"
    assert [item.name for item in job.artifacts] == ["model/weights"]


def test_a_job_whose_directory_was_deleted_can_still_be_reported(place: Place) -> None:
    place.submit("true")
    EventLog(place.real, EVENTS).append("starting", attempt=0)
    view = JobView("digits", place.real)
    view.refresh()
    shutil.rmtree(place.folder / "job")
    assert (view.report().phase, view.report().reason) == (Phase.RUNNING, "")


# A store that fails.


def test_every_operation_of_the_store_may_fail_twice(place: Place) -> None:
    tries: Counter[tuple[str, str]] = Counter()

    def fail(verb: str, name: str, data: bytes) -> None:
        # Entries of the journal, and checkpoints, have other names when they are tried again.
        what = re.sub(r"[0-9a-f]{8,16}-[0-9a-f]+", "", name)
        tries[verb, what] += 1
        if tries[verb, what] < 3:
            raise StoreUnavailable("The store cannot be reached.")

    (place.source / "a.bin").write_bytes(b"data")
    place.submit("sh", "-c", "cat $SM_CHANNEL_TRAIN/a.bin; echo; cat $SM_CHECKPOINT_DIR/epoch; "
                 "echo 7 > $SM_CHECKPOINT_DIR/epoch; echo m > $SM_MODEL_DIR/m", code=True, data={"train": "source"})
    place.before(fail)
    assert place.agent().run() == Ended(Outcome.FINISHED, 0)
    assert place.events == ["ready", "downloading", "training", "uploading", "ended"]
    assert "data\n" in place.output
    shutil.rmtree(place.work)
    assert place.agent(attempt=1).run() == Ended(Outcome.FINISHED, 0)
    assert "data\n7\n" in "".join(LogReader(place.real, 1, 0).new())
    assert place.artifacts == ["model/m"]
    assert place.checkpoints() == {"epoch": "7"}


def test_a_training_goes_on_while_the_store_is_unreachable_and_nothing_is_lost(place: Place) -> None:
    down = place.folder / "down"

    def fail(verb: str, name: str, data: bytes) -> None:
        if down.exists():
            raise StoreUnavailable("The store cannot be reached.")

    place.before(fail)
    ended = place.shell(f"touch {down}; for epoch in 1 2 3; do echo $epoch; echo $epoch > $SM_CHECKPOINT_DIR/epoch; "
                        f"sleep 0.3; done; rm {down}; echo m > $SM_MODEL_DIR/m")
    assert ended == Ended(Outcome.FINISHED, 0)
    assert place.output == "1\n2\n3\n"
    assert (place.artifacts, place.checkpoints()) == (["model/m"], {"epoch": "3"})


def test_a_store_that_fails_is_left_alone_for_some_seconds(place: Place) -> None:
    down, tried, tries = place.folder / "down", place.folder / "tried", []

    def fail(verb: str, name: str, data: bytes) -> None:
        if down.exists() and "/logs/" in name:
            tried.touch()
            tries.append(time.monotonic())
            raise StoreUnavailable("The store cannot be reached.")

    place.before(fail)
    assert place.shell(f"touch {down}; echo 0; while [ ! -e {tried} ]; do sleep 0.1; done; for line in 1 2 3 4 5 6; do "
                       f"echo $line; sleep 0.1; done; rm {down}") == Ended(Outcome.FINISHED, 0)
    # On a busy machine, seconds pass meanwhile.
    assert len(tries) == 1 or min(after - before for before, after in pairwise(tries)) >= 5
    assert place.output == "".join(f"{line}\n" for line in range(7))


def test_an_agent_that_cannot_begin_says_why(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    engine, spec = LocalEngine(JobsHome(tmp_path / "home"), cores=1, memory=10**9, gpus=0), JobSpec(("true",))
    assert engine.reserve("digits", spec) == ""
    handle = engine.start(Order("digits", str(tmp_path / "file" / "job"), spec, 0, 0, dict(os.environ)))
    while not (why := engine.is_gone(handle)):
        time.sleep(0.05)
    engine.kill(handle)
    engine.release("digits")
    assert why.startswith(f"Its agent ended with exit code 1: Cannot reach {tmp_path}/file/job from this instance. ")
    assert not (tmp_path / "home" / "work" / "digits").exists()


@pytest.mark.parametrize(("error", "waited_secs", "why"), [
    (StoreUnavailable("The store cannot be reached. (create a in s3://b: no route)"), 20.0,
     "(create a in s3://b: no route)"),
    (StoreDenied("Access to the store was denied."), 0.0, "Access to the store was denied."),
])
def test_a_store_that_cannot_be_reached_from_the_beginning_is_reported_soon(
    place: Place, error: Exception, waited_secs: float, why: str
) -> None:
    def fail(verb: str, name: str, data: bytes) -> None:
        raise error

    place.submit("true")
    place.before(fail)
    with pytest.raises(Unable) as raised:
        place.agent().run()
    assert str(raised.value) == (f"Cannot reach {place.real.url} from this instance. Check its network and its "
                                 f"credentials. {why}")
    assert waited_secs <= place.waited_secs <= 2 * waited_secs


def test_a_bucket_that_an_instance_cannot_reach_fails_the_job_with_the_reason(tmp_path: Path) -> None:
    """The engine tells the controller: the instance cannot write it anywhere."""
    engine, spec = LocalEngine(JobsHome(tmp_path / "home"), cores=1, memory=10**9, gpus=0), JobSpec(("true",))
    assert engine.reserve("digits", spec) == ""
    with HTTPServer(("127.0.0.1", 0), Forbidden) as server, ThreadPoolExecutor() as threads:
        threads.submit(server.serve_forever)
        handle = engine.start(Order("digits", "s3://bucket/digits", spec, 0, 0, {
            **os.environ, "AWS_ENDPOINT_URL": f"http://127.0.0.1:{server.server_port}", "AWS_ACCESS_KEY_ID": "any",
            "AWS_SECRET_ACCESS_KEY": "any", "AWS_REGION": "us-east-1"}))
        while not (why := engine.is_gone(handle)):
            time.sleep(0.05)
        server.shutdown()
    engine.kill(handle)
    engine.release("digits")
    end = end_of_lost(why, [], 1.0)
    assert end.outcome is Outcome.FAILED
    assert end.reason.startswith(
        "The instance ended before it was ready. Its agent ended with exit code 1: Cannot reach s3://bucket/digits "
        "from this instance. Check its network and its credentials. Access to the store was denied")


def test_a_store_that_denies_access_is_no_reason_to_wait(place: Place) -> None:
    def fail(verb: str, name: str, data: bytes) -> None:
        if verb == "get":
            raise StoreDenied("Access to the store was denied for these credentials or this user.")

    place.before(fail)
    assert place.shell("true") == Ended(
        Outcome.FAILED, None, "Access to the store was denied for these credentials or this user.")
    assert place.waited_secs == 0.0
