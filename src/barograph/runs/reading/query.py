"""Queries for rows of a file, which skip row groups by the footer."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import NDArray

from barograph.errors import UnknownName, nearest
from barograph.model.key import Key, key_from_text
from barograph.model.step import Mode
from barograph.runs.format.events import dictionary_column
from barograph.runs.format.schema import SCHEMA, with_few_texts


@dataclass(frozen=True, slots=True)
class TextTest:
    """A condition on a string column.

    Attributes:
        column: One of `TEXTS`.
        accepts: Returns whether a string matches.
        exact: The only matching string, if any, to exclude ranges of strings.
    """

    column: str
    accepts: Callable[[str], bool]
    exact: str | None = None

    def verdict(self, least: str, greatest: str) -> bool | None:
        """Return whether all strings in a range match, or none (False); None if it depends."""
        if least == greatest:
            return self.accepts(least)
        if self.exact is not None and not least <= self.exact <= greatest:
            return False
        return None


def equals(column: str, text: str) -> TextTest:
    """Return the condition that a column equals a string."""
    return TextTest(column, text.__eq__, text)


def is_among(column: str, texts: frozenset[str]) -> TextTest:
    """Return the condition that a column equals one of these strings."""
    return equals(column, next(iter(texts))) if len(texts) == 1 else TextTest(column, texts.__contains__)


@dataclass(frozen=True, slots=True)
class Query:
    """A query for rows.

    Attributes:
        tests: Conditions, all required.
        start, stop: The step must be >= start and < stop; None: no limit.
    """

    tests: Sequence[TextTest] = ()
    start: int | None = None
    stop: int | None = None

    def may_be_in(self, footer: pq.FileMetaData) -> bool:
        """Return whether a file with this footer may contain a matching row."""
        return any(self._verdicts(footer, group) is not None for group in range(footer.num_row_groups))

    def rows(self, file: pq.ParquetFile, columns: Sequence[str]) -> pa.Table:
        """Return these columns of the matching rows of a file, in order."""
        tables = [_empty(columns)]
        for group in range(file.metadata.num_row_groups):
            open_tests = self._verdicts(file.metadata, group)
            if open_tests is None:
                continue
            needed = {*columns, *(test.column for test in open_tests.texts), *(["step"] if open_tests.steps else [])}
            table = file.read_row_group(group, columns=sorted(needed), use_threads=False)
            if open_tests.texts or open_tests.steps:
                if any(test.exact is None for test in open_tests.texts):
                    table = table.unify_dictionaries()
                table = table.filter(pa.array(self._mask(table, open_tests)))
            tables.append(with_few_texts(table.select(list(columns))))
        return pa.concat_tables(tables)

    def _verdicts(self, footer: pq.FileMetaData, group: int) -> _OpenTests | None:
        """Return the conditions that the footer does not decide for a row group; None if it excludes the group."""
        row_group = footer.row_group(group)
        texts = []
        for test in self.tests:
            span = _span(row_group, test.column)
            verdict = test.verdict(*span) if span else None
            if verdict is False:
                return None
            if verdict is None:
                texts.append(test)
        if self.start is None and self.stop is None:
            return _OpenTests(texts, steps=False)
        span = _span(row_group, "step")
        if span is None:
            return _OpenTests(texts, steps=True)
        least, greatest = span
        if (self.start is not None and greatest < self.start) or (self.stop is not None and least >= self.stop):
            return None
        inside = (self.start is None or least >= self.start) and (self.stop is None or greatest < self.stop)
        return _OpenTests(texts, steps=not inside)

    def _mask(self, table: pa.Table, open_tests: _OpenTests) -> NDArray[np.bool_]:
        mask = np.ones(table.num_rows, bool)
        for test in open_tests.texts:
            if test.exact is not None:
                # Without checking single strings: there may be a hundred thousand names.
                mask &= pc.equal(table[test.column], test.exact).to_numpy()
                continue
            column = dictionary_column(table, test.column)
            mask &= np.array([test.accepts(text) for text in column.texts], bool)[column.codes]
        if open_tests.steps:
            steps = table["step"].to_numpy()
            if self.start is not None:
                mask &= steps >= self.start
            if self.stop is not None:
                mask &= steps < self.stop
        return mask


@dataclass(frozen=True, slots=True)
class _OpenTests:
    texts: Sequence[TextTest]
    steps: bool


def _empty(columns: Sequence[str]) -> pa.Table:
    return pa.schema([SCHEMA.field(name) for name in columns]).empty_table()


def _span(row_group: Any, column: str) -> tuple[Any, Any] | None:
    # String columns and the step precede the first list, so field numbers equal column numbers.
    statistics = row_group.column(SCHEMA.get_field_index(column)).statistics
    if statistics is None or not statistics.has_min_max:
        return None
    return statistics.min, statistics.max


def wanted_key(key: Key | str) -> Key:
    """Return the key that a user passed as a key or as its text.

    Raises:
        UnknownName: It is neither.
    """
    if not isinstance(key, Key | str):
        raise UnknownName(f'{key!r} is not a valid key: pass a Key or a string such as "loss:loss".')
    return key_from_text(key) if isinstance(key, str) else key


def wanted_rows(
    key: Key | None = None, mode: Mode | str | None = None, optimizer: str | None = None,
    start: int | None = None, stop: int | None = None,
) -> Query:
    """Return a query for rows of these; None: of any. `start` and `stop` limit the steps, without `stop`.

    Raises:
        UnknownName: The mode does not exist.
    """
    tests = []
    if key is not None:
        tests += [equals("kind", key.kind.value), equals("path", key.path)]
    if mode is not None:
        if mode not in tuple(Mode):
            raise UnknownName(f'"{mode}" is not a mode. {nearest(str(mode), Mode)}')
        tests.append(equals("mode", Mode(mode).value))
    if optimizer is not None:
        tests.append(equals("optimizer", optimizer))
    return Query(tests, start, stop)
