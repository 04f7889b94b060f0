"""WeightUpdateRatio."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping

import pytest

from barograph.model.cause import Cause
from barograph.model.facts import Fact, fact
from barograph.model.finding import Severity, Symptom
from barograph.model.key import Key, Kind
from barograph.model.step import Mode, Step
from barograph.model.summary import Summary
from barograph.rules.base import Memory, Rule, Unjudged
from barograph.rules.updates import WeightUpdateRatio
from barograph.runs.reading.view import StepView

TOTAL = Key(Kind.LOSS, "total")
UNMEASURED = Unjudged("no step recorded finite updates and weights")


def summary(norm: float) -> Summary:
    return Summary(count=100, min=-norm, max=norm, sum=0.0, sum_sq=norm**2, sum_abs=norm * 10)


def step_of(
    number: int | Step = 0, *, weights: Mapping[str, float] | None = None, updates: Mapping[str, float] | None = None,
    gradients: Mapping[str, float] | None = None, loss: float | None = None, rate: float = 0.1,
    beside: Mapping[Key, Summary | float] | None = None,
) -> StepView:
    kinds = {Kind.WEIGHT: weights, Kind.UPDATE: updates, Kind.GRADIENT: gradients}
    records: dict[Key, Summary | float] = {
        Key(kind, path): summary(norm) for kind, norms in kinds.items() for path, norm in (norms or {}).items()
    }
    records[Key(Kind.LEARNING_RATE, "group0")] = rate
    if loss is not None:
        records[TOTAL] = loss
    return StepView.of(number, {**records, **(beside or {})})


def updating(
    ratio: float, number: int = 0, *, gradient: float = 1.0, rate: float = 0.1, loss: float | None = None,
    beside: Mapping[Key, Summary | float] | None = None,
) -> StepView:
    return step_of(number, weights={"a.weight": 10.0}, updates={"a.weight": 10.0 * ratio},
                   gradients={"a.weight": gradient}, rate=rate, loss=loss, beside=beside)


def said(rule: Rule, *views: StepView) -> list[list[Symptom | Unjudged]]:
    memory: Memory = {}
    found = []
    for view in views:
        found.append(list(rule.judge(view, memory)))
        memory = json.loads(json.dumps(memory))
    return found


def symptoms(*views: StepView) -> list[list[str]]:
    found = said(WeightUpdateRatio(), *views)
    return [[item.subject for item in items if isinstance(item, Symptom)] for items in found]


@pytest.mark.parametrize(("targets", "first"), [
    (None, Cause.INITIALIZATION_SCALE), (0.5, Cause.INITIALIZATION_SCALE), (100.0, Cause.LEARNING_RATE_TOO_HIGH),
])
def test_a_large_first_loss_is_no_matter_of_initialization_if_the_targets_are_large(
    targets: float | None, first: Cause
) -> None:
    beside = {} if targets is None else {Key(Kind.TARGET, "mse_loss"): Summary(
        count=64, min=-targets, max=targets, sum=0.0, sum_sq=64 * targets**2, sum_abs=64 * targets)}
    begin = updating(1.0, loss=1e4, rate=3.0, beside=beside)

    _, (symptom,) = said(WeightUpdateRatio(), begin, updating(0.1, 1, loss=2e4))

    assert symptom.causes[0].cause is first


@pytest.mark.parametrize("ratio", [0.49, 1e-2, 1e-3, 2e-6])
def test_a_usual_step_is_well(ratio: float) -> None:
    assert said(WeightUpdateRatio(), *(updating(ratio, number) for number in range(20))) == [[]] * 20


def test_one_step_as_large_as_the_weights_after_which_the_loss_is_higher_is_too_large() -> None:
    large, after = updating(0.9, 5, loss=2.3), step_of(6, loss=2.9)

    first, second = said(WeightUpdateRatio(), large, after)

    assert first == [Unjudged("an update was very large; waiting for the next loss")]
    found, rest = second
    assert isinstance(found, Symptom)
    assert (found.subject, found.since) == ("large", 5)
    assert found.message == (
        "One optimizer step changed the weights by 0.9 times their norm (normal: up to 0.1 at the start), and "
        "the loss changed from 2.3 to 2.9."
    )
    assert found.remedy == "Lower the learning rate from 0.1 to 0.00333, or warm it up over the first 100 steps."
    assert [(item.key, item.value) for item in found.evidence] == [
        (None, pytest.approx(0.9)), (Key(Kind.UPDATE, "a.weight"), pytest.approx(0.9))
    ]
    assert rest == UNMEASURED


@pytest.mark.parametrize(
    ("loss", "expected"), [(1.0, []), (2.27, []), (2.29, ["large"]), (math.nan, ["large"]), (math.inf, ["large"])]
)
def test_a_large_step_that_helped_is_let_pass(loss: float, expected: list[str]) -> None:
    assert symptoms(updating(0.9, loss=2.3), step_of(1, loss=loss))[-1] == expected


def test_under_a_budget_a_large_step_is_judged_by_the_next_loss_that_was_recorded() -> None:
    memory: Memory = {}
    views = [updating(0.7, 7, loss=2.3), step_of(214, loss=9.0)]

    (waiting, all_facts) = (list(WeightUpdateRatio().judge(view, memory)) for view in views)

    assert [type(item) for item in waiting] == [Unjudged]
    (symptom, _) = all_facts
    assert isinstance(symptom, Symptom)
    assert symptom.since == 7
    assert "and the loss changed from 2.3 to 9 by step 214" in symptom.message


def test_a_large_step_is_told_once() -> None:
    assert symptoms(updating(0.9, loss=2.3), step_of(1, loss=2.9), step_of(2, loss=3.0)) == [[], ["large"], []]


def test_evaluation_between_the_two_says_nothing() -> None:
    evaluation = step_of(Step(1, 1, "", Mode.EVAL), loss=9.0)

    assert symptoms(updating(0.9, loss=2.3), evaluation, step_of(1, loss=2.0)) == [[], [], []]


def test_where_no_loss_was_recorded_the_step_alone_decides() -> None:
    assert symptoms(updating(0.9)) == [["large"]]


def test_where_no_gradient_and_no_loss_was_recorded_a_step_may_be_many() -> None:
    """As of scikit-learn's SGD, which tells of whole calls of `partial_fit`."""
    assert symptoms(step_of(1, weights={"coef": 1.0}, updates={"coef": 0.9})) == [[]]


