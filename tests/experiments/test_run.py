"""A program writes a run by itself, alone or with others."""

import math
import multiprocessing
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import barograph
from barograph.errors import DamagedChunk, NameTaken, SessionClosed, SettingsError, UnknownItem, UnknownName
from barograph.experiments.artifacts import ARTIFACTS, bytes_of
from barograph.experiments.component import Component
from barograph.experiments.experiment import Experiment, Trial
from barograph.experiments.run import Run, Tracker, list_runs, load_run
from barograph.store.urls import store_from_url


@pytest.fixture
def root(tmp_path: Path) -> str:
    """Where runs are."""
    return str(tmp_path / "runs")


def test_a_run_is_found_by_what_it_was_made_with_and_what_came_out(root: str) -> None:
    with Run("first", experiment="digits", trial="wide", tags={"team": "vision"}, root=root) as run:
        run.log_parameters({"lr": 0.1, "optimizer": {"name": "adam", "betas": (0.9, 0.99)}})
        for loss in (3.0, math.nan, 1.0, 2.0):
            run.log_metric("loss", loss)
        run.log_metrics({"acc": 0.5}, step=7, mode="eval")
        run.note("It went **well**.")
    [found] = list_runs("experiment = 'digits' and trial = 'wide' and tags.team = 'vision'", root=root)
    assert found.parameters == {"lr": 0.1, "optimizer.name": "adam", "optimizer.betas": [0.9, 0.99]}
    loss = found.metrics["loss"]
    assert (loss.last, loss.min, loss.max, loss.mean, loss.count, loss.last_step) == (2.0, 1.0, 3.0, 2.0, 4, 3)
    assert found.metrics["eval_acc"].first_step == 7
    assert [note.text for note in found.notes] == ["It went **well**."]
    assert (found.name, found.state) == ("first", "finished")
    assert barograph.open(found.place).series("scalar:loss").values.tolist()[2:] == [1.0, 2.0]


def test_a_run_that_failed_says_why(root: str) -> None:
    with pytest.raises(ZeroDivisionError), Run("bad", root=root):
        _ = 1 / 0
    [found] = list_runs("state = 'failed'", root=root)
    assert found.item.facts["message"] == "ZeroDivisionError: division by zero"


def test_a_run_can_be_written_on_after_its_end(root: str) -> None:
    with Run("first", root=root) as run:
        run.log_metric("loss", 2.0, step=0)
    with load_run("first", root=root) as more:
        more.log_metric("loss", 1.0, step=1)
        more.tag(again="yes")
    [found] = list_runs(root=root)
    assert (found.metrics["loss"].count, found.metrics["loss"].last, found.tags) == (2, 1.0, {"again": "yes"})


def _log(place: str, root: str, number: int) -> None:
    with load_run(place, root=root) as run:
        for step in range(1000):
            run.log_metric(f"loss {number}", float(step), step)


def test_several_processes_write_one_run_and_nothing_is_lost(root: str) -> None:
    processes = multiprocessing.get_context("spawn")
    with Run("shared", root=root) as run:
        started = [processes.Process(target=_log, args=(run.uid, root, number)) for number in range(3)]
        for process in started:
            process.start()
        for process in started:
            process.join(600)
            assert process.exitcode == 0
    [found] = list_runs(root=root)
    assert {name: it.count for name, it in found.metrics.items()} == {f"loss {number}": 1000 for number in range(3)}


def test_a_process_writes_several_runs_at_once(root: str) -> None:
    with Run("outer", root=root) as outer, Run("inner", root=root) as inner:
        outer.log_metric("loss", 1.0)
        inner.log_metric("loss", 2.0)
    assert {run.name: run.metrics["loss"].last for run in list_runs(root=root)} == {"outer": 1.0, "inner": 2.0}


def test_a_nested_run_is_part_of_the_outer_one(root: str) -> None:
    data = Component.create("data", root=root)
    with Run("outer", root=root) as outer:
        for fold in range(2):
            with Run(f"fold {fold}", part_of=outer, root=root) as run:
                run.log_metric("loss", 1.0)
        outer.relate("derived_from", data)
        with pytest.raises(UnknownName, match='Did you mean "derived_from"'):
            outer.relate("derived_form", data)
    [found] = list_runs("name = 'outer'", root=root)
    assert sorted(found.lineage("down").names().values()) == ["run fold 0", "run fold 1", "run outer"]
    assert {edge.relation for edge in found.lineage("down")} == {"contributed_to"}
    assert [edge.relation for edge in found.lineage("up")] == ["derived_from"]
    with pytest.raises(UnknownName, match='is not a relation'):
        data.relate("child", found)


