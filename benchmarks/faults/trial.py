"""One program, once: under `barograph run` with its default settings in fresh processes, or by itself."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from barograph.errors import BarographError
from barograph.judging.state import read_state
from barograph.model.finding import Finding, finding_from_json
from barograph.queries.problems import Problem, RateJump, problems_of
from barograph.queries.recall import has_judged_all, recalled
from barograph.runs.reading.glance import glance
from barograph.store.urls import store_from_url
from benchmarks.faults.programs import Program
from benchmarks.processes import clean_environment

LIMIT_SECS = 600.0


class TrialFailed(Exception):
    """A program gave no result; the message says why."""


@dataclass(frozen=True, slots=True)
class Trial:
    """What came of a program with one seed, as it was read from the run afterwards.

    Attributes:
        seed: Which.
        findings: All, as they were when they opened, or closed.
        steps: Optimizer steps made, of the busiest optimizer and the worker that is furthest.
        capture_secs: Recording cost as the run itself measured it; of the costliest worker.
        train_secs: How long that worker trained, capture included.
        wall_secs: From the command's start to its end.
        exit_code: Of the script.
        problems: What went wrong with the recording or the watching.
        jumps: Steps at which the learning rate jumped.
    """

    seed: int
    findings: tuple[Finding, ...]
    steps: int
    capture_secs: float
    train_secs: float
    wall_secs: float
    exit_code: int
    problems: tuple[str, ...] = ()
    jumps: tuple[RateJump, ...] = ()

    @property
    def found(self) -> tuple[Problem, ...]:
        """What is wrong, as Barograph's own summary says it."""
        return problems_of(self.findings, self.jumps)

    @property
    def cost(self) -> float:
        """Capture time as a share of the time that training takes without it."""
        bare_secs = self.train_secs - self.capture_secs
        return self.capture_secs / bare_secs if bare_secs > 0 else 0.0

    def to_json(self) -> dict[str, Any]:
        """Return it as plain JSON data."""
        return {**asdict(self), "findings": [finding.to_json() for finding in self.findings]}


def trial_from_json(data: Mapping[str, Any]) -> Trial:
    """Return the trial that `Trial.to_json` wrote."""
    findings = tuple(finding_from_json(item) for item in data["findings"])
    jumps = tuple(RateJump(**item) for item in data["jumps"])
    return Trial(**{**data, "findings": findings, "problems": tuple(data["problems"]), "jumps": jumps})


@dataclass(frozen=True, slots=True)
class Bare:
    """What a program did by itself: how long it took, how it ended, and the last line it printed."""

    seed: int
    wall_secs: float
    exit_code: int
    last_line: str


def watched(program: Program, seed: int) -> Trial:
    """Return what came of a program under `barograph run`.

    Raises:
        TrialFailed: It left no run that can be read, or did not end in time.
    """
    with tempfile.TemporaryDirectory(prefix="barograph-bench-", ignore_cleanup_errors=True) as scratch:
        place, home = Path(scratch, "run"), Path(scratch, "home")
        home.mkdir()
        # A script is named as people name it; a launcher is a program of its own.
        words = command_of(program.path, program.workers, seed)
        command = [sys.executable, "-m", "barograph", "run", "--no-live", "--to", str(place),
                   *(words if program.workers > 1 else words[1:])]  # fmt: skip
        started = time.perf_counter()
        done = _run(command, home)
        wall_secs = time.perf_counter() - started
        try:
            return _read(str(place), seed, wall_secs, done.returncode)
        except BarographError as error:
            raise TrialFailed(f"{error} {_last_words(done)}") from error


def bare(path: Path, workers: int, seed: int) -> Bare:
    """Return how a script does without Barograph.

    Raises:
        TrialFailed: It did not end in time.
    """
    with tempfile.TemporaryDirectory(prefix="barograph-bench-", ignore_cleanup_errors=True) as scratch:
        started = time.perf_counter()
        done = _run(command_of(path, workers, seed), Path(scratch))
        wall_secs = time.perf_counter() - started
    lines = [line.strip() for line in (done.stderr if done.returncode else done.stdout).splitlines() if line.strip()]
    return Bare(seed, wall_secs, done.returncode, lines[-1] if lines else "")


def command_of(path: Path, workers: int, seed: int) -> list[str]:
    """Return the command that starts a script, on several workers by torchrun.

    Example:
        >>> command_of(Path("a.py"), 2, 7)[1:]
        ['-m', 'torch.distributed.run', '--standalone', '--nproc-per-node', '2', 'a.py', '--seed', '7']
    """
    launcher = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(workers)] if workers > 1 else []
    return [sys.executable, *launcher, str(path), "--seed", str(seed)]


def _run(command: Sequence[str], home: Path) -> subprocess.CompletedProcess[str]:
    # Memory is left to malloc, as at people's own, and what is warned of is nobody's business here.
    environment = {**clean_environment(home), "PATH": os.environ.get("PATH", "")}
    try:
        return subprocess.run(command, cwd=home, env=environment, capture_output=True, text=True, errors="replace",
                              timeout=LIMIT_SECS, check=False, stdin=subprocess.DEVNULL)  # fmt: skip
    except subprocess.TimeoutExpired:
        raise TrialFailed(f"not done within {LIMIT_SECS:.0f} s") from None


def _read(place: str, seed: int, wall_secs: float, exit_code: int) -> Trial:
    store = store_from_url(place)
    seen = glance(store)
    beats = [worker.last for worker in seen.workers if worker.last is not None]
    dearest = max((beat.cost for beat in beats), key=lambda cost: cost.share, default=None)
    state = read_state(store) or {"problems": ["the watcher left no state"]}
    problems = [*seen.problems, *state["problems"], *(problem for beat in beats for problem in beat.problems)]
    if not has_judged_all(store):
        problems.append("not all that was recorded was judged")
    if any(beat.dropped_steps for beat in beats):
        problems.append(f"{sum(beat.dropped_steps for beat in beats)} steps were dropped")
    return Trial(
        seed=seed, findings=tuple(seen.findings), steps=seen.steps, wall_secs=wall_secs, exit_code=exit_code,
        capture_secs=dearest.capture_secs if dearest else 0.0, train_secs=dearest.train_secs if dearest else 0.0,
        jumps=recalled(store).summary.rate_jumps,
        problems=tuple(dict.fromkeys(re.sub(re.escape(place), "the run", problem) for problem in problems)),
    )  # fmt: skip


def _last_words(done: subprocess.CompletedProcess[str]) -> str:
    lines = [line.strip() for line in done.stderr.splitlines() if line.strip()]
    return f"exit code {done.returncode}: {' | '.join(lines[-3:])}"
