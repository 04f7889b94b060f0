"""Components as a table with parameters, statistics of metrics, tags, trials, findings and artifacts."""

from __future__ import annotations

import csv
import io
import json
import math
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from barograph.errors import SettingsError, UnknownName, nearest
from barograph.experiments.columns import Columns

if TYPE_CHECKING:
    import pandas
    import polars
    import pyarrow as pa

FACTS = ("name", "state", "kind", "uid", "created_unix", "started_unix", "ended_unix", "changed_unix", "steps", "place",
         "command", "host", "by", "message", "description", "repository", "branch", "commit", "dirty", "starred",
         "archived")
"""Columns that every component has."""

COLUMN_OF_FIELD = {
    "id": "uid", "status": "state", "created": "created_unix", "started": "started_unix", "ended": "ended_unix",
    "changed": "changed_unix", "user": "by", "trial": "trials", "experiment": "experiments",
    "code.commit": "commit", "code.branch": "branch", "code.repository": "repository", "code.dirty": "dirty",
    "parameters": "params",
}
"""Search fields whose column has another name; both names are accepted."""

GROUPS = ("params", "metrics", "tags", "inputs", "outputs")

_MOST_CELLS = 100_000_000


@dataclass(frozen=True, slots=True, repr=False)
class ComponentTable:
    """A table of components.

    Attributes:
        columns: Name to one value per row. First the fields of every component, including `trials`, `experiments`
            and `findings` (comma-separated names), then `params.NAME`, `metrics.NAME.STATISTIC`, `tags.NAME`,
            `inputs.NAME` and `outputs.NAME`. None: the component has no such value. Columns of metrics are built
            when they are read.
    """

    columns: Columns

    def __len__(self) -> int:
        return len(self.columns["uid"])

    def __repr__(self) -> str:
        return f"ComponentTable({len(self):,} rows, {len(self.columns):,} columns)"

    def rows(self) -> Iterator[dict[str, Any]]:
        """Yield the rows, without missing values."""
        for row in self.columns.by_row():
            yield {name: _plain(value) for name, value in row.items()}

    def only(self, names: Sequence[str]) -> ComponentTable:
        """Return the table with only those columns, in that order, and "uid".

        Args:
            names: Columns, search fields, or prefixes of columns up to a dot: "params", "metrics.loss". A valid column
                that no component has, such as "tags.team", is empty.

        Raises:
            UnknownName: A column does not exist.
            SettingsError: The table would have more than 100 million cells.
        """
        kept: dict[str, Sequence[Any]] = {}
        for name in map(column_name, names):
            found = self._columns_below(name)
            if not found and name.partition(".")[0] in GROUPS:
                kept.update({} if name in GROUPS else {name: [None] * len(self)})
                continue
            if not found:
                raise UnknownName(f'No column "{name}". {nearest(name, self.columns)}')
            _refuse_huge(len(self), len(found))
            kept.update((column, self.columns[column]) for column in found)
        return ComponentTable(Columns({**kept, "uid": self.columns["uid"]} if "uid" not in kept else kept))

    def _columns_below(self, name: str) -> list[str]:
        found = [column for column in self.columns if column == name or column.startswith(f"{name}.")]
        # The name of a metric selects its statistics, not other metrics that begin with it.
        own = [column for column in found if column.rpartition(".")[0] == name] if name.startswith("metrics.") else []
        return own or found

    def to_arrow(self) -> pa.Table:
        """Return an Arrow table; columns of mixed types become strings. Errors as in `only`."""
        import pyarrow as pa

        return pa.table({name: arrow_column(values) for name, values in self._laid_out().items()})

    def to_pandas(self) -> pandas.DataFrame:
        """Return a pandas data frame; errors as in `only`."""
        import pandas

        return pandas.DataFrame({name: list(values) for name, values in self._laid_out().items()})

    def to_polars(self) -> polars.DataFrame:
        """Return a polars data frame; errors as in `only`."""
        import polars

        return polars.DataFrame(self.to_arrow())

    def to_csv(self) -> str:
        """Return CSV with a header; missing values are empty. Errors as in `only`."""
        text = io.StringIO()
        writer = csv.writer(text, lineterminator="\n")
        lines = self._lines()
        writer.writerow(self.columns)
        writer.writerows(lines)
        return text.getvalue()

    def to_markdown(self) -> str:
        """Return a Markdown table; errors as in `only`."""
        lines = [list(self.columns), ["---"] * len(self.columns), *self._lines()]
        return "".join(f"| {' | '.join(map(_in_markdown, line))} |\n" for line in lines)

    def to_json(self) -> str:
        """Return a JSON list of objects; NaN and infinities are strings, because JSON has none."""
        return json.dumps(list(self.rows()), ensure_ascii=False, indent=1) + "\n"

    def write(self, path: str | os.PathLike[str]) -> None:
        """Write the table in the format of the file extension: .csv, .md, .json or .parquet.

        Raises:
            SettingsError: The extension is unknown, or the file cannot be written.
        """
        file = Path(path)
        texts = {".csv": self.to_csv, ".md": self.to_markdown, ".json": self.to_json}
        ending = file.suffix.lower()
        try:
            if ending in texts:
                file.write_text(texts[ending](), encoding="utf-8")
            elif ending == ".parquet":
                import pyarrow.parquet as pq

                pq.write_table(self.to_arrow(), file)
            else:
                raise SettingsError(f'Unknown table format "{file}"; the file name must end in .csv, .md, .json or '
                                    ".parquet.")
        except OSError as error:
            raise SettingsError(f"Cannot write the table: {error.strerror or error} ({file}).") from error

    def _lines(self) -> list[list[str]]:
        return [["" if value is None else _text(value) for value in values]
                for values in zip(*self._laid_out().values(), strict=True)]

    def _laid_out(self) -> Mapping[str, Sequence[Any]]:
        """Return the columns; raise if their cells would not fit into memory."""
        _refuse_huge(len(self), len(self.columns))
        return self.columns


def column_name(name: str) -> str:
    """Return the column of a search field or a column name.

    Example:
        >>> column_name("created"), column_name("parameters.lr"), column_name("tags.t"), column_name("code.commit")
        ('created_unix', 'params.lr', 'tags.t', 'commit')
    """
    group, dot, rest = name.partition(".")
    return COLUMN_OF_FIELD.get(name) or f"{COLUMN_OF_FIELD.get(group, group) if dot else group}{dot}{rest}"


def _refuse_huge(rows: int, columns: int) -> None:
    if rows * columns > _MOST_CELLS:
        raise SettingsError(
            f"{rows:,} rows and {columns:,} columns make {rows * columns:,} cells; the limit is {_MOST_CELLS:,}. "
            'Choose columns, for example .only(["params", "metrics.loss"]) or --columns params,metrics.loss, or '
            "write JSON, whose rows hold only their own values.")


def arrow_column(values: Sequence[Any]) -> pa.Array:
    """Return values as an Arrow column; mixed types become strings."""
    import pyarrow as pa

    try:
        return pa.array(values)
    except (pa.ArrowInvalid, pa.ArrowTypeError, OverflowError):
        return pa.array([None if value is None else _text(value) for value in values])


def _plain(value: Any) -> Any:
    """Return a value for JSON: NaN and infinities become strings."""
    if isinstance(value, float) and not math.isfinite(value):
        return {math.inf: "inf", -math.inf: "-inf"}.get(value, "nan")
    return value


def _text(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False) if isinstance(value, list) else str(value)


def _in_markdown(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")
