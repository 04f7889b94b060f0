"""The time until a job starts, ends, and trains again after a kill, compared with Ray's jobs and Ray Train."""

from __future__ import annotations

import contextlib
import importlib.util
import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from barograph.jobs.home import JobsHome
from barograph.jobs.job_report import view_of
from barograph.machine.marked import kill_marked, marked_processes
from benchmarks.environments import ROOT
from benchmarks.interleave import interval_of
from benchmarks.processes import WorkerFailed, clean_environment
from benchmarks.tables import Table, note, progress, ratio_text, span_text

_SCRIPT = ROOT / "benchmarks" / "scripts" / "timed_training.py"
_OF_RAY_TRAIN = ROOT / "benchmarks" / "scripts" / "ray_training.py"
_MARK = "BAROGRAPH_BENCH_CLUSTER"
_INSTANCE = "BAROGRAPH_INSTANCE"
_LONGEST_SECS = 300.0
_ENGINES = ("local", "ray")
_RAY_JOBS = "ray job submit"
_RAY_TRAIN = "Ray Train"
_NEEDED = {_RAY_JOBS: ("ray[default]", "aiohttp_cors"), _RAY_TRAIN: ("ray[train]", "tensorboardX")}
"""What others need: the extra of Ray, and a package that only it has."""
_ROWS = {
    "empty": "empty script: submitted to finished",
    "command": "the same, until `submit --wait` or `ray job submit` has ended",
    "first_step": "two instances: submitted to first step, without the imports of the script",
    "again": "instance killed to first step again, without the imports of the script",
}


@dataclass(frozen=True, slots=True)
class Effort:
    """How often to measure each way."""

    rounds: int = 5


QUICK = Effort(rounds=2)


@dataclass(frozen=True, slots=True)
class _Place:
    """The environment of submissions.

    Attributes:
        folder: A new folder per job.
        environment: Environment of all commands.
        dashboard: Address for `ray job submit`.
    """

    folder: Path
    environment: Mapping[str, str]
    dashboard: str


def measure_jobs(effort: Effort) -> dict[str, Any]:
    """Return seconds per round, by measurement and by runner of the job."""
    measured: dict[str, dict[str, list[float]]] = {row: {} for row in _ROWS}
    loads: list[float] = []
    with (tempfile.TemporaryDirectory(prefix="barograph-bench-", ignore_cleanup_errors=True) as scratch,
          cluster(Path(scratch)) as (environment, dashboard)):
        ways = _ways()
        for number in range(effort.rounds):
            progress(f"jobs, round {number + 1} of {effort.rounds}")
            loads.append(os.getloadavg()[0])
            for way in ways:
                place = _Place(Path(scratch, f"{number}-{way.replace(' ', '-')}"), environment, dashboard)
                for row, secs in _round(place, way).items():
                    measured[row].setdefault(way, []).append(secs)
    return {"measured": measured, "loads": loads}


def print_jobs(report: Mapping[str, Any]) -> None:
    """Print the table."""
    ways = (*_ENGINES, *_NEEDED)
    table = Table("time", *ways, "the other / ray")
    for row, title in _ROWS.items():
        found = report["measured"][row]
        other = next((found[way] for way in _NEEDED if way in found), None)
        ratio = "-" if other is None else ratio_text(interval_of(
            [theirs / ours for theirs, ours in zip(other, found["ray"], strict=True)]))
        table.add(title, *(span_text(interval_of(found[way]), "s") if way in found else "-" for way in ways), ratio)
    table.print()
    note("Ray Train: from the start of its driver, without the imports of the driver and those of PyTorch in a worker")
    note(f"cluster running on this machine; load of the machine (1 min) {min(report['loads']):.1f} to "
         f"{max(report['loads']):.1f}")


def _ways() -> tuple[str, ...]:
    missing = [way for way, (_, package) in _NEEDED.items() if importlib.util.find_spec(package) is None]
    for way in missing:
        note(f"{way} is left out: it needs {_NEEDED[way][0]}")
    return (*_ENGINES, *(way for way in _NEEDED if way not in missing))


def _round(place: _Place, way: str) -> dict[str, float]:
    place.folder.mkdir()
    (place.folder / "empty.py").write_text("")
    shutil.copy(_SCRIPT, place.folder / "train.py")
    if way == _RAY_JOBS:
        began = time.time()
        _run(place, [sys.executable, "-m", "ray.scripts.scripts", "job", "submit", "--address", place.dashboard, "--",
                     sys.executable, str(place.folder / "empty.py")])
        return {"command": time.time() - began}
    if way == _RAY_TRAIN:
        return _ray_train(place)
    return {**_empty(place, way), "first_step": _two(place, way), "again": _again(place, way)}


