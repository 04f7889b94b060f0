"""LossNotDecreasing and Overfit."""

from __future__ import annotations

import json
import math
import random
from collections.abc import Callable, Iterable, Sequence
from itertools import groupby

import pytest

from barograph.judging.judge import Judge
from barograph.model.clock import SystemClock
from barograph.model.facts import Fact
from barograph.model.finding import FindingState, Symptom
from barograph.model.key import Key, Kind
from barograph.model.step import Mode, Step
from barograph.model.summary import Summary
from barograph.rules.base import Memory, Rule, Unjudged
from barograph.rules.losses import LossNotDecreasing, Overfit
from barograph.runs.reading.view import StepView
from judging import facts

TOTAL = Key(Kind.LOSS, "total")
CROSS_ENTROPY = Key(Kind.LOSS, "cross_entropy")
RATE = Key(Kind.LEARNING_RATE, "group0")


def trained(
    losses: Iterable[float], *, every: int = 1, first: int = 0, optimizer: str = "", rate: float = 0.1
) -> list[StepView]:
    return [
        StepView.of(Step(number, number * every, optimizer), {TOTAL: loss, CROSS_ENTROPY: loss, RATE: rate})
        for number, loss in enumerate(losses, first)
    ]


def said(rule: Rule, views: Sequence[StepView]) -> list[list[Symptom | Unjudged]]:
    memory: Memory = {}
    found = []
    for view in views:
        found.append(list(rule.judge(view, memory)))
        memory = json.loads(json.dumps(memory))
    return found


def fired(rule: Rule, views: Sequence[StepView]) -> list[tuple[int, str]]:
    pairs = zip(views, said(rule, views), strict=True)
    return [(view.step.number, item.subject) for view, found in pairs for item in found if isinstance(item, Symptom)]


def noisy(level: Iterable[float], spread: float, seed: int = 0) -> list[float]:
    random.seed(seed)
    return [value * math.exp(random.gauss(0, spread)) for value in level]


def test_the_documented_numbers_fire_at_12() -> None:
    rule = LossNotDecreasing(num_steps=10, diff_percent=0.0, window=1)
    views = trained((0.30, 0.33, 0.31, 0.30, 0.28), every=4)

    assert fired(rule, views) == [(12, "does not fall")]


def test_a_loss_that_stays_where_it_began_does_not_fall() -> None:
    views = trained(noisy([2.3] * 600, 0.02))
    assert {subject for _, subject in fired(LossNotDecreasing(), views)} == {"does not fall"}

    (symptom,) = said(LossNotDecreasing(), trained([2.3] * 100))[-1]

    assert isinstance(symptom, Symptom)
    assert symptom.message == (
        "The loss does not fall: 2.3 now, 2.3 about 70 steps ago (expected: below 2.297), 2.3 at the start."
    )
    assert symptom.since == 0
    assert symptom.remedy.startswith("Train on a single batch, with learning rates 1 and 0.01 as well as 0.1.")


def test_a_later_training_with_one_optimizer_is_judged_as_the_first() -> None:
    views = trained(noisy([2.3] * 600, 0.02), optimizer="#2")
    assert {subject for _, subject in fired(LossNotDecreasing(), views)} == {"does not fall"}


def test_a_loss_that_falls_slowly_and_steadily_is_well() -> None:
    falling = [2.3 * 0.9995**step for step in range(600)]

    assert fired(LossNotDecreasing(), trained(falling)) == []


@pytest.mark.parametrize("seed", range(5))
def test_a_loss_that_falls_in_noise_is_well(seed: int) -> None:
    falling = noisy([0.2 + 2.1 * 0.99**step for step in range(1000)], 0.3, seed)

    assert fired(LossNotDecreasing(), trained(falling)) == []


@pytest.mark.parametrize("seed", range(5))
def test_a_loss_near_its_floor_may_rest_and_swing(seed: int) -> None:
    converged = noisy([1e-3 + 2.3 * 0.97**step for step in range(2000)], 0.8, seed)

    assert fired(LossNotDecreasing(), trained(converged)) == []


def test_a_loss_that_came_down_and_rises_again_rises() -> None:
    views = trained([*(2.3 * 0.97**step for step in range(100)), *(0.11 * 1.03**step for step in range(100))])

    found = said(LossNotDecreasing(), views)[-1]

    (symptom,) = found
    assert isinstance(symptom, Symptom)
    assert symptom.subject == "rises"
    assert symptom.since == 190
    assert "(noise of these medians: 0." in symptom.message
    assert "lower the learning rate from 0.1 to 0.0333" in symptom.remedy.lower()


