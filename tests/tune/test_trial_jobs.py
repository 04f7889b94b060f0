"""How trials become jobs, what their metrics are, and which of them are hopeless."""

from __future__ import annotations

import argparse
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from barograph.errors import StoreUnavailable, TuneError, UnknownName
from barograph.jobs.home import JobsHome
from barograph.jobs.job_log import EVENTS, INSTANCES, EventLog, instance_folder, log_folder
from barograph.jobs.job_report import JobView
from barograph.jobs.spec import JobSpec
from barograph.jobs.state import JobState, Phase
from barograph.jobs.submission import Submission, write_submission
from barograph.model.clock import ManualClock
from barograph.model.finding import Finding, FindingState, Severity
from barograph.model.step import Mode
from barograph.queries.problems import Problem
from barograph.queries.remedies import remedy_of
from barograph.store.files import FileStore
from barograph.tune.autotune import autotuned, space_of_algorithm
from barograph.tune.confirmation import judged
from barograph.tune.hopeless import reason_to_give_up
from barograph.tune.metric_values import MetricValues, curve_of, printed_names
from barograph.tune.options import better_error, check_objectives, completion_of, split_entries, stopping_of
from barograph.tune.spec import Objective
from barograph.tune.study import Study
from barograph.tune.trial import Origin, Trial
from barograph.tune.trial_job import TrialJob, without_values
from barograph.tune.trial_plan import TrialPlan

LOSS, SCORE = Objective("loss"), Objective("score", maximize=True)


def plan(*command: str, **more: object) -> TrialPlan:
    return TrialPlan("study", JobSpec(command), "file:///runs", **more)  # type: ignore[arg-type]


def trial(number: int, *curve: float) -> Trial:
    return Trial(number, {}, Origin("random"), curve=dict(enumerate(curve, 1)))


def problem(code: str = "L105", severity: Severity = Severity.COSTLY, cause: str = "learning-rate-too-high",
            title: str = "The learning rate is too high (2.5)", **more: object) -> Problem:
    finding = Finding("id", code, "x", severity, FindingState.OPEN, "m", "r", (), "", "p0", "",
                      Mode.TRAIN, 7, 7, 7, None, 0.0)
    remedy = remedy_of(cause, "Lower the learning rate from 2.5 to 0.25." if cause == "learning-rate-too-high" else "")
    found = Problem(title, cause, 0.9 if cause else 0.0, severity, FindingState.OPEN, 7, (), remedy, (finding,))
    return replace(found, **more)  # type: ignore[arg-type]


def test_values_become_options_or_replace_placeholders() -> None:
    spec = plan("train.py", "--lr", "1", "--out={width}").job_spec("study-001", {"lr": 0.1, "width": 64, "amp": True})
    assert spec.command == ("train.py", "--lr", "0.1", "--out=64", "--amp")
    assert spec.name == "study-001"
    assert spec.settings["experiment"] == "study"
    assert spec.settings["trial"] == "study-001"


def test_arguments_of_a_parameter_that_does_not_apply_are_left_out() -> None:
    tuned = plan("train.py", "--momentum", "{momentum}", "sgd.beta={beta}", "--lr={lr}", "{data.train}")
    assert tuned.job_spec("study-001", {"lr": 0.1}, names=("lr", "momentum", "beta")).command == (
        "train.py", "--lr=0.1", "{data.train}")


def test_a_plan_survives_the_store_and_refuses_nonsense() -> None:
    first = plan("train.py", patterns={"score": "score: (.*)"}, parallel=3)
    assert TrialPlan.from_json(first.to_json()) == first
    assert TrialPlan.from_json({**first.to_json(), "later": 1}) == first
    earlier = {name: value for name, value in first.to_json().items() if name not in ("directory", "packs")}
    assert TrialPlan.from_json(earlier) == first
    for wrong in ({"parallel": 0}, {"confirm": 1}, {"summary": "mean"}, {"patterns": {"score": "score"}},
                  {"patterns": {"score": "("}}):
        with pytest.raises(TuneError):
            plan("train.py", **wrong)
    with pytest.raises(TuneError, match="Python function"):
        TrialPlan.from_json({})


