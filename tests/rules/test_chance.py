"""Plateau, WrongChance and Underfit."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Mapping

import pytest

from barograph.judging.judge import Judge
from barograph.model.clock import ManualClock
from barograph.model.facts import Fact
from barograph.model.finding import FindingState
from barograph.model.key import Key, Kind
from barograph.model.step import Step
from barograph.model.summary import Summary
from barograph.rules.base import Unjudged
from barograph.rules.chance import Plateau, Underfit, WrongChance
from barograph.runs.reading.view import StepView
from judging import (
    CROSS_ENTROPY,
    RATE,
    SQUARES,
    TOTAL,
    causes,
    confusion,
    evaluated,
    facts,
    labels,
    said,
    steps_of,
    symptoms,
)

EVENLY = dict.fromkeys(range(10), 6.4)
CHANCE = math.log(10)


def trained(
    level: Callable[[int], float], steps: int = 500, *, key: Key = CROSS_ENTROPY, counts: Mapping[int, float] = EVENLY,
    more: Mapping[Key, Summary | float] | None = None, noise: float = 0.01, total: float = 1.0, rate: float = 0.1,
) -> list[StepView]:
    draw = random.Random(0)
    views = []
    for step in range(steps):
        loss = level(step) * (1 + draw.gauss(0.0, noise))
        target = labels(counts) if step % 10 == 0 and key is CROSS_ENTROPY else {}
        views.append(StepView.of(step, {TOTAL: total * loss, key: loss, RATE: rate, **target, **(more or {})}))
    return views


def test_a_loss_that_stays_at_chance_underfits() -> None:
    views = trained(lambda _: CHANCE)

    first, *_ = symptoms(Underfit(), views)

    assert steps_of(Underfit(), views)[0] == 209
    assert "always predicting the same gives 2.303" in first.message
    assert causes(first)[0] == "labels-unrelated"


def test_steps_that_are_too_small_are_suspected_first() -> None:
    paces = {Key(Kind.UPDATE, "fc.weight"): Summary(count=4, sum_sq=1e-12),
             Key(Kind.WEIGHT, "fc.weight"): Summary(count=4, sum_sq=1.0)}

    (first, *_) = symptoms(Underfit(), trained(lambda _: CHANCE, more=paces, rate=1e-5))

    assert causes(first)[0] == "learning-rate-too-low"
    assert first.causes[0].remedy == "Raise the learning rate from 1e-5 to 0.01."


def test_labels_are_suspected_first_where_the_weights_move_at_a_usual_pace() -> None:
    paces = {Key(Kind.UPDATE, "fc.weight"): Summary(count=4, sum_sq=1e-6),
             Key(Kind.WEIGHT, "fc.weight"): Summary(count=4, sum_sq=1.0)}

    (first, *_) = symptoms(Underfit(), trained(lambda _: CHANCE, more=paces))

    assert causes(first)[0] == "labels-unrelated"
    assert first.causes[0].weight == 0.5


def test_a_loss_at_chance_after_it_exploded_points_at_the_learning_rate() -> None:
    (first, *_) = symptoms(Underfit(), trained(lambda step: 1e5 if step == 13 else CHANCE, rate=0.8))

    assert causes(first)[0] == "learning-rate-too-high"
    assert first.causes[0].remedy == "Lower the learning rate from 0.8 to 0.08."


def test_a_squared_error_explodes_only_by_orders_of_magnitude() -> None:
    targets = {Key(Kind.TARGET, "mse_loss"): Summary(count=64, sum=640.0, sum_sq=6400.0 + 64 * 4.0)}

    for peak, expected in ((1000.0, False), (10_000.0, True)):
        views = trained(lambda step, peak=peak: peak if step == 13 else 4.0, key=SQUARES, more=targets)
        assert (causes(symptoms(Underfit(), views)[0])[0] == "learning-rate-too-high") is expected


def test_frozen_parameters_are_suspected() -> None:
    frozen = facts({Fact.FROZEN: 8.0, Fact.PARAMETERS: 10.0})

    (first, *_) = symptoms(Underfit(), trained(lambda _: CHANCE, more=frozen))

    assert "frozen-parameter" in causes(first)[:2]


def test_squared_errors_at_the_variance_of_the_targets_underfit() -> None:
    targets = {Key(Kind.TARGET, "mse_loss"): Summary(count=64, sum=640.0, sum_sq=6400.0 + 64 * 4.0)}

    assert steps_of(Underfit(), trained(lambda _: 4.0, key=SQUARES, more=targets))
    assert steps_of(Underfit(), trained(lambda _: 2.0, key=SQUARES, more=targets)) == []


def test_half_the_squared_error_stands_at_half_the_variance() -> None:
    halved = Key(Kind.LOSS, "l2_loss")
    targets = {Key(Kind.TARGET, "l2_loss"): Summary(count=64, sum=640.0, sum_sq=6400.0 + 64 * 4.0)}

    assert steps_of(Underfit(), trained(lambda _: 2.0, key=halved, more=targets))
    assert steps_of(Underfit(), trained(lambda _: 1.0, key=halved, more=targets)) == []


def noisily(level: Callable[[int], float], right: float, *, steps: int = 600, always: bool = False,
            ones: float = 0.6) -> list[StepView]:
    """Return a training of two classes with batches of 16: the loss of each is off by a tenth, and so many answers are
    right that were not the majority's by themselves."""
    draw = random.Random(0)
    views = []
    for step in range(steps):
        loss = level(step) * (1 + draw.gauss(0.0, 0.1))
        pairs: dict[tuple[int, int], float] = {}
        for _ in range(16 if step % 8 == 0 else 0):
            target = int(draw.random() < ones)
            prediction = 1 if always else target if draw.random() < right else int(draw.random() < 0.8)
            pairs[target, prediction] = pairs.get((target, prediction), 0.0) + 1.0
        counts = {target: sum(count for (label, _), count in pairs.items() if label == target) for target, _ in pairs}
        views.append(StepView.of(step, {TOTAL: loss, CROSS_ENTROPY: loss, RATE: 0.1, **labels(counts),
                                        **confusion(pairs)}))
    return views


