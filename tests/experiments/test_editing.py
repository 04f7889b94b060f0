"""People edit items: what they change is kept, and nobody overwrites what they have not seen."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from barograph.errors import EditConflict, NameTaken, SettingsError
from barograph.experiments.catalog import Catalog
from barograph.experiments.editing import Edit, edit_from_json, edit_item, marks_of
from barograph.experiments.labels import deleted_items, run_at
from barograph.model.clock import ManualClock
from barograph.model.items import Entry, Verb
from barograph.store.urls import store_from_url
from experiments_entries import component
from web_client import recorded


@pytest.fixture
def filled(catalog: Catalog) -> Catalog:
    catalog.tell(component("first", tags={"team": "vision", "old": "1"}))
    return catalog


def test_every_field_is_edited_and_has_its_author(filled: Catalog) -> None:
    edit = Edit(name="wide", description="the wide one", note="**good**", tags={"team": "audio", "old": None},
                starred=True, archived=True)
    item = edit_item(filled, filled.item("first"), edit, by="ann")

    marks = marks_of(item)
    assert (marks.name, marks.description, marks.starred, marks.archived) == ("wide", "the wide one", True, True)
    assert dict(marks.tags) == {"team": "audio"}
    assert [(note.text, note.by) for note in marks.notes] == [("**good**", "ann")]


def test_an_edit_of_something_that_changed_meanwhile_is_refused(filled: Catalog) -> None:
    seen = marks_of(filled.item("first")).version
    edit_item(filled, filled.item("first"), Edit(tags={"team": "audio"}), version=seen)

    with pytest.raises(EditConflict, match='Somebody else edited "first"'):
        edit_item(filled, filled.item("first"), Edit(description="mine"), version=seen)
    assert filled.item("first").facts["description"] == ""


def test_notes_stars_and_the_run_itself_are_no_conflict(filled: Catalog) -> None:
    seen = marks_of(filled.item("first")).version
    edit_item(filled, filled.item("first"), Edit(starred=True))
    edit_item(filled, filled.item("first"), Edit(note="one"), version=seen)
    filled.tell([Entry("first", Verb.PARAMETERS, {"lr": 0.1})])

    item = edit_item(filled, filled.item("first"), Edit(description="mine"), version=seen)

    assert (item.facts["description"], len(item.notes)) == ("mine", 1)


@pytest.mark.parametrize(("data", "says"), [
    ({"nmae": "x"}, 'Did you mean "name"'),
    ({"starred": "yes"}, "starred must be a bool"),
    ({"note": "x" * 100_001}, "100,001 characters"),
    ({"tags": {"team": 3}}, 'Tag "team" must be a string'),
    ({"tags": {"a\nb": "x"}}, "on one line"),
    ({"name": None}, "name must be a str"),
])
def test_wrong_edits_are_refused_in_a_sentence(data: dict[str, Any], says: str) -> None:
    with pytest.raises(SettingsError, match=says):
        edit_from_json(data)


def test_an_edit_with_an_invalid_experiment_changes_nothing(filled: Catalog) -> None:
    with pytest.raises(SettingsError, match="on one line"):
        edit_item(filled, filled.item("first"), Edit(name="wide", experiment="a\nb"))

    found = filled.item_by_uid("first")
    assert found is not None
    assert found.name == "first"


def test_a_trial_without_a_name_has_the_new_name_of_the_run(filled: Catalog) -> None:
    item = edit_item(filled, filled.item("first"), Edit(name="wide", experiment="digits"))

    assert [trial.name for trial in item.trials] == ["wide"]


def test_a_run_is_not_moved_into_an_experiment_that_has_its_name(filled: Catalog) -> None:
    filled.tell(component("wide"))
    edit_item(filled, filled.item("wide"), Edit(experiment="digits", trial="a"))
    for edit in (Edit(name="wide", experiment="digits", trial="b"), Edit(name="wide", experiment="digits")):
        with pytest.raises(NameTaken, match='Experiment "digits" already has a component "wide"'):
            edit_item(filled, filled.item("first"), edit)
    found = filled.item_by_uid("first")
    assert found is not None
    assert (found.name, found.trials) == ("first", ())
    assert edit_item(filled, filled.item("wide"), Edit(experiment="digits", trial="b")).name == "wide"


def test_a_deleted_run_is_known_by_its_place_and_can_be_restored_for_a_month(
    catalog: Catalog, clock: ManualClock, tmp_path: Path
) -> None:
    for name in ("a", "c"):
        recorded(tmp_path / "runs" / name, [1.0])
    catalog.feed()
    catalog.delete(catalog.item("c"))

    found = run_at(catalog, store_from_url(tmp_path / "runs" / "c").url)
    assert found is not None
    assert found.name == "c"
    assert run_at(catalog, "file:///elsewhere") is None
    assert [item.name for item in deleted_items(catalog, clock.unix())] == ["c"]
    assert deleted_items(catalog, clock.unix() + 31 * 86_400) == []
