"""What is measured of Barograph's pages: only what a user sees and what the network carries."""

from __future__ import annotations

import contextlib
import json
import math
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode

from benchmarks.studio.chromium import Chromium
from benchmarks.studio.data import CHARTS, KEYS, LIVE, NAN_STEP, POINTS, RUNS, SPIKE_STEP
from benchmarks.studio.servers import MEGABYTE, TOOLS, serving
from benchmarks.studio.targets import Board

_ROWS = "bench.rows().length > 5"
_FIRST_DRAWN = "bench.firstDrawn()"
KILOBYTE = 1e3


def measure_first_load(chromium: Chromium, url: str, board: Board) -> None:
    """A cold load of the list of runs."""
    with chromium.page() as page:
        page.open(f"{url}#/runs")
        board.add("runs: first rows", 0.5, "s", page.secs_until(_ROWS))
        page.page.wait_for_load_state("networkidle")
        board.add("first load on the wire", 200, "kB", page.wire_bytes / KILOBYTE)
        board.add("first load: requests", 12, "", page.requests)
        board.add("first load: foreign hosts", 0, "", len(page.hosts - {"127.0.0.1"}))
        board.add("first load: lines in the console", 0, "", len(page.complaints))


def measure_runs(chromium: Chromium, url: str, count: int, board: Board) -> None:
    """Sorting and scrolling many runs."""
    with chromium.page() as page:
        page.open(f"{url}#/runs")
        page.secs_until(_ROWS)
        tab = page.page
        board.add("runs: total not shown", 0, "", float(f"{count:,}" not in tab.inner_text("main")))
        board.add("runs: rows in the document", 60, "", tab.locator("main tbody tr").count())
        first = "bench.rows()[0]?.textContent"
        changed = f"{first} && {first} !== bench.before"
        if tab.evaluate("!!bench.headOf('metric000')"):
            board.add("runs: sort by a metric", 0.2, "s", page.secs_of(
                f"bench.before = {first}; bench.headOf('metric000').click()", changed))
        board.add("runs: scroll to the last", 0.5, "s", page.secs_of(
            f"bench.before = {first}; bench.scrollToLast()", f"bench.rows().length > 3 && {changed}"))


def measure_points(chromium: Chromium, url: str, board: Board) -> None:
    """A chart of a million points: fast, with its spike and its NaN."""
    with chromium.page() as page:
        page.open(f"{url}#/run/0/points?tab=charts")
        page.secs_until(_FIRST_DRAWN)
        spike, mark, width = page.page.evaluate("bench.spikeAndMark()")
        apart = (spike - mark) / width if spike is not None and mark is not None else math.nan
        board.add("1 M points: spike or NaN lost", 0, "", float(not abs(apart - (SPIKE_STEP - NAN_STEP) / 1e6) < 0.02))
        board.add("1 M points: zoom to drawn", 0.1, "s", page.secs_of(
            "bench.before = bench.print(); location.hash += '&from=777000&to=779000'",
            f"{_FIRST_DRAWN} && bench.print() !== bench.before"))


def measure_charts(chromium: Chromium, url: str, runs: int, metrics: int, board: Board) -> None:
    """A hundred charts with twenty runs each: the visible ones, then all."""
    keys = urlencode([("run", f"0/run{number:02}") for number in range(runs)])
    with chromium.page() as page:
        page.open(f"{url}#/compare?{keys}")
        page.secs_until("bench.figures().length > 1")
        page.page.evaluate("bench.figures()[0].scrollIntoView()")
        board.add("100 charts × 20 runs: visible", 1.0, "s", page.secs_until("bench.allInViewDrawn()"))
        seen = page.page.evaluate("bench.drawnByScrolling()")
        board.add("100 charts × 20 runs: charts not drawn", 0, "", max(0, metrics - seen))
        board.add("100 charts × 20 runs: longest task", 0.1, "s", page.longest_task_secs())
        board.add("100 charts × 20 runs: heap", 60, "MB", page.heap_bytes() / MEGABYTE)
        board.add("100 charts × 20 runs: longest answer", math.inf, "kB", page.largest_bytes / KILOBYTE)


