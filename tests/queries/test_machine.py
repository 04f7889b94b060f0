"""Time of steps, and use of the machine."""

from __future__ import annotations

import math
from typing import Any

import pytest

from barograph.model.key import Kind
from barograph.queries.machine import machine_in, step_time_in
from barograph.runs.reading import windows


def test_parts_of_a_step_are_told_on_average_and_over_the_steps(diary: Any) -> None:
    diary.step(10, {"time:step": 0.2, "time:data": 0.1, "time:longest": 0.5, "time:steps": 10})
    diary.step(20, {"time:step": 0.4, "time:data": 0.1, "time:longest": 0.6, "time:steps": 30})

    told = step_time_in(diary.ended())

    assert told is not None
    assert told.secs == {"step": 0.35, "data": 0.1}
    assert told.over_time["step"].values == (0.2, 0.4)
    assert list(told.over_time) == ["step", "longest", "data"]


def test_where_no_time_was_told_there_is_none(diary: Any) -> None:
    diary.step(0, {"loss:total": 1.0})

    assert step_time_in(diary.ended()) is None


def test_figures_of_the_machine_are_told_by_the_time_since_the_start(diary: Any) -> None:
    for number, busy in enumerate([50.0, 100.0, 30.0]):
        diary.step(number, {"machine:cpu": busy, "machine:cpu[0]": busy, "machine:memory": 1e9})

    cpu, memory = machine_in(diary.ended())

    assert (cpu.name, cpu.unit, cpu.mean, cpu.greatest, cpu.last) == ("cpu", "percent", 60.0, 100.0, 30.0)
    assert cpu.secs == (0.0, 1.0, 2.0)
    assert (memory.name, memory.unit) == ("memory", "bytes")


def test_units_are_those_of_the_figures(diary: Any) -> None:
    diary.step(0, {f"machine:{name}": 1.0 for name in (
        "cpu_busiest", "gpu[0]", "gpu_memory[0]", "gpu_memory_bytes[0]", "disk_read", "net_sent", "cores")})

    assert {gauge.name: gauge.unit for gauge in machine_in(diary.ended())} == {
        "cpu_busiest": "percent", "gpu[0]": "percent", "gpu_memory[0]": "percent", "gpu_memory_bytes[0]": "bytes",
        "disk_read": "bytes a second", "net_sent": "bytes a second", "cores": "count",
    }


def test_the_chart_over_the_steps_is_that_of_the_optimizer_that_is_told_of_most(diary: Any) -> None:
    diary.step(0, {"time:step": 0.9, "time:steps": 1}, optimizer="#2")
    diary.step(10, {"time:step": 0.2, "time:steps": 10})
    diary.step(20, {"time:step": 0.4, "time:steps": 10})

    told = step_time_in(diary.ended())

    assert told is not None
    assert told.over_time["step"].steps == (10, 20)
    assert told.secs["step"] == (0.9 + 2.0 + 4.0) / 21


def test_what_is_read_span_by_span_is_what_is_read_at_once(diary: Any, monkeypatch: Any) -> None:
    for number in range(40):
        diary.step(number, {"time:step": 0.1 + number / 100, "time:steps": 2, "machine:cpu": float(number % 7),
                            "machine:gpu[0]": float("nan") if number == 39 else 1.0, "time:data": 0.05})
    run = diary.ended()
    at_once = step_time_in(run), machine_in(run)
    monkeypatch.setattr(windows.windows_of, "__kwdefaults__", {"mode": None, "rows": 25})

    in_spans = step_time_in(run), machine_in(run)

    assert len(tuple(windows.windows_of(run, Kind.TIME))) > 4
    assert in_spans[0].over_time == at_once[0].over_time
    assert in_spans[0].secs == pytest.approx(at_once[0].secs)
    assert [(gauge.greatest, gauge.last, gauge.secs, gauge.values) for gauge in in_spans[1][1:]] == [
        (gauge.greatest, gauge.last, gauge.secs, gauge.values) for gauge in at_once[1][1:]]
    assert in_spans[1][1].mean == pytest.approx(at_once[1][1].mean)
    assert in_spans[1][0].mean == 1.0
    assert math.isnan(in_spans[1][0].last)