def test_a_component_is_shared_by_trials(root: str) -> None:
    data = Component.create("data", root=root).log_parameters({"rows": 1797})
    experiment = Experiment.create("digits", hypothesis="wide wins", variables={"width": [16, 64]}, root=root)
    for width in (16, 64):
        trial = experiment.create_trial(f"width {width}", variables={"width": width}).add_component(data)
        with Run(f"w{width}", experiment="digits", trial=trial.name, root=root) as run:
            run.log_metric("acc", width / 100)
    assert [[part.name for part in trial.components()] for trial in experiment.trials()] == [
        ["data", "w16"], ["data", "w64"]]
    assert [trial.experiment for trial in data.refresh().trials] == ["digits", "digits"]
    table = experiment.table("order by metrics.acc.last desc")
    assert table.columns["name"] == ("w64", "w16", "data")
    assert table.columns["metrics.acc.last"] == [0.64, 0.16, None]
    assert table.columns["trials"] == ["width 64", "width 16", "width 16, width 64"]


def test_a_file_is_kept_once_for_all_that_have_the_same_bytes(root: str, tmp_path: Path) -> None:
    (tmp_path / "model.json").write_text("{}")
    for name in ("a", "b"):
        with Run(name, root=root) as run:
            run.log_artifact(str(tmp_path / "model.json"))
    store = store_from_url(root)
    links = [link for run in list_runs(root=root) for link in run.outputs]
    assert [(link.media_type, link.size_bytes) for link in links] == [("application/json", 2)] * 2
    assert len(store.list(ARTIFACTS)) == 1
    assert bytes_of(store, links[0]) == b"{}"
    [kept] = store.list(ARTIFACTS)
    store.put(kept.name, b"[]")
    with pytest.raises(DamagedChunk, match="digest differs"):
        bytes_of(store, links[0])


def test_what_came_of_what_is_told_over_artifacts(root: str, tmp_path: Path) -> None:
    (tmp_path / "model").write_bytes(b"weights")
    with Run("train", root=root) as run:
        run.log_artifact(str(tmp_path / "model"), copy=False)
    with Run("test", root=root) as run:
        run.log_artifact(str(tmp_path / "model"), is_output=False, copy=False)
    test, train = list_runs(root=root)
    assert [(edge.relation, edge.depth) for edge in test.lineage("up")] == [("read", 1), ("made_by", 2)]
    assert test.lineage("up")[-1].target == train.uid
    assert test.lineage("up", depth=1)[-1].relation == "read"
    assert train.lineage("down")[-1].source == test.uid
    assert train.lineage("up") == []


@pytest.mark.parametrize(("name", "value"), [("loss", "low"), ("loss", None), ("loss", [1, 2]), (3, 1.0)])
def test_a_metric_that_is_none_is_refused_by_name(root: str, name: str, value: object) -> None:
    with Run("r", root=root) as run, pytest.raises(SettingsError, match=f"{name}"):
        run.log_metric(name, value)  # type: ignore[arg-type]


@pytest.mark.parametrize(("value", "step"), [
    (10**400, 0), (1.0, math.inf), (1.0, math.nan), (1.0, 2**63), (1.0, 1.5), (1.0, "three")])
def test_what_no_record_holds_is_refused_by_name(root: str, value: float, step: int) -> None:
    with Run("r", root=root) as run, pytest.raises(SettingsError, match='"loss"'):
        run.log_metric("loss", value, step)


def test_a_step_may_be_any_whole_number(root: str) -> None:
    with Run("r", root=root) as run:
        run.log_metric("loss", 1.0, np.float32(7.0))  # type: ignore[arg-type]
    assert list_runs(root=root)[0].metrics["loss"].last_step == 7


def test_a_number_of_a_component_that_is_none_is_refused_by_name(root: str) -> None:
    data = Component.create("data", root=root)
    for value in ("many", None, 10**400):
        with pytest.raises(SettingsError, match='"rows"'):
            data.log_metric("rows", value)  # type: ignore[arg-type]


def test_a_run_cannot_be_closed_as_what_there_is_not_and_goes_on(root: str) -> None:
    with Run("r", root=root) as run:
        with pytest.raises(SettingsError, match='"done" is not an end state; use one of finished, stopped, failed'):
            run.close("done")
        run.log_metric("loss", 1.0)
    [found] = list_runs(root=root)
    assert (found.state, found.metrics["loss"].count) == ("finished", 1)


