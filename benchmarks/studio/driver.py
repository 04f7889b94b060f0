"""Measures the web UI in a real browser: every target, and what users of other tools wait for.

    python -m benchmarks.studio.driver --quick
"""

from __future__ import annotations

import argparse
import contextlib
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.environments import OWN, ROOT, EnvironmentUnavailable, prepare
from benchmarks.studio.chromium import Chromium, chromium
from benchmarks.studio.data import CHARTS, KEYS, POINTS, RUNS
from benchmarks.studio.pages import (
    KILOBYTE,
    measure_charts,
    measure_first_load,
    measure_keys,
    measure_live,
    measure_points,
    measure_runs,
    measure_server,
)
from benchmarks.studio.servers import MEGABYTE, TOOLS, Served, serving
from benchmarks.studio.targets import Board
from benchmarks.tables import Table, note, progress

PEERS = ("mlflow", "tensorboard", "trackio")
_BUNDLE = ROOT / "src/barograph/web/static"


@dataclass(frozen=True, slots=True)
class Effort:
    """How much is measured: runs of the list, points of the curve, names of a run, sizes of the charts, rounds."""

    runs: int = 10_000
    points: int = 1_000_000
    keys: int = 100_000
    charts: tuple[int, int, int] = (20, 100, 1_000)
    rounds: int = 5

    @property
    def sizes(self) -> dict[str, tuple[int, ...]]:
        """Arguments of the writers by set."""
        return {RUNS: (self.runs,), POINTS: (self.points,), KEYS: (self.keys,), CHARTS: self.charts}


QUICK = Effort(runs=2_000, charts=(10, 60, 200), rounds=3)


def measure_studio(effort: Effort, *, peers: Sequence[str] = PEERS) -> dict[str, Any]:
    """Return the measured values by tool: of Barograph by target, of the others by what is compared.

    Raises:
        FileNotFoundError: There is no Chromium.
    """
    boards = {OWN: Board()}
    with tempfile.TemporaryDirectory(prefix="barograph-bench-") as folder, chromium() as browser:
        home = Path(folder)
        for name, sizes in effort.sizes.items():
            write(OWN, name, home / OWN / name, sizes)
        _measure_own(browser, home / OWN, home / "log", effort, boards[OWN])
        for peer in (OWN, *peers):
            try:
                boards.setdefault(f"{peer} ", Board())
                _compare(browser, peer, home, effort, boards[f"{peer} "])
            except (EnvironmentUnavailable, TimeoutError, subprocess.CalledProcessError, _browser_errors()) as error:
                progress(f"{peer}: {str(error)[:300]}")
    return {name: {found.target.name: {"target": found.target.most, "unit": found.target.unit, "values": found.values}
                   for found in board.all} for name, board in boards.items()}


def write(tool: str, name: str, directory: Path, sizes: Sequence[int]) -> None:
    """Write a set of data with a tool.

    Raises:
        EnvironmentUnavailable: The tool cannot be installed here.
        CalledProcessError: It failed.
    """
    progress(f"{tool} writes {name}: {', '.join(map(str, sizes))}")
    directory.mkdir(parents=True, exist_ok=True)
    subprocess.run([prepare(tool), "-m", f"benchmarks.studio.writers.{tool}", name, str(directory), *map(str, sizes)],
                   cwd=ROOT, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                   env={**os.environ, "MLFLOW_DISABLE_TELEMETRY": "true"})


def _measure_own(browser: Chromium, home: Path, log: Path, effort: Effort, board: Board) -> None:
    files = [path for path in _BUNDLE.rglob("*") if path.is_file()]
    board.add("bundle on disk", 1000, "kB", sum(path.stat().st_size for path in files) / KILOBYTE)
    board.add("source maps in the bundle", 0, "", sum(path.suffix == ".map" for path in files))
    parts: list[tuple[str, Callable[[str], object]]] = [
        (RUNS, lambda url: measure_first_load(browser, url, board)),
        (RUNS, lambda url: measure_runs(browser, url, effort.runs, board)),
        (POINTS, lambda url: measure_points(browser, url, board)),
        (CHARTS, lambda url: measure_charts(browser, url, effort.charts[0], effort.charts[1], board)),
        (KEYS, lambda url: measure_keys(browser, url, effort.keys, board)),
    ]
    for _ in range(effort.rounds):
        measure_server(home / CHARTS, log, board)
    for name, measure in parts:
        progress(f"{OWN} shows {name}")
        with serving(TOOLS[OWN], home / name, log=log) as served:
            for _ in range(effort.rounds):
                with _told(name):
                    measure(served.url)
            board.add(f"memory after {name}", 300, "MB", served.memory_bytes() / MEGABYTE)
    (home / "live").mkdir()
    with serving(TOOLS[OWN], home / "live", log=log) as served, _told("live"):
        measure_live(browser, served.url, home, effort.rounds * 2, board)


