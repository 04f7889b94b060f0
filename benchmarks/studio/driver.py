"""Measures the web UI in a real browser: every target, and what users of other tools wait for.

    python -m benchmarks.studio.driver --quick
    python -m benchmarks.studio.driver --only charts,peers --data DIRECTORY --json studio.json

With --data, data that was written before is used again. With --json, parts that are measured one by one come together.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import math
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from benchmarks.environments import OWN, ROOT, EnvironmentUnavailable, prepare
from benchmarks.studio.chromium import Chromium, chromium
from benchmarks.studio.data import CHARTS, KEYS, LIVE, POINTS, RUNS
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
from benchmarks.studio.targets import Board, Measured, Target
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


SERVER, COMPARED = "server", "peers"
PARTS = (SERVER, RUNS, POINTS, CHARTS, KEYS, LIVE, COMPARED)

Report = dict[str, dict[str, Any]]
"""Measured values: tool to name of the metric to its target, unit and values."""


def measure_studio(
    effort: Effort, *, parts: Sequence[str] = PARTS, peers: Sequence[str] = PEERS, data: Path | None = None
) -> Report:
    """Return the measured values.

    Args:
        effort: How much is measured.
        parts: Parts to measure.
        peers: Other tools.
        data: Directory with the data of former measurements; None: a temporary one.

    Raises:
        FileNotFoundError: There is no Chromium.
    """
    boards = {OWN: Board()}
    with tempfile.TemporaryDirectory(prefix="barograph-bench-") as folder, chromium() as browser:
        scratch = Path(folder)
        given = Given(data or scratch, effort.sizes)
        _measure_own(browser, given, scratch, effort, parts, boards[OWN])
        for tool in (OWN, *peers) if COMPARED in parts else ():
            try:
                _compare(browser, tool, given, scratch, effort, boards.setdefault(tool, Board()))
            except (EnvironmentUnavailable, TimeoutError, subprocess.CalledProcessError, _browser_errors()) as error:
                progress(f"{tool}: {str(error)[:300]}")
    return {name: {found.target.name: {"target": found.target.most, "unit": found.target.unit, "values": found.values}
                   for found in board.all} for name, board in boards.items()}


@dataclass(frozen=True, slots=True)
class Given:
    """Data of all tools, written once.

    Attributes:
        home: Their directory.
        sizes: Arguments of the writers by set.
    """

    home: Path
    sizes: Mapping[str, tuple[int, ...]]

    def of(self, tool: str, name: str) -> Path:
        """Return the directory of a set of data, after writing it if it is not there."""
        sizes = self.sizes[name]
        directory = self.home / tool / "-".join([name, *map(str, sizes)])
        mark = directory.with_name(f"{directory.name}.done")
        if not mark.exists():
            write(tool, name, directory, sizes)
            mark.touch()
        return directory


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


def _measure_own(
    browser: Chromium, given: Given, scratch: Path, effort: Effort, parts: Sequence[str], board: Board
) -> None:
    log = scratch / "log"
    if SERVER in parts:
        files = [path for path in _BUNDLE.rglob("*") if path.is_file()]
        board.add("bundle on disk", 1000, "kB", sum(path.stat().st_size for path in files) / KILOBYTE)
        board.add("source maps in the bundle", 0, "", sum(path.suffix == ".map" for path in files))
        directory = given.of(OWN, CHARTS)
        for _ in range(effort.rounds):
            measure_server(directory, log, board)
    pages: dict[str, Sequence[Callable[[str], object]]] = {
        RUNS: (lambda url: measure_first_load(browser, url, board),
               lambda url: measure_runs(browser, url, effort.runs, board)),
        POINTS: (lambda url: measure_points(browser, url, board),),
        CHARTS: (lambda url: measure_charts(browser, url, effort.charts[0], effort.charts[1], board),),
        KEYS: (lambda url: measure_keys(browser, url, effort.keys, board),),
    }
    for name in (name for name in pages if name in parts):
        directory = given.of(OWN, name)
        progress(f"{OWN} shows {name}")
        with serving(TOOLS[OWN], directory, log=log) as served:
            for measure in pages[name]:
                for _ in range(effort.rounds):
                    with _or_noted(name):
                        measure(served.url)
            board.add(f"memory after {name}", 300, "MB", served.memory_bytes() / MEGABYTE)
    if LIVE in parts:
        directory = scratch / LIVE
        directory.mkdir()
        with serving(TOOLS[OWN], directory, log=log) as served, _or_noted(LIVE):
            measure_live(browser, served.url, scratch, effort.rounds * 2, board)


@contextlib.contextmanager
def _or_noted(name: str) -> Iterator[None]:
    """Print a failure to measure instead of raising it, so that the rest is measured."""
    try:
        yield
    except _browser_errors() as error:
        progress(f"{name} was not measured: {str(error)[:400]}")


def _browser_errors() -> type[Exception]:
    from playwright.sync_api import Error

    return Error


def _compare(
    browser: Chromium, tool: str, given: Given, scratch: Path, effort: Effort, board: Board
) -> None:
    """What a user of each tool sees: the start, and the first page with charts."""
    directory = given.of(tool, CHARTS)
    for _ in range(min(effort.rounds, 3)):
        with serving(TOOLS[tool], directory, log=scratch / f"{tool}.log") as served:
            if tool != OWN:
                board.add("start until it answers", math.inf, "s", served.start_secs)
                board.add("memory, idle", math.inf, "MB", served.memory_bytes() / MEGABYTE)
            _first_charts(browser, tool, served, effort, board)
            board.add("page with all charts: memory of the server", math.inf, "MB", served.memory_bytes() / MEGABYTE)


def _first_charts(browser: Chromium, tool: str, served: Served, effort: Effort, board: Board) -> None:
    address = TOOLS[tool].charts
    if tool == OWN:
        address = "#/compare?" + "&".join(f"run=0/run{number:02}" for number in range(effort.charts[0]))
    with browser.page() as page:
        page.open(f"{served.url}{address}")
        with _or_noted(tool):
            board.add("page with all charts: first drawn", math.inf, "s", page.secs_until(TOOLS[tool].drawn, 120))
        page.page.wait_for_timeout(5000)
        board.add("page with all charts: on the wire", math.inf, "kB", page.wire_bytes / KILOBYTE)
        board.add("page with all charts: requests", math.inf, "", page.requests)
        board.add("page with all charts: foreign hosts", math.inf, "", len(page.hosts - {"127.0.0.1", "localhost"}))
        board.add("page with all charts: longest task", math.inf, "s", page.longest_task_secs())
        board.add("page with all charts: heap", math.inf, "MB", page.heap_bytes() / MEGABYTE)


def show_studio(report: Report) -> None:
    """Print a report: metric, target, measured, and others with their ratio."""
    boards = {tool: {name: Measured(Target(name, item["target"], item["unit"]), item["values"])
                     for name, item in board.items()} for tool, board in report.items()}
    own, others = boards[OWN], [tool for tool in boards if tool != OWN]
    table = Table("metric", "target", OWN, "", *others)
    for name, found in own.items():
        most = "–" if found.target.most == math.inf else f"≤ {found.target.most:g} {found.target.unit}".rstrip()
        table.add(name, most, found.text, "" if found.kept else "MISSED",
                  *(_beside(boards[tool].get(name), found) for tool in others))
    table.print()
    note("Medians of new pages without a cache, and the least and greatest value; in brackets, how many times as much "
         "as Barograph. Times depend on the load of the machine; bytes, counts and heaps do not.")


def _beside(other: Measured | None, own: Measured) -> str:
    if other is None or not other.values:
        return ""
    return f"{other.text} (×{other.median / own.median:.3g})" if own.median else other.text


def merged(before: Report, now: Report) -> Report:
    """Return a report in which the metrics of `now` replace those of `before`."""
    return {tool: {**before.get(tool, {}), **now.get(tool, {})} for tool in {**before, **now}}


def main(arguments: Sequence[str]) -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="fewer runs and rounds")
    parser.add_argument("--only", default=",".join(PARTS), help=f"parts, separated by commas: {', '.join(PARTS)}")
    parser.add_argument("--peers", default=",".join(PEERS), help="tools beside Barograph, separated by commas")
    parser.add_argument("--rounds", type=int, help="rounds of each measurement")
    parser.add_argument("--data", type=Path, help="directory in which the data is kept for the next measurement")
    parser.add_argument("--json", type=Path, help="file that the values are added to")
    choice = parser.parse_args(arguments)
    effort = QUICK if choice.quick else Effort()
    report = measure_studio(replace(effort, rounds=choice.rounds or effort.rounds), data=choice.data,
                            parts=[name for name in choice.only.split(",") if name],
                            peers=[name for name in choice.peers.split(",") if name])
    if choice.json is not None:
        report = merged(json.loads(choice.json.read_text()) if choice.json.exists() else {}, report)
        choice.json.write_text(json.dumps(report, indent=1))
    show_studio(report)
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
