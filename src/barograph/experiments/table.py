"""Components as a table: a row each, with parameters, statistics of metrics, tags, trials, findings and artifacts."""

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
"""Fields of a search that a column has another name for; both names mean either."""

GROUPS = ("params", "metrics", "tags", "inputs", "outputs")

_MOST_CELLS = 100_000_000


@dataclass(frozen=True, slots=True, repr=False)
class ComponentTable:
    """A table of components.

    Attributes:
        columns: Name to values, one a row, in the order of the rows. `params.NAME`, `metrics.NAME.STATISTIC`,
            `tags.NAME`, `inputs.NAME`, `outputs.NAME`; before them what every component has, with `trials`,
            `experiments` and `findings`, names with commas between them. None: the component has none of it. Those of
            metrics are made when they are asked for: a table with a run of a hundred thousand metrics is one, too.
    """

    columns: Columns

    def __len__(self) -> int:
        return len(self.columns["uid"])

    def __repr__(self) -> str:
        return f"ComponentTable({len(self):,} rows, {len(self.columns):,} columns)"

    def rows(self) -> Iterator[dict[str, Any]]:
        """Return the rows, without what a component has none of."""
        for row in self.columns.by_row():
            yield {name: _plain(value) for name, value in row.items()}

    def only(self, names: Sequence[str]) -> ComponentTable:
        """Return the table with those columns alone, in that order; "uid" stays.

        Args:
            names: A column, or the field that a search has for it; or the beginning of several, up to a dot:
                "params", "metrics.loss". What can be there and no component has, such as "tags.team", is an empty
                column.

        Raises:
            UnknownName: There is no such column.
            SettingsError: There would be more than a hundred million cells.
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
        # A metric by its name means its statistics, and not the metrics whose names begin with it.
        own = [column for column in found if column.rpartition(".")[0] == name] if name.startswith("metrics.") else []
        return own or found

    def to_arrow(self) -> pa.Table:
        """Return it as an Arrow table; a column of mixed types is one of texts; errors as of `only`."""
        import pyarrow as pa

        return pa.table({name: arrow_column(values) for name, values in self._laid_out().items()})

    def to_pandas(self) -> pandas.DataFrame:
        """Return it for pandas; errors as of `only`."""
        import pandas

        return pandas.DataFrame({name: list(values) for name, values in self._laid_out().items()})

    def to_polars(self) -> polars.DataFrame:
        """Return it for polars; errors as of `only`."""
        import polars

        return polars.DataFrame(self.to_arrow())

    def to_csv(self) -> str:
        """Return it as CSV, with a head; what a component has none of is empty; errors as of `only`."""
        text = io.StringIO()
        writer = csv.writer(text, lineterminator="\n")
        lines = self._lines()
        writer.writerow(self.columns)
        writer.writerows(lines)
        return text.getvalue()

    def to_markdown(self) -> str:
        """Return it as a table in Markdown; errors as of `only`."""
        lines = [list(self.columns), ["---"] * len(self.columns), *self._lines()]
        return "".join(f"| {' | '.join(map(_in_markdown, line))} |\n" for line in lines)

    def to_json(self) -> str:
        """Return it as a list of objects; NaN and infinities are texts, since JSON has none."""
        return json.dumps(list(self.rows()), ensure_ascii=False, indent=1) + "\n"

    def write(self, path: str | os.PathLike[str]) -> None:
        """Write it as the ending of the file's name says: .csv, .md, .json or .parquet.

        Raises:
            SettingsError: The ending says nothing that is known, or the file cannot be written.
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
        """Return the columns, where all their cells fit into memory."""
        _refuse_huge(len(self), len(self.columns))
        return self.columns


def column_name(name: str) -> str:
    """Return the name of a column by the name that a search has for it, or its own.

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
    """Return values as a column of Arrow; those of mixed types as texts."""
    import pyarrow as pa

    try:
        return pa.array(values)
    except (pa.ArrowInvalid, pa.ArrowTypeError, OverflowError):
        return pa.array([None if value is None else _text(value) for value in values])


def _plain(value: Any) -> Any:
    """Return a value as JSON holds it: NaN and infinities as texts."""
    if isinstance(value, float) and not math.isfinite(value):
        return {math.inf: "inf", -math.inf: "-inf"}.get(value, "nan")
    return value


def _text(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False) if isinstance(value, list) else str(value)


def _in_markdown(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")
