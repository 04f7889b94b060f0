"""Rules that stop trials."""

from __future__ import annotations

import pytest

from barograph.tune.spec import Objective, Stopping
from barograph.tune.stopping import RunningAverages, reason_to_stop
from barograph.tune.study import Study
from barograph.tune.trial import Origin, Trial, TrialState

ACCURACY = Objective("accuracy", maximize=True)
ASHA, MEDIAN = Stopping(rules=("asha",)), Stopping(rules=("median",), warmup_trials=3)


def trial(*values: float, state: TrialState = TrialState.STOPPED, bracket: int = 0) -> Trial:
    return Trial(0, {}, Origin("random", bracket=bracket), state, curve=dict(enumerate(values, 1)))


def test_asha_lets_the_best_third_go_on() -> None:
    peers = [trial(0.5), trial(0.6), trial(0.7), trial(0.8), trial(0.9)]
    assert reason_to_stop(trial(0.85), peers, ACCURACY, ASHA) == ""
    assert reason_to_stop(trial(0.75), peers, ACCURACY, ASHA) == (
        "rank 3 of 6 at step 1, with accuracy 0.75: the best 1/3 go on")


def test_asha_never_stops_the_best_one() -> None:
    assert reason_to_stop(trial(0.85), [trial(0.8)], ACCURACY, ASHA) == ""
    assert reason_to_stop(trial(0.75), [trial(0.8)], ACCURACY, ASHA) != ""
    assert reason_to_stop(trial(0.1), [], ACCURACY, ASHA) == ""


def test_asha_compares_at_its_rungs_only() -> None:
    peers = [trial(0.5, 0.9, 0.9), trial(0.5, 0.9, 0.9)]
    assert reason_to_stop(trial(0.6, 0.1), peers, ACCURACY, ASHA) == ""
    assert reason_to_stop(trial(0.6, 0.1, 0.1), peers, ACCURACY, ASHA) != ""


def test_asha_stops_a_trial_that_others_overtook_with_fewer_steps() -> None:
    slow = trial(0.5, 0.6, 0.7)
    others = [trial(0.8, 0.9, state=TrialState.RUNNING), trial(0.5, 0.6)]
    assert reason_to_stop(slow, others, ACCURACY, ASHA) == (
        "1 of 3 trials were better with fewer steps: the best accuracy up to step 3 is 0.7, and the best 1/9 go on")
    assert reason_to_stop(trial(0.5, 0.6, 0.85), [trial(0.8), trial(0.5)], ACCURACY, ASHA) == ""
    assert reason_to_stop(trial(0.5, 0.6), others, ACCURACY, ASHA) == "", "at its rungs only"
    assert reason_to_stop(slow, [trial(0.8), *[trial(0.1)] * 17], ACCURACY, ASHA) == "", "it is among the best ninth"
    assert reason_to_stop(slow, [*[trial(0.8)] * 3, *[trial(0.1)] * 16], ACCURACY, ASHA) != ""


def test_asha_compares_with_trials_that_still_run() -> None:
    peers = [trial(0.9, state=TrialState.RUNNING) for _ in range(3)]
    assert reason_to_stop(trial(0.5), peers, ACCURACY, ASHA) != ""


def test_steps_far_apart_are_compared_at_the_next_report() -> None:
    objective = Objective("loss")
    peers = [Trial(0, {}, Origin("random"), curve={100: 1.0, 300: 0.5}) for _ in range(3)]
    late = Trial(0, {}, Origin("random"), curve={100: 0.9, 150: 0.8, 250: 0.7})
    assert "rank 4 of 4" in reason_to_stop(late, peers, objective, ASHA)


def test_brackets_are_compared_by_themselves_and_begin_later() -> None:
    peers = [trial(0.9, 0.9, 0.9), trial(0.9, 0.9, 0.9)]
    assert reason_to_stop(trial(0.1, bracket=1), peers, ACCURACY, ASHA) == ""
    assert reason_to_stop(trial(0.1, 0.1, 0.1, bracket=1), peers, ACCURACY, ASHA) == ""
    own = [trial(0.9, 0.9, 0.9, bracket=1) for _ in range(2)]
    assert reason_to_stop(trial(0.1, bracket=1), own, ACCURACY, ASHA) == ""
    assert reason_to_stop(trial(0.1, 0.1, 0.1, bracket=1), own, ACCURACY, ASHA) != ""


