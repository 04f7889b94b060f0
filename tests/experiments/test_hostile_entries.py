"""A journal is a folder of files that anybody may have written: whatever is in it, the catalog takes in the rest."""

import math
import random
import string
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as some
from sqlalchemy import make_url

from barograph.experiments.catalog import Catalog
from barograph.experiments.run import Run
from barograph.model.clock import ManualClock
from barograph.model.items import Entry, ItemKind, Verb
from barograph.runs.format.metadata import sealed
from barograph.runs.state.journal import JOURNAL_OF_ROOT, Journal
from experiments_entries import NOW_UNIX, component

_TEXTS = some.one_of(
    some.text(max_size=20), some.sampled_from(["\0", "\ud800", "../..", "a/b", "שלום", "🦜" * 800, "x" * 10_000]))
_PLAIN = some.one_of(some.none(), some.booleans(), some.integers(), some.floats(), _TEXTS)
_VALUES = some.recursive(
    _PLAIN, lambda inner: some.lists(inner, max_size=2) | some.dictionaries(_TEXTS, inner, max_size=2), max_leaves=4)
_FIELDS = ("kind", "name", "parent", "fields", "text", "trial", "relation", "target", "uri", "media_type", "digest",
           "size_bytes", "steps", "started_unix", "dirty", "variables", "state")
_DATA = some.dictionaries(some.sampled_from(_FIELDS), _VALUES, max_size=5) | some.dictionaries(_TEXTS, _VALUES,
                                                                                              max_size=3)
_TIMES = some.floats() | some.just(NOW_UNIX)


@settings(max_examples=60, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
@given(entries=some.lists(some.builds(Entry, some.just("a") | _TEXTS, some.sampled_from(list(Verb)), _DATA, _TIMES,
                                      _TEXTS), min_size=1, max_size=10))
def test_whatever_a_batch_says_the_catalog_can_be_fed_and_asked(
    memory_catalog: Catalog, entries: list[Entry]
) -> None:
    for entry in entries:
        _put(memory_catalog, entry)
    memory_catalog.feed()
    memory_catalog.find()
    assert all(item.kind in ItemKind for kind in ItemKind for item in memory_catalog.of_kind(kind, archived=True))


@pytest.fixture
def memory_catalog(tmp_path: Path, clock: ManualClock) -> Iterator[Catalog]:
    """A catalog of a root in memory, since a journal on a disk waits for the disk."""
    url = make_url(f"sqlite:///{tmp_path}/catalog.sqlite")
    with Catalog(f"memory://{tmp_path.name}", clock=clock, url=url) as made:
        yield made


def _put(catalog: Catalog, entry: Entry) -> None:
    """Write a batch as somebody would who does not ask what an entry may say."""
    names = len(catalog.store.list(JOURNAL_OF_ROOT))
    body = {"format": 1, "entries": [[entry.uid, str(entry.verb), entry.data, entry.time_unix, entry.by]]}
    catalog.store.put(f"{JOURNAL_OF_ROOT}/{names:016d}-00000000.json", sealed(body))


_RANDOM = "".join(random.Random(0).choices(string.ascii_letters + string.digits, k=20_000))


@pytest.mark.parametrize("entry", [
    Entry("b", Verb.PARAMETERS, {"text": _RANDOM, "number": 10**400, "list": [_RANDOM]}),
    Entry("b", Verb.TAG, {"text": _RANDOM, _RANDOM: "name"}),
    Entry("b", Verb.NOTE, {"text": _RANDOM}),
    Entry("b", Verb.SET, {"name": _RANDOM, "description": _RANDOM, "message": _RANDOM}),
    Entry("b", Verb.INPUT, {"name": _RANDOM, "uri": _RANDOM}),
    Entry("b", Verb.METRICS, {_RANDOM: {"last": math.nan}}),
    Entry("b", Verb.INPUT, {"name": "n", "uri": "u", "size_bytes": 2**70}),
    Entry("b", Verb.SET, {"steps": 2**70}),
    Entry("b", Verb.RELATE, {"relation": "x" * 100, "target": "a"}),
    Entry("b", Verb.METRICS, {"m": {"last": 1.0, "count": 2**70}}),
    Entry(_RANDOM, Verb.NOTE, {"text": "x"}),
    Entry("c", Verb.CREATE, {"kind": "no such kind", "name": "c"}),
], ids=lambda entry: f"{entry.verb}-{'-'.join(map(str, entry.data))[:12]}")
def test_what_is_beyond_the_tables_keeps_nothing_else_out(catalog: Catalog, entry: Entry) -> None:
    catalog.tell(component("b"))
    _put(catalog, Entry(entry.uid, entry.verb, entry.data, NOW_UNIX, "\0\ud800"))
    Journal(catalog.store, JOURNAL_OF_ROOT).write(component("after", time_unix=NOW_UNIX + 1))
    catalog.feed()
    assert catalog.item("after").name == "after"
    assert catalog.item("b").uid == "b"


def test_no_journal_says_where_a_run_is(tmp_path: Path) -> None:
    with Run("first", to=f"{tmp_path}/runs/first", root=tmp_path / "runs"):
        pass
    with Catalog(tmp_path / "runs") as catalog:
        catalog.feed()
        uid = catalog.item("first").uid
        for data in ({"place": "/srv/ann", "description": "mine"}, {"fields": {"place": "/srv/ann"}}):
            _put(catalog, Entry(uid, Verb.SET, data, 4e9, ""))
        _put(catalog, Entry(uid, Verb.CREATE, {"kind": "run", "name": "x", "fields": {"place": "/srv/ann"}}, 4e9, ""))
        catalog.feed()
        found = catalog.item(uid)
        assert (found.facts["place"], found.facts["description"]) == (f"{tmp_path}/runs/first", "mine")
