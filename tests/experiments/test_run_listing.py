"""Pages of runs: which columns they have, in what order the runs come, and how many there are."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import pytest

from barograph.errors import SearchError
from barograph.experiments.catalog import Catalog
from barograph.experiments.run_columns import RunColumn, columns_in, usual_columns
from barograph.experiments.run_listing import RunPage, differing_columns, found_runs, run_page, search_with
from experiments_entries import NOW_UNIX, component


@pytest.fixture
def full(catalog: Catalog) -> Catalog:
    for number, (rate, loss) in enumerate([(0.1, 3.0), (0.01, 1.0), (0.001, math.nan), (0.1, 2.0)]):
        catalog.tell(component(
            f"r{number}", kind="run", parameters={"lr": rate, "opt": "sgd", "bias": number > 1} | (
                {"extra": "x"} if number == 3 else {}),
            metrics={"loss": loss, "constant": 1.0}, tags={"team": "ours"}, time_unix=NOW_UNIX + number))
    catalog.tell(component("no-run", metrics={"loss": 0.0}))
    return catalog


def columns(catalog: Catalog, question: str = "") -> list[RunColumn]:
    with catalog.reading() as connection:
        return columns_in(connection, found_runs(catalog, connection, search_with(question)))


def page(catalog: Catalog, question: str = "", *, names: Sequence[str] | None = None, offset: int = 0, limit: int = 10,
         **more: Any) -> RunPage:
    search = search_with(question, **more)
    with catalog.reading() as connection:
        return run_page(connection, found_runs(catalog, connection, search), columns=names, offset=offset, limit=limit,
                        search=search)


def test_columns_say_how_many_runs_have_them_and_whether_they_differ(full: Catalog) -> None:
    found = {column.name: column for column in columns(full)}

    assert (found["params.lr"].runs, found["params.lr"].differs, found["params.lr"].low) == (4, True, 0.001)
    assert (found["params.opt"].runs, found["params.opt"].differs) == (4, False)
    assert (found["params.extra"].runs, found["params.extra"].differs) == (1, True), "the others have none"
    assert (found["params.bias"].differs, found["tags.team"].differs) == (True, False)
    assert (found["metrics.loss.last"].low, found["metrics.loss.last"].high) == (1.0, 3.0), "NaN is no extreme"
    assert not found["metrics.constant.min"].differs
    assert not [name for name in found if name.startswith("metrics.") and name.endswith(".mean")]


def test_columns_are_those_of_the_runs_that_are_found(full: Catalog) -> None:
    found = {column.name: column for column in columns(full, "params.lr = 0.1")}

    assert (found["params.lr"].runs, found["params.lr"].differs, found["params.extra"].differs) == (2, False, True)
    assert columns(full, "params.lr = 7") == []


def test_a_page_shows_what_differs_first(full: Catalog) -> None:
    found = page(full)

    assert found.columns == ("state", "findings", "metrics.loss.last", "params.bias", "params.extra", "params.lr",
                             "created_unix")
    assert usual_columns(columns(full), runs=4) == list(found.columns)


def test_facts_do_not_change_which_columns_are_usual() -> None:
    recorded = [RunColumn("params.lr", "params.lr", "lr", "params", 1, False)]
    facts = [RunColumn("host", "host", "host", "run", 2, False)]

    for runs, shown in ((1, ["params.lr"]), (2, [])):
        for some in (recorded, [*facts, *recorded]):
            assert usual_columns(some, runs=runs) == ["state", "findings", *shown, "created_unix"]


def test_pages_keep_the_order_of_the_search_and_the_exact_number(full: Catalog) -> None:
    first = page(full, order="metrics.loss.last desc", names=["metrics.loss.last"], limit=3)
    last = page(full, order="metrics.loss.last desc", names=["metrics.loss.last"], offset=3)

    assert (first.count, last.count) == (4, 4)
    assert [run.name for run in (*first.runs, *last.runs)] == ["r0", "r3", "r1", "r2"]
    assert [run.values[0] for run in first.runs] == [3.0, 2.0, 1.0]


def test_columns_come_in_the_order_that_was_chosen_and_a_missing_value_is_none(full: Catalog) -> None:
    found = page(full, names=["params.extra", "name", "params.nobody", "metrics.loss.max"], order="name asc")

    assert found.runs[3].values == ("x", "r3", None, 3.0)
    assert found.runs[0].values == (None, "r0", None, 4.0)


def test_filters_narrow_a_search_and_leave_its_order_and_limit(full: Catalog) -> None:
    question = "params.opt = 'sgd' or params.opt = 'adam' order by metrics.loss.last limit 2"
    found = page(full, question, filters=["params.lr >= 0.01", "params.lr <= 0.1"])

    assert [run.name for run in found.runs] == ["r1", "r3"]
    assert [run.name for run in page(full, question, order="name desc").runs] == ["r3", "r2"]


def test_a_wrong_order_is_a_wrong_search(full: Catalog) -> None:
    with pytest.raises(SearchError, match="no field"):
        page(full, order="nme asc")


def test_chosen_columns_in_which_runs_do_not_differ_are_left_out(full: Catalog) -> None:
    assert differing_columns(columns(full), ["params.opt", "params.lr", "params.nobody"]) == ["params.lr"]


def test_a_search_without_a_result_says_why(full: Catalog) -> None:
    assert "Did you mean" in page(full, "params.lrr = 1").hints[0]


def test_the_color_that_a_user_chose_comes_with_the_run(full: Catalog) -> None:
    full.tell(component("painted", kind="run", tags={"color": "#123456"}))

    found = page(full, "name = 'painted' or name = 'r1'", order="name asc")
    assert [run.color for run in found.runs] == ["#123456", ""]
