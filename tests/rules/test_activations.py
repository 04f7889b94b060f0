"""DeadRelu and SaturatedActivation."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

import numpy as np
import pytest

from barograph.model.finding import Severity, Symptom
from barograph.model.key import Key, Kind
from barograph.model.records import UnitSummaries
from barograph.model.step import Mode, Step
from barograph.model.summary import Summary
from barograph.rules.activations import DeadRelu, SaturatedActivation
from barograph.rules.base import Memory, Rule, Unjudged
from barograph.rules.words import HE
from barograph.runs.reading.view import StepView

SOME = Summary(count=10, min=0.0, max=1.0, sum=1.0, sum_sq=1.0, sum_abs=1.0)


def units_of(outputs: Sequence[Sequence[float]]) -> UnitSummaries:
    """Return the per-unit summaries of outputs, unit by unit, written plainly."""
    rows = [
        [sum(value == 0 for value in unit), 0, 0, min(unit), max(unit), sum(unit), sum(value * value for value in unit)]
        for unit in outputs
    ]
    return UnitSummaries(len(outputs[0]), np.array(rows, float))


def relu_units(dead: int, alive: int, count: int = 100) -> UnitSummaries:
    return units_of([[0.0] * count] * dead + [[0.0, 1.0] * (count // 2)] * alive)


def step_of(
    number: int | Step, units: Mapping[Key, tuple[str, UnitSummaries]], *, outputs: Mapping[str, str] | None = None,
    loss: float | None = None,
) -> StepView:
    """Return a view: modules in `outputs` ran in that order; `units` says which layer has which units."""
    order: dict[Key, str] = {Key(Kind.OUTPUT, path): layer for path, layer in (outputs or {}).items()}
    order.update({key: layer for key, (layer, _) in units.items()})
    records: dict[Key, Summary | float] = dict.fromkeys(order, SOME)
    records[Key(Kind.LEARNING_RATE, "group0")] = 0.1
    if loss is not None:
        records[Key(Kind.LOSS, "total")] = loss
    return StepView.of(number, records, layers=order, units={key: found for key, (_, found) in units.items()})


def relu(number: int, dead: int, alive: int, *, count: int = 100, loss: float | None = None) -> StepView:
    return step_of(number, {Key(Kind.OUTPUT, "act"): ("ReLU", relu_units(dead, alive, count))}, loss=loss)


def said(rule: Rule, *views: StepView) -> list[list[Symptom | Unjudged]]:
    memory: Memory = {}
    found = []
    for view in views:
        found.append(list(rule.judge(view, memory)))
        memory = json.loads(json.dumps(memory))
    return found


def test_a_layer_with_most_units_dead_is_sick() -> None:
    (found,) = said(DeadRelu(), relu(20, 6, 4))[0]

    assert isinstance(found, Symptom)
    assert found.subject == "act"
    assert found.message == '6 of 10 units of "act" (ReLU) are dead: each is zero in more than 99% of 100 outputs.'
    assert found.remedy.startswith("Lower the learning rate from 0.1 to 0.01 and start again")
    assert found.evidence[0].value == 0.6


def test_a_layer_with_half_its_units_dead_is_let_pass() -> None:
    assert said(DeadRelu(), relu(20, 5, 5)) == [[]]


def test_a_unit_that_answers_once_in_a_hundred_is_alive() -> None:
    rare = units_of([[0.0] * 99 + [1.0]] * 10)
    rarer = units_of([[0.0] * 199 + [1.0]] * 10)

    assert said(DeadRelu(), step_of(20, {Key(Kind.OUTPUT, "act"): ("ReLU", rare)})) == [[]]
    assert said(DeadRelu(), step_of(20, {Key(Kind.OUTPUT, "act"): ("ReLU", rarer)})) != [[]]


def test_small_batches_are_gathered_until_there_are_enough_outputs() -> None:
    found = said(DeadRelu(), *(relu(number, 6, 4, count=40) for number in (20, 40, 60)))

    assert [type(items[0]).__name__ for items in found] == ["Unjudged", "Unjudged", "Symptom"]
    assert "of 120 outputs" in getattr(found[2][0], "message", "")
    assert getattr(found[2][0], "since", None) == 20
    assert found[0] == [Unjudged("not enough outputs of ReLU units yet to call one dead")]


def test_under_a_budget_outputs_are_gathered_over_gaps() -> None:
    found = said(DeadRelu(), *(relu(number, 6, 4, count=40) for number in (21, 28, 228, 235)))

    assert [type(items[0]).__name__ for items in found] == ["Unjudged", "Unjudged", "Symptom", "Unjudged"]
    assert getattr(found[2][0], "since", None) == 21


def test_a_unit_that_is_silent_in_one_small_batch_and_answers_in_the_next_is_alive() -> None:
    first, second = relu(20, 10, 0, count=50), relu(40, 0, 10, count=50)

    assert said(DeadRelu(), first, second)[-1] == []


def test_the_first_steps_are_not_judged_nor_each_one_after() -> None:
    found = said(DeadRelu(), *(relu(number, 10, 0) for number in range(25)))

    assert [number for number, items in enumerate(found) if isinstance(items[0], Symptom)] == [10, 20]


def test_pixels_of_the_input_that_are_always_zero_are_no_units() -> None:
    first = step_of(20, {Key(Kind.INPUT, "fc1"): ("Linear", relu_units(10, 0))}, outputs={"fc1": "Linear"})

    assert said(DeadRelu(), first) == [
        [Unjudged("no units after a relu were recorded")]
    ]


def test_a_relu_called_as_a_function_is_seen_before_the_next_module() -> None:
    view = step_of(20, {Key(Kind.INPUT, "fc2"): ("relu", relu_units(8, 2))}, outputs={"fc1": "Linear", "fc2": "Linear"})

    (found,) = said(DeadRelu(), view)[0]

    assert isinstance(found, Symptom)
    assert found.message.startswith('8 of 10 units after the relu before "fc2" are dead')
    assert found.evidence[0].key == Key(Kind.INPUT, "fc2")


@pytest.mark.parametrize("between", [{}, {"pool": "MaxPool2d", "flat": "Flatten", "drop": "Dropout"}])
def test_a_relu_module_is_not_judged_twice(between: dict[str, str]) -> None:
    view = step_of(
        20,
        {Key(Kind.OUTPUT, "act"): ("ReLU", relu_units(8, 2)), Key(Kind.INPUT, "fc2"): ("relu", relu_units(8, 2))},
        outputs={"fc1": "Linear", "act": "ReLU", **between, "fc2": "Linear"},
    )

    assert [item.subject for item in said(DeadRelu(), view)[0] if isinstance(item, Symptom)] == ["act"]


@pytest.mark.parametrize(("dead", "losses", "expected"), [
    (6, (2.0, 0.9), []), (6, (2.0, 1.1), ["act"]), (10, (2.0, 0.9), ["act"]), (6, (-2.0, -3.0), ["act"]),
])
def test_a_layer_half_dead_in_a_model_that_learns_is_let_pass(
    dead: int, losses: tuple[float, float], expected: list[str]
) -> None:
    views = [relu(number, dead, 10 - dead, loss=loss) for number, loss in zip((0, 20), losses, strict=True)]

    assert [item.subject for item in said(DeadRelu(), *views)[1] if isinstance(item, Symptom)] == expected


def test_layers_are_judged_each_on_its_own() -> None:
    view = step_of(20, {Key(Kind.OUTPUT, "a"): ("ReLU", relu_units(10, 0)),
                        Key(Kind.OUTPUT, "b"): ("ReLU", relu_units(0, 10)),
                        Key(Kind.OUTPUT, "c"): ("ReLU6", relu_units(10, 0))})

    assert [item.subject for item in said(DeadRelu(), view)[0] if isinstance(item, Symptom)] == ["a", "c"]


def test_a_gate_of_one_unit_may_be_off() -> None:
    gate = "the layers after a relu have fewer than 4 units: they are outputs or gates"

    assert said(DeadRelu(), relu(20, 1, 0)) == [[Unjudged(gate)]]


def stepping(number: int, dead: int, *, update: float, bias: float, weight: float = 0.0) -> StepView:
    """Return a step of a layer of ten units, with its activation within as Keras has it, and weights of norm 1."""
    plain = step_of(number, {Key(Kind.OUTPUT, "act"): ("ReLU", relu_units(dead, 10 - dead))})
    records: dict[Key, Summary | float] = {
        Key(Kind.OUTPUT, "act"): SOME, Key(Kind.LEARNING_RATE, "group0"): 0.1,
        Key(Kind.WEIGHT, "act.kernel"): Summary(count=9, min=weight - 0.5, max=weight + 0.5, sum=9 * weight,
                                                sum_sq=1.0 + 9 * weight * weight),
        Key(Kind.WEIGHT, "act.bias"): Summary(count=10, min=bias, max=bias, sum=10 * bias, sum_sq=10 * bias * bias),
        Key(Kind.UPDATE, "act.kernel"): Summary(count=9, min=-update, max=update, sum_sq=update * update),
    }
    units = {Key(Kind.OUTPUT, "act"): found} if (found := plain.units(Key(Kind.OUTPUT, "act"))) else {}
    return StepView.of(number, records, layers={Key(Kind.OUTPUT, "act"): "ReLU"}, units=units)


def causes_of_death(*views: StepView) -> list[str]:
    found = [item for items in said(DeadRelu(), *views) for item in items if isinstance(item, Symptom)]
    return [str(item.cause) for item in found[-1].causes]


def test_units_that_were_alive_until_a_large_step_speak_for_the_learning_rate() -> None:
    views = [stepping(0, 0, update=0.6, bias=0.0), stepping(20, 10, update=1e-3, bias=-0.6)]

    assert causes_of_death(*views)[0] == "learning-rate-too-high"


def test_units_that_were_alive_and_died_of_small_steps_speak_for_themselves() -> None:
    views = [stepping(0, 0, update=1e-3, bias=0.0), stepping(20, 10, update=1e-3, bias=0.0)]

    assert causes_of_death(*views)[0] == "dead-relu"


def test_units_that_were_never_alive_speak_for_their_biases_whatever_the_steps() -> None:
    views = [stepping(0, 10, update=0.6, bias=-3.0), stepping(20, 10, update=1e-3, bias=-3.0)]

    assert causes_of_death(*views) == ["dead-relu", "initialization-scale"]


def test_units_that_were_never_alive_before_negative_weights_speak_for_these_rather_than_for_biases() -> None:
    views = [stepping(number, 10, update=1e-3, bias=-1.0, weight=-0.5) for number in (0, 20)]

    (found,) = [item for item in said(DeadRelu(), *views)[-1] if isinstance(item, Symptom)]

    assert found.causes[0].why == "100% of the units are dead; the mean weight before them is -0.5"
    assert found.causes[0].remedy == f"Initialize the weights around 0, as {HE} does."


def test_units_that_were_never_alive_after_weights_of_zero_speak_for_the_initialization() -> None:
    records: dict[Key, Summary | float] = {
        Key(Kind.OUTPUT, "act"): SOME, Key(Kind.WEIGHT, "act.kernel"): Summary(count=9, zeros=9, min=0.0, max=0.0)}
    units = {Key(Kind.OUTPUT, "act"): relu_units(10, 0)}
    views = [StepView.of(number, records, layers={Key(Kind.OUTPUT, "act"): "ReLU"}, units=units) for number in (0, 20)]

    assert causes_of_death(*views) == ["constant-initialization"]


def test_units_that_were_alive_before_negative_weights_do_not_speak_for_the_initialization() -> None:
    views = [stepping(number, dead, update=1e-3, bias=0.0, weight=-0.5)
             for number, dead in ((0, 0), (20, 10), (40, 10))]

    (found,) = [item for item in said(DeadRelu(), *views)[-1] if isinstance(item, Symptom)]

    assert not any("Initialize" in item.remedy for item in found.causes)


def squashed(number: int, layer: str, outputs: Sequence[Sequence[float]], *, kind: Kind = Kind.OUTPUT) -> StepView:
    key = Key(kind, "act")
    order = {"fc1": "Linear", "act": layer if kind is Kind.OUTPUT else "Linear", "fc2": "Linear"}
    return step_of(number, {key: (layer, units_of(outputs))}, outputs=order)


FLAT_TANH = [[0.9999, -0.9999, 1.0, -1.0]] * 6
STEEP_TANH = [[0.1, -0.5, 0.3, 0.0]] * 4
FLAT_SIGMOID = [[1e-5, 0.99999, 1.0, 0.0]] * 6
STEEP_SIGMOID = [[0.4, 0.6, 0.5, 0.3]] * 4


@pytest.mark.parametrize(
    ("layer", "outputs"),
    [("Tanh", FLAT_TANH + STEEP_TANH), ("Sigmoid", FLAT_SIGMOID + STEEP_SIGMOID),
     ("tanh", FLAT_TANH + STEEP_TANH), ("sigmoid", FLAT_SIGMOID + STEEP_SIGMOID)],
)
def test_a_layer_with_most_units_saturated_is_sick(layer: str, outputs: list[list[float]]) -> None:
    kind = Kind.OUTPUT if layer[0].isupper() else Kind.INPUT

    (found,) = said(SaturatedActivation(), squashed(20, layer, outputs, kind=kind))[0]

    assert isinstance(found, Symptom)
    assert found.message.startswith("6 of 10 units ")
    assert found.evidence[0].value == 0.6
    assert "lower the learning rate from 0.1 to 0.01" in found.remedy


@pytest.mark.parametrize(("layer", "outputs"), [("Tanh", FLAT_TANH[:4] + STEEP_TANH), ("Sigmoid", STEEP_SIGMOID * 2)])
def test_a_layer_with_half_its_units_saturated_or_fewer_is_well(layer: str, outputs: list[list[float]]) -> None:
    assert said(SaturatedActivation(), squashed(20, layer, outputs)) == [[]]


@pytest.mark.parametrize(("bound", "layer"), [(3.00, "Tanh"), (4.59, "Sigmoid")])
def test_inputs_at_the_documented_bounds_are_where_saturation_begins(bound: float, layer: str) -> None:
    def outputs(x: float) -> list[list[float]]:
        y = np.tanh(x) if layer == "Tanh" else 1 / (1 + np.exp(-x))
        return [[float(y)] * 4] * 8

    assert said(SaturatedActivation(), squashed(20, layer, outputs(bound * 1.01))) != [[]]
    assert said(SaturatedActivation(), squashed(20, layer, outputs(bound * 0.99))) == [[]]


def test_the_last_activation_is_the_models_answer() -> None:
    prediction = step_of(20, {Key(Kind.OUTPUT, "out"): ("Sigmoid", units_of(FLAT_SIGMOID * 2))},
                     outputs={"fc1": "Linear", "out": "Sigmoid"})

    assert said(SaturatedActivation(), prediction) == [
        [Unjudged("the only tanh or sigmoid is the model's last activation")]
    ]


def test_a_gate_of_a_few_units_may_be_shut() -> None:
    gate = squashed(20, "Sigmoid", FLAT_SIGMOID[:3])
    reason = "the layers after a tanh or sigmoid have fewer than 4 units: they are outputs or gates"

    assert said(SaturatedActivation(), gate) == [[Unjudged(reason)]]


def test_where_no_activation_was_recorded_that_is_the_reason() -> None:
    elsewhere = squashed(20, "Linear", STEEP_TANH)

    assert said(SaturatedActivation(), elsewhere) == [[Unjudged("no units after a tanh or sigmoid were recorded")]]


def test_evaluation_asks_for_nothing() -> None:
    needs = (*DeadRelu().needs, *SaturatedActivation().needs)

    assert all(need.schedule.modes == {Mode.TRAIN} and need.units for need in needs)


@pytest.mark.parametrize(("losses", "shut", "severity"), [
    ((2.0, 0.5), 6, "silent"), ((2.0, 1.9), 6, Severity.DOUBTFUL), ((2.0, 1.9), 10, None), ((2.0, 0.5), 10, None),
])
def test_saturation_is_let_pass_while_the_loss_falls_and_some_units_are_open(
    losses: tuple[float, float], shut: int, severity: Severity | str | None
) -> None:
    outputs = [[1.0, -1.0]] * shut + [[0.1, -0.1]] * (10 - shut)
    views = []
    for step, loss in zip((0, 20), losses, strict=True):
        views.append(step_of(step, {Key(Kind.OUTPUT, "act"): ("Tanh", units_of(outputs))}, loss=loss,
                             outputs={"fc1": "Linear", "act": "Tanh", "fc2": "Linear"}))

    found = said(SaturatedActivation(), *views)[-1]

    expected = [] if severity == "silent" else [severity]
    assert [item.severity for item in found if isinstance(item, Symptom)] == expected


def test_a_loss_that_began_far_above_chance_does_not_excuse_saturation_by_halving() -> None:
    outputs = [[1.0, -1.0]] * 6 + [[0.1, -0.1]] * 4
    plain = [step_of(step, {Key(Kind.OUTPUT, "act"): ("Tanh", units_of(outputs))}, loss=loss,
                     outputs={"fc1": "Linear", "act": "Tanh", "fc2": "Linear"})
             for step, loss in ((0, 20.0), (20, 3.0))]
    begun_at_chance = said(SaturatedActivation(), *plain)[-1]
    memory: Memory = {"facts": {"classes": 10.0}}
    begun_far = [list(SaturatedActivation().judge(view, memory)) for view in plain][-1]

    assert (len(begun_at_chance), len(begun_far)) == (0, 1)
