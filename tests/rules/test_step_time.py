"""Dataloader, StepOutlier, Straggler and OverallFrameworkMetrics."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from barograph.rules.step_time import Dataloader, OverallFrameworkMetrics, StepOutlier, Straggler
from barograph.runs.reading.view import StepView
from rules.machine_views import said, sample, telling


def times(step: float = 0.1, *, data: float = 0.0, longest: float | None = None, steps: float = 5) -> dict[str, float]:
    rest = step - data
    return {"step": step, "steps": steps, "longest": step if longest is None else longest, "data": data,
            "forward": 0.3 * rest, "backward": 0.6 * rest, "optimizer": 0.1 * rest, "capture": 0.0, "other": 0.0}


def all_facts(count: int, **more: float) -> Iterator[StepView]:
    return (telling(number, {"p0": times(**more)}) for number in range(count))


def test_data_that_are_waited_for_a_long_while_are_worth_a_note() -> None:
    predictions = said(OverallFrameworkMetrics(), all_facts(800, data=0.04))
    found = predictions[0]
    assert found is not None
    assert len(predictions) == 201  # from 300 s of steps on, at half a second a telling
    assert found.evidence[0].value == pytest.approx(0.4)
    assert [str(item.key) for item in found.evidence][:2] == ["time:data", "time:backward"]
    assert (found.causes[0].cause, found.causes[0].weight) == ("slow-data-loading", 0.9)


@pytest.mark.parametrize("more", [{"data": 0.02}, {"step": 0.01, "data": 0.006, "steps": 50}])
def test_a_little_waiting_and_steps_that_are_short_anyway_are_not(more: dict[str, float]) -> None:
    assert set(said(OverallFrameworkMetrics(), all_facts(800, **more))) == {None}


def test_a_short_training_is_not_judged_by_its_time() -> None:
    assert said(OverallFrameworkMetrics(), all_facts(500, data=0.09)) == []
    assert said(StepOutlier(), all_facts(200, longest=5.0)) == []


def test_steps_that_take_far_longer_again_and_again_are_outliers() -> None:
    of_each = [times(0.6, longest=2.6), *[times(0.1, longest=0.11)] * 4]
    views = [telling(number, {"p0": of_each[number % 5]}) for number in range(300)]
    found = said(StepOutlier(), views)[-1]
    assert found is not None
    assert found.evidence[0].value == 2.6


@pytest.mark.parametrize(("every", "longest"), [(5, 0.4), (40, 2.6), (5, 0.55)])
def test_steps_a_little_longer_or_seldom_or_that_cost_little_are_none(every: int, longest: float) -> None:
    views = [telling(number, {"p0": times(0.1, longest=longest if number % every == 0 else 0.11, steps=20)})
             for number in range(300)]
    assert set(said(StepOutlier(), views)) == {None}


def test_outliers_do_not_hide_behind_the_spread_they_make() -> None:
    # Plain mean and deviation of 0.1 (4 of 5) and 3 (1 of 5) put the limit at 4.2, beyond all of them.
    views = [telling(number, {"p0": times(3.0 if number % 5 == 0 else 0.1, steps=1)}) for number in range(400)]
    assert said(StepOutlier(), views)[-1] is not None


def test_a_worker_that_takes_longer_before_it_meets_the_others_is_a_straggler() -> None:
    quick = {"step": 0.2, "backward": 0.15, "capture": 0.0}
    slow = {"step": 0.2, "backward": 0.05, "capture": 0.0}
    views = [telling(number, {"r0": quick, "r1": quick, "r2": slow}) for number in range(60)]
    found = said(Straggler(), views)[-1]
    assert found is not None
    assert found.subject == "r2"
    assert found.causes[0].cause == "slow-worker"


def test_workers_need_not_tell_at_the_same_steps() -> None:
    slow, quick = {"step": 0.2, "backward": 0.05}, {"step": 0.2, "backward": 0.15}
    views = [telling(number, {"r0": quick} if number % 2 else {"r1": slow}) for number in range(80)]
    found = said(Straggler(), views)[-1]
    assert found is not None
    assert found.subject == "r1"


def test_no_worker_takes_less_than_nothing() -> None:
    waits, slow = {"step": 0.2, "backward": 0.21, "capture": 0.01}, {"step": 0.2, "backward": 0.05, "capture": 0.0}
    found = said(Straggler(), [telling(number, {"r0": waits, "r1": slow}) for number in range(60)])[-1]
    assert found is not None
    assert found.evidence[0].text == "150 ms per step outside the backward pass; the others take 0 ms"


@pytest.mark.parametrize("backward", [0.14, 0.149, 0.12])
def test_workers_that_differ_a_little_are_none(backward: float) -> None:
    views = [telling(number, {"r0": {"step": 0.2, "backward": 0.15}, "r1": {"step": 0.2, "backward": backward}})
             for number in range(100)]
    assert set(said(Straggler(), views)) == {None}


def test_one_worker_alone_is_no_straggler() -> None:
    assert said(Straggler(), all_facts(100)) == []


def loaders(count: int, *, processes: float, cores: float, data: float) -> Iterator[StepView]:
    for number in range(count):
        yield telling(number, {"p0": times(data=data)})
        yield sample(number, {"loader_processes": processes, "cores": cores})


def test_more_loader_processes_than_there_is_room_for_are_too_many() -> None:
    found = said(Dataloader(), loaders(400, processes=20, cores=8, data=0.0))[-1]
    assert found is not None
    assert found.remedy == "Change num_workers of the DataLoader from 20 to about 8."


def test_few_loader_processes_are_too_few_only_where_training_waits() -> None:
    assert said(Dataloader(), loaders(400, processes=2, cores=8, data=0.06))[-1] is not None
    assert set(said(Dataloader(), loaders(400, processes=2, cores=8, data=0.01))) == {None}


def test_data_that_are_loaded_by_the_training_itself_are_not_judged() -> None:
    assert said(Dataloader(), loaders(400, processes=0, cores=8, data=0.06)) == []
