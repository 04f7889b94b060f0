"""Runs one program once: under `barograph run` with its default settings in fresh processes, or alone."""

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
from barograph.queries.recall import judged_and_jumps, recalled
from barograph.runs.reading.glance import glance
from barograph.store.urls import store_from_url
from benchmarks.faults.programs import Program
from benchmarks.processes import clean_environment

LIMIT_SECS = 600.0


class TrialFailed(Exception):
    """A program gave no result; the message says why."""


@dataclass(frozen=True, slots=True)
class Trial:
    """The result of a program with one seed, read from the run afterwards.

    Attributes:
        seed: The seed.
        findings: All findings, as they were when they opened, or closed.
        steps: Number of optimizer steps, of the busiest optimizer and the furthest worker.
        capture_secs: Recording cost as the run itself measured it; of the costliest worker.
        train_secs: Training time of that worker, including recording.
        wall_secs: Time from the command's start to its end.
        exit_code: Exit code of the script.
        problems: Problems of recording or watching.
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
        """The problems in Barograph's own summary."""
        return problems_of(self.findings, self.jumps)

    @property
    def cost(self) -> float:
        """Capture time as a share of the training time without it."""
        bare_secs = self.train_secs - self.capture_secs
        return self.capture_secs / bare_secs if bare_secs > 0 else 0.0

    def to_json(self) -> dict[str, Any]:
        """Return the trial as plain JSON data."""
        return {**asdict(self), "findings": [finding.to_json() for finding in self.findings]}


def trial_from_json(data: Mapping[str, Any]) -> Trial:
    """Return the trial that `Trial.to_json` wrote."""
    findings = tuple(finding_from_json(item) for item in data["findings"])
    jumps = tuple(RateJump(**item) for item in data["jumps"])
    return Trial(**{**data, "findings": findings, "problems": tuple(data["problems"]), "jumps": jumps})


@dataclass(frozen=True, slots=True)
class Bare:
    """The result of a program alone: its time, exit code, and last line of output."""

    seed: int
    wall_secs: float
    exit_code: int
    last_line: str


def watched(program: Program, seed: int) -> Trial:
    """Return the result of a program under `barograph run`.

    Raises:
        TrialFailed: It left no readable run, or did not end in time.
    """
    with tempfile.TemporaryDirectory(prefix="barograph-bench-", ignore_cleanup_errors=True) as scratch:
        place, home = Path(scratch, "run"), Path(scratch, "home")
        home.mkdir()
        # A script's name is passed as users do; a launcher is a separate program.
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
    """Return the result of a script without Barograph.

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
    """Return the command that starts a script, with torchrun for several workers.

    Example:
        >>> command_of(Path("a.py"), 2, 7)[1:]
        ['-m', 'torch.distributed.run', '--standalone', '--nproc-per-node', '2', 'a.py', '--seed', '7']
    """
    launcher = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(workers)] if workers > 1 else []
    return [sys.executable, *launcher, str(path), "--seed", str(seed)]


def _run(command: Sequence[str], home: Path) -> subprocess.CompletedProcess[str]:
    # The usual settings of malloc, and without warnings.
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
    costliest = max((beat.cost for beat in beats), key=lambda cost: cost.share, default=None)
    state = read_state(store) or {"problems": ["the watcher left no state"]}
    problems = [*seen.problems, *state["problems"], *(problem for beat in beats for problem in beat.problems)]
    if not judged_and_jumps(store)[0]:
        problems.append("not all that was recorded was judged")
    if any(beat.dropped_steps for beat in beats):
        problems.append(f"{sum(beat.dropped_steps for beat in beats)} steps were dropped")
    return Trial(
        seed=seed, findings=tuple(seen.findings), steps=seen.steps, wall_secs=wall_secs, exit_code=exit_code,
        capture_secs=costliest.capture_secs if costliest else 0.0,
        train_secs=costliest.train_secs if costliest else 0.0,
        jumps=recalled(store).summary.rate_jumps,
        problems=tuple(dict.fromkeys(re.sub(re.escape(place), "the run", problem) for problem in problems)),
    )  # fmt: skip


def _last_words(done: subprocess.CompletedProcess[str]) -> str:
    lines = [line.strip() for line in done.stderr.splitlines() if line.strip()]
    return f"exit code {done.returncode}: {' | '.join(lines[-3:])}"