def opened(losses: Sequence[float], steps: Sequence[int]) -> int:
    """Return how many findings would open: streaks of as many symptoms as the rule's patience."""
    views = [StepView.of(step, {TOTAL: loss}) for step, loss in zip(steps, losses, strict=True)]
    memory: Memory = {}
    rule = LossNotDecreasing()
    judged = [list(rule.judge(view, memory)) for view in views]
    all_facts = ["".join(item.subject for item in items if isinstance(item, Symptom)) for items in judged
            if not any(isinstance(item, Unjudged) for item in items)]
    streaks = [len(list(group)) for subject, group in groupby(all_facts) if subject]
    return sum(streak >= rule.patience for streak in streaks)


EACH, SPARSE = range(1000), [*range(0, 2000, 7), *range(2200, 7000, 7)]


def alarms(level: Callable[[int], float], noise: float, steps: Sequence[int], *, seeds: int) -> int:
    """Return in how many of so many trainings, whose losses scatter about this level, a finding opens."""
    count = 0
    for seed in range(seeds):
        draw = random.Random(seed)
        count += opened([level(step) + draw.gauss(0.0, noise) for step in steps], steps) > 0
    return count


@pytest.mark.parametrize(
    ("fall", "noise", "steps"),
    [(0.30, 0.2, EACH), (0.30, 0.4, EACH), (0.09, 0.2, EACH), (0.09, 0.05, EACH), (0.50, 0.2, SPARSE)],
)
def test_a_loss_that_falls_slowly_beneath_its_noise_is_not_called_a_standstill(
    fall: float, noise: float, steps: Sequence[int]
) -> None:
    assert alarms(lambda step: 2.0 - fall * step / steps[-1], noise, steps, seeds=8) == 0


@pytest.mark.parametrize("noise", [0.2, 0.05])
def test_a_loss_that_fell_and_rests_in_its_noise_is_well(noise: float) -> None:
    assert alarms(lambda step: 1.8 + 0.2 * max(0.0, 1 - step / 200), noise, range(2000), seeds=4) == 0


@pytest.mark.parametrize(
    ("noise", "steps"), [(0.005, range(300)), (0.02, range(650)), (0.05, range(1200)), (0.05, range(0, 4000, 7))],
)
def test_a_loss_that_stands_still_in_noise_is_found_in_time(noise: float, steps: Sequence[int]) -> None:
    assert alarms(lambda _: 2.0, noise, steps, seeds=6) == 6


def test_while_the_learning_rate_warms_up_the_loss_need_not_fall() -> None:
    warming = [view for step in range(300) for view in trained([2.3], first=step, rate=1e-4 * (step + 1))]
    after = [view for step in range(300, 600) for view in trained([2.3], first=step, rate=0.03)]

    assert fired(LossNotDecreasing(), warming) == []
    first, *_ = fired(LossNotDecreasing(), [*warming, *after])
    assert 340 <= first[0] < 400


def test_a_run_that_was_started_again_is_not_taken_for_well_before_it_is_known() -> None:
    again = said(LossNotDecreasing(), trained(noisy([2.3] * 100, 0.02), first=500))

    assert all(isinstance(item, Unjudged) for items in again for item in items)
    assert all(again)


def test_a_rise_within_what_noise_explains_is_let_pass() -> None:
    rising = noisy([*(2.3 * 0.97**step for step in range(150)), *([0.03] * 300)], 1.0)

    assert fired(LossNotDecreasing(), trained(rising)) == []


@pytest.mark.parametrize("seed", range(6))
def test_medians_of_single_samples_that_jump_are_no_rise(seed: int) -> None:
    """One class is certain, the other costs a constant loss: the median of ten is near one or the other."""
    draw = random.Random(seed)
    losses = [draw.choice((1e-9, 0.14)) for _ in range(3000)]

    assert "rises" not in {subject for _, subject in fired(LossNotDecreasing(), trained([*([0.7] * 100), *losses]))}


def test_negative_losses_fall_too() -> None:
    assert fired(LossNotDecreasing(), trained([-1.0 - 0.01 * step for step in range(300)])) == []
    assert fired(LossNotDecreasing(), trained([-1.0] * 100)) != []


def test_between_two_medians_nothing_is_judged() -> None:
    found = said(LossNotDecreasing(), trained([2.3] * 100))

    assert [bool(items) and isinstance(items[0], Symptom) for items in found[90:]] == [False] * 9 + [True]


