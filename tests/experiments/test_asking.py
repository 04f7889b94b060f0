"""A search finds what holds, and in its order."""

import math
from typing import Any

import pytest
from sqlalchemy import event

from barograph.errors import SearchError
from barograph.experiments.catalog import Catalog
from barograph.experiments.search import asking
from barograph.model.items import Entry, Relation, Verb, uid_of
from experiments_entries import NOW_UNIX, component

DAY_SECS = 86_400


@pytest.fixture
def filled(catalog: Catalog) -> Catalog:
    """Four components, an experiment with a trial, and a finding of none."""
    catalog.tell([
        *component("a", parameters={"lr": 0.1, "opt": "sgd", "amp": True, "betas": [0.9, 0.99]},
                   metrics={"loss": 0.5, "val/acc": 0.8}, tags={"team": "vision"}, time_unix=NOW_UNIX - 3 * DAY_SECS),
        *component("b", parameters={"lr": 0.01, "opt": "Adam", "amp": False}, metrics={"loss": 0.3},
                   tags={"team": "speech"}, time_unix=NOW_UNIX - 2 * DAY_SECS),
        *component("c", parameters={"lr": "auto", "big": 2**60 + 1, "none": None}, metrics={"loss": math.nan},
                   time_unix=NOW_UNIX - DAY_SECS),
        *component("d", time_unix=NOW_UNIX),
        Entry("e", Verb.CREATE, {"kind": "experiment", "name": "digits"}),
        Entry("t", Verb.CREATE, {"kind": "trial", "name": "wide", "parent": "e"}),
        Entry("a", Verb.JOIN, {"trial": "t"}),
        Entry("b", Verb.RELATE, {"relation": Relation.DERIVED_FROM, "target": "a"}),
        Entry("c", Verb.RELATE, {"relation": Relation.DERIVED_FROM, "target": "b"}),
        Entry("b", Verb.NOTE, {"text": "It **overfits**, 100 %"}),
        Entry("a", Verb.SET, {"starred": True, "state": "finished", "started_unix": 10.0, "ended_unix": 70.0}),
        Entry("c", Verb.OUTPUT, {"name": "model", "uri": "s3://b/model.pt", "digest": "sha256:1", "size_bytes": 10}),
    ])
    return catalog


@pytest.mark.parametrize(("search", "found"), [
    ("", "dcba"),
    ("params.lr < 0.05", "b"),
    ("params.lr != 0.1", "b"),
    ("not params.lr = 0.1", "dcb"),
    ("params.lr exists", "cba"),
    ("params.lr is null", "d"),
    ("not exists(params.lr) or exists(tags.nobody)", "d"),
    ("params.lr = 'auto'", "c"),
    ("params.lr in (0.1, 'auto')", "ca"),
    ("params.amp", "a"),
    ("params.amp = false", "b"),
    ("params.big > 1e18", "c"),
    ("params.none = null", "c"),
    ("params.betas contains '0.99'", "a"),
    ("params.opt contains 'ADA'", "b"),
    ("params.opt like 'A%'", "b"),
    ("params.opt ~ '^[a-z]+$'", "a"),
    ("params.nobody = 1", ""),
    ("metrics.loss.last <= 0.5", "ba"),
    ("metrics.loss.min < -0.6", "b"),
    ("metrics.loss = nan", "c"),
    ("metrics.loss.last > 0 and not metrics.loss.last < 0.4", "a"),
    ("metrics.\"val/acc\".count = 3", "a"),
    ("tags.team = 'vision' or tags.team = 'speech'", "ba"),
    ("tags.team not in ('vision')", "dcb"),
    ("experiment = 'digits'", "a"),
    ("trial contains 'WID'", "a"),
    ("notes contains '100 %'", "b"),
    ("notes exists", "b"),
    ("derived_from('a')", "cb"),
    ("derived_from('b')", "c"),
    ("finding()", ""),
    ("starred", "a"),
    ("duration = 60", "a"),
    ("state = 'finished' and starred = true", "a"),
    ("outputs.model.size < 20 and outputs.model ~ '^s3:'", "c"),
    ("created > '36 hours ago'", "dc"),
    ("created <= '2 days ago'", "ba"),
    ("name in ('a', 'd')", "da"),
    ("kind = 'experiment'", "e"),
    ("order by params.lr", "badc"),
    ("order by metrics.loss.last desc", "abdc"),
    ("order by metrics.loss.last limit 1", "b"),
    ("order by metrics.loss.last limit 2 offset 1", "ad"),
    ("order by created", "abcd"),
    ("order by tags.team desc, name", "abcd"),
    ("order by metrics.nobody.last, name", "abcd"),
])
def test_finds_what_holds_in_its_order(filled: Catalog, search: str, found: str) -> None:
    assert "".join(item.uid for item in filled.find(search)) == found


