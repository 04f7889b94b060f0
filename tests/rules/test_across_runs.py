"""SimilarAcrossRuns."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest

from barograph.measures.summary import summarize
from barograph.model.facts import Fact
from barograph.model.finding import FindingState
from barograph.model.key import Key, Kind
from barograph.model.summary import Summary
from barograph.rules.across_runs import SimilarAcrossRuns
from barograph.rules.base import Unjudged
from barograph.runs.reading.view import StepView
from barograph.testing.rules import RuleConformance, judged
from judging import TOTAL, facts, said, symptoms

WEIGHT = Key(Kind.WEIGHT, "fc.weight")
OUTPUT = Key(Kind.OUTPUT, "fc")
RULE = SimilarAcrossRuns(other="runs/first")

Records = dict[Key, Summary | float]


def records(step: int, *, shift: float = 0.0, scale: float = 1.0) -> Records:
    values = np.sin(np.arange(12.0) + step) * scale + shift
    return {WEIGHT: summarize(values), OUTPUT: summarize(np.cos(values)), TOTAL: float(2.0 - 0.1 * step + shift)}


def runs(
    here: Callable[[int], Records], there: Callable[[int], Records] = records, *, other: str = "runs/first",
    steps: int = 6,
) -> list[StepView]:
    return [StepView.of(step, here(step)).with_beside({other: StepView.of(step, there(step))})
            for step in range(steps)]


def parted(step: int) -> Records:
    return records(step, shift=0.25 if step >= 3 else 0.0)


class TestConformance(RuleConformance):
    """It keeps what every rule must."""

    rule = RULE
    sick = runs(parted)
    well = runs(records)


def test_a_training_that_is_compared_with_no_other_run_records_nothing_for_it() -> None:
    assert [need.kinds for need in SimilarAcrossRuns().needs] == [{Kind.LOSS}]
    assert {Kind.BATCH, Kind.OUTPUT, Kind.UPDATE, Kind.OPTIMIZER_STATE} < RULE.needs[0].kinds


def test_the_first_step_and_key_that_differ_are_named_with_how_much_and_how_many_others() -> None:
    (finding,) = [item for item in judged(RULE, runs(parted)) if item.state is FindingState.OPEN]

    assert finding.message.startswith("Step 3 is the first that differs from runs/first: output:fc, l2 norm ")
    assert "rtol 1e-5, atol 1e-8; 2 of 2 other keys differ too." in finding.message
    assert finding.since_step == 3
    assert [str(item.key) for item in finding.evidence] == ["output:fc", "loss:total", "weight:fc.weight"]
    loss = finding.evidence[1]
    assert (loss.statistic, loss.value, loss.threshold) == ("value", pytest.approx(1.95), pytest.approx(1.7))
    assert loss.text == "value 1.95 here, 1.7 there (difference 0.25, allowed 1.95e-5)"


def test_later_steps_still_name_the_first() -> None:
    *_, last = symptoms(RULE, runs(parted))
    assert last.message.startswith("Step 3 is the first")
    assert last.evidence[0].step == 5


@pytest.mark.parametrize(("rtol", "atol", "count"), [(1e-5, 1e-8, 6), (1e-2, 0.0, 0), (0.0, 0.1, 0)])
def test_what_lies_within_the_tolerance_is_the_same(rtol: float, atol: float, count: int) -> None:
    rule = SimilarAcrossRuns(other="runs/first", rtol=rtol, atol=atol)
    assert len(symptoms(rule, runs(lambda step: records(step, scale=1.001)))) == count


def test_a_mean_near_zero_is_held_against_the_size_of_the_elements() -> None:
    values = np.array([1.0, -1.0, 1.0, -1.0])
    near = runs(lambda _: {WEIGHT: summarize(values + 1e-7)}, lambda _: {WEIGHT: summarize(values)})
    assert symptoms(RULE, near) == []


@pytest.mark.parametrize(("here", "there", "words"), [
    (np.ones(4), np.ones(5), "elements 4 here, 5 there"),
    (np.array([1.0, math.nan]), np.array([1.0, 1.0]), "nan elements 1 here, 0 there"),
    (np.array([-1.0, 3.0]), np.array([1.0, 3.0]), "mean 1 here, 2 there"),
])
def test_each_quantity_is_compared(here: np.ndarray, there: np.ndarray, words: str) -> None:
    first, *_ = symptoms(RULE, runs(lambda _: {WEIGHT: summarize(here)}, lambda _: {WEIGHT: summarize(there)}))
    assert words in first.message


def test_two_that_are_not_finite_in_the_same_way_are_the_same() -> None:
    assert symptoms(RULE, runs(lambda _: {TOTAL: math.nan}, lambda _: {TOTAL: math.nan})) == []
    assert len(symptoms(RULE, runs(lambda _: {TOTAL: math.inf}, lambda _: {TOTAL: -math.inf}))) == 6


@pytest.mark.parametrize(("digest", "says"), [
    (0.0, "The batches were the same up to that step."), (1.0, "The batch of step 3 already differed."),
])
def test_whether_the_batches_were_the_same_is_told(digest: float, says: str) -> None:
    def here(step: int) -> Records:
        return {**parted(step), **facts({Fact.BATCH_DIGEST: 7.0 + (digest if step >= 3 else 0.0)})}

    def there(step: int) -> Records:
        return {**records(step), **facts({Fact.BATCH_DIGEST: 7.0})}

    first, *_ = symptoms(RULE, runs(here, there))
    assert first.message.endswith(says)


@pytest.mark.parametrize(("rule", "views", "reason"), [
    (SimilarAcrossRuns(), runs(records), "no run to compare with; name one with barograph watch RUN --against OTHER"),
    (RULE, runs(records, other="runs/second"), "this run and runs/first have no recorded step in common"),
    (RULE, runs(records, lambda step: {Key(Kind.WEIGHT, "head.weight"): Summary(count=1)}),
     "this run and runs/first have no key in common in any step that both recorded"),
])
def test_where_nothing_can_be_compared_it_says_why(
    rule: SimilarAcrossRuns, views: list[StepView], reason: str
) -> None:
    assert said(rule, views)[-1] == [Unjudged(reason)]
