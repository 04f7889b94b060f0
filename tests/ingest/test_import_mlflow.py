"""Runs made of what the real MLflow has kept in a database and a file store: whole, twice, damaged, hostile."""

from __future__ import annotations

import json
import shutil
import sqlite3
import struct
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import CheckConstraint, MetaData, create_engine, insert, select

from barograph.cli.share.trackers_import import _keeper
from barograph.errors import ImportFailed
from barograph.experiments.artifacts import bytes_of
from barograph.experiments.catalog import Catalog
from barograph.experiments.item import Item
from barograph.ingest.mlflow.opening import source_at
from barograph.ingest.tensorboard.writing import GatheredWriter
from barograph.ingest.trackers import writing
from barograph.ingest.trackers.importing import Imported, Wanted, import_runs
from barograph.model.items import Entry, Verb
from barograph.model.key import Kind
from barograph.runs.reading.doctor import examine
from barograph.runs.reading.histories import histories_of
from barograph.runs.reading.reader import Run
from barograph.store.urls import store_from_url
from real_trackers import Unavailable, made_by

BEGAN_UNIX = 1_700_000_000.0


def imported(place: Path | str, root: Path, *, copies: bool = True, artifacts: tuple[Path, ...] = (), **wanted: Any) \
        -> Imported:
    store = store_from_url(root)
    source = source_at(str(place), artifacts)
    try:
        return import_runs(source, store, lambda folder: store_from_url(root / folder),
                           _keeper(store) if copies else None, wanted=Wanted(**wanted))
    finally:
        source.close()


def items(root: Path, told: Imported | None = None) -> dict[str, Item]:
    with Catalog(root) as catalog:
        catalog.feed(again=[run.folder for run in told.runs] if told else ())
        return {item.name: item for item in catalog.find("")}