def test_equal_failures_have_equal_reasons() -> None:
    one = without_values("error: --lr 0.03 and width 3", {"lr": 0.03, "width": 3})
    assert one == without_values("error: --lr 0.5 and width 64", {"lr": 0.5, "width": 64})


def test_numbers_that_only_look_like_values_stay() -> None:
    assert without_values("The script ended with exit code 1", {"layers": 1}) == "The script ended with exit code 1"


class Job:
    """A job that prints a score, as far as a tuner reads it."""

    def __init__(self, folder: Path, *outputs: str) -> None:
        self.store, self.state = FileStore(folder), JobState(attempt=len(outputs) - 1)
        for attempt, text in enumerate(outputs):
            self.store.put(f"{log_folder(attempt, 0)}/00000000.log", text.encode())


def test_a_printed_metric_is_read_from_all_attempts(tmp_path: Path) -> None:
    run: Any = None
    job: Any = Job(tmp_path, "score: 0.9\nscore: 0.8", "", "score: 0.5\n")
    values = MetricValues(job, ["score"], {"score": "score: (.*)"}).read(run)["score"]
    assert values.points == ((1, 0.9), (2, 0.8), (3, 0.5))


@pytest.mark.parametrize("output", [
    "epoch 1 acc: 0.9\nepoch 2 acc: 0.8\n", "1 acc 0.9\n2 acc 0.8\n", '{"acc": 9e-1}\n{"acc": 0.80}\n',
    "acc=.9, val_acc=1\nacc = +0.8\n",
])
def test_a_metric_that_is_not_recorded_is_found_in_the_output(tmp_path: Path, output: str) -> None:
    job: Any = Job(tmp_path, output)
    values = MetricValues(job, ["acc", "loss"], {})
    assert values.read(None) == {}, "a run with metrics may follow"

    job.state = replace(job.state, phase=Phase.FINISHED)

    assert values.read(None)["acc"].points == ((1, 0.9), (2, 0.8))
    assert "loss" not in values.read(None)


def test_a_metric_that_is_only_printed_is_read_while_the_job_runs(tmp_path: Path) -> None:
    job: Any = Job(tmp_path, "acc: 0.9\nacc: 0.8\n")
    clock = ManualClock()
    values = MetricValues(job, ["acc"], {}, clock=clock.monotonic)
    assert values.read(None) == {}, "a run with metrics may follow"

    clock.advance(10.0)

    assert values.read(None)["acc"].points == ((1, 0.9), (2, 0.8))


def test_names_are_printed_before_numbers(tmp_path: Path) -> None:
    job: Any = Job(tmp_path, 'epoch 1 acc: 0.9, test/loss=.5\n{"f1": -1e-3}\nsaved: model.pt\nacc: 0.8, recall 9%\n'
                             "barograph: 86 steps, 2 evaluations\n  13 rules need 2 minutes\n")
    assert printed_names(job) == ["epoch", "acc", "test/loss", "f1", "recall"]


@pytest.mark.parametrize(("output", "meant", "printed"), [
    ("acc: 0.3 | acc: 0.4\n", "", ""), ("test acc: 0.5\n", "", ""), ("acc: 5s\n", "", ""),
    ("acc: 5s\nval_acc: 0.5\n", ' Did you mean "val_acc"?', " It printed: val_acc."),
    ("epoch: 1 score: 0.5\n", "", " It printed: epoch, score."),
])
def test_a_metric_that_was_printed_otherwise_is_not_suggested_for_itself(
    tmp_path: Path, output: str, meant: str, printed: str
) -> None:
    study = Study.create(None, {"x": [1, 2]}, maximize="acc", strategy="grid")
    asked = study.ask(job="study-000")
    assert asked is not None
    place = TrialPlan("study", JobSpec(("train.py",)), tmp_path.as_uri())
    store = FileStore(tmp_path / "study-000")
    write_submission(store, Submission("study-000", place.job_spec("study-000", asked.parameters)))
    log = EventLog(store, EVENTS)
    log.append("submitted")
    log.append("starting", attempt=0)
    log.append("over", phase="finished", reason="")
    store.put(f"{log_folder(0, 0)}/00000000.log", output.encode())
    job = TrialJob(study, asked, place, JobsHome(tmp_path / "home"), view=JobView("study-000", store))
    assert job.turn()
    assert study.trials[0].reason == (
        f"acc was never reported.{meant} The run recorded no metric.{printed} The output has no line with one value of "
        "it, like 'acc: 0.5'. Else pass --metric 'acc=REGEX'")


