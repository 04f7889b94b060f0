"""A search is completed while it is typed, and says where it is wrong."""

from __future__ import annotations

import pytest

from barograph.experiments.catalog import Catalog
from barograph.experiments.search.completing import Problem, completions_at, problem_in
from barograph.experiments.search.parser import search_from_text
from barograph.experiments.search.writing_fields import field_text, value_text
from experiments_entries import NOW_UNIX, component


@pytest.fixture
def full(file_catalog: Catalog) -> Catalog:
    for number, (optimizer, rate) in enumerate([("adam", 0.1), ("adam", 0.2), ("sgd", 0.1)]):
        file_catalog.tell(component(
            f"r{number}", kind="run", parameters={"opt": optimizer, "lr": rate, "use bias": number == 0},
            metrics={"loss": 1.0, "val/acc": 0.5}, tags={"team": "it's ours"}))
    return file_catalog


def completed(catalog: Catalog, typed: str) -> list[str]:
    """The whole search after each completion at the bar."""
    at = typed.index("|")
    text = typed.replace("|", "")
    with catalog.reading() as connection:
        found = completions_at(connection, text, at)
    return [text[:found.start] + item.text + text[at:] for item in found.items]


@pytest.mark.parametrize(("typed", "first"), [
    ("l|", "params.lr"),
    ("params.|", "params.lr"),
    ("metrics.lo|", "metrics.loss"),
    ("metrics.loss.m|", "metrics.loss.min"),
    ('params."use|', 'params."use bias"'),
    ("bia|", 'params."use bias"'),
    ("val|", 'metrics."val/acc"'),
    ("st|", "state"),
    ("state = 'failed' and par|", "state = 'failed' and params.lr"),
    ("(lr| or state = 'failed')", "(params.lr or state = 'failed')"),
    ("not te|", "not tags.team"),
    ("order by cre|", "order by created"),
    ("state = 'failed' order by los|", "state = 'failed' order by metrics.loss"),
    ("fin|", "finding("),
    ("params.lr |", "params.lr ="),
    ("params.lr <|", "params.lr <="),
    ("params.opt con|", "params.opt contains"),
    ("params.lr = |", "params.lr = 0.1"),
    ("params.opt = |", "params.opt = 'adam'"),
    ("params.opt = 's|", "params.opt = 'sgd'"),
    ("params.opt = s|", "params.opt = 'sgd'"),
    ("params.opt in (|", "params.opt in ('adam'"),
    ("params.opt in ('adam', |", "params.opt in ('adam', 'adam'"),
    ("tags.team = |", "tags.team = 'it''s ours'"),
    ('params."use bias" = |', 'params."use bias" = false'),
    ("created > |", "created > 'today'"),
    ("starred = |", "starred = true"),
    ("params.lr = 0.1 |", "params.lr = 0.1 and"),
    ("params.lr = 0.1 or|", "params.lr = 0.1 order by"),
    ("order |", "order by"),
    ("order by created |", "order by created desc"),
    ("params.lr is |", "params.lr is null"),
])
def test_what_may_follow_is_suggested(full: Catalog, typed: str, first: str) -> None:
    assert completed(full, typed)[0] == first


@pytest.mark.parametrize("typed", ["zzz|", "params.lr = 0.1 limit |", "$|", "'|", "params.lr = 'x' 'y|", "state = '|"])
def test_where_nothing_is_known_nothing_is_suggested(full: Catalog, typed: str) -> None:
    assert completed(full, typed) == []


@pytest.mark.parametrize("text", ["", " ", "(", "a.", "a[", "a['", 'a."', "not", "in (", "x = ", "x in (1,", "order by",
                                  "finding(", "))))", "\\", "a..b", "= =", "is is", "limit", "x.y.z.", "'", '"\\'])
def test_no_unfinished_text_fails(full: Catalog, text: str) -> None:
    for at in range(len(text) + 1):
        completed(full, f"{text[:at]}|{text[at:]}")


def test_every_suggested_field_and_value_is_a_valid_search(full: Catalog) -> None:
    for field in completed(full, "|"):
        if not field.endswith("(") and field != "not":
            assert problem_in(f"{field} exists" if "." in field else f"order by {field}", now_unix=NOW_UNIX) is None


@pytest.mark.parametrize(("text", "word"), [
    ("params.lr > ", ""),
    ("params.lr > and x = 1", "and"),
    ("stat = 'failed'", "stat"),
    ("state = 3", "3"),
    ("steps = 'many'", "'many'"),
    ("created > 'soon'", "'soon'"),
    ("state ~ '(a+)+'", "'(a+)+'"),
    ("state = 'failed' order by los", "los"),
    ("a = 'b", "'b"),
])
def test_a_wrong_search_says_where(text: str, word: str) -> None:
    problem = problem_in(text, now_unix=NOW_UNIX)

    assert isinstance(problem, Problem)
    assert text[problem.start:problem.stop] == word
    assert "\n" not in problem.message


def test_a_right_search_has_no_problem() -> None:
    assert problem_in("params.lr < 0.1 and not finding('W104') order by created limit 3", now_unix=NOW_UNIX) is None


@pytest.mark.parametrize("name", ["lr", "a.b", "val/acc", 'say "x"', "back\\slash", "min", "loss.max", "ünï", "a-",
                                  "1st", "two words", "and"])
def test_a_written_field_means_the_same_name(name: str) -> None:
    field = search_from_text(f"{field_text('metrics', name, 'last')} = 1").condition.field
    assert (".".join(field.path[1:-1]), field.path[-1]) == (name, "last")


@pytest.mark.parametrize("value", ["plain", "it's", 'say "x"', "back\\slash", 3, -2.5, 1e-7, True, None])
def test_a_written_value_means_the_same(value: object) -> None:
    assert search_from_text(f"params.x = {value_text(value)}").condition.values == (value,)