def measure_keys(chromium: Chromium, url: str, count: int, board: Board) -> None:
    """A run with very many names."""
    with chromium.page() as page:
        page.open(f"{url}#/run/0/keys?tab=charts")
        board.add("100,000 names: shown", 0.5, "s", page.secs_until(
            "document.querySelector('main input[type=search]') && document.querySelector('main').innerText.length > 9"))
        group, unit = f"layer{(count - 1) // 100:04}", f"unit{(count - 1) % 100:02}"
        board.add("100,000 names: regular expression", 0.3, "s", page.secs_of(
            f"bench.type('{group}.{unit}$')",
            f"bench.figures().length === 1 && document.querySelector('main').innerText.includes('{unit}')"))
        board.add("100,000 names: longest answer", 200, "kB", page.largest_bytes / KILOBYTE)


@contextlib.contextmanager
def training(directory: Path, runs: int) -> Iterator[Any]:
    """Yield the output of a program that logs a number a second to some runs."""
    process = subprocess.Popen(
        [sys.executable, "-m", "benchmarks.studio.writers.barograph", LIVE, str(directory), str(runs)],
        stdout=subprocess.PIPE, text=True, cwd=Path(__file__).parents[2])
    try:
        yield process.stdout
    finally:
        process.kill()
        process.wait()


def measure_live(chromium: Chromium, url: str, directory: Path, rounds: int, board: Board) -> None:
    """Tabs on trainings that go on, and the time from a logged number to the page."""
    with training(directory / LIVE, 3) as output:
        logged = dict(_beacon(output.readline()) for _ in range(2))
        with chromium.page() as page:
            page.open(f"{url}#/run/0/live00?tab=charts")
            page.secs_until(_FIRST_DRAWN)
            for _ in range(rounds):
                number, at = _beacon(output.readline())
                logged[number] = at
                waited = f"bench.until(() => bench.beacon() >= {number}).then(() => Date.now())"
                seen = float(page.page.evaluate(waited)) / 1000
                published = _published_unix(directory / LIVE / "live00", at)
                board.add("logged to drawn", math.inf, "s", seen - at)
                board.add("flushed to drawn", 0.5, "s", max(0.0, seen - published))
        board.add("12 tabs on live runs: all loaded", 2.0, "s", chromium.secs_of_tabs(f"{url}#/run/0/live00", 12))


def _beacon(line: str) -> tuple[int, float]:
    number, at = line.split()
    return int(number), float(at)


def _published_unix(run: Path, logged_unix: float) -> float:
    """Return when the first file was written that may have a number in it."""
    times = [path.stat().st_mtime for path in run.glob("records/**/*.parquet")]
    return min((written for written in times if written >= logged_unix), default=time.time())


_SETTLED_SECS = 12.0
"""The server releases memory every five seconds."""
SETS = (RUNS, POINTS, CHARTS, KEYS)
"""Sets of data that are written before."""


def measure_server(directory: Path, log: Path, board: Board) -> None:
    """Start, idle memory after a list of indexed runs, and what a first look at a run takes and leaves."""
    with serving(TOOLS["barograph"], directory, log=log) as served:
        served.ask("api/search")  # indexes the runs, so that each round measures the same
    with serving(TOOLS["barograph"], directory, log=log) as served:
        board.add("start until it answers", 0.7, "s", served.start_secs)
        key = json.loads(served.ask("api/search"))["rows"][0]["key"]
        time.sleep(_SETTLED_SECS)
        board.add("memory, idle: runs listed", 100, "MB", served.memory_bytes() / MEGABYTE)
        before = time.monotonic()
        served.ask(f"api/run?run={quote(key)}")
        board.add("first look at a run: answer", 0.5, "s", time.monotonic() - before)
        time.sleep(_SETTLED_SECS)
        board.add("memory, idle: a run looked at", math.inf, "MB", served.memory_bytes() / MEGABYTE)