@contextlib.contextmanager
def _told(name: str) -> Any:
    """What cannot be measured is told, and the rest goes on."""
    try:
        yield
    except _browser_errors() as error:
        progress(f"{name} was not measured: {str(error)[:400]}")


def _browser_errors() -> type[Exception]:
    from playwright.sync_api import Error

    return Error


def _compare(browser: Chromium, tool: str, home: Path, effort: Effort, board: Board) -> None:
    """What a user of each tool sees: the start, and the first page with charts."""
    directory = home / tool / CHARTS
    if tool != OWN:
        write(tool, CHARTS, directory, effort.charts)
    for _ in range(min(effort.rounds, 3)):
        with serving(TOOLS[tool], directory, log=home / f"{tool}.log") as served:
            board.add("start", float("inf"), "s", served.start_secs)
            _first_charts(browser, tool, served, effort, board)
            board.add("memory of the server", float("inf"), "MB", served.memory_bytes() / MEGABYTE)


def _first_charts(browser: Chromium, tool: str, served: Served, effort: Effort, board: Board) -> None:
    address = TOOLS[tool].charts
    if tool == OWN:
        address = "#/compare?" + "&".join(f"run=0/run{number:02}" for number in range(effort.charts[0]))
    with browser.page() as page:
        page.open(f"{served.url}{address}")
        with contextlib.suppress(_browser_errors()):
            board.add("first chart drawn", float("inf"), "s", page.secs_until(TOOLS[tool].drawn))
        page.page.wait_for_timeout(5000)
        board.add("on the wire", float("inf"), "kB", page.wire_bytes / KILOBYTE)
        board.add("requests", float("inf"), "", page.requests)
        board.add("foreign hosts", float("inf"), "", len(page.hosts - {"127.0.0.1", "localhost"}))
        board.add("longest task", float("inf"), "s", page.longest_task_secs())
        board.add("heap", float("inf"), "MB", page.heap_bytes() / MEGABYTE)


def show_studio(report: dict[str, Any]) -> None:
    """Print a report: metric, target, measured."""
    from benchmarks.studio.targets import Measured, Target

    def read(board: dict[str, Any]) -> list[Measured]:
        return [Measured(Target(name, item["target"], item["unit"]), item["values"]) for name, item in board.items()]

    table = Table("metric", "target", "measured", "")
    for found in read(report[OWN]):
        most = "–" if found.target.most == float("inf") else f"≤ {found.target.most:g} {found.target.unit}".rstrip()
        table.add(found.target.name, most, found.text, "" if found.kept else "MISSED")
    table.print()
    compared = {name.strip(): {found.target.name: found for found in read(board)}
                for name, board in report.items() if name != OWN}
    print()
    table = Table("page with all charts", *compared)
    for name in next(iter(compared.values()), {}):
        table.add(name, *(board[name].text if name in board else "not measured" for board in compared.values()))
    table.print()
    note("Medians of new pages without a cache, and the least and greatest value. Times depend on the load of the "
         "machine; bytes, counts and heaps do not.")


def main(arguments: Sequence[str]) -> int:
    """Measure and print; return 0 if every target is met."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="fewer runs and rounds")
    parser.add_argument("--peers", default=",".join(PEERS), help="tools beside Barograph, separated by commas")
    choice = parser.parse_args(arguments)
    peers = [name for name in choice.peers.split(",") if name]
    report = measure_studio(QUICK if choice.quick else Effort(), peers=peers)
    show_studio(report)
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
