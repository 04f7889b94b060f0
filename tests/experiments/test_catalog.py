"""What is told is kept beside the runs; the catalog is made of that, and can be made again."""

import dataclasses
import multiprocessing
import shutil
import sqlite3
import threading
from pathlib import Path

import pytest
from sqlalchemy import func, make_url, select

from barograph.errors import (
    CatalogUnavailable,
    NameTaken,
    NewerCatalog,
    SettingsError,
    StillNeeded,
    UnknownItem,
)
from barograph.experiments.catalog import Catalog
from barograph.experiments.lineage import lineage_of
from barograph.experiments.schema import ITEMS
from barograph.model.clock import ManualClock
from barograph.model.items import Entry, ItemKind, Verb
from barograph.runs.state.journal import JOURNAL_OF_ROOT, Journal
from experiments_entries import NOW_UNIX, component


def test_what_is_told_is_kept_and_found_by_another(catalog: Catalog, tmp_path: Path) -> None:
    catalog.tell(component("data", parameters={"rows": 10}))
    with Catalog(tmp_path / "runs") as other:
        assert other.item("data").parameters == {"rows": 10}


def test_numbers_texts_and_lists_come_back_as_they_were(catalog: Catalog) -> None:
    told = {"float": 0.1, "whole": 3, "float that is whole": 3.0, "big": 2**70, "inf": float("-inf"),
            "text": "näme 日本", "truth": True, "nothing": None, "list": [1, "a", [2.5]], "empty": "",
            "long": "x" * 10_000,
            "looks like a number": "1e5"}
    catalog.tell(component("c", parameters={**told, "nan": float("nan")}))
    found = dict(catalog.item("c").parameters)
    assert str(found.pop("nan")) == "nan"
    assert found == told
    assert {name: type(value) for name, value in found.items()} == {name: type(it) for name, it in told.items()}


def test_metrics_come_back_as_they_were_each_of_its_own_item(catalog: Catalog) -> None:
    said = {"last": 1.5, "min": -2.0, "max": float("inf"), "mean": 0.25, "std": 3.0, "count": 7, "first_step": 4,
            "last_step": 2**40}
    catalog.tell([*component("a", tags={"team": "vision"}), *component("b", metrics={"z": 9.0, "acc": float("nan")}),
                  *component("bare"), Entry("a", Verb.METRICS, {"acc": said}, NOW_UNIX)])
    first, second, bare = (catalog.item(name) for name in ("a", "b", "bare"))
    assert dataclasses.asdict(first.metrics["acc"]) == said
    assert list(second.metrics) == ["acc", "z"]
    assert str(second.metrics["acc"].last) == "nan"
    assert (dict(first.tags), dict(second.tags)) == ({"team": "vision"}, {})
    assert (bare.parameters, bare.metrics, bare.tags) == ({}, {}, {})


def test_characters_that_databases_refuse_do_no_harm(catalog: Catalog) -> None:
    catalog.tell(component("c", parameters={"null": "a\0b", "half": "a\ud800b"}, tags={"t\0": "\ud800"}))
    assert catalog.item("c").parameters["null"] == "a\N{REPLACEMENT CHARACTER}b"


def test_rebuilding_gives_the_same(catalog: Catalog) -> None:
    catalog.create(ItemKind.EXPERIMENT, "digits", fields={"hypothesis": "wide wins"})
    catalog.tell([*component("a", parameters={"lr": 0.1}, metrics={"loss": 1.0}, tags={"t": "1"}),
                  Entry("a", Verb.NOTE, {"text": "so it goes"})])
    catalog.tell([Entry("a", Verb.TAG, {"t": "2"})])
    before = [catalog.item("a"), catalog.item("digits")]
    fed = catalog.rebuild()
    assert (fed.batches, fed.damage) == (3, [])
    assert [catalog.item("a"), catalog.item("digits")] == before


def test_a_deleted_database_is_made_again(file_catalog: Catalog, tmp_path: Path) -> None:
    file_catalog.tell(component("a"))
    file_catalog.close()
    for file in (tmp_path / "runs" / ".catalog").glob("catalog.sqlite*"):
        file.unlink()
    with Catalog(tmp_path / "runs") as again:
        assert again.feed().batches == 1
        assert again.item("a").name == "a"


def test_what_comes_late_takes_its_place_in_time(catalog: Catalog) -> None:
    catalog.tell(component("a", tags={"who": "second"}, time_unix=NOW_UNIX))
    # Another machine, whose clock is behind, or whose batch came over a slow line.
    early = Entry("a", Verb.TAG, {"who": "first", "late": "yes"}, NOW_UNIX - 60)
    Journal(catalog.store, JOURNAL_OF_ROOT).write([early])
    assert catalog.feed().batches == 1
    assert catalog.item("a").tags == {"who": "second", "late": "yes"}