class Unreachable(FileStore):
    """A store whose next read in a folder fails."""

    folder = "no folder"

    def get(self, name: str) -> memoryview:
        if name.startswith(self.folder):
            self.folder = "no folder"
            raise StoreUnavailable("no network")
        return super().get(name)


@pytest.mark.parametrize(("finished", "state"), [
    ([True], "finished"), ([False], "stopped"), ([], "stopped"), ([True, True], "finished"), ([True, False], "stopped"),
])
def test_a_trial_that_was_stopped_while_its_files_were_stored_has_finished_if_its_script_had(
    tmp_path: Path, finished: list[bool], state: str
) -> None:
    study = Study.create(None, {"x": [1, 2]}, maximize="acc", strategy="grid")
    asked = study.ask(job="study-000")
    assert asked is not None
    spec = replace(JobSpec(("train.py",)), instances=max(len(finished), 1))
    place = TrialPlan("study", spec, tmp_path.as_uri())
    store = Unreachable(tmp_path / "study-000")
    write_submission(store, Submission("study-000", place.job_spec("study-000", asked.parameters)))
    log = EventLog(store, EVENTS)
    log.append("submitted")
    log.append("starting", attempt=0)
    log.append("over", phase="stopped", reason="Stopped: requested by the user.")
    store.put(f"{log_folder(0, 0)}/00000000.log", b"acc: 0.5\n")
    for index, has_finished in enumerate(finished):
        EventLog(store, instance_folder(0, index)).append("uploading", has_finished=has_finished)

    job = TrialJob(study, asked, place, JobsHome(tmp_path / "home"), view=JobView("study-000", store))
    store.folder = f"{INSTANCES}/"
    assert not job.turn(), "again once the store is there"
    assert job.turn()

    assert (study.trials[0].state, study.trials[0].values) == (state, (0.5,))


def test_what_is_printed_of_another_metric_or_twice_or_is_no_plain_number_is_not_taken(tmp_path: Path) -> None:
    job: Any = Job(tmp_path, "val_acc 1\ntest acc: 2\nacc: 0.3 | acc: 0.4\nacc: 1,234.5\nacc: 1.2.3\nacc: 5s\n"
                             "1/2 acc: 0.1\r2/2 acc: 0.2.\nacc: -Inf\n")
    job.state = replace(job.state, phase=Phase.FINISHED)

    assert MetricValues(job, ["acc"], {}).read(None)["acc"].points == ((1, 0.2), (2, -math.inf))


def test_a_curve_knows_its_extremes_without_nan() -> None:
    curve = curve_of([0.5, math.nan, 0.7])
    assert curve.best(maximize=True) == 0.7
    assert curve.best(maximize=False) == 0.5
    assert curve.last == 0.7
    assert [number for number, _ in curve.points] == [1, 2, 3]


def test_a_breaking_problem_ends_a_trial_at_once() -> None:
    nan = problem("N101", Severity.BREAKING, cause="", title="NaN or infinite values")
    assert reason_to_give_up([nan], trial(0), [], LOSS) == "NaN or infinite values: since step 7"
    assert not reason_to_give_up([replace(nan, state=FindingState.CLOSED)], trial(0), [], LOSS)


def test_what_differs_between_trials_comes_after_the_kind_of_the_problem() -> None:
    dead = problem("A101", cause="dead-relu", title="38.6% of the units of fc1 are dead")
    assert reason_to_give_up([dead], trial(0), [], LOSS) == (
        "ReLU units are dead: 38.6% of the units of fc1 are dead, since step 7")
    unknown = problem("G101", Severity.BREAKING, cause="", title="The gradient of conv2 is 3e-9")
    assert reason_to_give_up([unknown], trial(0), [], LOSS) == "X: The gradient of conv2 is 3e-9, since step 7"


