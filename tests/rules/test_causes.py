"""What the rules about tensors say is behind a finding, by the evidence of the run."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from barograph.model.cause import Cause, Suspicion
from barograph.model.facts import Fact, fact
from barograph.model.finding import Severity
from barograph.model.key import Key, Kind
from barograph.model.records import UnitSummaries
from barograph.model.summary import Summary
from barograph.rules.activations import DeadRelu, SaturatedActivation
from barograph.rules.base import Rule
from barograph.rules.builtin import RULES
from barograph.rules.gradients import GradientNormSpike, VanishingGradient
from barograph.rules.initialization import PoorWeightInitialization
from barograph.rules.suspects import ranked
from barograph.rules.updates import WeightUpdateRatio
from barograph.rules.weights import FrozenParameter, UnchangedTensor
from barograph.runs.reading.view import StepView
from literals import LOSS, RATE, Records, causes, last, of_norm, step, subjects, tensors

ACT = Key(Kind.OUTPUT, "act")
BEFORE = Key(Kind.OUTPUT, "fc")


def test_a_cause_is_said_once_with_its_strongest_evidence() -> None:
    found = ranked(Suspicion("b", 0.2), Suspicion("a", 0.1), None, Suspicion("b", 0.5, "seen"))

    assert [(item.cause, item.weight, item.why) for item in found] == [("b", 0.5, "seen"), ("a", 0.1, "")]


# W101


def updating(number: int, ratio: float, *more: Records, rate: float = 0.1, loss: float = 1.0) -> StepView:
    return step(number, tensors(Kind.WEIGHT, a__weight=10.0), tensors(Kind.UPDATE, a__weight=10.0 * ratio),
                tensors(Kind.GRADIENT, a__weight=1.0), {RATE: rate, LOSS: loss}, *more)


def after(number: int) -> StepView:
    return step(number, {LOSS: 9.0})


def test_a_step_too_large_points_at_the_rate_and_in_the_first_steps_at_the_warm_up() -> None:
    first = last(WeightUpdateRatio(), updating(3, 0.9, rate=1.0), after(4))
    later = last(WeightUpdateRatio(), updating(300, 0.9), after(301))

    assert causes(first) == {Cause.LEARNING_RATE_TOO_HIGH: 0.6, Cause.NO_WARMUP: 0.2}
    assert causes(later) == {Cause.LEARNING_RATE_TOO_HIGH: 0.6, Cause.EXPLODING_GRADIENT: 0.2}
    assert first.causes[0].why == "an update of 0.9 times the weights' norm at a learning rate of 1"
    assert first.causes[0].remedy == "Lower the learning rate from 1 to 0.0333."


def test_a_high_momentum_is_suspected_of_large_steps() -> None:
    momentum = {fact(Fact.MOMENTUM, "group0"): 0.999}

    found = last(WeightUpdateRatio(), updating(0, 1e-3, momentum), updating(300, 0.9), after(301))

    assert causes(found)[Cause.MOMENTUM_WRONG] == 0.5


def test_steps_too_small_point_at_the_rate_or_at_what_lowered_it() -> None:
    low = [updating(number, 1e-8) for number in range(10)]
    lowered = [updating(0, 1e-3), *(updating(number, 1e-8, rate=0.01) for number in range(1, 11))]

    assert causes(last(WeightUpdateRatio(), *low)) == {Cause.LEARNING_RATE_TOO_LOW: 0.6}
    assert causes(last(WeightUpdateRatio(), *lowered))[Cause.SCHEDULER_MISPLACED] == 0.4


def test_small_steps_are_doubtful_where_the_loss_does_not_fall_and_the_rate_does_not_rise() -> None:
    def course(fall: float, rate: float) -> list[StepView]:
        return [updating(number, 1e-5, rate=0.1 + rate * number, loss=2.0 - fall * number) for number in range(30)]

    found = last(WeightUpdateRatio(), *course(0.0, 0.0))

    assert (found.subject, found.severity) == ("small", Severity.DOUBTFUL)
    assert "and the loss has not fallen" in found.message
    assert subjects(WeightUpdateRatio(), *course(0.05, 0.0)) == [[]] * 30
    assert subjects(WeightUpdateRatio(), *course(0.0, 0.01)) == [[]] * 30


@pytest.mark.parametrize(("loss", "ratio", "severity"), [
    (1.1, 0.9, Severity.DOUBTFUL), (1.5, 0.9, None), (1.1, 3.0, None),
])
def test_a_large_step_that_did_little_harm_is_doubtful(loss: float, ratio: float, severity: Severity | None) -> None:
    assert last(WeightUpdateRatio(), updating(3, ratio), step(4, {LOSS: loss})).severity == severity


# A101, A102


def units_of(rows: list[list[float]]) -> UnitSummaries:
    columns = [[sum(x == 0 for x in row), 0, 0, min(row), max(row), sum(row), sum(x * x for x in row)] for row in rows]
    return UnitSummaries(len(rows[0]), np.array(columns, float))


def activated(
    number: int, layer: str, units: UnitSummaries, *more: Records, after_it: str = "Linear"
) -> StepView:
    order = {BEFORE: "Linear", ACT: layer, Key(Kind.OUTPUT, "out"): after_it}
    records: dict[Key, Summary | float] = {**dict.fromkeys(order, of_norm(1.0)), RATE: 0.1}
    for part in more:
        records.update(part)
    return StepView.of(number, records, layers=order, units={ACT: units})


DEAD, ALIVE = units_of([[0.0] * 100] * 8), units_of([[0.0, 1.0] * 50] * 8)
SHUT, OPEN = units_of([[1.0, -1.0]] * 8), units_of([[0.1, -0.1]] * 8)


def test_units_behind_biases_far_below_zero_are_dead_of_them() -> None:
    biases = {Key(Kind.WEIGHT, "fc.bias"): Summary(count=8, min=-5.0, max=-5.0, sum=-40.0, sum_sq=200.0, sum_abs=40.0)}

    found = last(DeadRelu(), activated(20, "ReLU", DEAD, biases))

    assert causes(found)[Cause.DEAD_RELU] == 0.9
    assert found.causes[0].why == "100% of the units are dead; the mean bias before them is -5"


def test_units_that_were_alive_point_at_the_rate() -> None:
    died = last(DeadRelu(), activated(20, "ReLU", ALIVE), activated(40, "ReLU", DEAD))
    never = last(DeadRelu(), activated(40, "ReLU", DEAD))

    assert causes(died) == {Cause.DEAD_RELU: 0.6, Cause.LEARNING_RATE_TOO_HIGH: 0.4}
    assert causes(never) == {Cause.DEAD_RELU: 0.6, Cause.INITIALIZATION_SCALE: 0.2}


@pytest.mark.parametrize(("more", "cause"), [
    ({Key(Kind.BATCH, "model[0]"): of_norm(2550.0), BEFORE: of_norm(900.0)}, Cause.INPUT_NOT_NORMALIZED),
    ({Key(Kind.BATCH, "model[0]"): of_norm(2550.0)}, Cause.SATURATED_ACTIVATION),
    ({Key(Kind.WEIGHT, "fc.weight"): of_norm(100.0)}, Cause.INITIALIZATION_SCALE),
    ({}, Cause.SATURATED_ACTIVATION),
])
def test_what_saturates_is_told_from_the_batch_and_the_weights(more: Records, cause: Cause) -> None:
    assert next(iter(causes(last(SaturatedActivation(), activated(20, "Tanh", SHUT, more))))) == cause


def test_units_that_were_open_point_at_the_rate() -> None:
    found = causes(last(SaturatedActivation(), activated(20, "Tanh", OPEN), activated(40, "Tanh", SHUT)))

    assert found[Cause.LEARNING_RATE_TOO_HIGH] == 0.4


# G101, G102, W102


def vanishing(weight: float = 10.0, act: str = "GELU") -> StepView:
    gradients = {Key(Kind.GRADIENT, "a.weight"): 1e-5, Key(Kind.GRADIENT, "b.weight"): 1.0}
    records = {**{key: of_norm(norm) for key, norm in gradients.items()}, ACT: of_norm(1.0),
               Key(Kind.OUTPUT, "out"): of_norm(1.0), Key(Kind.WEIGHT, "a.weight"): of_norm(weight, count=4096)}
    return step(0, records, layers={ACT: act})


@pytest.mark.parametrize(("view", "first"), [
    (vanishing(act="Sigmoid"), (Cause.VANISHING_GRADIENT, 0.7)), (vanishing(), (Cause.VANISHING_GRADIENT, 0.5)),
    (vanishing(weight=0.06), (Cause.INITIALIZATION_SCALE, 0.7)),
])
def test_a_gradient_vanishes_by_what_squashes_or_by_weights_too_small(
    view: StepView, first: tuple[Cause, float]
) -> None:
    assert next(iter(causes(last(VanishingGradient(), view)).items())) == first


@pytest.mark.parametrize(("layer", "weight"), [("LSTM", 0.4), ("Linear", 0.2)])
def test_a_spike_in_a_recurrent_model_misses_clipping(layer: str, weight: float) -> None:
    key = Key(Kind.GRADIENT, "a.weight")
    views = [step(number, {key: of_norm(100.0 if number == 30 else 1.0), LOSS: 9.0 if number == 30 else 1.0, RATE: 0.1},
                  layers={key: layer}) for number in range(31)]

    found = causes(last(GradientNormSpike(), *views))

    assert found[Cause.NO_GRADIENT_CLIPPING] == weight
    assert found[Cause.BAD_SAMPLE] == found[Cause.LEARNING_RATE_TOO_HIGH] == 0.3


def test_equal_units_are_a_constant_initialisation() -> None:
    key = Key(Kind.OUTPUT, "fc")
    equal = StepView.of(3, {key: of_norm(1.0)}, layers={key: "Linear"}, units={key: OPEN})

    assert causes(last(PoorWeightInitialization(), equal)) == {Cause.CONSTANT_INITIALIZATION: 0.9}


# W103, W104


@pytest.mark.parametrize(("kind", "first"), [(Kind.LOSS, Cause.DETACHED_GRAPH), (Kind.GRADIENT, Cause.REPEATED_BATCH)])
def test_what_stands_still_says_why(kind: Kind, first: Cause) -> None:
    views = [step(number, {Key(kind, "a"): of_norm(1.0)}) for number in range(10)]

    assert next(iter(causes(last(UnchangedTensor(), *views)))) == first


def frozen(facts: Records, *, gradient: float = 1.0, dtype: str = "float32") -> list[StepView]:
    return [step(number, tensors(Kind.WEIGHT, a=1.0, b=replace(of_norm(1.0), sum=float(number))),
                 tensors(Kind.GRADIENT, a=gradient, b=1.0), {RATE: 0.1}, facts if number == 0 else {}, dtypes=dtype)
            for number in range(10)]


@pytest.mark.parametrize(("facts", "first"), [
    ({}, (Cause.PARAMETER_NOT_IN_OPTIMIZER, 0.5)),
    ({fact(Fact.OUTSIDE_OPTIMIZER): 2.0, fact(Fact.FOREIGN): 0.0}, (Cause.PARAMETER_NOT_IN_OPTIMIZER, 0.9)),
    ({fact(Fact.OUTSIDE_OPTIMIZER): 2.0, fact(Fact.FOREIGN): 2.0}, (Cause.STALE_OPTIMIZER, 0.9)),
])
def test_a_weight_that_nothing_moves_is_told_by_the_optimizers_facts(
    facts: Records, first: tuple[Cause, float]
) -> None:
    assert next(iter(causes(last(FrozenParameter(), *frozen(facts))).items())) == first


def test_a_weight_whose_gradient_is_zero_is_told_by_the_graph() -> None:
    unreached = frozen({fact(Fact.UNREACHED): 1.0}, gradient=0.0)

    assert next(iter(causes(last(FrozenParameter(), *unreached)).items())) == (Cause.DETACHED_GRAPH, 0.9)
    assert causes(last(FrozenParameter(), *frozen({}, gradient=0.0)))[Cause.DETACHED_GRAPH] == 0.3


def test_narrow_weights_swallow_their_updates() -> None:
    found = causes(last(FrozenParameter(), *frozen({}, dtype="bfloat16")))

    assert next(iter(found)) == Cause.FP16_UNDERFLOW


def test_narrow_weights_that_an_optimizer_has_are_not_missing_from_it() -> None:
    inside = {fact(Fact.OUTSIDE_OPTIMIZER): 0.0, fact(Fact.FOREIGN): 0.0}

    assert causes(last(FrozenParameter(), *frozen(inside, dtype="bfloat16"))) == {Cause.FP16_UNDERFLOW: 0.8}


# All


@pytest.mark.parametrize("rule_class", [item for item in RULES if item.code[0] in "AGWNO"], ids=lambda item: item.name)
def test_a_rule_says_nothing_that_is_wrong_of_an_empty_step(rule_class: type[Rule]) -> None:
    assert [item for item in rule_class().judge(step(0, {LOSS: 1.0}), {}) if hasattr(item, "message")] == []