def test_the_median_rule_compares_the_best_value_with_running_averages() -> None:
    peers = [trial(0.2, 0.4), trial(0.4, 0.6), trial(0.6, 0.8)]  # averages 0.3, 0.5, 0.7
    assert reason_to_stop(trial(0.1, 0.5), peers, ACCURACY, MEDIAN) == ""
    assert reason_to_stop(trial(0.1, 0.45), peers, ACCURACY, MEDIAN) == (
        "worse than the median of 3 trials, 0.5: the best accuracy up to step 2 is 0.45")


def test_the_median_rule_needs_trials_that_ended() -> None:
    running = [trial(0.9, 0.9, state=TrialState.RUNNING) for _ in range(9)]
    assert reason_to_stop(trial(0.1, 0.1), [*running, trial(0.9, 0.9), trial(0.9, 0.9)], ACCURACY, MEDIAN) == ""


def test_the_median_rule_compares_after_a_fifth_of_a_finished_trial() -> None:
    peers = [trial(*[0.9] * 10, state=TrialState.FINISHED) for _ in range(3)]
    assert reason_to_stop(trial(0.1), peers, ACCURACY, MEDIAN) == ""
    assert reason_to_stop(trial(0.1, 0.1), peers, ACCURACY, MEDIAN) != ""
    stopped = [trial(*[0.9] * 10, state=TrialState.STOPPED) for _ in range(3)]
    assert reason_to_stop(trial(0.1), stopped, ACCURACY, MEDIAN) != "", "nobody knows how long a trial takes"


@pytest.mark.parametrize("rules", [ASHA, MEDIAN])
def test_no_trial_is_stopped_at_its_end(rules: Stopping) -> None:
    once = [trial(0.9, state=TrialState.FINISHED) for _ in range(5)]
    assert reason_to_stop(trial(0.1), once, ACCURACY, rules) == "", "the metric arrives once, after the training"
    longer = [trial(0.9, 0.9, 0.9, state=TrialState.FINISHED) for _ in range(5)]
    assert reason_to_stop(trial(0.1), longer, ACCURACY, rules) != ""
    assert reason_to_stop(trial(0.9, 0.9, 0.1), longer, ACCURACY, rules) == ""


def test_rules_can_be_disabled() -> None:
    peers = [trial(0.9) for _ in range(9)]
    assert reason_to_stop(trial(0.1), peers, ACCURACY, Stopping(rules=())) == ""


def test_a_metric_that_arrives_once_stops_nothing_that_has_ended() -> None:
    study = Study.create(None, {"x": (0.0, 1.0)}, strategy="random", maximize="accuracy")
    for value in (0.9, 0.1):
        asked = study.ask()
        assert asked is not None
        study.tell(asked, value)
        assert study.report(asked, 1, value) == ""
    assert [one.state for one in study.trials] == [TrialState.FINISHED] * 2


class Curve(dict[int, float]):
    """A curve that counts how often it is read."""

    reads = 0

    def __getitem__(self, step: int) -> float:
        self.reads += 1
        return super().__getitem__(step)


def test_the_median_rule_reads_the_curve_of_an_ended_trial_once() -> None:
    curves = [Curve(enumerate([0.5] * 20, 1)) for _ in range(3)]
    peers = [Trial(0, {}, Origin("random"), TrialState.FINISHED, curve=curve) for curve in curves]
    averages = RunningAverages()
    for count in range(1, 21):
        assert not reason_to_stop(trial(*[0.9] * count), peers, ACCURACY, MEDIAN, averages)
    assert [curve.reads for curve in curves] == [20, 20, 20]
    assert reason_to_stop(trial(0.4, 0.4, 0.4, 0.4), peers, ACCURACY, MEDIAN, averages)