def points(run: Run) -> dict[str, list[list[Any]]]:
    """Every number of a run, as the script that made it reads them back from MLflow."""
    return {history.metric.key.path: sorted(
        [time_us // 1000, step, value.hex()]
        for time_us, step, value in zip(history.times_us.tolist(), history.steps.tolist(), history.values.tolist(),
                                        strict=True))
        for history in histories_of(run, Kind.SCALAR)}


@pytest.fixture(scope="session")
def _made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    try:
        return made_by("mlflow_script.py", tmp_path_factory.mktemp("mlflow"))
    except Unavailable as error:
        pytest.skip(str(error))


@pytest.fixture
def made(_made: Path, tmp_path: Path) -> Path:
    """A database, a file store and what MLflow reads back of both."""
    return Path(shutil.copytree(_made, tmp_path / "made"))


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "runs"


@pytest.mark.parametrize(("name", "place"), [("database", "mlflow.db"), ("file store", "files")])
def test_every_number_is_what_mlflow_reads_back(name: str, place: str, made: Path, root: Path) -> None:
    made_runs = {run.name: run for run in imported(made / place, root).runs}
    truth = json.loads((made / "truth.json").read_text())[name]
    assert made_runs.keys() == truth.keys() - {"gone"}
    for run, told in truth.items():
        found = points(Run(store_from_url(made_runs[run].run)))
        expected = {metric: sorted(map(_with_infinities, numbers)) for metric, numbers in told["metrics"].items()}
        assert found == expected
        assert not examine(Run(store_from_url(made_runs[run].run)).store).problems


def _with_infinities(point: list[Any]) -> list[Any]:
    # MLflow's database keeps the greatest double for an infinity, and tells it so.
    greatest = {"0x1.fffffffffffffp+1023": "inf", "-0x1.fffffffffffffp+1023": "-inf"}
    return [*point[:2], greatest.get(point[2], point[2])]


@pytest.mark.parametrize("place", ["mlflow.db", "files"])
def test_what_was_said_of_a_run_comes_along(place: str, made: Path, root: Path) -> None:
    imported(made / place, root)
    found = items(root)
    run = found["wide ü"]
    assert run.parameters == {"lr": 0.001, "width": 64, "augment": True, "net": "mlp", "odd/name": "x"}
    assert run.tags == {"colour": "blue", "mlflow.run_id": run.tags["mlflow.run_id"]}
    assert [(note.by, note.text) for note in run.notes] == [("ann", "the **best** so far")]
    assert [trial.experiment for trial in run.trials] == ["digits"]
    assert (run.facts["commit"], run.facts["branch"], run.facts["repository"], run.facts["by"]) == (
        "0a1b2c", "wide", "https://example.org/nets.git", "ann")
    assert (run.facts["started_unix"], run.facts["ended_unix"]) == (BEGAN_UNIX + 0.001, BEGAN_UNIX + 5)
    assert run.relations == [("contributed_to", found["sweep"].uid)]
    assert [(link.name, link.uri) for link in run.inputs] == [("digits.csv (training)", "https://example.org/x.csv")]
    assert {name: (item.facts["state"], item.facts["message"]) for name, item in found.items()} == {
        "wide ü": ("finished", ""), "sweep": ("finished", ""), "broken": ("failed", "It failed, according to MLflow."),
        "shot": ("failed", "It was killed, according to MLflow."),
        "going": ("stopped", "It was still running when it was imported, according to MLflow."),
    }


def test_what_is_said_of_the_experiment_comes_along_once(made: Path, root: Path) -> None:
    imported(made / "mlflow.db", root)
    imported(made / "mlflow.db", root)
    with Catalog(root) as catalog:
        catalog.feed()
        experiment = catalog.item("digits")
    assert (experiment.facts["description"], experiment.tags) == ("Wide nets win.", {"team": "vision"})


@pytest.mark.parametrize("place", ["mlflow.db", "files"])
def test_artifacts_are_kept_under_their_digests(place: str, made: Path, root: Path) -> None:
    imported(made / place, root)
    links = {link.name: link for link in items(root)["wide ü"].outputs}
    assert bytes_of(store_from_url(root), links["notes/hello.txt"]) == b"hello"
    assert json.loads(bytes_of(store_from_url(root), links["conf.json"])) == {"a": 1}
    if place == "mlflow.db":
        assert links["registered reader 1"].uri == "models:/reader/1"


def test_by_reference_nothing_is_copied_and_a_later_import_may_copy(made: Path, root: Path) -> None:
    first = imported(made / "mlflow.db", root, copies=False)
    assert sum(run.copied for run in first.runs) == 0
    assert not (root / ".catalog" / "artifacts").exists()
    again = imported(made / "mlflow.db", root)
    assert [(run.name, run.copied) for run in again.runs] == [("wide ü", 2)]


def test_a_loss_can_be_judged_and_sought(made: Path, root: Path) -> None:
    imported(made / "mlflow.db", root)
    run = items(root)["wide ü"]
    assert run.metrics["loss"] == run.metrics["train/loss"]
    assert run.metrics["eval_loss"] == run.metrics["val_loss"]
    assert run.facts["steps"] == 30
    with Catalog(root) as catalog:
        found = catalog.find('metrics."train/loss".last < 0.2 and params.lr < 0.01')
        assert [item.name for item in found] == ["wide ü"]


def test_imported_twice_nothing_is_there_twice(made: Path, root: Path) -> None:
    first = imported(made / "mlflow.db", root)
    before = {path: path.stat().st_mtime_ns for path in root.rglob("*") if path.is_file()}
    again = imported(made / "mlflow.db", root)
    assert (len(first.runs), again.runs, again.unchanged) == (5, [], 5)
    assert {path: path.stat().st_mtime_ns for path in root.rglob("*") if path.is_file()} == before


def test_what_changed_is_made_anew_and_what_was_said_here_stays(made: Path, root: Path) -> None:
    imported(made / "mlflow.db", root)
    before = items(root)["going"]
    with Catalog(root) as catalog:
        catalog.feed()
        catalog.tell([Entry(before.uid, Verb.NOTE, {"text": "look at this"})])
    with sqlite3.connect(made / "mlflow.db") as database:
        database.execute("INSERT INTO metrics SELECT key, 1.5, timestamp + 5, run_uuid, 2, 0 FROM metrics "
                         "WHERE key = 'loss'")
        database.execute("UPDATE runs SET name = 'gone on' WHERE name = 'going'")
        database.execute("UPDATE tags SET value = 'gone on' WHERE value = 'going'")
        database.execute("UPDATE tags SET value = 'the second best' WHERE key = 'mlflow.note.content'")
    again = imported(made / "mlflow.db", root)
    assert [(run.name, run.again) for run in again.runs] == [("wide ü", True), ("gone on", True)]
    assert [note.text for note in items(root, again)["wide ü"].notes] == ["the second best"]
    after = items(root)["gone on"]
    assert (after.uid, after.metrics["loss"].last, [note.text for note in after.notes]) == (
        before.uid, 1.5, ["look at this"])


@pytest.mark.parametrize("at", ["write_origin", "sealed"])
def test_an_import_that_was_cut_off_is_made_whole(
    at: str, made: Path, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def stopped(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(writing, at, stopped)
        with pytest.raises(KeyboardInterrupt):
            imported(made / "mlflow.db", root, runs=("wide ü",))
    assert {run.name for run in imported(made / "mlflow.db", root).runs if run.again} == {"wide ü"}
    assert [note.text for note in items(root)["wide ü"].notes] == ["the **best** so far"]


def test_a_run_that_another_process_imports_now_is_left_to_it(
    made: Path, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    second: list[str] = []

    def at_once(*arguments: Any, **settings: Any) -> Any:
        if not second:
            with pytest.raises(ImportFailed, match="another process is importing it"):
                imported(made / "mlflow.db", root, runs=("wide ü",))
            second.append("refused")
        return log(*arguments, **settings)

    log = GatheredWriter._log
    monkeypatch.setattr(GatheredWriter, "_log", at_once)
    imported(made / "mlflow.db", root, runs=("wide ü",))
    assert second == ["refused"]
    assert items(root)["wide ü"].metrics["train/loss"].count == 30


def test_only_what_is_wanted_is_imported(made: Path, root: Path) -> None:
    assert [run.name for run in imported(made, root, runs=("going",)).runs] == ["going"]
    with pytest.raises(ImportFailed, match=r'No experiment "digit" with runs. Did you mean "digits"'):
        imported(made, root, experiments=("digit",))


def test_the_place_of_another_run_is_left_alone(made: Path, root: Path) -> None:
    run = Path(imported(made / "mlflow.db", root).runs[0].run)
    metadata_file = json.loads((run / "run.json").read_text())
    shutil.copy(next(other for other in run.parent.iterdir() if other != run) / "run.json", run / "run.json")
    assert any("has another run" in sentence for sentence in imported(made / "mlflow.db", root).damage)
    assert json.loads((run / "run.json").read_text())["run_id"] != metadata_file["run_id"]


def test_a_file_that_is_no_database_is_refused(tmp_path: Path, root: Path) -> None:
    (tmp_path / "notes.txt").write_text("hello")
    with pytest.raises(ImportFailed, match=r"Not an SQLite database .*notes\.txt"):
        imported(tmp_path / "notes.txt", root)
    with pytest.raises(ImportFailed, match="file does not exist"):
        imported(f"sqlite:///{tmp_path}/none.db", root)
    assert not (tmp_path / "none.db").exists()
    (tmp_path / "cut.db").write_bytes(b"SQLite format 3\0" + bytes(50))
    with pytest.raises(ImportFailed, match=r"Cannot read the database: (file is not a database|database disk image)"):
        imported(tmp_path / "cut.db", root)
    with pytest.raises(ImportFailed, match="there is no file store"):
        imported(tmp_path, root)


def test_a_database_of_something_else_is_refused(tmp_path: Path, root: Path) -> None:
    with sqlite3.connect(tmp_path / "other.db") as database:
        database.execute("CREATE TABLE people (name TEXT)")
    with pytest.raises(ImportFailed, match=r"Not an MLflow database: table experiments is missing; it has people"):
        imported(tmp_path / "other.db", root)


def test_a_schema_that_is_not_known_is_named(made: Path, root: Path) -> None:
    with sqlite3.connect(made / "mlflow.db") as database:
        database.execute("ALTER TABLE metrics RENAME COLUMN step TO pace")
        database.execute("UPDATE alembic_version SET version_num = 'f00d'")
    with pytest.raises(ImportFailed, match=r"an MLflow database \(version f00d\): table metrics lacks step"):
        imported(made / "mlflow.db", root)


def test_one_damaged_run_does_not_keep_the_others(made: Path, root: Path) -> None:
    with sqlite3.connect(made / "mlflow.db") as database:
        database.execute("UPDATE metrics SET value = 'many' WHERE key = 'loss'")
        database.execute("UPDATE runs SET start_time = 'soon', end_time = 9e300 WHERE name = 'shot'")
        database.execute("UPDATE metrics SET timestamp = 9000000000000000000 WHERE key = 'final'")
    found = imported(made / "mlflow.db", root)
    assert {run.name for run in found.runs} == {"sweep", "wide ü", "broken", "shot"}
    assert any('"going"' in line and "an invalid number" in line for line in found.damage)
    assert any('Metric "final" has 1 points with invalid times' in line for line in found.damage)


def test_artifacts_elsewhere_on_this_machine_are_not_copied_unless_their_folder_is_named(
    made: Path, root: Path, tmp_path: Path
) -> None:
    secret = tmp_path / "secret"
    secret.mkdir()
    (secret / "key").write_text("mine")
    with sqlite3.connect(made / "mlflow.db") as database:
        database.execute("UPDATE runs SET artifact_uri = ? WHERE name = 'going'", [secret.as_uri()])
        database.execute("UPDATE runs SET artifact_uri = ? WHERE name = 'shot'", [f"{made}/mlruns/../../secret"])
    found = imported(made / "mlflow.db", root)
    assert sum("are outside the imported directory" in line for line in found.damage) == 2
    assert all(link.digest == "" for name in ("going", "shot") for link in items(root)[name].outputs)
    named = imported(made / "mlflow.db", root, artifacts=(secret,), runs=("going",))
    assert [run.copied for run in named.runs] == [1]


def test_a_link_among_the_artifacts_is_not_followed(made: Path, root: Path, tmp_path: Path) -> None:
    (tmp_path / "key").write_text("mine")
    for folder in (made / "files").glob("*/*/artifacts"):
        (folder / "sly").symlink_to(tmp_path / "key")
    found = imported(made / "files", root)
    assert any("is a link" in line for line in found.damage)
    assert "sly" not in {link.name for link in items(root)["wide ü"].outputs}


@pytest.mark.parametrize(("spoilt", "said"), [
    (b"1700000000000 often 3\n", "line 1 of metric"), (b"\xff\xfe\x00", "line 1 of metric"),
    (b"1700000000000 0.5 99999999999999999999999\n", "exceeds 64 bits"),
])
def test_a_metric_that_makes_no_sense_is_named(spoilt: bytes, said: str, made: Path, root: Path) -> None:
    next((made / "files").glob("*/*/metrics/loss")).write_bytes(spoilt)
    found = imported(made / "files", root)
    assert len(found.runs) == 4
    assert any(said in line for line in found.damage)


@pytest.mark.parametrize("spoilt", [b"a: [", b"- 1\n", b"!!python/object/apply:os.system [true]", b"x" * (1 << 20 | 1)])
def test_a_paper_that_makes_no_sense_is_named(spoilt: bytes, made: Path, root: Path) -> None:
    next((made / "files").glob("*/*/metrics/loss")).parent.parent.joinpath("meta.yaml").write_bytes(spoilt)
    found = imported(made / "files", root)
    assert len(found.runs) == 4
    assert any("Cannot read a run" in line for line in found.damage)


def test_names_that_lead_elsewhere_stay_below_the_root(made: Path, root: Path) -> None:
    with sqlite3.connect(made / "mlflow.db") as database:
        for table in ("runs", "metrics", "params", "tags"):
            database.execute(f"UPDATE {table} SET run_uuid = '../../../out' "
                             "WHERE run_uuid = (SELECT run_uuid FROM latest_metrics WHERE key = 'loss')")
        database.execute("UPDATE metrics SET key = '../loss' || char(10) || 'x' WHERE key = 'loss'")
        database.execute("UPDATE experiments SET name = '../e' WHERE name = 'digits'")
    found = imported(made / "mlflow.db", root)
    assert all(Path(run.run).parent == root / "mlflow" for run in found.runs)
    assert any("an invalid name" in line for line in found.damage)
    assert not (root.parent / "out").exists()


# SQLite keeps no sign of a zero.
@pytest.mark.parametrize(("place", "zero"), [("mlflow.db", "0000000000000000"), ("files", "8000000000000000")])
def test_a_double_of_any_kind_is_itself(place: str, zero: str, made: Path, root: Path) -> None:
    imported(made / place, root)
    run = Run(store_from_url(items(root)["wide ü"].facts["place"]))
    (odd,) = [history for history in histories_of(run, Kind.SCALAR) if history.metric.key.path == "odd"]
    bits = [struct.pack(">d", value).hex() for value in odd.values.tolist()]
    assert bits == ["7ff8000000000000", "7ff0000000000000", "fff0000000000000", "3fd3333333333334", "0000000000000001",
                    zero, "4340000000000001"]


def test_a_database_of_postgresql_is_read_likewise(made: Path, root: Path, postgresql: str) -> None:
    """Of the tables that MLflow made in SQLite; its driver for PostgreSQL is another than ours."""
    there, here = create_engine(f"sqlite:///{made}/mlflow.db"), create_engine(postgresql)
    tables = MetaData()
    tables.reflect(there, only=("experiments", "experiment_tags", "runs", "metrics", "params", "tags", "datasets",
                                "inputs", "input_tags", "logged_models", "model_versions", "alembic_version"))
    for table in tables.tables.values():
        for constraint in [item for item in table.constraints if isinstance(item, CheckConstraint)]:
            table.constraints.remove(constraint)  # written as SQLite has them
    with there.connect() as source, here.begin() as target:
        tables.drop_all(target)
        tables.create_all(target)
        for table in tables.sorted_tables:
            if rows := [dict(row) for row in source.execute(select(table)).mappings()]:
                target.execute(insert(table), rows)
    try:
        found = imported(postgresql.replace("+psycopg", ""), root, artifacts=(made,))
        assert (len(found.runs), found.damage) == (5, [])
        imported(made / "mlflow.db", root.with_name("others"))
        runs, others = items(root), items(root.with_name("others"))
        for name, run in runs.items():
            assert (run.uid, run.parameters, run.metrics.keys()) == (
                others[name].uid, others[name].parameters, others[name].metrics.keys())
            assert points(Run(store_from_url(run.facts["place"]))) == points(
                Run(store_from_url(others[name].facts["place"])))
        assert imported(postgresql, root, artifacts=(made,)).runs == []
    finally:
        with here.begin() as target:
            tables.drop_all(target)
        there.dispose()
        here.dispose()
