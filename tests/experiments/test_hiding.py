"""Which runs a list leaves out."""

from __future__ import annotations

from barograph.experiments.catalog import Catalog
from barograph.experiments.editing import Edit, edit_item
from barograph.experiments.hiding import hidden_in
from barograph.runs.state.journal import JOURNAL_OF_ROOT
from experiments_entries import component


def test_archived_and_deleted_items_are_known_by_their_ids(catalog: Catalog) -> None:
    for name in ("a", "b", "c", "d"):
        catalog.tell(component(name))
    edit_item(catalog, catalog.item("a"), Edit(archived=True))
    catalog.delete(catalog.item("b"))
    edit_item(catalog, catalog.item("c"), Edit(archived=True))
    edit_item(catalog, catalog.item("c"), Edit(archived=False))

    assert hidden_in(catalog.store) == {"a": "archived", "b": "deleted"}


def test_a_damaged_part_of_the_journal_is_named_and_hides_no_other(catalog: Catalog) -> None:
    catalog.tell(component("a"))
    edit_item(catalog, catalog.item("a"), Edit(archived=True))
    name = "0000000000000001-0123abcd.json"
    catalog.store.put(f"{JOURNAL_OF_ROOT}/{name}", b"{")
    problems: list[str] = []

    assert hidden_in(catalog.store, note=problems.append) == {"a": "archived"}
    assert len(problems) == 1
    assert name in problems[0]