def test_the_norm_before_the_step_is_taken_where_it_was_recorded() -> None:
    before = step_of(4, weights={"a.weight": 1.0}, gradients={"a.weight": 1.0})
    after = step_of(5, weights={"a.weight": 10.0}, updates={"a.weight": 4.0}, gradients={"a.weight": 1.0})
    much_later = step_of(7, weights={"a.weight": 10.0}, updates={"a.weight": 4.0}, gradients={"a.weight": 1.0})

    assert symptoms(before, after)[-1] == ["large"]
    assert symptoms(before, much_later)[-1] == []


def test_the_layers_that_changed_most_are_named() -> None:
    view = step_of(weights={"a.weight": 1.0, "b.weight": 1.0, "c.weight": 1.0},
                   updates={"a.weight": 1.0, "b.weight": 3.0, "c.weight": 2.0}, gradients={"a.weight": 1.0})

    (found,) = said(WeightUpdateRatio(), view)[0]

    assert isinstance(found, Symptom)
    assert [item.key.path for item in found.evidence if item.key] == ["b.weight", "c.weight", "a.weight"]


def test_steps_too_small_for_ten_judgements_are_too_small() -> None:
    found = said(WeightUpdateRatio(), *(updating(1e-7, number) for number in range(10, 21)))

    assert found[8] == [Unjudged("needs 10 small updates in a row; this run has 9")]
    (small,) = found[9]
    assert isinstance(small, Symptom)
    assert (small.subject, small.since) == ("small", 10)
    assert small.remedy == ("Raise the learning rate from 0.1 to 1,000; check that no scheduler decays it to "
                            "nearly zero.")


@pytest.mark.parametrize("change", [{"gradient": 1e-4}, {"rate": 1e-6}, {"gradient": 0.0}])
def test_small_steps_of_a_converged_model_or_a_decayed_schedule_are_let_pass(change: dict[str, float]) -> None:
    views = [updating(1e-3), *(updating(1e-8, number, **change) for number in range(1, 30))]

    assert symptoms(*views) == [[]] * 30


