"""A run as a trace: what is drawn where, and that it is what viewers can open."""

from __future__ import annotations

import io
import json
import math
from typing import Any

from barograph.export.chrome_trace import events_of, write_trace
from barograph.export.readings import Reading
from barograph.model.finding import Finding, FindingState, Severity
from barograph.model.key import Key, Kind
from barograph.model.step import Mode

LOSS = Key(Kind.LOSS, "total")


def reading(time_unix: float, key: Key, value: float, *, step: int = 0, worker: str = "p0", **more: Any) -> Reading:
    return Reading(time_unix, worker, key, more.get("mode", Mode.TRAIN), more.get("optimizer", ""), step, value)


def part(name: str, time_unix: float, secs: float) -> Reading:
    return reading(time_unix, Key(Kind.TIME, name), secs, step=5)


def events(*readings: Reading, findings: tuple[Finding, ...] = ()) -> list[dict[str, Any]]:
    return list(events_of(sorted(readings), findings, name="run", start_unix=100.0))


def slices(found: list[dict[str, Any]], category: str) -> list[tuple[str, float, float]]:
    return [(item["name"], item["ts"], item["dur"]) for item in found if item.get("cat") == category]


def test_a_step_lasts_from_the_end_of_the_one_before() -> None:
    found = events(*(reading(100.0 + number, LOSS, 0.5, step=number) for number in range(3)))
    assert slices(found, "step") == [("step 0", 0.0, 0.0), ("step 1", 0.0, 1e6), ("step 2", 1e6, 1e6)]


def test_behind_steps_that_were_passed_over_it_lasts_as_long_as_steps_do() -> None:
    found = events(reading(101.0, LOSS, 0.5, step=2), part("step", 102.0, 0.25), reading(103.0, LOSS, 0.5, step=9))
    assert slices(found, "step") == [("step 2", 1e6, 0.0), ("step 5", 1750000.0, 250000.0),
                                     ("step 9", 2750000.0, 250000.0)]


def test_steps_of_several_optimizers_bear_their_names() -> None:
    found = events(reading(101.0, LOSS, 0.5, optimizer="D"), reading(102.0, LOSS, 0.5, optimizer="G"))
    assert [name for name, _, _ in slices(found, "step")] == ["step 0 of D", "step 0 of G"]


def test_the_parts_of_a_step_stand_one_behind_the_other_up_to_its_end() -> None:
    found = events(part("step", 101.0, 0.5), part("data", 101.0, 0.125), part("forward", 101.0, 0.25),
                   part("steps", 101.0, 7.0), part("longest", 101.0, 0.75))
    assert slices(found, "part") == [("data", 625000.0, 125000.0), ("forward", 750000.0, 250000.0)]
    (curve,) = [item for item in found if item["name"] == "step time (ms)"]
    assert curve["args"] == {"data": 125.0, "forward": 250.0}


def test_no_part_begins_before_the_one_before_it_has_ended() -> None:
    # Seconds since 1970 hold a quarter of a microsecond, and what overlaps by that is dropped by viewers.
    when = 1_795_439_773.361019
    names = ("data", "forward", "backward", "optimizer", "capture", "other")
    readings = [part(name, when, 0.000_123_456_7 * number) for number, name in enumerate(names, 1)]
    found = list(events_of(sorted(readings), (), name="run", start_unix=1_795_439_770.123457))
    parts = [(round(1000 * ts), round(1000 * dur)) for _, ts, dur in slices(found, "part")]

    assert [begins for begins, _ in parts[1:]] == [begins + lasts for begins, lasts in parts[:-1]]


def test_the_machine_and_the_losses_are_curves() -> None:
    found = events(reading(101.0, Key(Kind.MACHINE, "gpu[0]"), 87.0), reading(101.0, LOSS, 0.5, mode=Mode.EVAL))
    curves = {item["name"]: item["args"]["value"] for item in found if item["ph"] == "C"}
    assert curves == {"machine:gpu[0]": 87.0, "loss:total (eval)": 0.5}


def test_each_worker_is_a_process_with_its_name() -> None:
    found = events(reading(101.0, LOSS, 0.5, worker="r0"), reading(101.0, LOSS, 0.5, worker="r1"))
    names = {item["pid"]: item["args"]["name"] for item in found if item["name"] == "process_name"}
    assert names == {1: "r0 of run", 2: "r1 of run"}


def test_what_was_found_stands_where_it_was_found() -> None:
    finding = Finding(
        id="1", code="N101", rule="non-finite", severity=Severity.BREAKING, state=FindingState.OPEN, message="NaN.",
        remedy="Look.", evidence=(), subject="", worker="r", optimizer="", mode=Mode.TRAIN, since_step=3,
        opened_step=4, last_step=4, closed_step=None, opened_unix=104.0,
    )
    (found,) = [item for item in events(reading(101.0, LOSS, 0.5, worker="r0"), findings=(finding,))
                if item.get("cat") == "finding"]
    assert (found["ph"], found["s"], found["ts"], found["pid"], found["name"]) == ("i", "g", 4e6, 1, "N101 non-finite")
    assert found["args"]["remedy"] == "Look."


def test_numbers_that_are_not_finite_do_not_spoil_the_file() -> None:
    out = io.StringIO()
    readings = [reading(100.0, LOSS, math.nan), reading(101.0, LOSS, math.inf, step=1)]
    count = write_trace(out, readings, (), name='a "run"', url="runs/ü")
    trace = json.loads(out.getvalue(), parse_constant=lambda text: (_ for _ in ()).throw(ValueError(text)))
    assert len(trace["traceEvents"]) == count
    assert trace["otherData"] == {"run": "runs/ü", "name": 'a "run"', "start_unix": 100.0}
    steps = [item for item in trace["traceEvents"] if item.get("cat") == "step"]
    assert [item["args"]["loss:total"] for item in steps] == ["nan", "inf"]
    assert all(item["ph"] != "C" for item in trace["traceEvents"])