ENTROPY = -(0.6 * math.log(0.6) + 0.4 * math.log(0.4))


@pytest.mark.parametrize("always", [False, True], ids=["by lot", "always one"])
def test_where_losses_are_noisy_answers_that_have_nothing_to_do_with_labels_decide(always: bool) -> None:
    views = noisily(lambda step: ENTROPY * (1.0 + 0.1 * math.exp(-step / 60)), right=0.0, always=always)

    first, *_ = symptoms(Underfit(), views)

    assert "Predictions are unrelated to labels" in first.message
    assert causes(first)[0] == "labels-unrelated"


@pytest.mark.parametrize(("level", "right", "ones"), [
    (lambda step: ENTROPY, 0.25, 0.6),  # a hard task, of which something is learnt
    (lambda step: ENTROPY * (1.0 - step / 3000), 0.25, 0.6),  # learning
    (lambda step: 0.9 * ENTROPY, 0.0, 0.6),  # farther down than that
], ids=["hard", "learning", "lower"])
def test_where_losses_are_noisy_a_model_that_learns_is_let_pass(
    level: Callable[[int], float], right: float, ones: float
) -> None:
    assert steps_of(Underfit(), noisily(level, right, ones=ones)) == []


@pytest.mark.parametrize("name", ["softmax_cross_entropy_with_integer_labels", "sigmoid_binary_cross_entropy"])
def test_losses_of_optax_are_known(name: str) -> None:
    counts = {Key(Kind.LABEL, f"{name}[{label}]"): 32.0 for label in (0, 1)}

    assert steps_of(Underfit(), trained(lambda _: math.log(2), key=Key(Kind.LOSS, name), more=counts))


@pytest.mark.parametrize(
    "level",
    [lambda step: CHANCE * 0.998**step, lambda step: CHANCE * (1.0 - 0.0002 * step), lambda _: 1.5 * CHANCE],
    ids=["falls", "falls slowly", "stands elsewhere, as a weighted loss does"],
)
def test_a_loss_that_falls_or_stands_elsewhere_is_let_pass(level: Callable[[int], float]) -> None:
    assert steps_of(Underfit(), trained(level)) == []


