"""What the web page's questions about charts cost, beside asking for one key at a time.

    python -m benchmarks.charts [--quick]

Processor time of this process, because the page's answers are computed in the server's; each pair is measured in
turns. Every answer is compared with the slow one before it is timed.
"""

from __future__ import annotations

import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

import barograph
from barograph.measures.summary import row_from_summary, summarize
from barograph.model.clock import SystemClock
from barograph.model.key import Key, Kind
from barograph.model.manifest import EndState, Heartbeat, Manifest
from barograph.model.records import StepRecords, Subject
from barograph.model.settings import Settings
from barograph.model.step import Step
from barograph.queries.chart import Axis, chart_line, chart_lines
from barograph.queries.chart_names import chart_list, name_tree
from barograph.queries.heat import heat_map
from barograph.queries.tensor_history import exponent_map
from barograph.runs.reading.reader import RunReader
from barograph.runs.state.claim import claim_run, claim_worker
from barograph.runs.writing.writer import RunWriter
from barograph.store.urls import store_from_url

POINTS = 640
SPIKE, BROKEN = 777_777, 555_555
"""Where a million points have their maximum, 100, and their NaN."""


def main(words: list[str]) -> int:
    """Measure and print."""
    quick = "--quick" in words
    rounds, keys, wide, points = (3, 40, 20_000, 200_000) if quick else (7, 100, 100_000, 1_000_000)
    with tempfile.TemporaryDirectory(prefix="barograph-bench-") as folder:
        many = _numbers(Path(folder, "many"), steps=1000, names=[f"metric{number}" for number in range(keys)])
        names = [f"metric{number}" for number in range(keys)]
        assert [line.values for line in chart_lines(many, names, points=POINTS)] == [
            chart_line(many, name, points=POINTS).values for name in names]
        _print(f"{keys} curves of 1,000 points", _in_turns(rounds, {
            "a key at a time": lambda: [many.curve(f"scalar:{name}", points=POINTS) for name in names],
            "one pass": lambda: chart_lines(many, names, points=POINTS)}))

        long = _numbers(Path(folder, "long"), steps=points, names=["loss"])
        if not quick:
            _check(long)
        _print(f"{points:,} points", _in_turns(rounds, {
            "all": lambda: chart_lines(long, ["loss"], points=POINTS),
            "log x": lambda: chart_lines(long, ["loss"], points=POINTS, axis=Axis(log=True)),
            "a tenth": lambda: chart_lines(long, ["loss"], points=POINTS, axis=Axis(low=0, high=points / 10))}))

        place = Path(folder, "wide")
        _numbers(place, steps=2, names=[f"group{number % 100}/metric{number}" for number in range(wide)])
        _print(f"{wide:,} keys", _in_turns(1 if quick else 3, {
            "keys() of a new reader": lambda: barograph.open(place).keys(),
            "tree of a new reader": lambda: name_tree(barograph.open(place))}))
        known = barograph.open(place)
        assert chart_list(known, "metric19999$").count == 1
        _print(f"{wide:,} keys, known", _in_turns(rounds, {
            "keys(pattern=)": lambda: known.keys(pattern="metric19999$"),
            "regular expression": lambda: chart_list(known, "metric19999$"), "tree": lambda: name_tree(known)}))

        deep = _tensors(Path(folder, "deep"), steps=500, layers=40)
        _print("40 layers × 500 steps", _in_turns(3, {
            "series a key": lambda: [deep.series(Key(Kind.GRADIENT, f"layer{number}.weight"), "l2")
                                     for number in range(40)],
            "heat map": lambda: heat_map(deep, Kind.GRADIENT),
            "exponents of a tensor": lambda: exponent_map(deep, Key(Kind.GRADIENT, "layer7.weight"))}))
    return 0


def _check(long: RunReader) -> None:
    (line,) = chart_lines(long, ["loss"], points=POINTS)
    assert (line.greatest, line.nonfinite, line.count) == (100.0, 1, 1_000_000)
    assert line.steps[line.values.index(100.0)] == SPIKE
    ((first, last),) = line.nonfinite_steps
    assert first <= BROKEN <= last


def _in_turns(rounds: int, what: Mapping[str, Callable[[], Any]]) -> dict[str, list[float]]:
    taken: dict[str, list[float]] = {name: [] for name in what}
    for _ in range(rounds):
        for name, do in what.items():
            begin = time.process_time()
            do()
            taken[name].append(time.process_time() - begin)
    return taken


def _print(title: str, taken: Mapping[str, list[float]]) -> None:
    cells = ", ".join(f"{name} {statistics.median(secs) * 1e3:.1f} ms (first {secs[0] * 1e3:.1f})"
                      for name, secs in taken.items())
    print(f"{title}: {cells}", flush=True)


def _writer(place: Path) -> RunWriter:
    store, clock = store_from_url(str(place)), SystemClock()
    manifest = Manifest(f"20260101T000000Z-{place.name}", place.name, clock.unix())
    attempt = claim_run(store, manifest, clock=clock).attempt
    worker = claim_worker(store, attempt=attempt, clock=clock, rank=None, world_size=1)
    beat = Heartbeat(0, clock.unix())
    settings = replace(Settings(), queue_bytes=1 << 30)
    return RunWriter(store, worker, settings=settings, clock=clock, status=lambda: beat, background=False)


def _numbers(place: Path, *, steps: int, names: list[str]) -> RunReader:
    writer = _writer(place)
    values = np.random.default_rng(0).normal(size=steps)
    if steps > BROKEN:
        values[SPIKE], values[BROKEN] = 100.0, np.nan
    keys = [Key(Kind.SCALAR, name) for name in names]
    for step in range(steps):
        at = Step(step, step, time_unix=time.time())
        writer.put(StepRecords(at, scalars=dict.fromkeys(keys, float(values[step]))))
        if step % 2000 == 1999:
            writer.turn()
    assert writer.close(EndState.FINISHED).complete
    return barograph.open(place)


def _tensors(place: Path, *, steps: int, layers: int) -> RunReader:
    writer = _writer(place)
    subjects = tuple(Subject(Key(Kind.GRADIENT, f"layer{number}.weight"), "Linear", "float32")
                     for number in range(layers))
    moments, exponents = row_from_summary(summarize(np.random.default_rng(0).normal(size=100).astype(np.float32)))
    for step in range(steps):
        writer.put(StepRecords(Step(step, step, time_unix=time.time()), subjects, np.stack([moments] * layers),
                               np.stack([exponents] * layers)))
        if step % 100 == 99:
            writer.turn()
    assert writer.close(EndState.FINISHED).complete
    return barograph.open(place)


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
