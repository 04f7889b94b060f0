"""Kills parts of a job with SIGKILL in a phase of its life, and determines what remains afterwards.

Victims are found by environment variables of their processes, not by how the code starts them.
"""

from __future__ import annotations

import contextlib
import json
import os
import random
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from barograph.errors import BarographError
from barograph.jobs.home import JobsHome
from barograph.jobs.job_report import JobReport, view_of
from barograph.machine.marked import kill_marked, marked_processes, program_of
from benchmarks.processes import WorkerFailed

HOME, INSTANCE, SCRIPT = "BAROGRAPH_HOME", "BAROGRAPH_INSTANCE", "TRAINING_JOB_NAME"
"""Environment variables of all processes of a jobs directory, of an instance, and of a script."""
PATIENCE_SECS = 300.0
_LEFT_SECS = 30.0
_LOOK_SECS = 0.01
_UNFINISHED = re.compile(r"#\d+$")
_KEPT = re.compile(r"jobs/[^./][^/]*\.json|cache/.*|controller\.log|barograph-[0-9a-f]{24}\.lock")
"""Files that intentionally remain in the jobs directory."""


@dataclass(frozen=True, slots=True)
class Phase:
    """A phase in the life of a job, and how to make it long enough to be hit.

    Attributes:
        name: Its name.
        has_begun: Returns whether a job is in it.
        longest_secs: Maximum time from its start to the kill.
        shortest_secs: Minimum time from its start to the kill.
        options: Options of the submission.
        script: The script to train.
        output_bytes: Size of the script's output.
        ends: The job ends by itself afterwards; otherwise it has to be stopped.
    """

    name: str
    has_begun: Callable[[Case, JobReport], bool]
    longest_secs: float
    options: Sequence[str] = ()
    script: str = "plain_training.py"
    output_bytes: int = 0
    ends: bool = True
    shortest_secs: float = 0.0