def test_a_damaged_batch_is_named_and_the_rest_is_there(catalog: Catalog) -> None:
    catalog.tell(component("a"))
    journal = Journal(catalog.store, JOURNAL_OF_ROOT)
    name = f"{JOURNAL_OF_ROOT}/{journal.write([Entry('b', Verb.TAG, {'x': 'y'}, NOW_UNIX)]).name}"
    catalog.store.put(name, bytes(catalog.store.get(name)).replace(b'"y"', b'"z"'))
    fed = catalog.rebuild()
    assert [name in problem for problem in fed.damage] == [True]
    assert catalog.item("a").name == "a"


@pytest.mark.parametrize("data", [{"trial": 3}, {}, {"relation": "x"}])
def test_a_batch_that_makes_no_sense_is_named_and_the_rest_is_there(catalog: Catalog, data: dict[str, object]) -> None:
    verb = Verb.RELATE if "relation" in data else Verb.NOTE
    name = Journal(catalog.store, JOURNAL_OF_ROOT).write([Entry("b", verb, data, NOW_UNIX)]).name
    catalog.tell(component("a"))
    assert [name in problem for problem in catalog.feed().damage] == [True]
    assert catalog.item("a").name == "a"


def test_names_that_are_kept_alike_do_no_harm(catalog: Catalog) -> None:
    catalog.tell(component("c", parameters={"a\0": 1, "a\N{REPLACEMENT CHARACTER}": 2}))
    assert list(catalog.item("c").parameters.values()) == [2]


def test_a_name_is_taken_once_and_can_be_loaded(catalog: Catalog) -> None:
    first = catalog.create(ItemKind.EXPERIMENT, "digits", fields={"hypothesis": "h"})
    with pytest.raises(NameTaken, match='An experiment "digits" already exists'):
        catalog.create(ItemKind.EXPERIMENT, "digits")
    assert catalog.create(ItemKind.EXPERIMENT, "digits", or_load=True) == first
    assert catalog.create(ItemKind.COMPONENT, "digits").uid != first.uid


def test_letters_of_either_case_are_different_names(catalog: Catalog) -> None:
    assert catalog.create(ItemKind.EXPERIMENT, "A").uid != catalog.create(ItemKind.EXPERIMENT, "a").uid


@pytest.mark.parametrize("name", ["", "  ", "two\nlines", "x" * 1001])
def test_what_is_no_name_is_refused(catalog: Catalog, name: str) -> None:
    with pytest.raises(SettingsError, match="name of the experiment"):
        catalog.create(ItemKind.EXPERIMENT, name)


def _create(
    root: str, results: "multiprocessing.Queue[list[str]]", start: "multiprocessing.synchronize.Barrier"
) -> None:
    with Catalog(root) as catalog:
        created = []
        for number in range(10):
            start.wait()
            try:
                created.append(catalog.create(ItemKind.EXPERIMENT, f"digits {number}").name)
            except NameTaken:
                continue
        results.put(created)


def test_of_processes_that_create_one_name_at_once_one_does(tmp_path: Path) -> None:
    processes = multiprocessing.get_context("spawn")
    results, start = processes.Queue(), processes.Barrier(3)
    started = [processes.Process(target=_create, args=(str(tmp_path), results, start)) for _ in range(3)]
    for process in started:
        process.start()
    created = [name for _ in started for name in results.get(timeout=600)]
    assert sorted(created) == [f"digits {number}" for number in range(10)]
    for process in started:
        process.join()


def test_an_unknown_name_says_the_nearest(catalog: Catalog) -> None:
    catalog.create(ItemKind.EXPERIMENT, "digits")
    with pytest.raises(UnknownItem, match=r'No experiment "digitz" in .*Did you mean "digits"'):
        catalog.item("digitz", ItemKind.EXPERIMENT)


def test_what_others_came_of_is_deleted_with_them_or_not_at_all(catalog: Catalog) -> None:
    catalog.tell([*component("base"), *component("tuned"), *component("last"),
                  Entry("tuned", Verb.RELATE, {"relation": "derived_from", "target": "base"}),
                  Entry("last", Verb.RELATE, {"relation": "derived_from", "target": "tuned"})])
    with pytest.raises(StillNeeded, match='component "tuned", component "last"'):
        catalog.delete(catalog.item("base"))
    assert [item.uid for item in catalog.delete(catalog.item("base"), cascade=True)] == ["base", "tuned", "last"]
    assert catalog.find() == []


def test_a_circle_of_descent_ends(catalog: Catalog) -> None:
    catalog.tell([*component("a"), *component("b"),
                  Entry("a", Verb.RELATE, {"relation": "derived_from", "target": "b"}),
                  Entry("b", Verb.RELATE, {"relation": "derived_from", "target": "a"})])
    assert [item.uid for item in catalog.delete(catalog.item("a"), cascade=True)] == ["a", "b"]


