"""Columns of a table in which one component may have very many metrics that no other has."""

import math

import pytest

from barograph.errors import SettingsError
from barograph.experiments import table as table_module
from barograph.experiments.catalog import Catalog
from barograph.experiments.table import ComponentTable
from barograph.experiments.tabulating import component_table
from drawn import drawn
from experiments_entries import component

MANY = 3_000


@pytest.fixture
def table(catalog: Catalog) -> ComponentTable:
    """Three components, of which the second has very many metrics."""
    catalog.tell([
        *component("a", parameters={"lr": 0.1}, metrics={"loss": 0.5, "net.acc": 1.0}),
        *component("b", metrics={"loss": math.nan, **{f"layer.{number}": float(number) for number in range(MANY)}}),
        *component("c"),
    ])
    with catalog.reading() as connection:
        return component_table(connection, catalog.ids("order by name", connection), statistics=("last", "min"))


def test_a_column_is_made_when_it_is_asked_for(table: ComponentTable) -> None:
    assert len(table.columns) == len(list(table.columns)) > 2 * MANY
    assert table.columns["metrics.net.acc.last"] == [1.0, None, None]
    assert table.columns["metrics.layer.17.min"] == [None, 16.0, None]
    assert [repr(value) for value in table.columns["metrics.loss.last"]] == ["0.5", "nan", "None"]


@pytest.mark.parametrize("name", ["metrics.loss.mean", "metrics.loss", "loss.last", "metrics.los.last", "params.x",
                                  "metrics.", "metrics.zzz.last", ""])
def test_a_column_that_is_not_there_is_none(table: ComponentTable, name: str) -> None:
    assert name not in table.columns
    assert name not in list(table.columns)


def test_every_name_is_that_of_a_column(table: ComponentTable) -> None:
    assert all(len(table.columns[name]) == 3 for name in table.columns)
    assert list(table.columns)[:2] == ["name", "state"]
    metrics = [name for name in table.columns if name.startswith("metrics.")]
    assert metrics == [f"metrics.{name}.{statistic}" for name in sorted(
        ["loss", "net.acc", *(f"layer.{number}" for number in range(MANY))]) for statistic in ("last", "min")]


def test_rows_hold_what_each_has(table: ComponentTable) -> None:
    first, second, third = table.rows()
    assert {name: value for name, value in first.items() if name.startswith("metrics.")} == {
        "metrics.loss.last": 0.5, "metrics.loss.min": -0.5, "metrics.net.acc.last": 1.0, "metrics.net.acc.min": 0.0}
    assert second["metrics.layer.2999.last"] == 2999.0
    assert second["metrics.loss.last"] == "nan"
    assert len([name for name in second if name.startswith("metrics.")]) == 2 * (MANY + 1)
    assert not any(name.startswith("metrics.") for name in third)


def test_the_commonest_metrics_are_those_that_most_have(table: ComponentTable) -> None:
    assert table.columns.metrics.count == MANY + 2
    assert table.columns.metrics.commonest(1) == ["loss"]
    assert table.columns.metrics.commonest(2) == ["layer.0", "loss"]
    assert len(table.columns.metrics.commonest(10**6)) == MANY + 2


def test_more_cells_than_fit_are_refused_and_some_columns_of_them_are_not(
    table: ComponentTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(table_module, "_MOST_CELLS", 1_000)
    for lays_out in (table.to_csv, table.to_markdown, table.to_arrow, table.to_pandas, table.to_polars):
        with pytest.raises(SettingsError, match=r"3 rows and 6,\d+ columns make 18,\d+ cells; the limit is 1,000"):
            lays_out()
    with pytest.raises(SettingsError, match=r"\.only"):
        table.only(["metrics"])
    assert "nan" in table.only(["metrics.loss"]).to_csv()
    assert "2999" in table.to_json()


def test_a_notebook_shows_the_first_columns_and_says_how_many_more_there_are(table: ComponentTable) -> None:
    shown = drawn(table)
    assert "more columns" in shown
    assert len(shown) < 100_000