@pytest.mark.parametrize(
    ("views", "reason"),
    [
        (trained([2.3] * 30), "needs losses over 50 steps and 10 more"),
        (trained([2.3] * 50, every=7),
         "needs 6 medians of 10 losses since the learning rate last rose; this run has 5"),
        (trained([2.3, 2.5] * 40), "the loss is too noisy to tell whether it falls"),
        (trained([2.3] * 100, optimizer="G"),
         "the run has several optimizers, as in adversarial training, where a loss need not fall"),
        (trained([math.nan] * 100), "no finite training loss was recorded"),
        ([StepView.of(Step(0, 0, "", Mode.EVAL), {TOTAL: 2.3})], "no finite training loss was recorded"),
    ],
)
def test_what_cannot_be_judged_says_why(views: list[StepView], reason: str) -> None:
    assert said(LossNotDecreasing(), views)[-1] == [Unjudged(reason)]


def test_a_long_run_is_remembered_in_bounded_memory_with_its_start_and_its_best() -> None:
    memory: Memory = {}
    rule = LossNotDecreasing(window=1)
    losses = [5.0, *([1.0] * 50), 0.5, *([1.0] * 400)]
    for view in trained(losses):
        list(rule.judge(view, memory))

    values = [point[2] for point in memory["points"]]
    assert len(values) == 200
    assert values[0] == 5.0
    assert min(values) == 0.5
    assert len(memory["course"]) < 120


def epochs(training: Sequence[float], validation: Sequence[float], key: Key = CROSS_ENTROPY) -> list[StepView]:
    """Return ten steps of training at one loss, then an evaluation, for each pair."""
    views: list[StepView] = []
    for epoch, (train, valid) in enumerate(zip(training, validation, strict=True)):
        views += trained([train] * 10, first=epoch * 11)
        views.append(StepView.of(Step(epoch * 11 + 10, (epoch + 1) * 10, "", Mode.EVAL), {key: valid}))
    return views


def test_validation_that_rises_while_training_falls_is_overfitting() -> None:
    views = epochs((1.0, 0.5, 0.2, 0.1, 0.05), (1.0, 0.6, 0.5, 0.8, 0.9))

    found = said(Overfit(), views)

    (symptom,) = found[-1]
    assert isinstance(symptom, Symptom)
    assert symptom.message == (
        "The validation loss rose to 0.9 from its best of 0.5 at step 30, while the training loss fell to 0.05 from "
        "0.2."
    )
    assert symptom.remedy.startswith("Stop, and use the weights of step 30.")
    assert [view.step.number for view, items in zip(views, found, strict=True)
            if items and isinstance(items[0], Symptom)] == [40, 50]


def test_the_first_evaluations_after_a_restart_do_not_call_overfitting_gone() -> None:
    judge = Judge(Overfit(), SystemClock())
    before = epochs((1.0, 0.5, 0.2, 0.1, 0.05, 0.04), (1.0, 0.6, 0.5, 0.8, 0.9, 1.0))
    after = epochs((0.03, 0.02, 0.01), (1.1, 1.1, 1.2))
    events = [event for view in before for event in judge.take(view)[0]]
    judge.new_attempt("p0")
    events += [event for view in after for event in judge.take(view)[0]]

    assert [event.state for event in events] == [FindingState.OPEN]


def test_a_gap_alone_is_no_overfitting() -> None:
    assert fired(Overfit(), epochs((1.0, 0.1, 0.01, 0.001, 0.001), (1.0, 0.3, 0.2, 0.2, 0.2))) == []


def test_validation_that_rises_with_training_is_no_overfitting() -> None:
    assert fired(Overfit(), epochs((0.5, 0.2, 0.6, 0.8), (0.6, 0.3, 0.8, 1.0))) == []


def test_validation_below_training_is_no_overfitting_as_with_dropout() -> None:
    assert fired(Overfit(), epochs((1.0, 0.9, 0.8, 0.7), (0.5, 0.3, 0.45, 0.5))) == []


def test_a_small_rise_is_let_pass() -> None:
    assert fired(Overfit(), epochs((1.0, 0.5, 0.2, 0.1), (1.0, 0.5, 0.6, 0.62))) == []


def test_validation_that_has_always_wandered_may_wander() -> None:
    wandering = (0.5, 0.4, 0.49, 0.37, 0.46, 0.35, 0.43, 0.3, 0.41, 0.32, 0.45)

    assert fired(Overfit(), epochs([0.5 * 0.8**epoch for epoch in range(11)], wandering)) == []


