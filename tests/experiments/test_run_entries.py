"""What a run's metadata files say of it, as entries."""

from barograph.experiments.folding import folded
from barograph.experiments.run_entries import run_entries
from barograph.model.items import Entry
from barograph.model.manifest import Manifest
from barograph.model.origin import Code, DataFile, Origin
from barograph.runs.reading.glance import Glance, RunState

MANIFEST = Manifest("run-1", "first", 100.0, ("train.py", "--lr", "0.1"),
                    settings={"experiment": "digits", "tags": {"team": "vision"}})


def told(origin: Origin | None) -> list[Entry]:
    return run_entries(Glance("file:///runs/first", RunState.FINISHED, MANIFEST, steps=7, ended_unix=160.0), MANIFEST,
                       origin)


def of_run(entries: list[Entry]) -> list[Entry]:
    return [entry for entry in entries if entry.uid == "run-1"]


def test_a_run_belongs_to_a_trial_of_its_own_where_it_names_an_experiment_alone() -> None:
    entries = told(None)
    assert [entry.data["name"] for entry in entries if entry.data.get("kind") in ("experiment", "trial")] == [
        "digits", "first"]
    run = folded("run-1", of_run(entries))
    assert (len(run.trials), run.tags, run.fields["steps"], run.fields["ended_unix"]) == (
        1, {"team": "vision"}, 7, 160.0)
    assert run.fields["command"] == "train.py --lr 0.1"


def test_what_made_it_is_told_of_it() -> None:
    origin = Origin(
        parameters={"lr": 0.1, "deep": True}, derived_from="run-0", host="here", user="ann",
        code=Code("/repo", remote="https://host/repo.git", branch="main", commit="abc", dirty=True),
        data=(DataFile("/data/a.csv", 10, 0, "ff"), DataFile("/data/b.csv", 10, 0, "dd", sha256="cc"),
              DataFile("/data/huge.bin", 10**12, 0, "ee", whole=False)),
    )
    run = folded("run-1", of_run(told(origin)))
    assert run.parameters == {"lr": 0.1, "deep": True}
    assert [run.fields[name] for name in ("repository", "branch", "commit", "dirty", "host", "by")] == [
        "https://host/repo.git", "main", "abc", True, "here", "ann"]
    assert [(link.uri, link.digest) for link in run.inputs.values()] == [
        ("file:///data/a.csv", "xxh3:ff"), ("file:///data/b.csv", "sha256:cc"), ("file:///data/huge.bin", "")]
    assert list(run.relations) == [("derived_from", "run-0")]


def test_data_are_called_by_where_they_lie_below_the_runs_directory_so_that_two_checkouts_compare() -> None:
    def inputs(directory: str) -> dict[str, str]:
        data = DataFile(f"/{directory}/data/a.csv", 10, 0, "ff"), DataFile("/elsewhere/b.csv", 10, 0, "ee")
        return {name: link.digest for name, link in folded("run-1", of_run(told(Origin(
            directory=f"/{directory}", data=data)))).inputs.items()}

    assert inputs("first") == inputs("second") == {"data/a.csv": "xxh3:ff", "/elsewhere/b.csv": "xxh3:ee"}
