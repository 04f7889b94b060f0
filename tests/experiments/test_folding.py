"""An item is what its entries tell, in their order."""

import math

from barograph.experiments.folding import Note, folded
from barograph.model.items import Entry, MetricSummary, Verb


def test_what_was_said_last_holds() -> None:
    told = folded("c", [
        Entry("c", Verb.CREATE, {"kind": "component", "name": "data"}, 1.0, "ann"),
        Entry("c", Verb.PARAMETERS, {"rows": 10, "seed": 1}, 2.0),
        Entry("c", Verb.PARAMETERS, {"rows": 20}, 3.0),
        Entry("c", Verb.SET, {"description": "old"}, 4.0),
        Entry("c", Verb.SET, {"description": "new", "no such field": 1}, 5.0),
    ])
    assert (told.kind, told.name, told.created_unix, told.changed_unix) == ("component", "data", 1.0, 5.0)
    assert told.parameters == {"rows": 20, "seed": 1}
    assert told.fields == {"by": "ann", "description": "new"}


def test_of_two_who_create_one_thing_the_first_names_it() -> None:
    told = folded("e", [
        Entry("e", Verb.CREATE, {"kind": "experiment", "name": "first", "fields": {"hypothesis": "h"}}, 1.0),
        Entry("e", Verb.CREATE, {"kind": "experiment", "name": "second", "fields": {"description": "d"}}, 2.0),
    ])
    assert told.name == "first"
    assert told.fields == {"hypothesis": "h", "description": "d"}


def test_a_tag_that_is_taken_away_is_gone() -> None:
    told = folded("c", [Entry("c", Verb.TAG, {"a": "1", "b": "2"}), Entry("c", Verb.TAG, {"a": None, "c": None})])
    assert told.tags == {"b": "2"}


def test_notes_are_all_kept() -> None:
    told = folded("c", [Entry("c", Verb.NOTE, {"text": text}, time, "ann") for time, text in ((1.0, "x"), (2.0, "y"))])
    assert told.notes == [Note(1.0, "ann", "x"), Note(2.0, "ann", "y")]


def test_a_trial_that_was_left_is_left() -> None:
    told = folded("c", [Entry("c", Verb.JOIN, {"trial": trial}) for trial in ("t1", "t2", "t1")]
                  + [Entry("c", Verb.LEAVE, {"trial": "t1"})])
    assert list(told.trials) == ["t2"]


def test_what_was_deleted_comes_back_by_restoring_it_or_creating_it_again() -> None:
    gone = [Entry("c", Verb.CREATE, {"kind": "component", "name": "c"}, 1.0), Entry("c", Verb.DELETE, {}, 2.0)]
    assert folded("c", gone).deleted_unix == 2.0
    assert folded("c", [*gone, Entry("c", Verb.RESTORE, {}, 3.0)]).deleted_unix is None
    assert folded("c", [*gone, Entry("c", Verb.CREATE, {"kind": "component", "name": "c"}, 3.0)]).deleted_unix is None


def test_metrics_keep_what_is_no_number() -> None:
    told = folded("c", [Entry("c", Verb.METRICS, {"loss": {"last": math.nan, "max": math.inf, "count": 3}})])
    assert told.metrics["loss"].max == math.inf
    assert math.isnan(told.metrics["loss"].last)
    assert isinstance(told.metrics["loss"], MetricSummary)