def test_losses_of_different_functions_are_not_compared() -> None:
    views = epochs((1.0, 0.5, 0.2, 0.1), (1.0, 0.6, 0.9, 1.5), key=Key(Kind.LOSS, "mse_loss"))

    assert said(Overfit(), views)[-1] == [
        Unjudged("training and evaluation recorded no common loss")
    ]


def test_without_evaluation_nothing_is_judged() -> None:
    assert said(Overfit(), trained([1.0]))[-1] == [Unjudged("no evaluation was recorded after training")]


def with_labels(views: list[StepView], **more: float) -> list[StepView]:
    """Return the same steps with ten classes, evenly, and the norm of updates and weights."""
    extra: dict[Key, Summary | float] = {Key(Kind.LABEL, f"cross_entropy[{name}]"): 6.4 for name in range(10)}
    if more:
        extra[Key(Kind.UPDATE, "fc.weight")] = Summary(count=4, sum_sq=more["update"] ** 2)
        extra[Key(Kind.WEIGHT, "fc.weight")] = Summary(count=4, sum_sq=1.0)
    return [StepView.of(view.step, {**view.scalars(Kind.LOSS), **view.scalars(Kind.LEARNING_RATE), **extra})
            for view in views]


def causes_of(rule: Rule, views: Sequence[StepView]) -> list[str]:
    symptom = [item for items in said(rule, views) for item in items if isinstance(item, Symptom)][-1]
    return [str(item.cause) for item in symptom.causes]


@pytest.mark.parametrize(
    ("update", "rate", "cause"),
    [(1e-6, 1e-5, "learning-rate-too-low"), (0.2, 0.1, "learning-rate-too-high"), (1e-3, 0.1, "labels-unrelated"),
     (1e-7, 0.1, "vanishing-gradient")],
)
def test_what_is_behind_a_standstill_is_told_by_how_far_steps_go(update: float, rate: float, cause: str) -> None:
    views = with_labels(trained([math.log(10)] * 100, rate=rate), update=update)

    assert causes_of(LossNotDecreasing(), views)[0] == cause


def test_a_standstill_elsewhere_than_at_chance_says_little_of_labels() -> None:
    views = with_labels(trained([1.5] * 100), update=1e-3)

    symptom = [item for items in said(LossNotDecreasing(), views) for item in items if isinstance(item, Symptom)][-1]

    assert max(item.weight for item in symptom.causes) <= 0.2


def test_a_loss_of_the_scripts_own_making_may_rise() -> None:
    falling_first = [2.3 * 0.97**step for step in range(100)] + [0.11 * 1.03**step for step in range(100)]
    own = [StepView.of(step, {TOTAL: loss}) for step, loss in enumerate(falling_first)]
    rising = [StepView.of(step, {TOTAL: 1.0 + 0.01 * step + 0.01 * (step % 2)}) for step in range(500)]
    composed = [StepView.of(step, {TOTAL: loss, CROSS_ENTROPY: 0.3}) for step, loss in enumerate(falling_first)]

    assert fired(LossNotDecreasing(), own) == []
    assert fired(LossNotDecreasing(), rising) == []
    assert fired(LossNotDecreasing(), composed) == []


def test_a_distance_from_targets_that_grow_may_rise() -> None:
    losses = [*(2.3 * 0.97**step for step in range(100)), *(0.11 * 1.03**step for step in range(100))]

    def with_targets(level: Callable[[int], float]) -> list[StepView]:
        squares, target = Key(Kind.LOSS, "mse_loss"), Key(Kind.TARGET, "mse_loss")
        return [StepView.of(step, {TOTAL: loss, squares: loss, target: Summary(count=1, sum_sq=level(step) ** 2)})
                for step, loss in enumerate(losses)]

    assert fired(LossNotDecreasing(), with_targets(lambda step: 1.0 + 0.1 * step)) == []
    assert {subject for _, subject in fired(LossNotDecreasing(), with_targets(lambda _: 1.0))} == {"rises"}


def test_validation_that_was_never_better_than_chance_speaks_of_labels() -> None:
    training, validation = (2.2, 1.0, 0.2, 0.1, 0.05), (2.31, 2.35, 3.5, 4.0, 5.0)
    evenly = {Key(Kind.LABEL, f"cross_entropy[{name}]"): 40.0 for name in range(10)}
    views = [view if view.step.mode is Mode.TRAIN else
             StepView.of(view.step, {**view.scalars(Kind.LOSS), **evenly}) for view in epochs(training, validation)]

    assert causes_of(Overfit(), views) == ["labels-unrelated", "overfitting"]
    assert causes_of(Overfit(), epochs(training, validation))[0] == "overfitting"