@dataclass(slots=True)
class Case:
    """One job in a separate folder.

    Attributes:
        folder: All files of the job, including temporary ones.
        name: Name of the job.
        environment: Environment of all commands.
        engine: Engine of the job.
    """

    folder: Path
    name: str
    environment: Mapping[str, str]
    engine: str = "local"
    seen: set[str] = field(default_factory=set)

    @property
    def home(self) -> JobsHome:
        """Directory of the jobs."""
        return JobsHome(self.folder / "home")

    @property
    def run(self) -> Path:
        """Store of the job."""
        return self.folder / "runs" / self.name

    def command(self, *words: str) -> subprocess.Popen[str]:
        """Start a command of Barograph."""
        (self.folder / "tmp").mkdir(exist_ok=True)
        environment = {**self.environment, HOME: str(self.folder / "home"), "TMPDIR": str(self.folder / "tmp")}
        return subprocess.Popen([sys.executable, "-m", "barograph", *words], cwd=self.folder / "code", env=environment,
                                stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    def ended(self, *words: str, codes: Iterable[int] = (0,)) -> str:
        """Run a command of Barograph to its end; return its output.

        Raises:
            WorkerFailed: It ended with another exit code, or not in time.
        """
        process = self.command(*words)
        try:
            out, err = process.communicate(timeout=PATIENCE_SECS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.communicate()
            raise WorkerFailed(f"barograph {' '.join(words)}: not done within {PATIENCE_SECS:g} s") from None
        if process.returncode not in codes:
            raise WorkerFailed(f"barograph {' '.join(words)}: exit code {process.returncode}: {err[-500:]}")
        return out

    def report(self) -> JobReport | None:
        """Return the current state of the job; None if there is none, or it cannot be read at this moment."""
        with contextlib.suppress(BarographError):
            return view_of(self.name, self.home).report()
        return None

    def processes(self, victim: str = "everything") -> list[int]:
        """Return the processes of the job: of the "controller", the "agent", the "script" or "everything"."""
        found = {*marked_processes(HOME, str(self.folder)), *marked_processes(INSTANCE, f"{self.name}@")}
        return [pid for pid in found if victim in ("everything", _kind_of(pid))]

    def note_groups(self) -> None:
        """Remember the control groups and namespaces of the processes, which must be gone at the end."""
        mine = _groups_of(os.getpid())
        for pid in self.processes():
            self.seen |= _groups_of(pid) - mine

    def kill(self, victim: str) -> int:
        """Kill processes; return their number."""
        self.note_groups()
        killed = 0
        for pid in self.processes(victim):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
                killed += 1
        return killed

    def left(self) -> list[str]:
        """Return what remains of the job once nothing disappears any more."""
        deadline = time.monotonic() + _LEFT_SECS
        while (found := list(self._left())) and time.monotonic() < deadline:
            time.sleep(0.1)
        return found

    def close(self) -> None:
        """End everything that remains."""
        for variable, prefix in ((HOME, str(self.folder)), (INSTANCE, f"{self.name}@")):
            kill_marked(variable, prefix)
        for place in _mounts(self.folder):
            subprocess.run(["umount", "-l", place], check=False, capture_output=True)

    def _left(self) -> Iterator[str]:
        for pid in self.processes():
            program = program_of(pid)
            yield f"process {' '.join(program.arguments[-6:]) if program else pid}"
        yield from (f"mount {place}" for place in _mounts(self.folder))
        yield from (f"group {group}" for group in self.seen if _is_there(group))
        yield from (f"temporary file {path.name}" for path in (self.folder / "tmp").glob("*"))
        home = self.folder / "home"
        for path in home.rglob("*"):
            name = path.relative_to(home).as_posix()
            if not _KEPT.fullmatch(name) and (path.is_file() or path.is_symlink() or name.startswith("work/")):
                yield f"file {name}"
        known = {record.name for record in self.home.all()}
        for path in (self.folder / "runs").rglob("*"):
            if path.is_file() and (_UNFINISHED.search(path.name) or self.name not in known):
                yield f"file {path.relative_to(self.folder)}"


def killed_case(case: Case, phase: Phase, victim: str, draws: random.Random, words: Sequence[str]) -> dict[str, Any]:
    """Submit a job, kill a victim in a phase, let the next `barograph jobs` repair it, and return the result.

    Args:
        case: The job.
        phase: The phase.
        victim: The processes to kill: see `Case.processes`.
        draws: Chooses the time.
        words: Arguments of the submission after its options.
    """
    after_secs = draws.uniform(phase.shortest_secs, phase.longest_secs)
    submission = case.command("submit", "--engine", case.engine, "--to", str(case.run), "--name", case.name,
                              *phase.options, phase.script, *words, str(phase.output_bytes))
    if phase.name == "submitting":
        with contextlib.suppress(subprocess.TimeoutExpired):
            submission.wait(after_secs)
        was_hit = submission.poll() is None
    else:
        _, err = submission.communicate(timeout=PATIENCE_SECS)
        if submission.returncode:
            raise WorkerFailed(f"submission: exit code {submission.returncode}: {err[-500:]}")
        was_hit = _wait_for(case, phase)
        time.sleep(after_secs)
    killed = case.kill(victim)
    if phase.name == "submitting":
        submission.kill()
        submission.communicate()
        killed += 1
    listed = json.loads(case.ended("jobs", "--json"))
    found = {"phase": phase.name, "victim": victim, "was_hit": was_hit, "killed": killed, "state": "not submitted"}
    if any(job["name"] == case.name for job in listed):
        if not phase.ends:
            case.ended("stop", case.name)
        case.note_groups()
        found["state"] = json.loads(case.ended("wait", case.name, "--json", codes=(0, 1, 75, 79)))["phase"]
        case.ended("jobs")
    return {**found, "left": case.left()}


def _wait_for(case: Case, phase: Phase) -> bool:
    """Wait for a phase; return whether the job was in it, and not past it."""
    deadline = time.monotonic() + PATIENCE_SECS
    while time.monotonic() < deadline:
        report = case.report()
        if report is not None and phase.has_begun(case, report):
            return True
        if report is not None and report.is_over:
            return False
        time.sleep(_LOOK_SECS)
    raise WorkerFailed(f"{case.name} was not {phase.name} within {PATIENCE_SECS:g} s")


def _kind_of(pid: int) -> str:
    program = program_of(pid)
    if program is None:
        return ""
    if SCRIPT in program.environment:
        return "script"
    return "agent" if INSTANCE in program.environment else "controller"


def _groups_of(pid: int) -> set[str]:
    """Return the control groups of memory and the network namespace of a process."""
    found = set()
    with contextlib.suppress(OSError):
        found.add(os.readlink(f"/proc/{pid}/ns/net"))
        for line in Path(f"/proc/{pid}/cgroup").read_text().splitlines():
            _, controllers, path = line.split(":", 2)
            if "barograph" in path:
                found.add(f"/sys/fs/cgroup/{controllers.replace('name=', '') or ''}{path}")
    return found


def _is_there(group: str) -> bool:
    if group.startswith("/"):
        return os.path.exists(group)
    return any(group in _groups_of(int(path.name)) for path in Path("/proc").glob("[0-9]*"))


def _mounts(folder: Path) -> list[str]:
    lines = Path("/proc/self/mountinfo").read_text(errors="surrogateescape").splitlines()
    return [line.split(" ")[4] for line in lines if line.split(" ")[4].startswith(f"{folder}/")]
