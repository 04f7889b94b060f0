"""Runs one program once: records it until a step is withheld, and replays that step."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from barograph.capsule.failing import failing_by
from barograph.capsule.order import ReplayOrder, ReplayResult, result_from_text
from barograph.cli.replay.replay_samples import failing_batch, guilty_of
from barograph.errors import ReplayFailed
from barograph.runs.state.capsules import capsule_names, read_head
from barograph.store.urls import store_from_url
from benchmarks.processes import clean_environment
from benchmarks.replay.programs import Program

LIMIT_SECS = 300.0


class TrialFailed(Exception):
    """A program gave no result; the message says why."""


@dataclass(frozen=True, slots=True)
class Trial:
    """The result of a program.

    Attributes:
        held: "why@step", with the optimizer's label as a prefix if it has one.
        grade: How exactly the replay matched.
        blamed: The operation or input that `barograph replay --json` names; empty: nothing.
        guilty: Rows of the batch that alone fail; None: not checked.
        notes: Differences from the recorded step.
        record_secs, replay_secs: Time until the step was withheld, and time to replay it.
        tries: Number of replays to find the samples.
    """

    held: str
    grade: str
    blamed: Mapping[str, Any]
    guilty: tuple[int, ...] | None
    notes: tuple[str, ...]
    record_secs: float
    replay_secs: float
    tries: int = 0


class CommandLine:
    """Runs programs as users do: `barograph run --record`, `barograph replay --json`."""

    def close(self) -> None:
        """Do nothing."""

    def trial(self, program: Program) -> Trial:
        """Return the result of a program.

        Raises:
            TrialFailed: It left no capsule, or the step could not be replayed.
        """
        with tempfile.TemporaryDirectory(prefix="barograph-bench-", ignore_cleanup_errors=True) as scratch:
            folder = _desk(program, Path(scratch))
            words = [program.path.name]
            if program.workers > 1:
                words = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node",
                         str(program.workers), *words]
            recorder = "".join(f"{name} = {value}\n" for name, value in program.recorder.items())
            (folder / "barograph.toml").write_text(f"[recorder]\n{recorder}", encoding="utf-8")
            started = time.perf_counter()
            recorded = _run(["run", "--record", "--no-live", "--rules", "none", "--to", "run", *words], folder)
            record_secs = time.perf_counter() - started
            name, held = _held(str(folder / "run"), program, recorded.stderr)
            started = time.perf_counter()
            samples = "--no-samples" if program.guilty is None else "--samples"
            done = _run(["replay", "--json", samples, f"run/capsules/{name}", program.path.name], folder)
            replay_secs = time.perf_counter() - started
        if '{"capsule"' not in done.stdout.replace("\n", "").replace(" ", ""):
            raise TrialFailed(f"exit code {done.returncode}: {_last_words(done.stderr)}")
        said = json.loads(done.stdout[done.stdout.index("{\n"):])
        guilty = said["guilty"]
        return Trial(
            held, said["grade"], said["bad_operation"] or {}, tuple(guilty["rows"]) if guilty else None,
            tuple(said["notes"]), record_secs, replay_secs, guilty["tries"] if guilty else 0,
        )


class Forks:
    """Runs programs with one worker in forks of one process, without the command line."""

    def __init__(self) -> None:
        self._home = tempfile.TemporaryDirectory(prefix="barograph-bench-", ignore_cleanup_errors=True)
        self._server = subprocess.Popen(
            [sys.executable, "-m", "benchmarks.replay.fork_server"], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            text=True, env=clean_environment(Path(self._home.name)),
        )

    def close(self) -> None:
        """End the process."""
        self._server.communicate()
        self._home.cleanup()

    def trial(self, program: Program) -> Trial:
        """Return the result of a program; raises like `CommandLine.trial`."""
        if program.workers > 1:
            raise TrialFailed("several workers need the command line")
        with tempfile.TemporaryDirectory(prefix="barograph-bench-", ignore_cleanup_errors=True) as scratch:
            folder = _desk(program, Path(scratch))
            script, run = folder / program.path.name, str(folder / "run")
            started = time.perf_counter()
            said = self._ask(folder, what="record", script=script, run=run, recorder=program.recorder or True)
            record_secs = time.perf_counter() - started
            name, held = _held(run, program, said)
            order = ReplayOrder(run, name, str(folder / "result.json"))
            started = time.perf_counter()
            result = self._made_again(folder, script, order)
            replay_secs = time.perf_counter() - started
            fails_by, guilty = failing_by(read_head(store_from_url(run), name), result), None
            batch = failing_batch(result, fails_by)
            if batch is not None and program.guilty is not None:
                guilty = guilty_of(partial(self._part, folder, script), order, result, batch, fails_by)
        blamed = json.loads(result.to_text())["bad_operation"] or {}
        return Trial(held, result.grade.value, blamed, guilty.rows if guilty else None, result.notes, record_secs,
                     replay_secs, guilty.tries if guilty else 0)

    def _part(self, folder: Path, script: Path, order: ReplayOrder, *, quiet: bool) -> ReplayResult:
        try:
            return self._made_again(folder, script, order)
        except TrialFailed as error:
            raise ReplayFailed(str(error)) from error

    def _made_again(self, folder: Path, script: Path, order: ReplayOrder) -> ReplayResult:
        Path(order.result).unlink(missing_ok=True)
        said = self._ask(folder, what="replay", script=script, order=order.to_text())
        if not Path(order.result).is_file():
            raise TrialFailed(f"no result: {_last_words(said)}")
        result = result_from_text(Path(order.result).read_text(encoding="utf-8"))
        if result.failure:
            raise TrialFailed(result.failure)
        return result

    def _ask(self, folder: Path, **request: Any) -> str:
        """Return the output of a fork that served this request."""
        assert self._server.stdin is not None
        assert self._server.stdout is not None
        said = folder / "said.txt"
        request |= {"folder": str(folder), "said": str(said)}
        self._server.stdin.write(json.dumps(request, default=str) + "\n")
        self._server.stdin.flush()
        if not self._server.stdout.readline():
            raise TrialFailed("the process that forks has ended")
        return said.read_text(encoding="utf-8", errors="replace")


def _desk(program: Program, scratch: Path) -> Path:
    """Return a folder that contains only the script."""
    folder = scratch / "desk"
    folder.mkdir()
    shutil.copy(program.path, folder)
    return folder


def _held(run: str, program: Program, said: str) -> tuple[str, str]:
    """Return the name of the capsule, and what it withheld.

    Raises:
        TrialFailed: There is none, or more than there are workers.
    """
    store = store_from_url(run)
    names = capsule_names(store)
    if len(names) != program.workers:
        raise TrialFailed(f"{len(names)} capsules: {_last_words(said)}")
    head = read_head(store, names[-1])
    return names[-1], f"{head.optimizer}{' ' if head.optimizer else ''}{head.held}@{head.step}"


def _run(words: list[str], folder: Path) -> subprocess.CompletedProcess[str]:
    home = folder.parent / "home"
    home.mkdir(exist_ok=True)
    try:
        return subprocess.run(
            [sys.executable, "-m", "barograph", *words], cwd=folder, env=clean_environment(home), text=True,
            capture_output=True, errors="replace", timeout=LIMIT_SECS, check=False, stdin=subprocess.DEVNULL)
    except subprocess.TimeoutExpired:
        raise TrialFailed(f"not done within {LIMIT_SECS:.0f} s") from None


def _last_words(said: str) -> str:
    lines = [line.strip() for line in said.splitlines() if line.strip()]
    return " | ".join(lines[-3:])