def predicted(training: Sequence[float], validation: Sequence[float], correct: float) -> list[StepView]:
    """Return epochs whose evaluations have ten balanced classes, with that share of correct predictions."""
    evenly = {Key(Kind.LABEL, f"cross_entropy[{name}]"): 40.0 for name in range(10)}
    pairs = {Key(Kind.CONFUSION, f"cross_entropy[{name},{name}]"): 40 * correct for name in range(10)} | {
        Key(Kind.CONFUSION, f"cross_entropy[{name},{(name + 3) % 10}]"): 40 * (1 - correct) for name in range(10)}
    return [view if view.step.mode is Mode.TRAIN else
            StepView.of(view.step, {**view.scalars(Kind.LOSS), **evenly, **pairs})
            for view in epochs(training, validation)]


def test_evaluations_that_guess_from_the_start_while_training_is_learned_are_found() -> None:
    training, validation = (1.6, 0.4, 0.2, 0.1), (7.0, 7.1, 7.0, 7.2)

    guessed = predicted(training, validation, correct=0.1)

    assert said(Overfit(), guessed)[-1] != []
    assert causes_of(Overfit(), guessed) == ["labels-unrelated", "overfitting"]
    assert fired(Overfit(), predicted(training, validation, correct=0.5)) == []
    assert fired(Overfit(), predicted((2.3, 2.2, 2.1, 2.0), validation, correct=0.1)) == []
    assert fired(Overfit(), predicted(training, (2.0, 2.1, 2.0, 2.1), correct=0.1)) == []


def test_an_evaluation_without_predictions_counts_as_the_one_before() -> None:
    views = predicted((1.6, 0.4, 0.2, 0.1), (7.0, 7.1, 7.0, 7.2), correct=0.1)
    views[-1] = StepView.of(views[-1].step, views[-1].scalars(Kind.LOSS))

    assert len(said(Overfit(), views)[-1]) == 1


ERROR = Key(Kind.LOSS, "error")


def rated(training: Sequence[float], validation: Sequence[float], key: Key) -> list[StepView]:
    views = []
    for epoch, (train, valid) in enumerate(zip(training, validation, strict=True)):
        views.append(StepView.of(Step(epoch, epoch, "", Mode.TRAIN), {key: train}))
        views.append(StepView.of(Step(epoch, epoch + 1, "", Mode.EVAL), {key: valid}))
    return views


def test_one_more_wrong_sample_of_a_hundred_is_no_overfitting() -> None:
    assert fired(Overfit(), rated([0.02, 0.0, 0.0, 0.0, 0.0], [0.02, 0.01, 0.0, 0.01, 0.01], ERROR)) == []
    assert fired(Overfit(), rated([0.02, 0.0, 0.0, 0.0, 0.0], [0.02, 0.01, 0.0, 0.01, 0.01], Key(Kind.LOSS, "total"))) \
        == []


def test_an_error_rate_that_rises_by_far_more_than_chance_is_overfitting_and_no_ratio_to_zero_is_printed() -> None:
    found = said(Overfit(), rated([0.2, 0.1, 0.0, 0.0, 0.0], [0.2, 0.11, 0.1, 0.29, 0.3], ERROR))[-1]

    assert isinstance(found[0], Symptom)
    assert found[0].message.endswith("while the training loss is close to 0.")
    assert "ratio" not in [item.statistic for item in found[0].evidence]


def phases(*made: int) -> list[StepView]:
    """Return losses that fall to 0.1, then those of a second phase that begins at 1."""
    losses = [max(0.1, 2 - step / 50) for step in range(200)] + [max(0.5, 1 - step / 400) for step in range(200)]
    all_facts = [
        facts({Fact.OPTIMIZERS_MADE: float(made[step >= 200])}) if step % 20 == 0 else {} for step in range(400)
    ]
    return [StepView.of(step, {Key(Kind.LOSS, "cross_entropy"): loss, **all_facts[step]})
            for step, loss in enumerate(losses)]


def test_a_loss_is_compared_within_the_phase_of_one_optimizer() -> None:
    assert fired(LossNotDecreasing(), phases(1, 2)) == []
    assert fired(LossNotDecreasing(), phases(1, 1)) != []
    assert fired(LossNotDecreasing(), phases(20, 21)) != []