def test_rare_classes_lower_the_baseline() -> None:
    imbalanced = {0: 58.0, 1: 6.0}
    baseline = -sum(share * math.log(share) for share in (58 / 64, 6 / 64))

    assert steps_of(Underfit(), trained(lambda _: baseline, counts=imbalanced))
    assert steps_of(Underfit(), trained(lambda _: 0.8 * baseline, counts=imbalanced)) == []


@pytest.mark.parametrize(
    ("views", "reason"),
    [
        (trained(lambda _: CHANCE, 150), "needs losses of 200 steps since the learning rate last rose"),
        (trained(lambda _: CHANCE, counts={}),
         "too few labels or targets were recorded to compute the loss of a constant prediction"),
        (trained(lambda _: CHANCE, total=-1.3), "no loss from a single known loss function was recorded"),
        (trained(lambda _: CHANCE, noise=0.5), "the loss is too noisy to compare with its baseline"),
        ([StepView.of(Step(0, 0, "D"), {TOTAL: CHANCE})],
         "the run has several optimizers, as in adversarial training, which balances near chance"),
    ],
)
def test_what_cannot_be_judged_says_why(views: list[StepView], reason: str) -> None:
    found = said(Underfit(), views)

    assert symptoms(Underfit(), views) == []
    assert [Unjudged(reason)] in found[-10:]


def test_a_loss_that_fell_a_little_and_rests_near_chance_is_on_a_plateau() -> None:
    views = trained(lambda step: 0.94 * CHANCE + 0.5 * 0.98**step, 1500)

    first, *_ = symptoms(Plateau(), views)

    assert "% of the loss of a constant prediction" in first.message
    assert symptoms(Underfit(), views) == []


@pytest.mark.parametrize("floor", [0.0, 0.1, 0.5, 0.8])
def test_a_loss_that_rests_farther_down_has_converged(floor: float) -> None:
    views = trained(lambda step: floor * CHANCE + 0.01 + CHANCE * 0.98**step, 2000)

    assert symptoms(Plateau(), views) == []


def first_step(loss: float, classes: float = 10.0, **more: Summary) -> list[StepView]:
    batch: dict[Key, Summary | float] = {Key(Kind.BATCH, "model[0]"): item for item in more.values()}
    return [StepView.of(0, {TOTAL: loss, CROSS_ENTROPY: loss, **facts({Fact.CLASSES: classes}), **batch})]


def test_a_first_loss_far_above_chance_is_told() -> None:
    (symptom,) = symptoms(WrongChance(), first_step(27.0, 27.0))

    assert symptom.message == ("The first loss is 27; an untrained model should start near ln 27 = 3.3 for 27 classes.")
    assert causes(symptom)[0] == "initialization-scale"


def test_inputs_that_reach_far_are_suspected_first() -> None:
    (symptom,) = symptoms(WrongChance(), first_step(50.0, batch=Summary(count=4, min=0.0, max=255.0)))

    assert causes(symptom)[0] == "input-not-normalized"
    assert symptom.causes[0].remedy == "Scale the inputs to zero mean and unit variance."


def test_token_ids_are_no_inputs_that_reach_far() -> None:
    tokens = Key(Kind.BATCH, "model[0]")
    view = StepView.of(0, {CROSS_ENTROPY: 50.0, TOTAL: 50.0, tokens: Summary(count=4, min=0.0, max=50_000.0),
                           **facts({Fact.CLASSES: 27.0})}, dtypes={tokens: "int64"})

    (symptom,) = symptoms(WrongChance(), [view])

    assert causes(symptom)[0] == "initialization-scale"


@pytest.mark.parametrize("loss", [0.01, 1.0, 2.3, 3.5, 6.0])
def test_a_first_loss_near_chance_or_below_it_is_well(loss: float) -> None:
    assert said(WrongChance(), first_step(loss)) == [[]]


def test_no_later_step_says_anything_of_the_first() -> None:
    later = StepView.of(1, {TOTAL: 27.0, CROSS_ENTROPY: 27.0, **facts({Fact.CLASSES: 27.0})})

    assert said(WrongChance(), [later]) == [[Unjudged("the first step was not recorded")]]


