"""What Barograph adds to the start of a script, and what importing it adds to a bare interpreter."""

from __future__ import annotations

import os
import random
import re
import shutil
import subprocess
import sys
import sysconfig
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.environments import ROOT
from benchmarks.interleave import interval_of
from benchmarks.processes import WorkerFailed, clean_environment
from benchmarks.tables import Table, note, progress, span_text

SCRIPT = ROOT / "benchmarks" / "scripts" / "first_step.py"
PACKAGE = ROOT / "src" / "barograph"
FIRST_STEP = re.compile(r"first step ended at ([\d.]+)")

HEAVY = ("torch", "pyarrow", "numpy", "obstore", "typer", "rich")
"""Modules that `import barograph` must not import."""

WAYS: Mapping[str, Callable[[str], list[str]]] = {
    "bare": lambda url: [str(SCRIPT)],
    "attach": lambda url: [str(SCRIPT), "attach", url],
    "barograph run": lambda url: ["-m", "barograph", "run", "--to", url, str(SCRIPT)],
}

STATES: Mapping[str, str] = {
    "warm": "it ran before",
    "first": "new copy of the package without bytecode, empty user caches",
    "cold": "the same, with the environment evicted from the file cache",
}


@dataclass(frozen=True, slots=True)
class Effort:
    """How often to measure each start, by state, and each import."""

    rounds: Mapping[str, int]
    imports: int


FULL = Effort({"warm": 9, "first": 7, "cold": 5}, imports=25)
QUICK = Effort({"warm": 3, "first": 2, "cold": 1}, imports=10)


def measure_start(effort: Effort, *, seed: int = 0) -> dict[str, Any]:
    """Return seconds to the first step and to the end, by state and way, and seconds of imports."""
    generator = random.Random(seed)
    starts: dict[str, list[dict[str, Any]]] = {}
    for state, rounds in effort.rounds.items():
        starts[state] = []
        for number in range(rounds):
            progress(f"start, {state}, round {number + 1} of {rounds}")
            order = generator.sample(list(WAYS), len(WAYS))
            starts[state].append({way: _start(way, state) for way in order})
    progress("import")
    return {"starts": starts, "imports": [_imports() for _ in range(effort.imports)], "loaded": _loaded()}


def _start(way: str, state: str) -> Mapping[str, float]:
    with tempfile.TemporaryDirectory(prefix="barograph-bench-", ignore_cleanup_errors=True) as scratch:
        environment = clean_environment(Path(scratch))
        if state != "warm":
            # Found before the installed package: like right after installation, there is no bytecode yet.
            shutil.copytree(PACKAGE, Path(scratch, "fresh", "barograph"), ignore=shutil.ignore_patterns("__pycache__"))
            environment["PYTHONPATH"] = os.pathsep.join([f"{scratch}/fresh", environment["PYTHONPATH"]])
        if state == "cold":
            _forget_files(Path(sysconfig.get_paths()["purelib"]))
        command = [sys.executable, *WAYS[way](f"{scratch}/run")]
        began = time.time()
        done = subprocess.run(command, capture_output=True, text=True, env=environment, cwd=scratch, check=False)
        ended = time.time()
    first_step = FIRST_STEP.search(done.stdout)
    if done.returncode or first_step is None:
        raise WorkerFailed(f"{way}: exit code {done.returncode}: {' | '.join(done.stderr.splitlines()[-3:])}")
    return {"first_step_secs": float(first_step[1]) - began, "end_secs": ended - began}


def _forget_files(directory: Path) -> None:
    """Ask the system to drop these files from its cache, like after a reboot."""
    os.sync()
    for path in directory.rglob("*"):
        if path.is_file() and not path.is_symlink():
            descriptor = os.open(path, os.O_RDONLY)
            try:
                os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
            finally:
                os.close(descriptor)


def _imports() -> Mapping[str, float]:
    return {"bare_secs": _run_code("pass"), "import_secs": _run_code("import barograph")}


def _run_code(code: str) -> float:
    start = time.perf_counter()
    subprocess.run([sys.executable, "-c", code], check=True, env=_own_environment())
    return time.perf_counter() - start


def _loaded() -> list[str]:
    """Return the heavy modules that `import barograph` imports."""
    code = f"import sys, barograph; print(*[name for name in {HEAVY!r} if name in sys.modules])"
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, check=True, capture_output=True, text=True, env=_own_environment())
    return done.stdout.split()


def _own_environment() -> dict[str, str]:
    return clean_environment(Path(tempfile.gettempdir()))


def added(rounds: Sequence[Mapping[str, Mapping[str, float]]], way: str, figure: str) -> list[float]:
    """Return, for each round, the difference between a way's value and the bare one next to it."""
    return [entry[way][figure] - entry["bare"][figure] for entry in rounds]


def print_start(report: Mapping[str, Any]) -> None:
    """Print the tables."""
    table = Table("start", "variant", "added to the end of the first step", "added in total")
    for state, rounds in report["starts"].items():
        for way in WAYS:
            figures = [[entry["bare"][f] for entry in rounds] if way == "bare" else added(rounds, way, f)
                       for f in ("first_step_secs", "end_secs")]  # fmt: skip
            table.add(state, way if way != "bare" else "bare (whole)",
                      *(span_text(interval_of(values), "s", digits=2) for values in figures))  # fmt: skip
    table.print()
    for state, meaning in STATES.items():
        note(f"{state}: {meaning}")
    gaps = [entry["import_secs"] - entry["bare_secs"] for entry in report["imports"]]
    bare = [entry["bare_secs"] for entry in report["imports"]]
    print(f"\n  import barograph adds {span_text(interval_of(gaps), 'ms', scale=1e3)} "
          f"to {span_text(interval_of(bare), 'ms', scale=1e3)}; "
          f"of {', '.join(HEAVY)}, it imports {', '.join(report['loaded']) or 'none'}")  # fmt: skip