def test_the_data_is_not_to_blame_if_another_trial_learns_from_it() -> None:
    labels = problem("L108", cause="labels-unrelated", title="The labels do not match the inputs")
    stuck = [trial(number, 2.31, 2.3) for number in range(1, 4)]
    assert reason_to_give_up([labels], trial(0, 2.32, 2.31), stuck, LOSS), "no trial learns"
    assert not reason_to_give_up([labels], trial(0, 2.32, 2.31), [*stuck, trial(4, 1.9, 0.4)], LOSS)
    assert reason_to_give_up([problem()], trial(0, 2.32, 2.31), [*stuck, trial(4, 1.9, 0.4)], LOSS)
    assert not reason_to_give_up([labels], trial(0, 0.1), [trial(1, 0.9)], SCORE)


def test_a_costly_problem_needs_a_known_cause_and_a_trial_that_does_badly() -> None:
    assert reason_to_give_up([problem()], trial(0), [], LOSS) == "The learning rate is too high: lr 2.5, since step 7"
    assert not reason_to_give_up([problem(cause="")], trial(0), [], LOSS)
    assert not reason_to_give_up([problem(weight=0.3)], trial(0), [], LOSS)
    assert not reason_to_give_up([problem("D109")], trial(0), [], LOSS), "not a rule about hopeless trainings"
    assert not reason_to_give_up([problem()], trial(0, 2.0, 1.0), [], LOSS), "it improves, and there is no other"
    assert reason_to_give_up([problem()], trial(0, 1.0, 2.0), [], LOSS)
    assert reason_to_give_up([problem()], trial(0, 2.37, 2.32, 2.41, 2.38), [], LOSS), "it was better once, by chance"
    assert not reason_to_give_up([problem()], trial(0, 2.37, 1.9, 2.4, 1.8), [], LOSS), "it was worse once, by chance"
    assert not reason_to_give_up([problem()], trial(0, 2.3, 2.28, 1.2), [], LOSS), "it learned in its third step"
    others = [trial(number, 1.0, 0.5) for number in range(1, 4)]
    assert reason_to_give_up([problem()], trial(0, 2.0, 1.0), others, LOSS), "it improves, but is worse than all others"
    assert not reason_to_give_up([problem()], trial(0, 2.0, 0.4), others, LOSS)
    assert not reason_to_give_up([problem()], trial(0, 0.1, 0.9), others, SCORE)
    assert not reason_to_give_up([problem()], trial(0, 0.97, 0.975), [trial(n, 0.5, 0.6) for n in (1, 2, 3)], SCORE), \
        "it was the best from its first report"


def test_algorithms_bring_their_space_and_metric() -> None:
    options, spec = autotuned({}, JobSpec(algorithm="xgboost", hyperparameters={"max_depth": "4"}))
    names = [text.partition("=")[0] for text in options["vary"]]
    assert "eta" in names
    assert "max_depth" not in names
    assert "num_boost_round" not in names
    assert options["minimize"] == ["validation_loss"]
    assert options["value"] == "best"
    assert spec.hyperparameters["early_stopping_rounds"] == "20"
    assert autotuned({"vary": ["eta=0.1..1"]}, JobSpec(algorithm="xgboost"))[1].hyperparameters == {"folds": "auto"}
    with pytest.raises(TuneError, match="task="):
        autotuned({}, JobSpec(algorithm="linear"))
    assert space_of_algorithm("linear", {"task": "regression"}).names == ("alpha",)
    assert space_of_algorithm("xgboost", {"booster": "gblinear"}).names == ("eta", "lambda", "alpha")
    assert str(space_of_algorithm("xgboost", {})["max_depth"]) == "max_depth=1..15:int:linear if booster=gbtree"
    assert str(space_of_algorithm("xgboost", {"booster": "gbtree"})["max_depth"]) == "max_depth=1..15:int:linear"


@pytest.mark.parametrize(("spec", "folds"), [
    (JobSpec(algorithm="lightgbm", data={"train": "a.csv"}), "auto"),
    (JobSpec(algorithm="lightgbm", hyperparameters={"folds": "1"}), "1"),
    (JobSpec(algorithm="lightgbm", hyperparameters={"validation-fraction": "0.3"}), None),
    (JobSpec(algorithm="lightgbm", data={"train": "a.csv", "val": "b.csv"}), None),
    (JobSpec(algorithm="image-classifier", data={"train": "images"}), None),
])
def test_few_rows_are_cross_validated_unless_the_user_chose_the_validation(spec: JobSpec, folds: str | None) -> None:
    assert autotuned({}, spec)[1].hyperparameters.get("folds") == folds