@pytest.mark.parametrize(("code", "state"), [(0, "finished"), (None, "finished"), (2, "failed")])
def test_a_script_that_exits_has_failed_where_it_says_so(root: str, code: int | None, state: str) -> None:
    with pytest.raises(SystemExit), Run("r", root=root):
        sys.exit(code)
    assert list_runs(root=root)[0].state == state


def test_a_script_that_raises_without_closing_its_run_has_failed(root: str) -> None:
    script = f"from barograph.experiments.run import Run\nrun = Run('r', root={root!r})\nraise ValueError('why')"
    subprocess.run([sys.executable, "-c", script], capture_output=True, check=False)
    [found] = list_runs(root=root)
    assert (found.state, found.item.facts["message"]) == ("failed", "ValueError: why")


def test_artifacts_told_as_in_sagemaker_are_found(root: str) -> None:
    with Run("r", root=root) as run:
        run.log_input("data", "s3://bucket/data", media_type=None)
        with pytest.raises(SettingsError, match=r'log_output\("model", "s3://bucket/model"\)'):
            run.log_artifact("model", "s3://bucket/model")
        with pytest.raises(SettingsError, match="name of an artifact"):
            run.log_artifact(__file__, 7)  # type: ignore[arg-type]
    with pytest.raises(SettingsError, match="not a string"), load_run("r", root=root) as run:
        run.log_output("model", "s3://bucket/model", media_type=7)  # type: ignore[arg-type]
    found = list_runs(root=root)[0]
    assert ([link.uri for link in found.inputs], found.outputs) == (["s3://bucket/data"], [])


def test_all_files_of_a_directory_are_kept_by_their_paths_in_it(root: str, tmp_path: Path) -> None:
    (tmp_path / "model" / "parts").mkdir(parents=True)
    (tmp_path / "model" / "config.json").write_text("{}")
    (tmp_path / "model" / "parts" / "0").write_text("0")
    with Run("r", root=root) as run:
        run.log_artifacts(tmp_path / "model")
        run.log_artifacts(str(tmp_path / "model" / "config.json"))
        with pytest.raises(SettingsError, match="no such file"):
            run.log_artifacts("modle")
    assert [link.name for link in list_runs(root=root)[0].outputs] == ["config.json", "parts/0"]


def test_a_parameter_that_is_none_is_refused_by_name(root: str) -> None:
    with Run("r", root=root) as run, pytest.raises(SettingsError, match='"model" is object'):
        run.log_parameter("model", object())


def test_a_closed_run_takes_nothing_more(root: str) -> None:
    run = Tracker.create("r", root=root)
    run.close()
    run.close()
    with pytest.raises(SessionClosed):
        run.log_metric("loss", 1.0)
    with pytest.raises(SessionClosed):
        run.log_parameter("lr", 1.0)


def test_an_unknown_run_says_the_nearest(root: str) -> None:
    Run("first", root=root).close()
    with pytest.raises(UnknownItem, match='Did you mean "first"'):
        load_run("frist", root=root)


def test_a_trial_is_created_by_the_name_of_its_experiment(root: str) -> None:
    trial = Trial.create("wide", experiment="digits", variables={"width": 64}, tags={"a": "b"}, root=root)
    assert [found.name for found in Experiment.load("digits", root=root).trials()] == ["wide"]
    again = Trial.create("wide", experiment=Experiment.load("digits", root=root), or_load=True)
    assert (again.uid, dict(again.variables), again.tags) == (trial.uid, {"width": 64}, {"a": "b"})
    with pytest.raises(NameTaken):
        Trial.create("wide", experiment="digits", root=root)


def _join_by_name(root: str, number: int) -> None:
    with Run.load_or_create("shared", experiment="digits", root=root) as run:
        run.log_metric(f"loss {number}", 1.0)


def test_processes_that_ask_at_once_for_a_run_of_a_new_name_get_one(root: str) -> None:
    processes = multiprocessing.get_context("spawn")
    started = [processes.Process(target=_join_by_name, args=(root, number)) for number in range(3)]
    for process in started:
        process.start()
    for process in started:
        process.join(600)
        assert process.exitcode == 0
    _join_by_name(root, 3)
    [run] = list_runs(root=root)
    assert (sorted(run.metrics), [trial.experiment for trial in run.trials]) == (
        [f"loss {number}" for number in range(4)], ["digits"])


def test_a_run_that_has_the_name_is_loaded_wherever_it_is(root: str) -> None:
    with Run("mine", to=f"{root}/deep/place", root=root) as first:
        pass
    with Run.load_or_create("mine", root=root) as run:
        run.note("more")
    assert (run.uid, len(list_runs(root=root))) == (first.uid, 1)
