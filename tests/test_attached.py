"""The run of a process is one object, whichever way the script asks for it."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

import barograph
from barograph.errors import SessionClosed, SettingsError
from barograph.experiments.component import Component
from barograph.runs.reading.one_worker import workers_in
from barograph.tracking import Tracker, load_run

pytestmark = pytest.mark.usefixtures("forked_writers")


def train(steps: int, after_step: object = None) -> None:
    """Train a line to sum its inputs, and call `after_step` with the number of each step."""
    model = torch.nn.Linear(4, 1)
    optimizer = torch.optim.SGD(model.parameters(), 0.01)
    for step in range(steps):
        optimizer.zero_grad()
        model(torch.ones(2, 4)).square().mean().backward()
        optimizer.step()
        if callable(after_step):
            after_step(step)


def test_what_a_script_logs_is_said_by_the_worker_that_trains(tmp_path: Path) -> None:
    place = str(tmp_path / "runs" / "first")
    with barograph.attach(to=place, watch=False) as run:
        train(3, lambda step: load_run().log_metric("acc", step / 10))
        assert load_run(place).uid == load_run(run.name, root=tmp_path / "runs").uid == Tracker.load().uid == run.uid
    found = barograph.open(place)
    assert workers_in(found) == ["p0"]
    assert len(found.series("loss:total").steps) == 3
    assert found.series("scalar:acc").steps.tolist() == [1, 2, 3]
    assert found.series("scalar:acc").values.tolist() == [0.0, 0.1, 0.2]


def test_numbers_without_a_step_never_share_one(tmp_path: Path) -> None:
    with barograph.attach(to=tmp_path / "run", watch=False):
        for value in (1.0, 2.0):
            load_run().log_metric("acc", value)
        load_run().log_metrics({"acc": 3.0, "f1": 0.5}, step=9, mode="eval")
    found = barograph.open(tmp_path / "run")
    assert found.series("scalar:acc").steps.tolist() == [0, 1]
    assert found.series("scalar:acc", mode="eval").steps.tolist() == [9]


@pytest.mark.parametrize("ask", [lambda run: run, lambda run: load_run()], ids=["attach", "load_run"])
def test_the_run_that_records_a_training_has_every_verb(tmp_path: Path, ask) -> None:
    root, model = tmp_path / "runs", tmp_path / "model.txt"
    model.write_text("weights")
    with barograph.attach(to=root / "first", watch=False) as attached:
        train(1)
        run = ask(attached)
        run.log({"val": {"acc": 0.5}})
        run.log_parameters({"lr": 0.1, "optimizer": {"name": "adam"}})
        run.log_artifact(model)
        run.log_table("answers", {"sample": [1, 2]})
        run.tag(team="vision")
        run.note("It went well.")
        assert run.table("answers").num_rows == 2
    with pytest.raises(SessionClosed):
        run.note("Too late.")
    found = Component.load(attached.name, root=root)
    assert found.parameters == {"lr": 0.1, "optimizer.name": "adam"}
    assert sorted(link.name for link in found.outputs) == ["answers", "model.txt"]
    assert (found.item.tags, [note.text for note in found.item.notes]) == ({"team": "vision"}, ["It went well."])
    assert found.metrics["val.acc"].last == 0.5


def test_what_is_no_name_or_mode_is_refused(tmp_path: Path) -> None:
    with barograph.attach(to=tmp_path / "run", watch=False):
        with pytest.raises(SettingsError, match="is not a mode"):
            load_run().log_metric("acc", 1.0, mode="test")
        with pytest.raises(SettingsError, match="64-bit integer"):
            load_run().log_metric("acc", 1.0, step=0.5)  # type: ignore[arg-type]


def test_a_journal_that_cannot_be_written_ends_no_training(tmp_path: Path) -> None:
    with barograph.attach(to=tmp_path / "run", watch=False) as run:
        run.note("first")
        (tmp_path / "run" / "journal").rename(tmp_path / "kept")
        (tmp_path / "run" / "journal").write_text("in the way")
        with pytest.warns(match="recording what the script logs"):
            run.note("second")
        train(2)
        assert not run.closed
    assert len(barograph.open(tmp_path / "run").series("loss:total").steps) == 2


def test_a_closed_run_records_nothing_more(tmp_path: Path) -> None:
    with barograph.attach(to=tmp_path / "run", watch=False):
        run = load_run()
    with pytest.raises(SessionClosed, match="closed"):
        run.log_metric("acc", 1.0)
    with pytest.raises(SettingsError, match="needs the name of a run"):
        load_run()
