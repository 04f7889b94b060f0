"""Studies: asking, telling, resuming, completion."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from barograph.errors import BadSpace, StoreFull, StudyChanged, StudyExists, TrainingStopped, TuneError, UnknownStudy
from barograph.model.clock import ManualClock
from barograph.store.files import FileStore
from barograph.store.urls import store_from_url
from barograph.tune.analysis import hopeless_regions
from barograph.tune.completion import tried_again
from barograph.tune.options import stopping_of
from barograph.tune.running import RunningTrial, Tuned, tune
from barograph.tune.space import Space, space_from
from barograph.tune.spec import Completion, Stopping
from barograph.tune.study import Study
from barograph.tune.trial import Cause, Trial, TrialState

X = {"x": (-1.0, 1.0)}


def asked(study: Study, **options: Any) -> Trial:
    trial = study.ask(**options)
    assert trial is not None
    return trial


def told(study: Study, *values: float | None) -> Study:
    for value in values:
        study.tell(asked(study), value, failed="" if value is not None else "ValueError: bad")
    return study


def test_the_best_trial_is_the_lowest_or_the_highest() -> None:
    assert told(Study.create(None, X, strategy="random"), 3.0, 1.0, 2.0).best.number == 1
    assert told(Study.create(None, X, strategy="random", maximize="accuracy"), 3.0, 1.0, 2.0).best.number == 0


def test_a_study_is_read_again_as_it_was(tmp_path: Path) -> None:
    study = Study.create(tmp_path, X, strategy="random", seed=1, trials=5)
    told(study, 1.0, 2.0, None)
    study.report(asked(study, job="digits-{number:04d}"), 1, 0.5)
    again = Study.open(tmp_path)
    assert again.spec == study.spec
    assert [trial.parameters for trial in again.trials] == [trial.parameters for trial in study.trials]
    assert [trial.values for trial in again.trials] == [(1.0,), (2.0,), (), ()]
    assert [trial.number for trial in again.running] == [3]
    assert again.trials[3].job == "digits-0003"
    assert again.trials[2].reason == "ValueError: bad"


def test_another_process_that_asks_first_gets_the_first_number(tmp_path: Path) -> None:
    one = Study.create(tmp_path, X, strategy="random", seed=1)
    other = Study.open(tmp_path)
    numbers = [asked(study).number for study in (one, other, other, one)]
    assert numbers == [0, 1, 2, 3]
    one.tell(1, 5.0)
    other.refresh()
    assert other.trials[1].values == (5.0,)
    other.tell(1, 7.0)
    assert Study.open(tmp_path).trials[1].values == (5.0,)


@pytest.mark.parametrize("strategy", ["random", "grid"])
def test_a_seed_gives_the_same_trials_also_after_a_kill(tmp_path: Path, strategy: str) -> None:
    space = {"x": (-1.0, 1.0), "n": (1, 9), "kind": ["a", "b"]}
    whole = told(Study.create(None, space, strategy=strategy, seed=5), *map(float, range(20)))
    told(Study.create(tmp_path, space, strategy=strategy, seed=5), *map(float, range(7)))
    rest = told(Study.open(tmp_path), *map(float, range(7, 20)))
    assert [trial.parameters for trial in rest.trials] == [trial.parameters for trial in whole.trials]
    other = told(Study.create(None, space, strategy=strategy, seed=6), *map(float, range(20)))
    assert [trial.parameters for trial in other.trials] != [trial.parameters for trial in whole.trials]


def test_two_studies_with_one_name_are_refused(tmp_path: Path) -> None:
    Study.create(tmp_path, X)
    with pytest.raises(StudyExists, match="A study already exists here"):
        Study.create(tmp_path, X)


def test_a_place_without_a_study(tmp_path: Path) -> None:
    with pytest.raises(UnknownStudy):
        Study.open(tmp_path)


@pytest.mark.parametrize(("change", "message"), [
    ({"space": {"x": (-1.0, 2.0)}}, "the space was x=-1..1, now x=-1..2"),
    ({"maximize": "accuracy"}, "the objective was minimize value, now maximize accuracy"),
    ({"strategy": "grid"}, "the strategy was random, now grid"),
    ({"seed": 2}, "the seed was 1, now 2"),
])
def test_a_changed_study_is_not_resumed(tmp_path: Path, change: dict[str, Any], message: str) -> None:
    Study.create(tmp_path, X, strategy="random", seed=1)
    options = {"strategy": "random", "seed": 1, **change}
    with pytest.raises(StudyChanged) as caught:
        Study.create(tmp_path, options.pop("space", X), resume=True, **options)
    assert message in str(caught.value)


def test_a_resumed_study_may_have_more_trials(tmp_path: Path) -> None:
    told(Study.create(tmp_path, X, strategy="random", trials=2), 1.0, 2.0)
    assert Study.open(tmp_path).over == "it reached its limit of 2 trials"
    study = Study.create(tmp_path, X, strategy="random", trials=3, resume=True)
    assert study.over == ""
    told(study, 3.0)
    assert Study.open(tmp_path).over == "it reached its limit of 3 trials"


def test_a_resumed_study_does_not_count_the_trials_that_all_failed(tmp_path: Path) -> None:
    space = {"x": list(range(20))}
    study = Study.create(tmp_path, space, strategy="grid", trials=20)
    while trial := study.ask():
        study.tell(trial, failed="no such dataset")
    study = Study.create(tmp_path, space, strategy="grid", trials=20, resume=True)
    tried = set()
    while trial := study.ask():
        study.tell(trial, 1.0)
        tried.add(trial.parameters["x"])
    assert (len(tried), len(study.trials), study.limit) == (20, 25, 25)
    assert study.over == "it reached its limit of 20 trials, not counting 5 that failed before it was resumed"


def test_a_study_of_one_trial_is_over_after_it() -> None:
    assert told(Study.create(None, X, strategy="random", trials=1), 1.0).over == "it reached its limit of 1 trial"


def test_resuming_without_criteria_keeps_them(tmp_path: Path) -> None:
    Study.create(tmp_path, X, strategy="random", trials=2)
    assert Study.create(tmp_path, X, strategy="random", resume=True).spec.completion.trials == 2


def test_values_of_the_user_are_no_points_of_the_grid() -> None:
    study = Study.create(None, {"n": [1, 2, 3]}, strategy="grid", seed=1)
    study.give({"n": 2})
    assert sorted(asked(study).parameters["n"] for _ in range(4)) == [1, 2, 2, 3]  # type: ignore[type-var]
    assert study.ask() is None


def test_a_study_without_further_combinations_is_over_for_everybody(tmp_path: Path) -> None:
    study = Study.create(tmp_path, {"n": [1, 2]}, strategy="grid", seed=1)
    told(study, 1.0, 2.0)
    assert Study.open(tmp_path).over == ""
    assert study.ask() is None
    again = Study.open(tmp_path)
    assert again.over == "every combination was tried"
    again.extend(Completion(trials=5))
    assert again.ask() is None
    assert again.over == "every combination was tried"


def test_values_of_the_user_come_first() -> None:
    study = Study.create(None, X, strategy="random")
    study.give({"x": 0.25})
    study.give({"x": 0.5})
    assert [asked(study).parameters["x"] for _ in range(2)] == [0.25, 0.5]
    assert asked(study).origin.proposer == "random"
    with pytest.raises(BadSpace, match="x is 3, not in"):
        study.give({"x": 3})


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_a_value_that_is_not_finite_is_a_failure(value: float) -> None:
    trial = told(Study.create(None, X, strategy="random"), value).trials[0]
    assert (trial.state, trial.reason) == (TrialState.FAILED, "value is not finite")


def test_a_metric_that_never_arrives_is_a_failure() -> None:
    study = Study.create(None, X, strategy="random", maximize="accuracy")
    study.tell(asked(study))
    assert study.trials[0].reason == "accuracy was never reported"


def test_a_study_whose_trials_all_fail_gives_up_with_the_common_cause() -> None:
    study = told(Study.create(None, X, strategy="random"), None, None, None, None)
    assert study.over == ""
    told(study, None)
    assert study.over == "all 5 trials failed with: ValueError: bad"
    assert study.ask() is None
    with pytest.raises(TuneError, match="No trial of the study has finished"):
        _ = study.best


def test_one_result_keeps_a_study_going() -> None:
    assert told(Study.create(None, X, strategy="random"), 1.0, *[None] * 20).over == ""


@pytest.mark.parametrize(("completion", "values", "over"), [
    (Completion(target=0.5), (1.0, 0.6), ""),
    (Completion(target=0.5), (1.0, 0.5), "value reached the target of 0.5"),
    (Completion(patience=3), (1.0, 0.995, 0.991, 0.992), "no improvement of value by 1% in 3 trials"),
    (Completion(patience=3), (1.0, 0.995, 0.98, 0.992), ""),
])
def test_completion_by_value(completion: Completion, values: tuple[float, ...], over: str) -> None:
    assert told(Study.create(None, X, strategy="random", completion=completion), *values).over == over


def test_completion_by_cost() -> None:
    study = Study.create(None, X, strategy="random", completion=Completion(cost=3.0))
    study.tell(asked(study), 1.0, cost=1.5)
    assert study.over == ""
    study.tell(asked(study), 1.0, cost=1.5)
    assert study.over == "its trials cost 3 (limit 3)"


def test_jumps_of_the_clock_do_not_count_as_time(tmp_path: Path) -> None:
    clock = ManualClock()
    study = Study.create(tmp_path, X, strategy="random", completion=Completion(secs=100.0), clock=clock)
    clock.jump(1e6)
    trial = asked(study)
    clock.advance(60.0)
    clock.jump(-2e6)
    study.tell(trial, 1.0)
    later = ManualClock(unix=5.0)
    again = Study.open(tmp_path, clock=later)
    assert again.secs == 60.0
    later.advance(40.0)
    assert again.over == "it reached its time limit of 1 min 40 s"


@pytest.mark.parametrize("wrong", [{"trials": 0}, {"secs": -1.0}, {"patience": 0}, {"target": float("nan")}])
def test_impossible_criteria_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(TuneError):
        Completion(**wrong)


def test_several_objectives_have_a_front() -> None:
    study = Study.create(None, X, strategy="random", maximize="accuracy", minimize="latency")
    for values in ((0.9, 10.0), (0.8, 5.0), (0.7, 6.0), (0.9, 12.0)):
        study.tell(asked(study), values)
    study.tell(asked(study), {"latency": 1.0, "accuracy": 0.1})
    assert [trial.number for trial in study.front] == [0, 1, 4]
    with pytest.raises(TuneError, match="has 2 values"):
        study.tell(asked(study), 1.0)
    with pytest.raises(TuneError, match="have no latency"):
        study.tell(asked(study), {"accuracy": 1.0})


def test_a_full_disk_loses_nothing(tmp_path: Path) -> None:
    class Full(FileStore):
        full = False

        def create(self, name: str, data: bytes) -> None:
            if self.full:
                raise StoreFull("No space left.")
            super().create(name, data)

    store = Full(tmp_path)
    study = Study.create(store, X, strategy="random", seed=1)
    trial = asked(study)
    store.full = True
    with pytest.raises(StoreFull):
        study.tell(trial, 1.0)
    with pytest.raises(StoreFull):
        study.ask()
    assert (trial.state, len(study.trials)) == (TrialState.RUNNING, 1)
    store.full = False
    study.tell(trial, 1.0)
    assert [one.values for one in Study.open(tmp_path).trials] == [(1.0,)]


def test_a_bucket_holds_a_study() -> None:
    store = store_from_url("memory://test-tune-study")
    told(Study.create(store, X, strategy="random"), 1.0)
    assert Study.open("memory://test-tune-study").best.values == (1.0,)


# Stopping trials


def test_a_trial_that_is_to_stop_counts_as_stopped(tmp_path: Path) -> None:
    study = Study.create(tmp_path, X, strategy="random")
    trial = asked(study)
    study.report(trial, 1, 9.0)
    study.stop(trial, "the loss diverged")
    assert study.should_stop(trial) == "the loss diverged"
    assert Study.open(tmp_path).should_stop(0) == "the loss diverged"
    study.tell(trial, 9.0)
    again = Study.open(tmp_path).trials[0]
    assert (again.state, again.reason, again.cause, again.curve) == (
        TrialState.STOPPED, "the loss diverged", Cause.FINDING, {1: 9.0})


def test_a_known_step_that_is_reported_again_is_ignored() -> None:
    study = Study.create(None, X, strategy="random")
    trial = asked(study)
    study.report(trial, 1, 9.0)
    study.report(trial, 1, 5.0)
    study.report(trial, 2, float("nan"))
    assert trial.curve == {1: 9.0}


# A function in one process


def test_tune_finds_the_best_of_a_function() -> None:
    found = tune(lambda parameters: (parameters["x"] - 0.25) ** 2, X, trials=200, strategy="random", seed=1)
    assert abs(found.parameters["x"] - 0.25) < 0.02  # type: ignore[operator]
    assert found.value == found.trial.value


def test_a_killed_function_is_run_again_for_the_trial_it_was_in(tmp_path: Path) -> None:
    tried: list[float] = []

    def objective(parameters: dict[str, Any]) -> float:
        tried.append(parameters["x"])
        if len(tried) == 4:
            raise KeyboardInterrupt
        return float(parameters["x"])

    with pytest.raises(KeyboardInterrupt):
        tune(objective, X, trials=6, strategy="random", seed=1, where=tmp_path)
    found = tune(objective, X, trials=6, strategy="random", seed=1, where=tmp_path)
    assert [trial.parameters["x"] for trial in found.study.trials] == [*tried[:3], *tried[4:]]
    assert tried[3] == tried[4]


def test_an_objective_may_stop_early() -> None:
    def objective(parameters: dict[str, Any], trial: RunningTrial) -> float:
        for step in range(1, 10):
            if trial.report(step, parameters["x"]):
                break
        if parameters["x"] > 0.9:
            trial.stop("hopeless")
        return float(parameters["x"])

    found = tune(objective, X, trials=60, strategy="random", seed=1)
    stopped = [trial for trial in found.study.trials if trial.state is TrialState.STOPPED]
    assert len(stopped) > 20
    assert all(trial.reason for trial in stopped)
    assert found.trial.curve.keys() == set(range(1, 10))


def test_a_training_that_a_finding_stopped_is_a_stopped_trial() -> None:
    def objective(parameters: dict[str, Any]) -> float:
        if parameters["x"] > 0:
            raise TrainingStopped("L105 diverged")
        return float(parameters["x"])

    found = tune(objective, X, trials=10, strategy="random", seed=1)
    stopped = [trial for trial in found.study.trials if trial.parameters["x"] > 0]  # type: ignore[operator]
    assert {(trial.state, trial.reason, trial.cause) for trial in stopped} == {
        (TrialState.STOPPED, "L105 diverged", Cause.FINDING)}


def test_a_function_that_failed_is_tried_again_by_the_same_call(tmp_path: Path) -> None:
    def call(objective: Callable[[Mapping[str, Any]], float]) -> Tuned:
        return tune(objective, {"x": [1, 2]}, trials=3, strategy="random", where=tmp_path)

    with pytest.raises(TuneError, match="All 3 trials failed with: ZeroDivisionError"):
        call(lambda found: 1 / 0)
    with pytest.raises(TuneError, match="All 3 trials failed with: KeyError"):
        call(lambda found: found["y"])
    assert call(lambda found: 0.5).trial.number == 6


def test_a_function_that_always_fails_says_why() -> None:
    with pytest.raises(TuneError, match="All 5 trials failed with: ZeroDivisionError: "):
        tune(lambda parameters: 1 // 0, X, strategy="random")


def test_constraints_belong_to_the_space(tmp_path: Path) -> None:
    space = Space.from_mapping({"a": (1, 9), "b": (1, 9)}, ["a < 9"])
    assert [one.text for one in space_from(space, ["a < b"]).constraints] == ["a < 9", "a < b"]
    Study.create(tmp_path, space, strategy="random", seed=1)
    with pytest.raises(StudyChanged, match="the constraints were a < 9, now a < 9; a < b"):
        Study.create(tmp_path, space, constraints=["a < b"], strategy="random", seed=1, resume=True)


def test_a_negative_seed_is_refused() -> None:
    with pytest.raises(TuneError, match="The seed is -1"):
        Study.create(None, X, seed=-1)


def test_a_damaged_event_leaves_the_other_trials_as_they_are(tmp_path: Path) -> None:
    told(Study.create(tmp_path, X, strategy="random", seed=1), 1.0, 2.0, 3.0)
    FileStore(tmp_path).put("study/events/00000003.json", b"{}")  # the second trial was asked for
    study = Study.open(tmp_path)
    assert [(trial.number, str(trial.state), trial.values) for trial in study.trials] == [
        (0, "finished", (1.0,)), (1, "failed", ()), (2, "finished", (3.0,))]
    assert study.running == []
    assert study.ask() is not None


def test_a_study_that_gave_up_may_try_again() -> None:
    study = told(Study.create(None, X, strategy="random"), *[None] * 5)
    assert "all 5 trials failed" in study.over
    study.extend(tried_again(study.spec.completion, study.trials, was_over=True))
    assert study.over == ""
    for _ in range(5):
        study.tell(asked(study), failed="KeyError: 'y'")
    assert study.over == "all 5 trials failed with: KeyError: 'y'", "not with the cause that was mended"
    assert tried_again(study.spec.completion, [], was_over=True) == study.spec.completion


def test_a_study_shows_what_it_is_in_one_line() -> None:
    study = told(Study.create(None, X, strategy="random"), None)
    assert repr(study) == "<study: minimize value, 1 trial>"
    assert repr(told(study, 0.25)) == "<study: minimize value, 2 trials, best 0.25>"


@pytest.mark.parametrize("strategy", ["grid", "auto"])
def test_a_study_that_tries_again_forgets_what_failed(tmp_path: Path, strategy: str) -> None:
    space = {"n": [1, 2, 3, 4, 5, 6]}
    study = told(Study.create(tmp_path, space, strategy=strategy, seed=1, trials=20), *[None] * 5)
    again = Study.create(tmp_path, space, strategy=strategy, seed=1, trials=20, resume=True)
    assert hopeless_regions(again) == []
    tried = list[int]()
    for known in (again, study):  # the second one did not write the event
        known.refresh()
        for _ in range(3):
            trial = known.ask()
            assert trial is not None
            tried.append(int(trial.parameters["n"]))
            known.tell(trial, 1.0)
    assert sorted(tried) == [1, 2, 3, 4, 5, 6]
    assert len(Study.open(tmp_path).trials) == 11


# Errors of an objective, and values that are none


@pytest.mark.parametrize("error", [TuneError("no such model"), StoreFull("No space left."), ValueError("bad")])
def test_any_error_of_an_objective_is_a_failed_trial(error: Exception) -> None:
    def objective(parameters: dict[str, Any]) -> float:
        if parameters["x"] > 0:
            raise error
        return float(parameters["x"])

    found = tune(objective, X, trials=10, strategy="random", seed=1)
    failed = [trial for trial in found.study.trials if trial.state is TrialState.FAILED]
    assert [str(error) in trial.reason for trial in failed] == [True] * sum(
        trial.parameters["x"] > 0 for trial in found.study.trials)  # type: ignore[operator]
    assert failed


@pytest.mark.parametrize(("code", "reason"), [(3, "sys.exit(3)"), ("no data", "sys.exit('no data')")])
def test_an_objective_that_exits_with_an_error_is_a_failed_trial(code: Any, reason: str) -> None:
    def objective(parameters: dict[str, Any]) -> float:
        if parameters["x"] > 0:
            sys.exit(code)
        return float(parameters["x"])

    found = tune(objective, X, trials=10, strategy="random", seed=1)
    assert len(found.study.trials) == 10
    assert {trial.reason for trial in found.study.trials if trial.state is TrialState.FAILED} == {reason}


@pytest.mark.parametrize("error", [KeyboardInterrupt(), SystemExit(0), SystemExit()])
def test_an_objective_that_ends_the_program_leaves_its_trial_to_be_resumed(
    tmp_path: Path, error: BaseException
) -> None:
    def objective(parameters: dict[str, Any]) -> float:
        raise error

    with pytest.raises(type(error)):
        tune(objective, X, trials=10, strategy="random", seed=1, where=tmp_path)
    assert [trial.number for trial in Study.open(tmp_path).running] == [0]


@pytest.mark.parametrize(("strategy", "rule"), [("auto", "median"), ("random", "median"), ("hyperband", "asha")])
def test_the_command_line_and_python_stop_trials_by_the_same_rule(strategy: str, rule: str) -> None:
    study = Study.create(None, X, strategy=strategy)
    assert study.spec.stopping == stopping_of({"strategy": strategy})
    assert study.spec.stopping.rules == (rule,)


def test_an_error_of_the_study_itself_ends_it(tmp_path: Path) -> None:
    class Full(FileStore):
        full = False

        def create(self, name: str, data: bytes) -> None:
            if self.full:
                raise StoreFull("No space left.")
            super().create(name, data)

    store = Full(tmp_path)

    def objective(parameters: dict[str, Any], trial: RunningTrial) -> float:
        store.full = True
        try:
            trial.stop("hopeless")
        except Exception:  # noqa: BLE001 - as a careless script does
            return 1.0
        return 2.0

    with pytest.raises(StoreFull):
        tune(objective, X, trials=10, strategy="random", seed=1, where=store)
    store.full = False
    assert [trial.number for trial in Study.open(tmp_path).running] == [0]


@pytest.mark.parametrize(("value", "message"), [
    ("0.5", "A value of a trial must be a number, not '0.5'."), ([1.0, 2.0], "A trial has 1 value (value), not 2."),
    ({"loss": 1.0}, "The values have no value."), (10**400, "must be a number"), (object, "must be a number"),
    (None, "value was never reported"),
])
def test_a_function_that_returns_no_number_says_so(value: Any, message: str) -> None:
    with pytest.raises(TuneError) as caught:
        tune(lambda parameters: value, X, strategy="random")
    assert message in str(caught.value)
    assert str(caught.value).startswith("All 5 trials failed")


def test_stopped_and_failed_trials_are_trials_without_an_improvement() -> None:
    study = told(Study.create(None, X, strategy="random", completion=Completion(patience=3)), 1.0, None)
    trial = asked(study)
    study.stop(trial, "the loss diverged")
    study.tell(trial)
    assert study.over == ""
    told(study, None)
    assert study.over == "no improvement of value by 1% in 3 trials"


def test_patience_counts_in_the_order_in_which_trials_end() -> None:
    study = told(Study.create(None, X, strategy="random", completion=Completion(patience=3)), 1.0)
    late = asked(study)
    told(study, 1.0, 1.0)
    study.tell(late, 0.5)
    told(study, 1.0, 1.0)
    assert study.over == ""
    told(study, 1.0)
    assert "in 3 trials" in study.over


def test_patience_begins_with_the_first_result() -> None:
    study = told(Study.create(None, X, strategy="random", completion=Completion(patience=3)), None, None, None, 1.0)
    assert study.over == ""


@pytest.mark.parametrize("strategy", ["grid", "random", "auto"])
def test_constraints_that_nothing_meets_are_refused_at_once(tmp_path: Path, strategy: str) -> None:
    with pytest.raises(BadSpace, match="meets the constraints a > 3"):
        Study.create(tmp_path, {"a": [1, 2, 3], "b": (0.0, 1.0)}, strategy=strategy, constraints=["a > 3"])
    assert not any(tmp_path.iterdir())


def test_a_grid_between_whose_points_the_constraints_lie_is_refused() -> None:
    with pytest.raises(BadSpace, match="A range has 5 values in the grid"):
        Study.create(None, {"b": (0.0, 1.0)}, strategy="grid", constraints=["b > 0.3", "b < 0.4"])


def test_the_failure_of_the_only_trial_is_said_plainly() -> None:
    with pytest.raises(TuneError, match=r"^The only trial failed with: ZeroDivisionError"):
        tune(lambda parameters: 1 // 0, X, strategy="random", trials=1)


# Wrong types


@pytest.mark.parametrize(("options", "message"), [
    ({"space": None}, "is not a search space"), ({"space": {1: (0.0, 1.0)}}, '"1" cannot be the name of a parameter'),
    ({"space": {"x": (-1e308, 1e308)}}, "is too wide"), ({"trials": "5"}, "trials is '5'"),
    ({"trials": 2.5}, "trials is 2.5"), ({"trials": True}, "trials is True"), ({"seed": "a"}, "The seed is 'a'"),
    ({"seed": 1.5}, "The seed is 1.5"), ({"strategy": None}, 'no strategy "None"'),
    ({"completion": {"trials": 3}}, "pass a Completion"),
])
def test_arguments_of_a_wrong_type_are_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises((BadSpace, TuneError)) as caught:
        Study.create(None, options.pop("space", X), **options)
    assert message in str(caught.value)


@pytest.mark.parametrize("wrong", [{"patience": 1.5}, {"secs": "1h"}, {"cost": True}, {"target": "0.5"},
                                   {"trials": float("inf")}])
def test_criteria_of_a_wrong_type_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(TuneError, match=f"{next(iter(wrong))} is "):
        Completion(**wrong)


def test_one_string_stands_for_a_list_of_one(tmp_path: Path) -> None:
    Study.create(tmp_path, X, strategy="random")
    study = Study.create(None, "x=-1..1", constraints="x < 0.5", strategy="random", stopping=Stopping("median"),  # type: ignore[arg-type]
                         parents=str(tmp_path))
    assert study.spec.stopping.rules == ("median",)
    assert [constraint.text for constraint in study.space.constraints] == ["x < 0.5"]


def test_numbers_of_numpy_are_numbers() -> None:
    study = Study.create(None, {"n": list(np.array([8, 16])), "x": (np.float64(0), np.float32(1))}, strategy="random")
    study.give({"n": np.int64(16), "x": np.float32(0.5)})
    assert asked(study).parameters == {"n": 16, "x": 0.5}
    study.tell(0, np.float32(0.25))  # type: ignore[arg-type]
    assert study.best.values == (0.25,)


def test_time_does_not_go_back_when_another_process_has_counted_less(tmp_path: Path) -> None:
    clock = ManualClock()
    study = Study.create(tmp_path, X, strategy="random", completion=Completion(secs=100.0), clock=clock)
    clock.advance(90.0)
    other = ManualClock()
    user = Study.open(tmp_path, clock=other)
    other.advance(1.0)
    user.tell(asked(user), 1.0)
    study.refresh()
    assert study.secs == 90.0
    clock.advance(10.0)
    assert study.over == "it reached its time limit of 1 min 40 s"