def with_evaluations(levels: list[float]) -> list[StepView]:
    training = trained(lambda _: CHANCE, 100)
    return [*training, *(evaluated(100 * (at + 1), {CROSS_ENTROPY: level}) for at, level in enumerate(levels))]


def test_evaluations_that_stay_at_chance_tell_as_well() -> None:
    first, *_ = symptoms(Underfit(), with_evaluations([2.305, 2.304, 2.303, 2.304, 2.303]))

    assert first.message.startswith("The validation loss has been 2.304 since step 100; always predicting the same "
                                    "gives 2.303")
    assert first.evidence[0].step == 400
    assert first.causes[0].why.startswith("the validation loss is 2.304, that of a constant prediction is 2.303")


def test_evaluations_that_get_better_are_let_pass() -> None:
    assert symptoms(Underfit(), with_evaluations([2.305, 2.295, 2.285, 2.275, 2.265])) == []
    assert symptoms(Underfit(), with_evaluations([1.2, 1.1, 1.0, 1.0, 1.0])) == []


def test_evaluations_decide_where_the_training_loss_falls_slowly_near_its_baseline() -> None:
    def with_held_out(last: float) -> list[StepView]:
        views: list[StepView] = []
        for view in trained(lambda step: CHANCE * (1.0 - step / 20_000), 600):
            views.append(view)
            if view.step.number % 50 == 49:
                level = CHANCE * (1.01 + (last - 1.01) * view.step.number / 600)
                views.append(evaluated(view.step.number, {TOTAL: level, CROSS_ENTROPY: level}))
        return views

    assert [item.message[:19] for item in symptoms(Underfit(), with_held_out(1.01))][-1:] == ["The validation loss"]
    assert [item for item in symptoms(Underfit(), with_held_out(0.98)) if "validation" in item.message] == []


def test_evaluations_that_fall_as_slowly_as_the_training_loss_are_let_pass() -> None:
    views: list[StepView] = []
    for view in trained(lambda step: CHANCE * (1.0 - step / 60_000), 3000):
        views.append(view)
        if view.step.number % 20 == 19:
            level = CHANCE * (1.0 - view.step.number / 60_000)
            views.append(evaluated(view.step.number, {TOTAL: level, CROSS_ENTROPY: level}))

    assert [item for item in symptoms(Underfit(), views) if "validation" in item.message] == []


# How a finding ends


def findings_after(*parts: list[StepView]) -> list[FindingState]:
    """Return how the findings stand after these steps, each once."""
    judge, found = Judge(Underfit(), ManualClock()), {}
    for view in [view for part in parts for view in part]:
        found.update({finding.id: finding.state for finding in judge.take(view)[0]})
    return list(found.values())


def memorizing(floor: float, held_out: float | None, *, steps: int = 1500) -> list[StepView]:
    """Return a training that is at chance for 400 steps and then falls to a share of it, and its evaluations."""
    views: list[StepView] = []
    for view in trained(lambda step: CHANCE * max(floor, 1.0 - max(0, step - 400) / 4000), steps):
        views.append(view)
        if held_out is not None and view.step.number % 20 == 19:
            views.append(evaluated(view.step.number, {TOTAL: held_out * CHANCE, CROSS_ENTROPY: held_out * CHANCE}))
    return views


@pytest.mark.parametrize(("floor", "held_out"), [(0.93, None), (0.93, 1.02), (0.75, 1.0), (0.75, 1.3)])
def test_a_model_that_only_memorizes_has_not_learned_after_all(floor: float, held_out: float | None) -> None:
    assert set(findings_after(memorizing(floor, held_out))) == {FindingState.OPEN}


@pytest.mark.parametrize(("floor", "held_out"), [(0.75, None), (0.75, 0.8)])
def test_a_model_that_learns_late_has_learned(floor: float, held_out: float | None) -> None:
    assert findings_after(memorizing(floor, held_out)) == [FindingState.CLOSED]


def test_evaluations_that_get_worse_than_chance_end_no_finding() -> None:
    worse = with_evaluations([CHANCE] * 6 + [1.5 * CHANCE] * 8)
    better = with_evaluations([CHANCE] * 6 + [0.5 * CHANCE] * 8)

    assert findings_after(worse) == [FindingState.OPEN]
    assert findings_after(better) == [FindingState.CLOSED]