def test_a_file_is_split_into_study_and_job() -> None:
    ours, job = split_entries({"command": ["train.py"], "maximize": "acc", "vary": {"lr": "0..1"}, "jobs": 3})
    assert ours == {"maximize": ["acc"], "vary": {"lr": "0..1"}, "jobs": 3}
    assert job == {"command": ["train.py"]}
    for wrong in ({"jobs": "3"}, {"jobs": True}, {"vary": "lr"}, {"maximize": 3}, {"stop_on_findings": "no"},
                  {"metric": {"score": 3}}):
        with pytest.raises(TuneError):
            split_entries(wrong)


def test_options_describe_when_trials_and_studies_end() -> None:
    assert completion_of({}).trials == 20
    assert completion_of({"max_time": "2h", "jobs": 3}).secs == 7200
    assert completion_of({"convergence": True}).convergence
    with pytest.raises(TuneError, match="max-time is 0"):
        completion_of({"max_time": "0s"})
    assert stopping_of({}).rules == ("median",)
    assert stopping_of({"strategy": "hyperband"}).rules == ("asha",)
    assert stopping_of({"stop_rule": ["none"], "stop_on_findings": False}) == replace(
        stopping_of({}), rules=(), findings=False)
    with pytest.raises(TuneError, match="--maximize"):
        check_objectives({})
    with pytest.raises(TuneError, match="--vary"):
        check_objectives({"minimize": ["loss"]})
    with pytest.raises(TuneError, match="--parent"):
        check_objectives({"minimize": ["loss"], "vary": ["lr=0..1"], "transfer": True})


def test_the_winner_is_only_confirmed_if_the_difference_is_no_noise() -> None:
    sure = judged(SCORE, {4: [0.9, 0.91, 0.92], 2: [0.5, 0.52, 0.51]})
    assert sure.sentence.startswith("trial 4 is better than trial 2: by 0.4")
    unsure = judged(LOSS, {4: [0.9, 0.4], 2: [0.5, 0.7]})
    assert unsure.sentence.startswith("trial 2 is not significantly better than trial 4 (by 0.05, 95% interval -")
    few = judged(LOSS, {4: [0.9], 2: [0.5]})
    assert few.sentence.startswith("trial 2 is not significantly better than trial 4. One")
    assert unsure.repeated[0].trial == 2
    same = judged(LOSS, {4: [0.9, 0.9], 2: [0.5, 0.5]})
    assert same.sentence == (
        "trial 2 is not significantly better than trial 4. All repetitions of each trial gave the same value: the seed "
        "changes nothing, or the metric is too coarse.")
    rounded = judged(SCORE, {4: [0.9, 0.9 + 1e-14], 2: [0.8, 0.8]})
    assert rounded.sentence.endswith("changes nothing, or the metric is too coarse.")
    failed = judged(LOSS, {4: [0.9], 2: [0.5, 0.6]}, {4: ["no memory", "no memory"], 2: []})
    assert failed.sentence.endswith("better than trial 4. 2 of 3 repetitions of trial 4 failed.")


@pytest.mark.parametrize("value", [-1e-05, -1.23456789012e-07, -0.5, -3.0, -2e16, 1e-05])
def test_argparse_takes_every_number_for_a_value(value: float) -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--x", type=float)
    words = plan("train.py").job_spec("study-001", {"x": value}).words
    assert parser.parse_args(words[1:]).x == value


@pytest.mark.parametrize(("name", "message"), [
    ("maximise", '"maximise" is not an option of a study. Did you mean "maximize"?'),
    ("stop_rules", '"stop-rules" is not an option of a study. Did you mean "stop-rule"?'),
    ("n_trials", '"n-trials" is not an option of a study. Did you mean "jobs"?'),
    ("gpu", "as it was"),
])
def test_a_misspelled_entry_of_a_study_is_recognized(name: str, message: str) -> None:
    error = UnknownName(f'"{name.replace("_", "-")}" is not an option of a job.' if name != "gpu" else "as it was")
    assert str(better_error(error, {"command": ["train.py"], name: 1}, {"--n-trials": "--jobs"})) == message