def _ray_train(place: _Place) -> dict[str, float]:
    two, again = place.folder / "two", place.folder / "again"
    two.mkdir()
    again.mkdir()
    began = time.time()
    _run(place, [sys.executable, str(_OF_RAY_TRAIN), str(two), "2"])
    (times,) = _noted(two)
    driver = subprocess.Popen([sys.executable, str(_OF_RAY_TRAIN), str(again), "1"], cwd=place.folder,
                              env=_environment(place), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        (first,) = _wait_for(again, 1)
        killed = time.time()
        os.kill(int(first["pid"]), 9)
        second = _wait_for(again, 2)[1]
        (again / "go").touch()
        driver.wait(_LONGEST_SECS)
    finally:
        driver.kill()
        driver.wait()
    return {"first_step": times["first_step"] - began - times["imports_secs"],
            "again": second["first_step"] - killed - second["again_imports_secs"]}


def _empty(place: _Place, engine: str) -> dict[str, float]:
    began = time.time()
    _submit(place, "empty", "--engine", engine, "--wait", "empty.py")
    ended = time.time()
    return {"empty": view_of("empty", _home(place)).refresh().since_unix - began, "command": ended - began}


def _two(place: _Place, engine: str) -> float:
    noted = place.folder / "two"
    noted.mkdir()
    began = time.time()
    _submit(place, "two", "--engine", engine, "--instances", "2", "--wait", "train.py", str(noted))
    (times,) = _noted(noted)
    return float(times["first_step"] - began - (times["imported"] - times["started"]))


def _again(place: _Place, engine: str) -> float:
    noted = place.folder / "again"
    noted.mkdir()
    _submit(place, "again", "--engine", engine, "train.py", str(noted))
    _wait_for(noted, 1)
    agents = [pid for pid in marked_processes(_INSTANCE, "again")
              if b"barograph.jobs.agent" in Path(f"/proc/{pid}/cmdline").read_bytes()]
    killed = time.time()
    for pid in agents:
        os.kill(pid, 9)
    times = _wait_for(noted, 2)[1]
    (noted / "go").touch()
    _run(place, [sys.executable, "-m", "barograph", "wait", "again"])
    return float(times["first_step"] - killed - (times["imported"] - times["started"]))


def _submit(place: _Place, name: str, *words: str) -> None:
    _run(place, [sys.executable, "-m", "barograph", "submit", "--to", str(place.folder / "runs" / name), "--name", name,
                 *words])


def _run(place: _Place, command: Sequence[str]) -> None:
    done = subprocess.run(command, cwd=place.folder, env=_environment(place), capture_output=True, text=True,
                          timeout=_LONGEST_SECS, check=False)
    if done.returncode:
        raise WorkerFailed(f"{' '.join(command[1:])}: exit code {done.returncode}: {done.stderr[-500:]}")


def _environment(place: _Place) -> dict[str, str]:
    return {**place.environment, "BAROGRAPH_HOME": str(place.folder / "home")}


def _home(place: _Place) -> JobsHome:
    return JobsHome(place.folder / "home")


def _noted(folder: Path) -> list[dict[str, float]]:
    return [json.loads(path.read_text()) for path in sorted(folder.glob("first-*.json"))]


def _wait_for(folder: Path, number: int) -> list[dict[str, float]]:
    deadline = time.monotonic() + _LONGEST_SECS
    while len(found := _noted(folder)) < number:
        if time.monotonic() > deadline:
            raise WorkerFailed(f"no first step number {number} within {_LONGEST_SECS:g} s")
        time.sleep(0.02)
    return found


@contextlib.contextmanager
def cluster(scratch: Path) -> Iterator[tuple[dict[str, str], str]]:
    """Run a cluster of one node; yield the environment of its users, and the address of its dashboard."""
    port, dashboard = _free_port(), _free_port()
    environment = {**clean_environment(scratch), "TMPDIR": tempfile.gettempdir(), "RAY_AUTH_MODE": "disabled",
                   "RAY_USAGE_STATS_ENABLED": "0", "RAY_ADDRESS": f"127.0.0.1:{port}"}
    mark = str(scratch)
    started = subprocess.run(
        [sys.executable, "-m", "ray.scripts.scripts", "start", "--head", "--port", str(port), "--num-cpus", "2",
         "--node-ip-address", "127.0.0.1", "--dashboard-port", str(dashboard), "--object-store-memory", "100000000"],
        env={**environment, _MARK: mark, "BAROGRAPH_HOME": str(scratch / "nodes")}, capture_output=True, text=True,
        check=False)
    try:
        if started.returncode:
            raise WorkerFailed(f"no Ray cluster: {started.stderr[-500:]}")
        yield environment, f"http://127.0.0.1:{dashboard}"
    finally:
        kill_marked(_MARK, mark)


def _free_port() -> int:
    with socket.socket() as made:
        made.bind(("127.0.0.1", 0))
        return int(made.getsockname()[1])