def test_a_warm_up_from_zero_is_not_too_small() -> None:
    assert symptoms(*(updating(1e-5 * number, number, rate=1e-3 * number) for number in range(100))) == [[]] * 100


def idling(number: int, *, loss: float, classes_loss: float | None = None, classes: float = 3.0,
           ratio: float = 5e-5) -> StepView:
    """Return a step that hardly moves the weights; the loss over classes is all of the loss unless it is given."""
    records = {Key(kind, "a.weight"): summary(norm) for kind, norm in (
        (Kind.WEIGHT, 10.0), (Kind.UPDATE, 10.0 * ratio), (Kind.GRADIENT, 1.0))}
    return StepView.of(number, {**records, TOTAL: loss, Key(Kind.LOSS, "cross_entropy"): classes_loss or loss,
                                Key(Kind.LEARNING_RATE, "group0"): 0.1, fact(Fact.CLASSES): classes})


def test_small_steps_that_leave_a_loss_above_chance_are_too_small_though_it_falls() -> None:
    found = said(WeightUpdateRatio(), *(idling(number, loss=1.4 - 0.01 * number) for number in range(40)))

    assert [len(items) for items in found] == [0] * 9 + [1] * 26 + [0] * 5
    (slow,) = found[9]
    assert isinstance(slow, Symptom)
    assert (slow.subject, slow.since, slow.severity) == ("small", 0, Severity.DOUBTFUL)
    assert ("while gradients are as large as at the start, and the loss is above 1.1, that of guessing: "
            "the model hardly changes") in slow.message


def test_a_loss_of_which_another_part_is_above_chance_is_not_judged_by_it() -> None:
    views = [idling(0, loss=1.4), *(
        idling(number, loss=1.4 - 0.01 * number, classes_loss=0.5) for number in range(1, 30))]

    assert symptoms(*views) == [[]] * 30


@pytest.mark.parametrize("change", [{"ratio": 2e-4}, {"classes": 5.0}, {"classes": 1.0}, {"loss": 57.0}])
def test_usual_steps_losses_below_chance_and_sums_over_samples_are_well(change: dict[str, float]) -> None:
    change = dict(change)
    begin = change.pop("loss", 1.4)
    views = [idling(number, loss=begin * (1 - 0.007 * number), **change) for number in range(30)]

    assert symptoms(*views) == [[]] * 30


def test_frozen_layers_do_not_make_the_ratio_small() -> None:
    views = [step_of(number, weights={"body.weight": 1e6, "head.weight": 1.0}, updates={"head.weight": 1e-3},
                     gradients={"head.weight": 1.0}) for number in range(20)]

    assert symptoms(*views) == [[]] * 20


def test_a_bias_that_starts_at_zero_does_not_make_its_layer_large() -> None:
    first = step_of(0, weights={"a.weight": 10.0, "a.bias": 0.1}, updates={"a.weight": 0.1, "a.bias": 0.1},
                    gradients={"a.weight": 1.0})

    assert symptoms(first) == [[]]


@pytest.mark.parametrize(("loss", "found"), [(2.3, []), (3.0, ["large"])])
def test_beside_weights_that_start_at_zero_only_harmful_updates_are_large(loss: float, found: list[str]) -> None:
    begin = step_of(0, weights={"a.weight": 0.1}, updates={"a.weight": 0.1}, gradients={"a.weight": 1.0}, loss=2.3)
    second = step_of(1, weights={"a.weight": 0.2}, updates={"a.weight": 0.1}, gradients={"a.weight": 1.0}, loss=loss)

    assert symptoms(begin, second, step_of(2, loss=loss)) == [[], found, []]


def test_a_step_without_finite_updates_is_not_judged() -> None:
    nan = StepView.of(0, {Key(Kind.UPDATE, "a"): Summary(count=4, nan=1), Key(Kind.WEIGHT, "a"): summary(1.0)})
    skipped = step_of(Step(0, 0, skipped=True), weights={"a.weight": 1.0}, updates={"a.weight": 9.0})

    assert [said(WeightUpdateRatio(), view) for view in (nan, skipped, step_of(weights={"a.weight": 1.0}))] == [
        [[UNMEASURED]]
    ] * 3