@pytest.mark.parametrize("search", ["params.lr < 0.05 order by metrics.loss.last", "metrics.loss.last <= 0.5",
                                    "tags.team exists order by params.lr limit 1",
                                    "params.lr < 0.05 or metrics.loss.last >= 0.5 or tags.team = 'speech'",
                                    "(params.amp or params.opt = 'Adam') and kind = 'component' order by created",
                                    "params.nobody = 1 or params.lr = 'auto'", "name = 'b' or id in ('a', 'd')",
                                    "not archived order by created desc"])
def test_what_is_rare_and_what_is_not_is_found_alike(
    filled: Catalog, search: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    rare = [item.uid for item in filled.find(search)]
    monkeypatch.setattr(asking, "RARE", 0)
    assert [item.uid for item in filled.find(search)] == rare


@pytest.mark.parametrize(("search", "index"), [
    ("", "items_by_age"),
    ("order by created desc limit 100", "items_by_age"),
    ("metrics.loss.min < 0.1", "INTEGER PRIMARY KEY"),
    ("metrics.loss.min < 0.1 or params.lr < 0.05 order by name", "INTEGER PRIMARY KEY"),
    ("order by metrics.loss.min limit 100", "metrics_by_min"),
    ("name = 'a' or id in ('b', 'c')", "INTEGER PRIMARY KEY"),
])
def test_a_large_catalog_is_not_looked_through(file_catalog: Catalog, search: str, index: str) -> None:
    file_catalog.tell(component("a", parameters={"lr": 0.01}, metrics={"loss": 0.5}))
    asked: list[tuple[str, Any]] = []
    with file_catalog.reading() as connection:
        event.listen(connection, "before_cursor_execute",
                     lambda _, __, statement, values, *more: asked.append((statement, values)))
        file_catalog.ids(search, connection)
        statement, values = next((said, values) for said, values in asked if "ORDER BY" in said)
        plan = connection.exec_driver_sql(f"EXPLAIN QUERY PLAN {statement}", values).all()
    assert index in plan[0][3]
    assert not any(row[3].startswith("SCAN items") for row in plan)


@pytest.mark.parametrize(("search", "said"), [
    ("metric.loss < 1", 'Did you mean "metrics.NAME"'),
    ("params < 1", "expected a name"),
    ("created > 'soon'", "not a valid time"),
    ("steps > 'many'", "is a number"),
    ("name < 3", "write '3'"),
    ("starred = 3", "true or false"),
    ("params.opt ~ '('", "not a valid regular expression"),
    ("found('x')", "available: finding"),
    ("finding(3)", "finding('NAME or CODE')"),
    ("order by notes", "cannot sort"),
    ("params.lr < null", "only = and !="),
])
def test_what_cannot_be_asked_is_said_with_its_place(filled: Catalog, search: str, said: str) -> None:
    with pytest.raises(SearchError, match=r"(?s).*\^$") as raised:
        filled.find(search)
    assert said in str(raised.value)


def test_a_search_is_only_ever_a_value(filled: Catalog) -> None:
    assert filled.find("""name = "x'; drop table items; --" or tags."a' or 1=1 --" = 'b'""") == []
    assert len(filled.find("")) == 4


def test_what_is_archived_or_deleted_is_found_where_it_is_asked_for(filled: Catalog) -> None:
    filled.tell([Entry("a", Verb.SET, {"archived": True}), Entry("d", Verb.DELETE)])
    assert "".join(item.uid for item in filled.find()) == "cb"
    assert "".join(item.uid for item in filled.find("archived")) == "a"
    assert "".join(item.uid for item in filled.find("deleted")) == "d"


def test_an_identity_is_the_same_wherever_it_is_asked() -> None:
    assert uid_of("trial", "x", parent="e") != uid_of("trial", "x", parent="f")  # type: ignore[arg-type]
