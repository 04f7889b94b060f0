"""Export of a run as a trace for chrome://tracing and Perfetto.

Each worker is a process of the trace, with a row of steps, a row with the parts of a step, curves of its losses and
its machine, and findings at the time they opened.
"""

from __future__ import annotations

import json
import math
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from typing import IO, Any

from barograph.export.readings import Reading
from barograph.model.finding import Finding
from barograph.model.key import Key, Kind
from barograph.model.step import Mode

Event = dict[str, Any]
"""One trace event."""

_STEPS, _PARTS = 1, 2
_PARTS_IN_ORDER = ("data", "forward", "backward", "optimizer", "capture", "other")
_STEP = Key(Kind.TIME, "step")
_MICROS = 1e6
_DIGITS = 3
"""Decimals of microseconds: viewers count nanoseconds."""


def write_trace(
    out: IO[str], readings: Sequence[Reading], findings: Iterable[Finding], *, name: str, url: str
) -> int:
    """Write the trace; return its number of events.

    Args:
        out: Output.
        readings: Readings, in order of time.
        findings: Findings of the run.
        name: Name of the run.
        url: URL of the run.
    """
    # Viewers count microseconds, in numbers with sixteen digits.
    start_unix = readings[0].time_unix if readings else 0.0
    head = {"run": url, "name": name, "start_unix": start_unix}
    out.write(f'{{"displayTimeUnit": "ms", "otherData": {json.dumps(head)}, "traceEvents": [\n')
    count = 0
    for event in events_of(readings, findings, name=name, start_unix=start_unix):
        out.write(f"{',' if count else ''}{json.dumps(event, allow_nan=False)}\n")
        count += 1
    out.write("]}\n")
    return count


def events_of(
    readings: Sequence[Reading], findings: Iterable[Finding], *, name: str, start_unix: float
) -> Iterator[Event]:
    """Yield the events of a trace, not sorted; times are microseconds since `start_unix`.

    Recorded times are ends of steps. A step begins where the recorded step before ended or, if that is missing, one
    mean step time earlier. The parts of a step are means; they are drawn one after another before the end of the last
    step they cover, although a step may wait for data twice, for example.
    """
    by_worker: dict[str, list[Reading]] = defaultdict(list)
    for reading in readings:
        by_worker[reading.worker].append(reading)
    numbers = {worker: number for number, worker in enumerate(sorted(by_worker), 1)}
    for worker, mine in by_worker.items():
        pid = numbers[worker]
        yield _title(pid, 0, "process_name", f"{worker} of {name}" if name else worker)
        yield _title(pid, _STEPS, "thread_name", "steps")
        yield _title(pid, _PARTS, "thread_name", "parts of a step (means)")
        yield from _steps(mine, pid, start_unix)
        yield from _parts(mine, pid, start_unix)
        yield from _curves(mine, pid, start_unix)
    for finding in findings:
        yield _found(finding, numbers, start_unix)


def _title(pid: int, tid: int, what: str, name: str) -> Event:
    return {"ph": "M", "pid": pid, "tid": tid, "name": what, "args": {"name": name}}


def _steps(readings: Sequence[Reading], pid: int, start_unix: float) -> Iterator[Event]:
    lasts = math.nan
    before: tuple[str, int, float] | None = None
    of_steps = (item for item in readings if item.key.kind in (Kind.LOSS, Kind.TIME))
    for (time_unix, mode, optimizer, step), rows in groupby(
        of_steps, key=lambda item: (item.time_unix, item.mode, item.optimizer, item.step)
    ):
        values = {item.key: item.value for item in rows}
        lasts = values.get(_STEP, lasts)
        if mode is not Mode.TRAIN:
            yield {"ph": "i", "s": "t", "pid": pid, "tid": _STEPS, "ts": _micros(time_unix, start_unix),
                   "name": f"{mode.value} after step {step}", "cat": "step", "args": _plain(values)}
            continue
        begins_unix = time_unix - (0.0 if math.isnan(lasts) else lasts)
        if before is not None and before[2] <= time_unix:
            follows = before[:2] == (optimizer, step - 1)
            begins_unix = before[2] if follows else max(before[2], begins_unix)
        before = (optimizer, step, time_unix)
        begins = _micros(begins_unix, start_unix)
        name = f"step {step} of {optimizer}" if optimizer else f"step {step}"
        yield {"ph": "X", "pid": pid, "tid": _STEPS, "ts": begins,
               "dur": round(_micros(time_unix, start_unix) - begins, _DIGITS), "name": name, "cat": "step",
               "args": _plain(values)}


def _parts(readings: Sequence[Reading], pid: int, start_unix: float) -> Iterator[Event]:
    times = (item for item in readings if item.key.kind is Kind.TIME)
    for time_unix, rows in groupby(times, key=lambda item: item.time_unix):
        secs = {item.key.path: item.value for item in rows}
        parts = [(name, secs[name]) for name in _PARTS_IN_ORDER if math.isfinite(secs.get(name, math.nan))]
        lasting = [(name, round(_MICROS * value, _DIGITS)) for name, value in parts]
        # Accumulated from part to part: Perfetto drops a part that begins a nanosecond before another ends.
        begins = _micros(time_unix, start_unix) - sum(micros for _, micros in lasting)
        for name, micros in lasting:
            yield {"ph": "X", "pid": pid, "tid": _PARTS, "ts": round(begins, _DIGITS), "dur": micros, "name": name,
                   "cat": "part"}
            begins += micros
        if parts:
            yield {"ph": "C", "pid": pid, "ts": _micros(time_unix, start_unix), "name": "step time (ms)",
                   "args": {name: 1000 * value for name, value in parts}}


def _curves(readings: Sequence[Reading], pid: int, start_unix: float) -> Iterator[Event]:
    for item in readings:
        # Curves cannot show NaN and infinity; steps show where the loss was not finite.
        if item.key.kind is not Kind.TIME and math.isfinite(item.value):
            mode = "" if item.mode is Mode.TRAIN else f" ({item.mode.value})"
            yield {"ph": "C", "pid": pid, "ts": _micros(item.time_unix, start_unix), "name": f"{item.key}{mode}",
                   "args": {"value": item.value}}


def _found(finding: Finding, numbers: dict[str, int], start_unix: float) -> Event:
    # A finding on a group of ranks is shown at the first.
    pid = numbers.get(finding.worker, numbers.get(f"{finding.worker}0", 1))
    return {
        "ph": "i", "s": "g", "pid": pid, "tid": _STEPS, "ts": max(0.0, _micros(finding.opened_unix, start_unix)),
        "name": f"{finding.code} {finding.rule}", "cat": "finding",
        "args": {"severity": finding.severity.value, "message": finding.message, "remedy": finding.remedy,
                 "since_step": finding.since_step, "opened_step": finding.opened_step},
    }


def _micros(time_unix: float, start_unix: float) -> float:
    return round(_MICROS * (time_unix - start_unix), _DIGITS)


def _plain(values: dict[Key, float]) -> dict[str, Any]:
    # JSON has neither NaN nor infinity.
    return {str(key): value if math.isfinite(value) else str(value) for key, value in values.items()
            if key.kind is not Kind.TIME}
