"""Time that recording the provenance adds to the start of a script, in a repository with uncommitted changes."""

from __future__ import annotations

import os
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.interleave import interval_of
from benchmarks.processes import WorkerFailed, clean_environment
from benchmarks.tables import Table, progress, span_text

FILES, CHANGED = 500, 20
WAYS: Mapping[str, Sequence[str]] = {"kept": ["--origin"], "not kept": ["--no-origin"]}
_SCRIPT = "import time\nprint(time.time())\n"
_GIT = ("git", "-c", "user.name=bench", "-c", "user.email=bench@example.org")


@dataclass(frozen=True, slots=True)
class Effort:
    """How often to measure each way."""

    rounds: int = 15


QUICK = Effort(rounds=5)


def measure_origin(effort: Effort, *, seed: int = 0) -> dict[str, Any]:
    """Return as `rounds`, for each round, seconds to the script's first line and to the end, by way."""
    generator = random.Random(seed)
    found = []
    with tempfile.TemporaryDirectory(prefix="barograph-bench-", ignore_cleanup_errors=True) as scratch:
        folder = repository(Path(scratch, "repository"))
        environment = clean_environment(Path(scratch))
        for number in range(-1, effort.rounds):
            progress(f"origin, round {number + 1} of {effort.rounds}")
            order = generator.sample(list(WAYS), len(WAYS))
            entry = {way: _start(way, folder, f"{scratch}/run-{number}-{WAYS[way][0]}", environment) for way in order}
            if number >= 0:  # the first is a warm-up
                found.append(entry)
    return {"rounds": found}


def repository(folder: Path) -> Path:
    """Create a repository with this many files, some with uncommitted changes, and return it."""
    folder.mkdir()
    for number in range(FILES):
        (folder / f"module{number}.py").write_text("value = 1\n" * 50, encoding="utf-8")
    (folder / "train.py").write_text(_SCRIPT, encoding="utf-8")
    for words in (["init", "--quiet"], ["add", "--all"], ["commit", "--quiet", "--message", "first"]):
        subprocess.run([*_GIT, *words], cwd=folder, check=True)
    for number in range(CHANGED):
        (folder / f"module{number}.py").write_text("value = 2\n" * 50, encoding="utf-8")
    return folder


def _start(way: str, folder: Path, url: str, environment: Mapping[str, str]) -> dict[str, float]:
    command = [sys.executable, "-m", "barograph", "run", *WAYS[way], "--rules", "none", "--to", url, "train.py"]
    began = time.time()
    done = subprocess.run(command, cwd=folder, env={**os.environ, **environment}, capture_output=True, text=True,
                          check=False)
    ended = time.time()
    if done.returncode:
        raise WorkerFailed(f"{way}: exit code {done.returncode}: {' | '.join(done.stderr.splitlines()[-3:])}")
    return {"first_line_secs": float(done.stdout) - began, "end_secs": ended - began}


def print_origin(report: Mapping[str, Any]) -> None:
    """Print the table."""
    rounds = report["rounds"]
    table = Table("origin", "", "time to first line", "total time")
    for way in WAYS:
        table.add("whole", way, *(span_text(interval_of([entry[way][figure] for entry in rounds]), "s", digits=2)
                                  for figure in ("first_line_secs", "end_secs")))
    table.add("added", "kept", *(
        span_text(interval_of([entry["kept"][figure] - entry["not kept"][figure] for entry in rounds]), "ms", scale=1e3)
        for figure in ("first_line_secs", "end_secs")))
    table.print()
