"""Components as a table, for every tool that reads tables."""

import csv
import io
import json
import math
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from barograph.errors import SettingsError, UnknownName
from barograph.experiments.catalog import Catalog
from barograph.experiments.table import ComponentTable
from barograph.experiments.tabulating import component_table
from experiments_entries import component


@pytest.fixture
def table(catalog: Catalog) -> ComponentTable:
    """Three components, of which each lacks something."""
    catalog.tell([
        *component("a", parameters={"lr": 0.1, "deep": True, "layers": [1, 2]}, metrics={"loss": 0.5}),
        *component("b", parameters={"lr": "auto", "n": 3}, metrics={"loss": math.nan, "acc": math.inf},
                   tags={"t": "x|y"}),
        *component("c"),
    ])
    with catalog.reading() as connection:
        return component_table(connection, catalog.ids("order by name", connection), statistics=("last", "count"))


def test_a_row_has_what_the_component_has(table: ComponentTable) -> None:
    first, second, third = table.rows()
    assert {name: value for name, value in first.items() if "." in name} == {
        "params.lr": 0.1, "params.deep": True, "params.layers": [1, 2], "metrics.loss.last": 0.5,
        "metrics.loss.count": 3}
    assert (second["params.lr"], second["params.n"], second["tags.t"]) == ("auto", 3, "x|y")
    assert (second["metrics.loss.last"], second["metrics.acc.last"]) == ("nan", "inf")
    assert [name for name in third if "." in name] == []


def test_a_few_rows_of_many_are_the_same_as_all(catalog: Catalog, table: ComponentTable) -> None:
    with catalog.reading() as connection:
        one = component_table(connection, catalog.ids("name = 'b'", connection), statistics=("last", "count"))
    assert list(one.rows()) == [list(table.rows())[1]]


def test_it_goes_to_every_tool(table: ComponentTable, tmp_path: Path) -> None:
    assert table.to_pandas()["metrics.loss.last"].tolist()[0] == 0.5
    assert table.to_polars()["params.n"].to_list() == [None, 3, None]
    assert table.to_arrow()["params.lr"].to_pylist() == ["0.1", "auto", None]
    rows = list(csv.DictReader(io.StringIO(table.to_csv())))
    assert [row["metrics.acc.last"] for row in rows] == ["", "inf", ""]
    assert "x\\|y" in table.to_markdown()
    for ending in ("csv", "md", "json", "parquet"):
        table.write(tmp_path / f"t.{ending}")
    assert json.loads((tmp_path / "t.json").read_text())[0]["params.layers"] == [1, 2]
    assert pq.read_table(tmp_path / "t.parquet").num_rows == 3


def test_a_file_that_cannot_be_is_refused(table: ComponentTable, tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match=r"\.csv, \.md, \.json or \.parquet"):
        table.write(tmp_path / "t.xlsx")
    with pytest.raises(SettingsError, match="Cannot write the table"):
        table.write(tmp_path / "nowhere" / "t.csv")


def test_columns_are_chosen_by_name_or_by_beginning(table: ComponentTable) -> None:
    assert list(table.only(["name", "metrics.loss"]).columns) == ["name", "metrics.loss.last", "metrics.loss.count",
                                                                  "uid"]
    with pytest.raises(UnknownName, match=r'Did you mean "params.lr"'):
        table.only(["param.lr"])


def test_an_empty_table_is_one(catalog: Catalog) -> None:
    with catalog.reading() as connection:
        empty = component_table(connection, [])
    assert len(empty) == 0
    assert empty.to_pandas().empty