def test_what_came_of_what_is_told_from_either_end(catalog: Catalog) -> None:
    catalog.tell([*component("train"), *component("test"), *component("tuned"),
                  Entry("train", Verb.OUTPUT, {"name": "model", "uri": "s3://b/model"}),
                  Entry("test", Verb.INPUT, {"name": "model", "uri": "s3://b/model"}),
                  Entry("tuned", Verb.RELATE, {"relation": "derived_from", "target": "train"}),
                  Entry("tuned", Verb.JOIN, {"trial": "wide"})])
    assert [edge.relation for edge in lineage_of(catalog, "test", "up")] == ["read", "made_by"]
    assert sorted(edge.source for edge in lineage_of(catalog, "train", "down", depth=1))[1:] == ["tuned"]
    assert [(edge.relation, edge.target) for edge in lineage_of(catalog, "tuned", "up")] == [
        ("derived_from", "train"), ("part_of", "wide")]
    with pytest.raises(SettingsError, match="not a direction"):
        lineage_of(catalog, "tuned", "sideways")


def test_an_experiment_takes_along_what_belongs_to_it_alone(catalog: Catalog) -> None:
    digits = catalog.create(ItemKind.EXPERIMENT, "digits")
    other = catalog.create(ItemKind.EXPERIMENT, "other")
    wide = catalog.create(ItemKind.TRIAL, "wide", parent=digits.uid)
    there = catalog.create(ItemKind.TRIAL, "there", parent=other.uid)
    catalog.tell([*component("mine"), *component("shared"), *(
        Entry(uid, Verb.JOIN, {"trial": trial.uid}) for uid, trial in
        (("mine", wide), ("shared", wide), ("shared", there)))])
    assert [item.name for item in catalog.delete(digits, cascade=True)] == ["digits", "wide", "mine"]


def test_what_was_deleted_can_be_restored_for_a_while(catalog: Catalog, clock: ManualClock) -> None:
    catalog.tell(component("a"))
    catalog.delete(catalog.item("a"))
    clock.advance(29 * 86_400)
    catalog.restore(catalog.deleted("a").uid)
    assert catalog.item("a").facts["deleted_unix"] is None
    catalog.delete(catalog.item("a"))
    clock.advance(31 * 86_400)
    with pytest.raises(UnknownItem):
        catalog.deleted("a")


def test_a_catalog_of_a_newer_barograph_is_refused_and_says_what_to_do(file_catalog: Catalog, tmp_path: Path) -> None:
    file_catalog.close()
    with sqlite3.connect(tmp_path / "runs" / ".catalog" / "catalog.sqlite") as database:
        database.execute("UPDATE alembic_version SET version_num = '9999'")
    database.close()
    with pytest.raises(NewerCatalog, match=r"(?s)schema 9999.*barograph reindex"):
        Catalog(tmp_path / "runs")


def test_a_damaged_catalog_says_how_to_make_it_again(file_catalog: Catalog, tmp_path: Path) -> None:
    file_catalog.close()
    for file in (tmp_path / "runs" / ".catalog").glob("catalog.sqlite*"):
        file.write_bytes(b"nothing that SQLite knows" * 1000)
    with pytest.raises(CatalogUnavailable, match=r"No data is lost: .*Rebuild it from the runs with barograph reindex"):
        Catalog(tmp_path / "runs")


def test_a_folder_that_was_moved_keeps_its_catalog(file_catalog: Catalog, tmp_path: Path) -> None:
    file_catalog.tell(component("a"))
    file_catalog.close()
    shutil.move(tmp_path / "runs", tmp_path / "moved")
    with Catalog(tmp_path / "moved") as moved:
        assert moved.item("a").name == "a"


def test_one_database_holds_the_catalog_of_one_place(empty_postgresql: str, tmp_path: Path) -> None:
    Catalog(tmp_path / "runs", url=make_url(empty_postgresql)).close()
    with pytest.raises(CatalogUnavailable, match=r"is already the catalog of .*runs, and holds only one"):
        Catalog(tmp_path / "others", url=make_url(empty_postgresql))


def test_a_database_that_is_away_is_named_without_its_password(tmp_path: Path) -> None:
    away = make_url("postgresql+psycopg://team:secret@127.0.0.1:1/runs")
    with pytest.raises(CatalogUnavailable, match=r"team:\*\*\*@127\.0\.0\.1:1") as raised:
        Catalog(tmp_path / "runs", url=away)
    assert "secret" not in str(raised.value)


@pytest.mark.parametrize("url", ["nothing", "oracle9+x://host/name"])
def test_a_wrong_address_of_a_database_is_refused(url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BAROGRAPH_CATALOG", url)
    with pytest.raises(SettingsError, match=r"postgresql\+psycopg"):
        Catalog(tmp_path / "runs")


def test_who_reads_sees_one_state_of_things(catalog: Catalog) -> None:
    catalog.tell(component("first"))
    with catalog.reading() as connection:
        before = connection.execute(select(func.count()).select_from(ITEMS)).scalar_one()
        writer = threading.Thread(target=catalog.tell, args=(component("second"),))
        writer.start()
        writer.join()
        assert connection.execute(select(func.count()).select_from(ITEMS)).scalar_one() == before
    assert len(catalog.find()) == before + 1
