"""The loss that a trial is expected to reach."""

from __future__ import annotations

import pytest

from barograph.tune import Study
from barograph.tune.spec import Objective
from barograph.tune.strategies.outlook import Outlook
from barograph.tune.trial import Cause, Origin, Trial

LOSS = Objective("loss")


def trial(number: int, *losses: float) -> Trial:
    return Trial(number, {}, Origin("random"), curve=dict(enumerate(losses, 1)))


def test_a_trial_that_trained_longest_keeps_its_last_loss() -> None:
    assert Outlook().expected_losses([trial(0, 0.9, 0.5), trial(1, 0.8, 0.6)], LOSS) == {0: 0.5, 1: 0.6}


def test_a_stopped_trial_improves_as_much_as_the_median_of_those_that_went_on() -> None:
    longer = [trial(0, 0.9, 0.5), trial(1, 0.9, 0.4), trial(2, 0.9, 0.1)]
    assert Outlook().expected_losses([*longer, trial(3, 1.0)], LOSS)[3] == pytest.approx(0.5)


def test_changes_are_added_up_over_trials_of_different_length() -> None:
    trials = [trial(0, 0.9, 0.5, 0.2), trial(1, 0.9, 0.6), trial(2, 1.0)]
    found = Outlook().expected_losses(trials, LOSS)
    assert found[1] == pytest.approx(0.3)
    assert found[2] == pytest.approx(0.35)  # changes of −0.7 and −0.6


def test_steps_that_differ_are_compared_at_the_next_report() -> None:
    longer = Trial(0, {}, Origin("random"), curve={10: 1.0, 20: 0.5, 30: 0.4})
    shorter = Trial(1, {}, Origin("random"), curve={15: 0.8})
    assert Outlook().expected_losses([longer, shorter], LOSS)[1] == pytest.approx(0.7)


def test_higher_is_better_when_maximizing() -> None:
    found = Outlook().expected_losses([trial(0, 0.1, 0.9), trial(1, 0.2)], Objective("accuracy", maximize=True))
    assert found == {0: pytest.approx(-0.9), 1: pytest.approx(-1.0)}


def test_trials_without_reports_are_left_out() -> None:
    assert Outlook().expected_losses([trial(0), trial(1, 0.5)], LOSS) == {1: 0.5}


def test_a_study_searches_near_a_good_trial_that_runs_or_was_stopped_early() -> None:
    study = Study.create(None, {"x": (0.0, 1.0)}, seed=1, minimize="loss")
    for at in (0.1, 0.3, 0.5, 0.7, 0.9):  # the loss is |x − 0.3| at the end, and 1 more after the first report
        study.add({"x": at}, abs(at - 0.3), curve={1: abs(at - 0.3) + 1.0, 2: abs(at - 0.3)})
    for at in (0.28, 0.26, 0.24):  # their last losses are above 1, like those of the worst trials
        study.add({"x": at}, stopped="others were better", curve={1: abs(at - 0.25) + 1.0})
    proposed = study.ask()
    assert proposed is not None
    assert 0.2 < float(proposed.parameters["x"]) < 0.32
    study.report(proposed, 1, 1.0)
    found = study.ask()
    assert found is not None
    assert abs(float(found.parameters["x"]) - 0.25) < 0.1


def test_a_trial_that_a_finding_stopped_counts_as_failed_whatever_its_curve_says() -> None:
    study = Study.create(None, {"x": (0.0, 1.0)}, seed=1, minimize="loss")
    for at in (0.1, 0.3, 0.5, 0.7, 0.9):
        study.add({"x": at}, abs(at - 0.3), curve={1: abs(at - 0.3) + 1.0, 2: abs(at - 0.3)})
    trial = study.ask()
    assert trial is not None
    study.report(trial, 1, 0.0)
    study.stop(trial, "it diverged", cause=Cause.FINDING)
    study.tell(trial)
    assert trial.number not in {stopped.number for stopped, _ in study._history.stopped}
