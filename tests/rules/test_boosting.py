"""Shrinkage and RoundsPastBest."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import numpy as np
import pytest

from barograph.model.facts import Fact
from barograph.model.key import Key, Kind
from barograph.rules.base import Unjudged
from barograph.rules.boosting import RoundsPastBest, Shrinkage
from barograph.runs.reading.view import StepView
from judging import RATE, TOTAL, causes, evaluated, facts, said, symptoms

NO_STOPPING = {Fact.EARLY_STOPPING: 0.0, (Fact.EARLY_STOPPING, "training"): 0.0}


def planned(rounds: float, rate: float) -> StepView:
    return StepView.of(0, {RATE: rate, **facts({Fact.ROUNDS_PLANNED: rounds})})


def boosted(
    losses: list[float], stopping: dict[object, float], depth: float = 3.0, trained: Sequence[float] = ()
) -> list[StepView]:
    """A training of so many rounds, each judged by a held-out loss, and by one of the training samples where given."""
    all_facts = {Key(Kind.TREE, "depth"): depth, **facts(stopping)}  # type: ignore[arg-type]
    rounds = [StepView.of(number, {**all_facts, TOTAL: loss}) for number, loss in enumerate(trained)]
    rounds = rounds or [StepView.of(0, all_facts)]
    judged = [evaluated(number + 1, {TOTAL: loss}) for number, loss in enumerate(losses)]
    return [view for pair in itertools.zip_longest(rounds, judged) for view in pair if view is not None]


# Shrinkage


def test_a_rate_too_small_for_its_rounds_is_told_with_how_far_it_comes() -> None:
    (symptom,) = symptoms(Shrinkage(), [planned(100.0, 0.001)])
    assert symptom.message == "With a learning rate of 0.001, 100 rounds can remove at most 9.52% of the residual."
    assert causes(symptom) == ["learning-rate-too-low"]


def test_a_rate_above_one_is_told() -> None:
    (symptom,) = symptoms(Shrinkage(), [planned(100.0, 1.5)])
    assert causes(symptom) == ["learning-rate-too-high"]


@pytest.mark.parametrize(("rounds", "rate"), [(100.0, 0.1), (10.0, 0.3), (2000.0, 0.001), (1.0, 1.0), (30.0, 0.01)])
def test_usual_rates_are_let_pass(rounds: float, rate: float) -> None:
    assert said(Shrinkage(), [planned(rounds, rate)]) == [[]]


def test_the_rate_of_an_optimizer_is_not_judged() -> None:
    assert said(Shrinkage(), [StepView.of(0, {RATE: 5.0})]) == [
        [Unjudged("no learning rate or number of rounds of a boosted model was recorded")]]


# RoundsPastBest

FALLS = np.geomspace(1.0, 0.5, 30).tolist()


def test_a_held_out_loss_that_rises_for_long_is_past_its_best() -> None:
    found = symptoms(RoundsPastBest(), boosted([*FALLS, *np.linspace(0.5, 0.7, 90).tolist()], NO_STOPPING))
    assert found[0].message == ("The held-out loss was best near round 35 (0.508); 50 rounds later it is 0.611, and "
                                "nothing stops the training.")
    assert causes(found[0]) == ["overfitting"]


def test_deep_trees_are_suspected_too() -> None:
    found = symptoms(RoundsPastBest(), boosted([*FALLS, *np.linspace(0.5, 0.7, 90).tolist()], NO_STOPPING, 16.0))
    assert causes(found[0]) == ["overfitting", "trees-too-deep"]


def test_a_held_out_loss_that_never_fell_speaks_of_labels() -> None:
    found = symptoms(RoundsPastBest(), boosted(np.linspace(2.3, 3.0, 90).tolist(), NO_STOPPING))
    assert causes(found[0])[0] == "labels-unrelated"


def test_a_loss_that_rests_or_rises_a_little_is_let_pass() -> None:
    resting = [*FALLS, *np.linspace(0.5, 0.51, 200).tolist()]
    assert symptoms(RoundsPastBest(), boosted(resting, NO_STOPPING)) == []


def test_a_loss_that_scatters_is_let_pass() -> None:
    noise = np.random.default_rng(0).normal(1.0, 0.1, 300).tolist()
    assert symptoms(RoundsPastBest(), boosted(noise, NO_STOPPING)) == []


def test_a_rate_of_errors_moves_in_steps_and_is_not_judged() -> None:
    steps = [*FALLS, *([0.5, 0.6] * 60)]
    found = said(RoundsPastBest(), boosted(steps, NO_STOPPING))
    assert found[-1] == [Unjudged("the held-out loss moves in steps, as an error rate does")]


def test_what_early_stopping_will_end_is_not_judged() -> None:
    stopping = {Fact.EARLY_STOPPING: 100.0, (Fact.EARLY_STOPPING, "training"): 0.0}
    found = said(RoundsPastBest(), boosted([*FALLS, *np.linspace(0.5, 0.7, 90).tolist()], stopping))
    assert found[-1] == [Unjudged("early stopping ends the training after 100 rounds without improvement")]


def test_early_stopping_by_the_training_data_is_told() -> None:
    stopping = {Fact.EARLY_STOPPING: 20.0, (Fact.EARLY_STOPPING, "training"): 1.0}
    (symptom,) = symptoms(RoundsPastBest(), boosted([], stopping))
    assert symptom.subject == "watches the training data"
    assert causes(symptom) == ["leaky-validation", "overfitting"]


def test_the_evaluations_of_a_network_are_not_judged() -> None:
    rising = [evaluated(number, {TOTAL: 1.0 + number}) for number in range(100)]
    assert symptoms(RoundsPastBest(), rising) == []


def test_a_small_rise_is_enough_where_the_training_samples_are_known_by_heart() -> None:
    held_out = [*FALLS, *np.linspace(0.5, 0.515, 90).tolist()]
    learnt = [100 * 0.9**number for number in range(len(held_out))]
    kept = [max(loss, 2.0) for loss in learnt]

    found = symptoms(RoundsPastBest(), boosted(held_out, NO_STOPPING, 16.0, learnt))
    assert "nothing stops the training" in found[0].message
    assert causes(found[0])[:2] == ["overfitting", "trees-too-deep"]
    assert "the samples are memorized" in found[0].causes[0].why
    assert symptoms(RoundsPastBest(), boosted(held_out, NO_STOPPING, 16.0, kept)) == []
    assert symptoms(RoundsPastBest(memorized_share=0.0), boosted(held_out, NO_STOPPING, 16.0, learnt)) == []
