"""Time of steps, and use of the machine."""

from __future__ import annotations

from typing import Any

from barograph.report.machine import machine_in, step_time_in


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
