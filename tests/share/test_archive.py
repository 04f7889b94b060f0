"""From one root of runs to another, by a file."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

import barograph
from archives import brought, members_of, packed
from barograph.errors import ExportError, ImportFailed, RunInUse, StoreFull, UnknownItem
from barograph.experiments.artifacts import ARTIFACTS, bytes_of
from barograph.experiments.catalog import Catalog
from barograph.experiments.comparing import compared
from barograph.experiments.lineage import lineage_of
from barograph.experiments.run import Run, load_run
from barograph.model.items import Entry, ItemKind, Verb
from barograph.runs.state.imported import is_imported
from barograph.share import planning
from barograph.store.files import FileStore
from barograph.store.urls import store_from_url


def test_an_experiment_arrives_with_everything_in_it(archive: Path, source: Catalog, target: Catalog) -> None:
    imported = brought(archive, target)
    assert [(run.name, run.new) for run in sorted(imported.runs)] == [("w16", True), ("w64", True)]
    small, large = target.find("experiment = 'digits' and kind = 'run' order by name")
    assert (small.name, large.parameters, large.tags) == ("w16", {"width": 64}, {"team": "vision"})
    assert [note.text for note in large.notes] == ["the best"]
    [digits] = target.of_kind(ItemKind.EXPERIMENT)
    assert (digits.facts["hypothesis"], digits.notes[0].text) == ("wide nets win", "an **experiment**")
    [shared] = target.find("kind = 'component'")
    assert [trial.name for trial in shared.trials] == ["width 16", "width 64"]
    assert ("derived_from", small.uid) in {(edge.relation, edge.target) for edge in lineage_of(target, large.uid, "up")}
    assert bytes_of(target.store, large.outputs[0]) == bytes_of(source.store, large.outputs[0])
    assert barograph.open(large.facts["place"]).series("scalar:acc").values.tolist()[-1] == 0.644
    assert compared([small, large]).parts["parameters"][0].values == (16, 64)


def test_what_many_have_is_in_the_archive_once(archive: Path) -> None:
    assert len([name for name in members_of(archive) if name.startswith(ARTIFACTS)]) == 2


def test_the_same_content_is_the_same_file_from_whichever_root(archive: Path, source: Catalog, target: Catalog) -> None:
    brought(archive, target)
    assert packed(source, "digits") == archive.read_bytes()
    assert packed(target, "digits") == archive.read_bytes()


def test_an_archive_that_is_unpacked_is_a_root_of_runs(archive: Path, tmp_path: Path) -> None:
    shutil.unpack_archive(archive, tmp_path / "unpacked")
    with Catalog(tmp_path / "unpacked") as catalog:
        catalog.feed()
        [run] = catalog.find("params.width = 64 and experiment = 'digits'")
        assert run.notes[0].text == "the best"


def test_twice_is_once(archive: Path, target: Catalog) -> None:
    brought(archive, target)
    before = {info.name: info.size_bytes for info in target.store.list() if "sqlite" not in info.name}
    again = brought(archive, target)
    assert (again.entries, again.artifacts, {run.added for run in again.runs}) == (0, 0, {0})
    assert {info.name: info.size_bytes for info in target.store.list() if "sqlite" not in info.name} == before
    assert len(target.item("w64").notes) == 1


def test_where_it_came_from_it_changes_nothing(archive: Path, source: Catalog) -> None:
    again = brought(archive, source)
    assert (again.entries, {run.new for run in again.runs}) == (0, {False})
    assert len(source.item("w64").notes) == 1


def test_what_was_said_since_is_brought_by_a_later_archive(archive: Path, tmp_path: Path, target: Catalog) -> None:
    brought(archive, target)
    with Catalog(tmp_path / "third") as third:
        third.feed()
        brought(archive, third)
        third.tell([Entry(third.item("w64").uid, Verb.NOTE, {"text": "later"})])
        with load_run("w16", root=tmp_path / "third") as run:
            run.note("by the run")
        third.feed(thorough=True)
        later = tmp_path / "later.zip"
        later.write_bytes(packed(third, "w64"))
    brought(later, target)
    assert [note.text for note in target.item("w64").notes] == ["the best", "later"]


def test_a_run_alone_brings_its_place_in_an_experiment_and_nothing_of_others(
    source: Catalog, tmp_path: Path, target: Catalog
) -> None:
    path = tmp_path / "w64.zip"
    path.write_bytes(packed(source, "w64"))
    brought(path, target)
    assert [item.name for item in target.find()] == ["w64"]
    [digits] = target.of_kind(ItemKind.EXPERIMENT)
    assert (digits.facts["hypothesis"], digits.notes) == ("wide nets win", [])
    assert "an **experiment**" not in b"".join(members_of(path).values()).decode("latin-1")


def test_a_run_that_is_there_with_other_content_is_refused_by_name(archive: Path, target: Catalog) -> None:
    brought(archive, target)
    place = Path(target.item("w64").facts["place"])
    [records] = place.glob("records/*/*.parquet")
    records.write_bytes(records.read_bytes()[:-1] + b"x")
    with pytest.raises(ImportFailed, match=r'Run "w64" .* different content: records/.* differs'):
        brought(archive, target)
    records.unlink()
    with pytest.raises(ImportFailed, match=r"records/.* is missing"):
        brought(archive, target)


def test_a_folder_that_holds_something_else_is_left_alone(archive: Path, target: Catalog) -> None:
    target.store.put("w64/thesis.txt", b"years of work")
    [_, run] = sorted(brought(archive, target).runs)
    assert Path(run.place).name == f"w64-{run.run_id[-6:]}"
    assert bytes(target.store.get("w64/thesis.txt")) == b"years of work"
    assert {run.new for run in brought(archive, target).runs} == {False}


def test_a_file_in_the_place_of_a_run_is_left_alone(archive: Path, target: Catalog) -> None:
    (Path(target.store.url) / "w64").write_text("a file")
    [_, run] = sorted(brought(archive, target).runs)
    assert Path(run.place).name == f"w64-{run.run_id[-6:]}"


def test_what_another_import_took_away_is_put_again(
    archive: Path, target: Catalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    create = FileStore.create

    def take_away_first(self: FileStore, name: str, data: bytes) -> None:
        create(self, name, data)
        monkeypatch.setattr(FileStore, "create", create)
        shutil.rmtree(Path(target.store.url) / "w16" / "records")
        shutil.rmtree(Path(target.store.url) / ARTIFACTS)

    monkeypatch.setattr(FileStore, "create", take_away_first)
    brought(archive, target)
    small = target.item("w16")
    assert barograph.open(small.facts["place"]).series("scalar:acc").values.tolist()[-1] == 0.164
    assert bytes_of(target.store, small.outputs[0])


def test_a_run_that_another_import_finishes_meanwhile_is_brought_once(
    archive: Path, target: Catalog, monkeypatch: pytest.MonkeyPatch
) -> None:  # fmt: skip
    known, others = planning._known_place, [lambda: brought(archive, target)]

    def too_late(*args: Any) -> Any:
        place = known(*args)
        if others:  # after this one looked, and before it has found a place of its own
            others.pop()()
        return place

    monkeypatch.setattr(planning, "_known_place", too_late)
    brought(archive, target)
    there = {path.name for path in Path(target.store.url).iterdir() if not path.name.startswith(".")}
    assert there == {"w16", "w64"}


def test_an_import_that_was_killed_is_finished_by_the_next(archive: Path, target: Catalog) -> None:
    for name, data in members_of(archive).items():
        if name.startswith("w64/") and name != "w64/run.json":
            target.store.put(name, data[: len(data) // 2])
    target.feed()
    assert target.find() == []
    [_, run] = sorted(brought(archive, target).runs)
    assert (run.new, Path(run.place).name) == (True, "w64")
    assert barograph.open(run.place).series("scalar:acc").values.tolist()[-1] == 0.644


def test_where_no_room_is_left_nothing_stays(
    archive: Path, target: Catalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(self: FileStore, name: str, data: bytes) -> None:
        raise StoreFull("No room is left in the store.")

    monkeypatch.setattr(FileStore, "create", full)
    with pytest.raises(StoreFull):
        brought(archive, target)
    assert [path.name for path in Path(target.store.url).iterdir()] == [".catalog"]
    assert [info.name for info in target.store.list(ARTIFACTS)] == []


def test_a_run_that_is_written_is_refused_or_left_out(tmp_path: Path) -> None:
    with Run("first", root=tmp_path), Run("second", root=tmp_path, experiment="both"):
        pass
    with Run("third", root=tmp_path, experiment="both") as run, Catalog(tmp_path) as catalog:
        run.log_metric("loss", 1.0)
        catalog.feed()
        with pytest.raises(RunInUse, match='Run "third" is still being written'):
            chosen_names(catalog)
        assert chosen_names(catalog, skip_running=True) == ["second"]


def chosen_names(catalog: Catalog, **options: bool) -> list[str]:
    from barograph.share.choosing import chosen

    return [run.name for run in chosen(catalog, ["both"], **options).runs]


def test_what_is_named_wrong_or_gone_is_said(source: Catalog, tmp_path: Path) -> None:
    with pytest.raises(UnknownItem, match='Did you mean "digits"'):
        packed(source, "digit")
    with Run("first", to=str(tmp_path / "runs" / "first")):
        pass
    with Catalog(tmp_path / "runs") as catalog:
        catalog.feed()
        shutil.rmtree(tmp_path / "runs" / "first")
        catalog.feed()
        with pytest.raises(ExportError, match='Cannot read run "first"'):
            packed(catalog, "first")


def test_another_run_in_the_place_of_one_is_not_packed_for_it(tmp_path: Path) -> None:
    for name in ("first", "private"):
        with Run(name, to=f"{tmp_path}/{name}/run", root=tmp_path / name):
            pass
    with Catalog(tmp_path / "first") as catalog:
        catalog.feed()
        shutil.rmtree(tmp_path / "first" / "run")
        shutil.copytree(tmp_path / "private" / "run", tmp_path / "first" / "run")
        with pytest.raises(ExportError, match=r"Another run is now in the directory .* barograph reindex finds it"):
            packed(catalog, "first")


def test_checkpoints_and_capsules_go_in_where_that_is_asked(tmp_path: Path) -> None:
    from barograph.share.choosing import chosen

    place = tmp_path / "runs" / "first"
    with Run("first", to=str(place)):
        pass
    store = store_from_url(place)
    store.put("checkpoints/a.json", b"12345")
    store.put("capsules/0000-1-p0/capsule.json", b"1234567")
    with Catalog(tmp_path / "runs") as catalog:
        catalog.feed()
        assert chosen(catalog, ["first"]).asked == {"checkpoints": 5, "capsules": 7}
        both = chosen(catalog, ["first"], include=["checkpoints", "capsules"])
        assert both.asked == {}
        assert {piece.member for piece in both.pieces} >= {"first/checkpoints/a.json",
                                                           "first/capsules/0000-1-p0/capsule.json"}


@pytest.mark.s3
def test_from_a_bucket_to_a_bucket(archive: Path, s3_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    with Catalog(f"{s3_url}/runs") as catalog:
        catalog.feed()
        assert len(brought(archive, catalog).runs) == 2
        assert packed(catalog, "digits") == archive.read_bytes()
        assert {run.new for run in brought(archive, catalog).runs} == {False}


def test_a_run_that_was_imported_says_so(archive: Path, target: Catalog, source: Catalog) -> None:
    for run in brought(archive, target).runs:
        assert is_imported(store_from_url(run.place))
        assert not is_imported(store_from_url(f"{source.store.url}/{run.name}"))
