"""BatchSize, CPUBottleneck, IOBottleneck, LowGPUUtilization, LoadBalancing and OverallSystemUsage."""

from __future__ import annotations

from typing import Any

import pytest

from barograph.model.finding import Severity, Symptom
from barograph.rules.utilization import (
    BatchSize,
    CPUBottleneck,
    IOBottleneck,
    LoadBalancing,
    LowGPUUtilization,
    OverallSystemUsage,
)
from barograph.rules.windows import WindowedRule
from rules.machine_views import GIB, gpus, said, samples

SMALL: dict[str, Any] = {"window": 20, "skip": 4}
ALL: list[type[WindowedRule]] = [
    BatchSize, CPUBottleneck, IOBottleneck, LowGPUUtilization, LoadBalancing, OverallSystemUsage,
]


def judged(rule: WindowedRule, *figures: dict[str, float], worker: str = "p0") -> list[Symptom | None]:
    """Return what is said of two windows in which these samples take turns."""
    count = rule.skip + 2 * rule.window
    return said(rule, samples(count, lambda number: figures[number % len(figures)], worker=worker))


def only(rule: WindowedRule, *figures: dict[str, float]) -> Symptom:
    first, second = judged(rule, *figures)
    assert first is not None
    assert second is not None
    return second


@pytest.mark.parametrize("rule", ALL)
def test_a_machine_that_is_used_well_is_said_nothing_of(rule: type[WindowedRule]) -> None:
    assert judged(rule(**SMALL), gpus(96, 91), gpus(88, 99), gpus(93, 85)) == [None, None]


@pytest.mark.parametrize("rule", ALL[:-1])
def test_a_machine_without_a_gpu_is_not_judged(rule: type[WindowedRule]) -> None:
    assert judged(rule(**SMALL), {"cpu": 99.0, "cpu_busiest": 100.0, "cpu_iowait": 60.0}) == []


@pytest.mark.parametrize("rule", ALL[:-1])
def test_a_gpu_that_holds_nothing_of_the_training_is_not_judged(rule: type[WindowedRule]) -> None:
    assert judged(rule(**SMALL), gpus(0, 0, full=0.01, cpu_busiest=100.0, cpu_iowait=90.0)) == []


@pytest.mark.parametrize("rule", ALL)
def test_at_the_defaults_nothing_is_said_in_the_first_minutes(rule: type[WindowedRule]) -> None:
    worst = gpus(0, full=1.0, cpu=5.0, cpu_busiest=100.0, cpu_iowait=90.0, memory=64 * GIB)
    assert said(rule(), samples(739, lambda _: worst)) == []


def test_a_gpu_that_is_half_busy_and_a_fifth_full_takes_a_larger_batch() -> None:
    found = only(BatchSize(**SMALL), gpus(45, full=20.0), gpus(55, full=20.0))
    assert "4 times larger" in found.remedy
    assert [(item.value, item.threshold) for item in found.evidence] == [(55.0, 70.0), (20.0, 70.0)]


@pytest.mark.parametrize("figures", [gpus(45, full=75.0), gpus(75, full=20.0), gpus(45, full=20.0, cpu=75.0)])
def test_where_anything_is_at_its_limit_the_batch_stays(figures: dict[str, float]) -> None:
    assert judged(BatchSize(**SMALL), figures) == [None, None]


def test_a_gpu_that_stands_still_while_a_core_works_waits_for_it() -> None:
    waits, works = gpus(2, cpu_busiest=99.0), gpus(80, cpu_busiest=99.0)
    found = only(CPUBottleneck(**SMALL), waits, waits, waits, works)
    assert (found.evidence[0].value, found.severity) == (0.75, None)
    assert found.causes[0].cause == "slow-data-loading"
    assert judged(CPUBottleneck(**SMALL), waits, works, works, works) == [None, None]


def test_a_gpu_that_never_works_is_paid_for_in_vain() -> None:
    assert only(CPUBottleneck(**SMALL), gpus(1, cpu_busiest=100.0)).severity is Severity.COSTLY


def test_waiting_for_a_disk_is_told_from_waiting_for_a_core() -> None:
    assert only(IOBottleneck(**SMALL), gpus(3, cpu_iowait=80.0)).evidence[0].value == 1.0
    assert judged(IOBottleneck(**SMALL), gpus(3, cpu_busiest=100.0)) == [None, None]
    assert judged(CPUBottleneck(**SMALL), gpus(3, cpu_iowait=80.0)) == [None, None]


@pytest.mark.parametrize(("busy", "severity", "words"), [
    ((40, 55), None, "underused"), ((0, 6), Severity.COSTLY, "underused"),
    ((0, 95), Severity.NOTE, "used unevenly"),
])
def test_how_bad_a_little_used_gpu_is_depends_on_how_little(
    busy: tuple[int, int], severity: Severity | None, words: str
) -> None:
    found = only(LowGPUUtilization(**SMALL), gpus(busy[0]), gpus(busy[1]))
    assert found.severity is severity
    assert words in found.message


def test_gpus_that_do_different_work_are_named() -> None:
    found = only(LoadBalancing(**SMALL), gpus(97, 95, 20), gpus(93, 96, 35))
    assert found.evidence[0].key is not None
    assert found.evidence[0].key.path == "gpu[2]"


def test_gpus_a_few_percent_apart_do_the_same_work() -> None:
    assert judged(LoadBalancing(**SMALL), gpus(95, 87)) == [None, None]


def test_one_gpu_shares_with_nobody() -> None:
    assert judged(LoadBalancing(**SMALL), gpus(95)) == []


def test_a_full_memory_is_told_with_the_use_of_everything_else() -> None:
    found = only(OverallSystemUsage(**SMALL), {"cpu": 20.0, "memory": 63.5 * GIB, "memory_total": 64 * GIB})
    assert [str(item.key) for item in found.evidence] == ["machine:memory", "machine:cpu"]


def test_of_two_machines_each_is_found_and_stays_found_while_the_other_is_judged() -> None:
    rule, memory = LowGPUUtilization(**SMALL), {}
    pairs = zip(samples(64, lambda _: gpus(5), worker="r0"), samples(64, lambda _: gpus(95), worker="r8"), strict=True)
    subjects = [[item.subject for item in rule.judge(view, memory) if isinstance(item, Symptom)]
                for pair in pairs for view in pair]
    all_facts = [item for item in subjects if item]
    assert all_facts == [["r0"]] * 6
