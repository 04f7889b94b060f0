"""PoorWeightInitialization."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

import numpy as np
import pytest

from barograph.measures.summary import summarize
from barograph.model.finding import Symptom
from barograph.model.key import Key, Kind
from barograph.model.records import UnitSummaries
from barograph.model.step import Mode, Step
from barograph.model.summary import Summary
from barograph.rules.base import Memory, Rule, Unjudged
from barograph.rules.initialization import PoorWeightInitialization
from barograph.runs.reading.view import StepView

LOSS = Key(Kind.LOSS, "total")
RANDOM = np.random.default_rng(0)

DIFFERENT = UnitSummaries(64, RANDOM.normal(size=(8, 7)))
EQUAL = UnitSummaries(64, np.tile(RANDOM.normal(size=7), (8, 1)))


def with_variance(variance: float) -> Summary:
    return Summary(count=1000, min=-1.0, max=1.0, sum=0.0, sum_sq=1000 * variance, sum_abs=1.0)


def step_of(
    number: int | Step,
    *,
    loss: float = 2.3,
    units: Mapping[str, UnitSummaries] | None = None,
    variances: Sequence[float] = (1.0, 1.0, 1.0),
    layers: Sequence[str] = ("Linear", "Linear", "Linear"),
    gradients: Mapping[str, float] | None = None,
    gain: float | None = None,
    rate: float | None = None,
) -> StepView:
    """Return a view of modules "0", "1", "2" … with these variances; gradients are spread by path.

    Where `gain` is given, each module has eight units and weights that multiply mean squares so many times.
    """
    records: dict[Key, Summary | float] = {
        Key(Kind.OUTPUT, str(index)): with_variance(variance) for index, variance in enumerate(variances)
    }
    classes = {key: layers[index] for index, key in enumerate(records)}
    for path, spread in (gradients or {}).items():
        records[Key(Kind.GRADIENT, path)] = summarize(spread * np.linspace(-1, 1, 2000).astype(np.float32))
        classes[Key(Kind.GRADIENT, path)] = "Linear"
    records[LOSS] = loss
    if rate is not None:
        records[Key(Kind.LEARNING_RATE, "group0")] = rate
    found = {Key(Kind.OUTPUT, path): item for path, item in (units or {}).items()}
    if gain is not None:
        weight = Summary(count=512, min=-1.0, max=1.0, sum=0.0, sum_sq=8 * gain, sum_abs=1.0)
        paths = [str(index) for index in range(len(variances))]
        records.update({Key(Kind.WEIGHT, f"{path}.weight"): weight for path in paths})
        found.update({Key(Kind.OUTPUT, path): DIFFERENT for path in paths})
    return StepView.of(number, records, layers=classes, units=found)


def said(*views: StepView, rule: Rule = PoorWeightInitialization()) -> list[list[Symptom | Unjudged]]:  # noqa: B008
    memory: Memory = {}
    found = []
    for view in views:
        found.append(list(rule.judge(view, memory)))
        memory = json.loads(json.dumps(memory))
    return found


def subjects(*views: StepView) -> list[list[str]]:
    return [[item.subject for item in found if isinstance(item, Symptom)] for found in said(*views)]


def test_units_that_all_give_the_same_began_equal() -> None:
    (found, *_) = said(step_of(3, units={"0": EQUAL, "1": DIFFERENT, "2": EQUAL}))[0]

    assert isinstance(found, Symptom)
    assert found.subject == "equal units"
    assert found.message == ('All units of "0" and "2" are identical: they were initialized equal and get equal '
                             'gradients.')
    assert [item.key.path for item in found.evidence if item.key] == ["0", "2"]


def test_units_that_differ_are_well() -> None:
    assert said(step_of(3, units={"0": DIFFERENT, "1": DIFFERENT})) == [[]]


def test_equal_but_for_rounding_is_equal() -> None:
    almost = UnitSummaries(64, EQUAL.columns * (1 + 1e-6 * RANDOM.normal(size=(8, 7))))
    nearly = UnitSummaries(64, EQUAL.columns * (1 + 1e-2 * RANDOM.normal(size=(8, 7))))

    assert subjects(step_of(3, units={"0": almost})) == [["equal units"]]
    assert subjects(step_of(3, units={"0": nearly})) == [[]]


@pytest.mark.parametrize("number", [0, 1, 2])
def test_a_layer_that_begins_at_zero_on_purpose_has_two_steps_to_move(number: int) -> None:
    zero = UnitSummaries(64, np.zeros((8, 7)))

    assert subjects(step_of(number, units={"2": zero})) == [[]]
    assert subjects(step_of(3, units={"2": zero})) == [["equal units"]]


def test_units_that_gave_the_same_before_the_first_update_began_equal_though_they_part() -> None:
    found = said(step_of(0, units={"0": EQUAL, "1": EQUAL, "2": DIFFERENT}),
                 *(step_of(number, units={"0": DIFFERENT, "1": DIFFERENT, "2": DIFFERENT}) for number in (3, 6)))

    assert [[type(item).__name__ for item in items] for items in found] == [["Unjudged"], ["Symptom"], ["Symptom"]]
    assert getattr(found[1][0], "message", "").startswith('All units of "0" and "1" were identical at step 0: ')
    assert getattr(found[1][0], "since", None) == 0


@pytest.mark.parametrize("units", [
    {"0": DIFFERENT, "1": DIFFERENT, "2": EQUAL},  # the last layer, which the labels draw apart
    {"0": UnitSummaries(64, np.zeros((8, 7))), "1": DIFFERENT, "2": DIFFERENT},  # zero on purpose
], ids=["last", "zero"])
def test_what_may_begin_equal_is_let_pass(units: dict[str, UnitSummaries]) -> None:
    later = dict.fromkeys(units, DIFFERENT)

    assert subjects(step_of(0, units=units), step_of(3, units=later), step_of(6, units=later)) == [[], [], []]


def with_its_own_weights(units: UnitSummaries, *, layer: str = "ReLU") -> StepView:
    """A layer of Keras with its activation within."""
    key = Key(Kind.OUTPUT, "hidden")
    weight = Summary(count=64, min=0.5, max=0.5, sum=32.0, sum_sq=16.0, sum_abs=32.0)
    return StepView.of(3, {key: with_variance(1.0), Key(Kind.WEIGHT, "hidden.kernel"): weight},
                       layers={key: layer}, units={key: units})


def test_a_layer_with_its_activation_within_is_judged_by_its_answers() -> None:
    assert subjects(with_its_own_weights(EQUAL)) == [["equal units"]]
    assert subjects(with_its_own_weights(DIFFERENT)) == [[]]


def test_a_layer_whose_units_are_all_dead_did_not_begin_equal_for_that() -> None:
    assert subjects(with_its_own_weights(UnitSummaries(64, np.zeros((8, 7))))) == [[]]


@pytest.mark.parametrize(("path", "weight"), [("0", "0.w"), ("Dense_0", "Dense_0.kernel"), ("w1", "w1")])
def test_a_layer_that_is_fed_with_nothing_did_not_begin_equal_for_that(path: str, weight: str) -> None:
    key, drawn = Key(Kind.OUTPUT, path), Summary(count=64, min=-1.0, max=1.0, sum=0.0, sum_sq=16.0, sum_abs=32.0)
    view = StepView.of(3, {key: with_variance(0.0), Key(Kind.WEIGHT, weight): drawn}, layers={key: "Linear"},
                       units={key: UnitSummaries(64, np.zeros((8, 7)))})  # fmt: skip
    assert subjects(view) == [[]]


def test_an_activation_alone_is_as_its_layer_is() -> None:
    assert subjects(step_of(3, layers=("Linear", "ReLU", "Linear"), units={"1": EQUAL})) == [[]]


def test_a_head_of_one_unit_is_no_symmetry() -> None:
    assert subjects(step_of(3, units={"2": UnitSummaries(64, np.ones((1, 7)))})) == [[]]


def test_outputs_that_grow_from_layer_to_layer_come_of_weights_too_large() -> None:
    (found, *_) = said(step_of(3, variances=(1.0, 25.0, 625.0, 15625.0), layers=["Linear"] * 4, gain=50.0))[0]

    assert isinstance(found, Symptom)
    assert found.subject == "growing outputs"
    assert found.evidence[0].value == pytest.approx(25.0)
    assert "about 5 times smaller" in found.remedy


@pytest.mark.parametrize(
    ("variances", "layers"),
    [
        ((1.0, 9.0, 1e6), ("Linear", "Linear", "Linear")),
        ((1.0, 0.01, 0.01), ("Linear", "Linear", "Linear")),
        ((1.0, 100.0, 1.0), ("Linear", "BatchNorm1d", "Linear")),
        ((1e-4, 1.0, 1.0, 1.0), ("Linear", "LayerNorm", "Linear", "Linear")),
        ((1.0, 100.0), ("Linear", "Linear")),
        ((1.0, 100.0, 1.0), ("Linear", "ReLU", "Linear")),
        ((0.0, 100.0, 1.0), ("Linear", "Linear", "Linear")),
    ],
    ids=["nine times, any head", "shrinking", "a norm between", "with norms", "two layers", "an activation", "zero"],
)
def test_other_growth_is_let_pass(variances: tuple[float, ...], layers: tuple[str, ...]) -> None:
    assert subjects(step_of(3, variances=variances, layers=layers, gain=50.0)) == [[]]


def test_towers_side_by_side_on_scales_of_their_own_do_not_grow() -> None:
    assert subjects(step_of(3, variances=(0.01, 3e5, 3e4, 1.0), layers=["Linear"] * 4, gain=1 / 3)) == [[]]


def test_weights_that_were_recorded_in_an_earlier_step_count() -> None:
    first = step_of(3, variances=(1.0, 25.0, 1.0), gain=50.0)
    second = step_of(6, variances=(1.0, 25.0, 1.0), units={"0": DIFFERENT, "1": DIFFERENT})

    assert subjects(first, second) == [["growing outputs"], ["growing outputs"]]


def standing(losses: Sequence[float], gradients: Mapping[str, float]) -> list[list[str]]:
    return subjects(*(step_of(number, loss=loss, gradients=gradients) for number, loss in enumerate(losses)))


def test_gradients_that_hardly_spread_while_the_loss_stands_still_are_narrow() -> None:
    gradients = {"0.weight": 1e-6, "2.weight": 1.0}

    assert standing([2.3] * 6, gradients) == [[]] * 5 + [["narrow gradients"]]


@pytest.mark.parametrize(
    ("losses", "gradients"),
    [
        ([2.3] * 8, {"0.weight": 1e-3, "2.weight": 1.0}),
        ([2.3, 2.29, 2.28, 2.27, 2.26, 2.25, 2.24], {"0.weight": 1e-6, "2.weight": 1.0}),
        ([2.3, 2.3, 40.0, 30.0, 8.0, 5.0, 4.0], {"0.weight": 1e-6, "2.weight": 1.0}),
        ([2.3] * 8, {"0.bias": 1e-6, "2.weight": 1.0}),
    ],
    ids=["wide enough", "the loss falls", "the loss was thrown up", "only a bias is narrow"],
)
def test_other_gradients_are_let_pass(losses: list[float], gradients: dict[str, float]) -> None:
    assert [found for found in standing(losses, gradients) if found] == []


NARROW = {"0.weight": 1e-6, "2.weight": 1.0}


def test_while_the_learning_rate_warms_up_nothing_is_narrow() -> None:
    warming = [step_of(number, gradients=NARROW, rate=1e-4 * (number + 1)) for number in range(10)]
    constant = [step_of(number, gradients=NARROW, rate=1e-4) for number in range(10)]

    assert [found for found in subjects(*warming) if found] == []
    assert ["narrow gradients"] in subjects(*constant)


def test_narrow_gradients_that_gain_on_the_others_are_let_pass() -> None:
    gaining = [step_of(number, gradients={"0.weight": 1e-7 * 2**number, "2.weight": 1.0}) for number in range(10)]

    assert [found for found in subjects(*gaining) if found] == []


def test_narrow_gradients_are_gone_when_the_loss_has_fallen() -> None:
    sick = [step_of(number, gradients=NARROW) for number in range(10)]
    still = [step_of(number, gradients=NARROW, loss=2.29) for number in range(60, 70)]
    fallen = [step_of(number, gradients=NARROW, loss=1.5) for number in range(70, 80)]

    found = said(*sick, *still, *fallen)

    assert [[type(item) for item in items] for items in found[10:20]] == [[Unjudged]] * 10
    assert found[-1] == []


def test_equal_units_do_not_go_with_a_loss_that_falls() -> None:
    sick = [step_of(number, gradients=NARROW, units={"0": EQUAL}) for number in range(10)]
    fallen = [step_of(number, gradients=NARROW, loss=1.5) for number in range(70, 80)]

    assert [type(item) for item in said(*sick, *fallen)[-1]] == [Unjudged]


def test_under_a_budget_the_first_few_steps_that_were_recorded_are_judged() -> None:
    sparse = [step_of(number, variances=(1.0, 25.0, 1.0), gain=50.0) for number in (7, 14, 21, 28, 235)]

    assert subjects(*sparse) == [["growing outputs"]] * 3 + [[], []]


def test_what_comes_after_the_first_steps_is_not_judged_so_the_finding_stays() -> None:
    late = step_of(60, units={"0": EQUAL}, variances=(1.0, 1e6, 1.0))

    assert said(late) == [[Unjudged("no step between 3 and 50 was recorded with outputs")]]


def test_growth_while_training_is_no_matter_of_initialization() -> None:
    well = [step_of(number, units={"0": DIFFERENT}) for number in (3, 6, 9)]

    assert subjects(*well, step_of(34, variances=(1.0, 1e6, 1.0), gain=50.0)) == [[], [], [], []]
    assert subjects(step_of(34, variances=(1.0, 1e6, 1.0), gain=50.0)) == [["growing outputs"]]


def test_evaluation_is_not_judged() -> None:
    assert subjects(step_of(Step(3, 3, "", Mode.EVAL), units={"0": EQUAL})) == [[]]
