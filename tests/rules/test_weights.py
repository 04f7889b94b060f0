"""UnchangedTensor and FrozenParameter."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
import pytest
from numpy.typing import NDArray

from barograph.judging.judge import Judge
from barograph.model.cause import Cause
from barograph.model.clock import SystemClock
from barograph.model.facts import Fact, fact
from barograph.model.finding import FindingState, Severity, Symptom
from barograph.model.key import Key, Kind
from barograph.model.step import Mode, Step
from barograph.model.summary import MOMENT_FIELDS, Summary
from barograph.rules.base import Memory, Rule, Unjudged
from barograph.rules.columns import Table, table_of_rows
from barograph.rules.standstill import runs_of
from barograph.rules.weights import FrozenParameter, UnchangedTensor
from barograph.runs.reading.view import StepView
from judging import TOTAL as LOSS
from judging import facts

ONES = Summary(count=4, min=1.0, max=1.0, sum=4.0, sum_sq=4.0, sum_abs=4.0)
ZEROS = Summary(count=4, zeros=4, min=0.0, max=0.0)
NAN = replace(ONES, nan=1, min=math.inf, max=-math.inf)


def summary(norm: float, *, total: float = 0.0) -> Summary:
    zeros = 0 if norm else 100
    return Summary(count=100, zeros=zeros, min=-norm, max=norm, sum=total, sum_sq=norm**2, sum_abs=norm * 10)


def step_of(
    number: int | Step = 0,
    *,
    weights: Mapping[str, float | Summary] | None = None,
    updates: Mapping[str, float | Summary] | None = None,
    gradients: Mapping[str, float | Summary] | None = None,
    losses: Mapping[str, Summary] | None = None,
    rate: float | None = 0.1,
    dtype: str = "float32",
) -> StepView:
    records: dict[Key, Summary | float] = {}
    kinds = {Kind.WEIGHT: weights, Kind.UPDATE: updates, Kind.GRADIENT: gradients, Kind.LOSS: losses}
    for kind, items in kinds.items():
        for path, item in (items or {}).items():
            records[Key(kind, path)] = item if isinstance(item, Summary) else summary(item)
    if rate is not None:
        records[Key(Kind.LEARNING_RATE, "group0")] = rate
    return StepView.of(number, records, dtypes=dict.fromkeys(records, dtype))


def said(rule: Rule, *views: StepView) -> list[list[Symptom | Unjudged]]:
    memory: Memory = {}
    found = []
    for view in views:
        found.append(list(rule.judge(view, memory)))
        memory = json.loads(json.dumps(memory))
    return found


def symptoms(rule: Rule, *views: StepView) -> list[list[str]]:
    return [[item.subject for item in found if isinstance(item, Symptom)] for found in said(rule, *views)]


def test_ones_at_steps_0_1_2_fire_at_2() -> None:
    views = [step_of(number, weights={"a": ONES}) for number in range(3)]

    assert symptoms(UnchangedTensor(kinds=("weight",)), *views) == [[], [], [""]]


def test_a_change_starts_the_count_again() -> None:
    other = replace(ONES, sum=4.0 + 2**-50)
    views = [step_of(number, losses={"total": item}) for number, item in enumerate((ONES, ONES, other, other, other))]

    assert [len(found) for found in symptoms(UnchangedTensor(), *views)] == [0, 0, 0, 0, 1]


def test_the_finding_names_the_tensor_and_its_value() -> None:
    (found,) = said(UnchangedTensor(), *(step_of(number, losses={"total": ONES}) for number in range(3)))[-1]

    assert isinstance(found, Symptom)
    assert found.message == '"loss:total" did not change over 3 recorded steps, from step 0 to 2.'
    assert found.since == 0
    assert found.evidence[0].text == "sum 4.0 in each of the last 3 recorded steps"
    assert found.remedy.startswith("Check that the loss depends on the model's output")


@pytest.mark.parametrize("all_facts", [
    {Fact.ROUNDS_PLANNED: 9.0}, {Fact.EARLY_STOPPING: 0.0}, {Fact.EARLY_STOPPING: math.nan}])
def test_a_loss_of_boosted_trees_that_stands_still_says_that_they_split_nothing(all_facts: dict[Fact, float]) -> None:
    rounds = [StepView.of(number, {LOSS: item, **(facts(all_facts) if number == 0 else {})})
              for number, item in enumerate((2.0, 1.0, 1.0, 1.0))]

    (found,) = said(UnchangedTensor(), *rounds)[-1]

    assert isinstance(found, Symptom)
    assert found.message == ('New trees change nothing: "loss:total" did not change over 3 rounds, from round 1 to 3.')
    assert found.remedy.startswith("Stop at round 1 ")
    assert (found.severity, [item.cause for item in found.causes]) == (Severity.DOUBTFUL, [Cause.TREES_ADD_NOTHING])


def test_boosted_trees_that_early_stopping_ends_are_not_judged() -> None:
    rounds = [StepView.of(number, {LOSS: 1.0, **(facts({Fact.EARLY_STOPPING: 20.0}) if number == 0 else {})})
              for number in range(9)]

    assert said(UnchangedTensor(), *rounds) == [
        [Unjudged("early stopping ends the training after 20 rounds without improvement")]] * 9


def test_tolerances_are_those_of_allclose() -> None:
    near = [step_of(number, losses={"total": replace(ONES, sum=4.0 + number * 1e-7)}) for number in range(3)]

    assert symptoms(UnchangedTensor(), *near)[-1] == []
    assert symptoms(UnchangedTensor(rtol=1e-5, atol=1e-8), *near)[-1] == [""]
    assert symptoms(UnchangedTensor(rtol=1e-9), *near)[-1] == []


def test_more_steps_can_be_asked_for() -> None:
    views = [step_of(number, losses={"total": ONES}) for number in range(5)]

    assert [len(found) for found in symptoms(UnchangedTensor(num_steps=5), *views)] == [0, 0, 0, 0, 1]


def test_zeros_and_nan_are_passed_over() -> None:
    views = [step_of(number, losses={"zero": ZEROS, "nan": NAN}) for number in range(5)]

    assert symptoms(UnchangedTensor(), *views) == [[]] * 5
    assert symptoms(UnchangedTensor(equal_nan=True), *views)[-1] == [""]


def test_a_tensor_is_compared_with_the_last_step_that_recorded_it() -> None:
    views = [step_of(0, losses={"a": ONES}), step_of(1, losses={"b": ONES}), step_of(2, losses={"a": ONES, "b": ONES}),
             step_of(3, losses={"b": ONES}), step_of(4, losses={"a": ONES})]

    found = said(UnchangedTensor(), *views)

    assert [item.message for item in found[3] if isinstance(item, Symptom)] == [
        '"loss:b" did not change over 3 recorded steps, from step 1 to 3.'
    ]
    assert [item.message for item in found[4] if isinstance(item, Symptom)] == [
        '"loss:a" did not change over 3 recorded steps, from step 0 to 4.'
    ]


def test_gradients_stand_still_all_of_them_or_none() -> None:
    def steps(other: float) -> list[StepView]:
        return [step_of(number, gradients={"a": summary(1.0), "b": summary(1.0, total=other * number)})
                for number in range(3)]

    assert symptoms(UnchangedTensor(), *steps(0.0))[-1] == [""]
    assert symptoms(UnchangedTensor(), *steps(1.0))[-1] == []


@pytest.mark.parametrize(("peak", "found"), [(1e9, []), (1e3, [""])])
def test_a_loss_that_converged_to_the_last_bit_may_stand_still(peak: float, found: list[str]) -> None:
    views = [step_of(0, losses={"total": summary(peak)}),
             *(step_of(number, losses={"total": ONES}) for number in range(1, 6))]

    assert symptoms(UnchangedTensor(), *views)[-1] == found


def test_gradients_of_a_converged_model_may_stand_still() -> None:
    views = [step_of(0, gradients={"a": 1.0}), *(step_of(number, gradients={"a": 1e-4}) for number in range(1, 6))]

    assert symptoms(UnchangedTensor(), *views) == [[]] * 6


@pytest.mark.parametrize("step", [Step(0, 0, skipped=True), Step(0, 0, "", Mode.EVAL)])
def test_only_steps_that_train_are_judged(step: Step) -> None:
    views = [step_of(replace(step, number=number), losses={"total": ONES}) for number in range(3)]

    assert symptoms(UnchangedTensor(), *views) == [[]] * 3


def frozen(steps: int, *, gradient: float | None = 1.0, rate: float = 0.1, dtype: str = "float32") -> list[StepView]:
    """Return steps in which "a" stays and "b" moves, with a gradient for both."""
    mine = {} if gradient is None else {"a": summary(gradient)}
    return [
        step_of(number, weights={"a": summary(1.0), "b": summary(1.0, total=number)},
                gradients={**mine, "b": summary(1.0)}, rate=rate, dtype=dtype)
        for number in range(steps)
    ]


def test_a_weight_that_stays_although_it_has_a_gradient_is_in_no_optimizer() -> None:
    found = said(FrozenParameter(), *frozen(10))

    assert found[8] == [Unjudged("needs 10 steps in which a weight could change; this run has 9")]
    (symptom,) = found[9]
    assert isinstance(symptom, Symptom)
    assert symptom.since == 0
    assert symptom.message == (
        'Of 2 parameters, "a" did not change over 10 recorded steps, from step 0 to 9, although gradients reach them.'
    )
    assert symptom.remedy.startswith("Pass them to an optimizer")


def test_a_weight_that_stays_although_an_optimizer_holds_it_speaks_for_a_low_learning_rate() -> None:
    held = StepView.of(0, {fact(Fact.OUTSIDE_OPTIMIZER): 0.0})

    (symptom,) = said(FrozenParameter(), held, *frozen(10))[-1]

    assert isinstance(symptom, Symptom)
    assert [item.cause for item in symptom.causes] == [Cause.LEARNING_RATE_TOO_LOW]


def test_a_weight_without_gradient_may_be_frozen_on_purpose() -> None:
    assert symptoms(FrozenParameter(), *frozen(20, gradient=None)) == [[]] * 20


def test_a_weight_whose_gradient_is_exactly_zero_gets_none() -> None:
    assert symptoms(FrozenParameter(), *frozen(10, gradient=0.0))[-1] == ["gradient zero"]


def test_a_bias_before_a_batch_norm_may_stay() -> None:
    assert symptoms(FrozenParameter(), *frozen(20, gradient=1e-9)) == [[]] * 20


def test_a_bias_that_what_follows_cancels_may_stay_also_where_its_weight_is_parametrized() -> None:
    made_of = "d.parametrizations.weight.original"
    views = [step_of(number, weights={"d.bias": summary(1.0), made_of: summary(1.0 + number)},
                     gradients={"d.bias": 0.0, made_of: 1.0}) for number in range(20)]

    assert symptoms(FrozenParameter(), *views) == [[]] * 20


def test_where_no_step_was_meant_to_change_anything_nothing_is_frozen() -> None:
    assert said(FrozenParameter(), *frozen(12, rate=0.0))[-1] == [
        Unjudged("the learning rate was 0 in every recorded step")
    ]


def test_weights_too_coarse_for_their_updates_are_told_so() -> None:
    (found,) = said(FrozenParameter(), *frozen(10, dtype="bfloat16"))[-1]

    assert isinstance(found, Symptom)
    assert found.remedy.startswith("These weights are bfloat16, whose precision is too low for small updates")


def test_a_converged_model_may_stand_still() -> None:
    views = [step_of(0, weights={"a": summary(1.0)}, gradients={"a": 1.0}),
             *(step_of(number, weights={"a": summary(1.0, total=5)}, gradients={"a": 1e-4}) for number in range(1, 20))]

    assert symptoms(FrozenParameter(), *views) == [[]] * 20


def test_a_push_before_the_last_change_does_not_count() -> None:
    moving = [step_of(number, weights={"a": summary(1.0, total=number)}, gradients={"a": 1.0}) for number in range(3)]
    idle = [step_of(number, weights={"a": summary(1.0, total=2)}, gradients={"a": 0.0}) for number in range(3, 12)]

    assert symptoms(FrozenParameter(), *moving, *idle)[-1] == ["gradient zero"]


def silenced(*, update: float, moving: int) -> Symptom:
    """Return what is told where a layer moved in so many steps and then answers nothing to any sample."""
    views = []
    for number in range(moving + 12):
        dead = number >= moving
        view = {Key(Kind.WEIGHT, "a.weight"): summary(1.0, total=1.0 if dead else 1.0 + number / 100),
                Key(Kind.GRADIENT, "a.weight"): summary(0.0 if dead else 1.0),
                Key(Kind.UPDATE, "a.weight"): summary(0.0 if dead else update),
                Key(Kind.OUTPUT, "a"): Summary(count=4, zeros=4) if dead else summary(1.0),
                Key(Kind.OUTPUT, "b"): summary(1.0), Key(Kind.LEARNING_RATE, "group0"): 0.1}
        views.append(StepView.of(number, view))
    (found,) = [item for item in said(FrozenParameter(), *views)[-1] if isinstance(item, Symptom)]
    return found


def test_what_moved_until_a_step_that_was_too_large_speaks_for_the_learning_rate() -> None:
    thrown, faded = silenced(update=0.5, moving=3), silenced(update=1e-3, moving=3)

    assert [item.cause for item in thrown.causes] == ["learning-rate-too-high", "dead-relu"]
    assert [item.cause for item in faded.causes] == ["dead-relu", "learning-rate-too-high"]
    assert thrown.causes[0].remedy.startswith("Lower the learning rate from 0.1 to 0.01 and start again")


def test_what_never_moved_began_so() -> None:
    assert [item.cause for item in silenced(update=0.5, moving=0).causes[:2]] == ["dead-relu", "detached-graph"]


def test_what_is_not_finite_is_left_to_the_rule_for_it() -> None:
    views = [step_of(number, weights={"a": NAN}, gradients={"a": NAN}) for number in range(12)]

    assert symptoms(FrozenParameter(), *views) == [[]] * 12


@pytest.mark.parametrize(
    ("rule", "steps"),
    [(FrozenParameter(), frozen(9)), (UnchangedTensor(), [step_of(number, losses={"a": ONES}) for number in range(2)]),
     (UnchangedTensor(), [step_of(number, losses={"a": summary(number + 1.0)}, gradients={"b": ONES})
                          for number in range(2)])],
)
def test_until_enough_steps_are_known_nothing_is_called_well(rule: Rule, steps: list[StepView]) -> None:
    assert [[type(item) for item in items] for items in said(rule, *steps)] == [[Unjudged]] * len(steps)


@pytest.mark.parametrize(
    ("rule", "steps"),
    [(FrozenParameter(), frozen(30)),
     (UnchangedTensor(num_steps=5), [step_of(number, losses={"a": ONES}) for number in range(30)])],
)
def test_what_is_open_stays_open_over_a_restart_if_nothing_changed(rule: Rule, steps: list[StepView]) -> None:
    judge = Judge(rule, SystemClock())
    events = [event for view in steps for event in judge.take(view)[0]]
    judge.new_attempt("p0")
    events += [event for view in steps for event in judge.take(view)[0]]

    assert [event.state for event in events] == [FindingState.OPEN]


def test_a_few_gradients_do_not_make_up_for_losses_that_were_seen_often_enough() -> None:
    losses = [step_of(number, losses={"a": ONES}) for number in range(4)]

    found = said(UnchangedTensor(), *losses, step_of(4, losses={"a": ONES}, gradients={"b": ONES}))

    assert [type(item) for item in found[-1]] == [Unjudged, Symptom]


def spread(steps: list[StepView], numbers: Sequence[int]) -> list[StepView]:
    """Return the same views as if these steps had been recorded of a longer training."""
    for view, number in zip(steps, numbers, strict=True):
        view.step = replace(view.step, number=number)
    return steps


def test_under_a_budget_a_run_counts_from_its_first_step_over_all_gaps() -> None:
    numbers = [*range(0, 35, 7), *range(235, 270, 7)]

    (weight,) = said(FrozenParameter(), *spread(frozen(10), numbers))[-1]
    still = [step_of(number, losses={"a": ONES}) for number in range(10)]
    (loss,) = said(UnchangedTensor(), *spread(still, numbers))[-1]

    assert isinstance(weight, Symptom)
    assert isinstance(loss, Symptom)
    assert (weight.since, loss.since) == (0, 0)
    assert loss.message == '"loss:a" did not change over 10 recorded steps, from step 0 to 263.'
    assert "over 10 recorded steps, from step 0 to 263" in weight.message


def table(*rows: Summary, paths: tuple[str, ...] = ("a", "b")) -> Table:
    view = step_of(weights=dict(zip(paths, rows, strict=True)))
    columns = view.columns(Kind.WEIGHT)
    return table_of_rows(columns.subjects, columns.moments)


def signatures(rows: NDArray[np.float64]) -> set[int]:
    return set(table_of_rows((), rows).signatures.tolist())


def test_any_bit_of_any_moment_changes_the_signature() -> None:
    rows = np.ones((11, len(MOMENT_FIELDS)))
    for column in range(len(MOMENT_FIELDS)):
        rows[column + 1, column] = np.nextafter(1.0, 2.0)

    assert len(signatures(rows)) == 11


def test_swapped_moments_have_another_signature() -> None:
    rows = np.arange(20.0).reshape(2, 10)
    rows[1] = rows[0][::-1]

    assert len(signatures(rows)) == 2


def test_zero_of_either_sign_is_one_number() -> None:
    rows = np.zeros((2, 10))
    rows[1] = -0.0

    assert len(signatures(rows)) == 1


def test_runs_are_counted_tensor_by_tensor_and_survive_json() -> None:
    memory: dict[str, object] = {}
    counts = []
    for item in (ONES, ONES, NAN, ONES):
        counts.append(runs_of(table(ONES, item), memory, step=len(counts)).length.tolist())
        memory = json.loads(json.dumps(memory))

    assert counts == [[1, 1], [2, 2], [3, 1], [4, 1]]


def test_runs_follow_tensors_that_come_and_go() -> None:
    memory: dict[str, object] = {}

    first = runs_of(table(ONES, ONES), memory, step=0)
    second = runs_of(table(ONES, ONES, paths=("b", "c")), memory, step=7)
    third = runs_of(table(ONES, ONES, ONES, paths=("c", "a", "b")), memory, step=200)

    assert [runs.length.tolist() for runs in (first, second, third)] == [[1, 1], [2, 1], [2, 2, 3]]
    assert [runs.since.tolist() for runs in (first, second, third)] == [[0, 0], [0, 7], [7, 0, 0]]


def test_a_run_begins_anew_where_the_tensor_changed() -> None:
    memory: dict[str, object] = {}
    changed = replace(ONES, sum=5.0)
    items = ((0, ONES), (7, ONES), (14, changed), (214, changed))

    since = [runs_of(table(item, ONES), memory, step=step).since.tolist() for step, item in items]

    assert since == [[0, 0], [0, 0], [14, 0], [14, 0]]


def in_batches(steps: int, size: float, gradient: float) -> list[StepView]:
    key = {kind: Key(kind, "fc.weight") for kind in (Kind.WEIGHT, Kind.GRADIENT)}
    return [StepView.of(step, {key[Kind.WEIGHT]: ONES, key[Kind.GRADIENT]: summary(gradient),
                               Key(Kind.WEIGHT, "out.weight"): summary(1.0 + step), **facts({Fact.BATCH_SIZE: size}),
                               Key(Kind.GRADIENT, "out.weight"): summary(1.0)}) for step in range(steps)]


@pytest.mark.parametrize(("steps", "size", "found"), [(30, 1.0, False), (300, 1.0, True), (12, 32.0, True)])
def test_samples_without_a_gradient_are_counted_and_not_steps(steps: int, size: float, found: bool) -> None:
    assert any(symptoms(FrozenParameter(), *in_batches(steps, size, gradient=0.0))) is found


def test_a_weight_that_gradients_reach_and_nothing_moves_takes_ten_steps_of_any_size() -> None:
    assert symptoms(FrozenParameter(), *in_batches(12, 1.0, gradient=1.0))[-1] == ["not moved"]


@pytest.mark.parametrize(("layer", "frozen", "found"), [
    ("BatchNorm1d", 2.0, []), ("BatchNorm1d", 0.0, ["not moved"]), ("Linear", 2.0, ["not moved"]),
])
def test_norms_of_a_frozen_body_are_left_out_of_the_optimizer_on_purpose(
    layer: str, frozen: float, found: list[str]
) -> None:
    weight, gradient = Key(Kind.WEIGHT, "body.1.weight"), Key(Kind.GRADIENT, "body.1.weight")
    all_facts = facts(
        {Fact.FROZEN: frozen, Fact.OUTSIDE_OPTIMIZER: 1.0, (Fact.OUTSIDE_OPTIMIZER, "body.1.weight"): 1.0}
    )
    views = [
        StepView.of(step, {weight: ONES, gradient: summary(1.0), **all_facts}, layers={weight: layer, gradient: layer})
        for step in range(12)
    ]

    assert symptoms(FrozenParameter(), *views)[-1] == found
