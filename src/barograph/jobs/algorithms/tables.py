"""Reads the tables of a channel: CSV, Parquet and libsvm files, or a folder of them."""

from __future__ import annotations

import codecs
import csv
import gzip
import io
import re
import warnings
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np

from barograph.errors import nearest
from barograph.jobs.algorithms.table_prediction import (
    MISSING,
    BadData,
    Columns,
    columns_of_frame,
    dense,
    finite,
    label,
    number,
    read_libsvm,
    read_rows,
    separator_of,
)

LABEL = "label"
"""Target column of a libsvm file."""

_FIRST = "column1"
MOST_CELLS = 250_000_000
_FORMS = {".parquet": "parquet", ".pq": "parquet", ".csv": "csv", ".tsv": "csv", ".txt": "csv", ".libsvm": "libsvm",
          ".svm": "libsvm", ".svmlight": "libsvm"}
_LIBSVM_LINE = re.compile(r"\S+(\s+(qid|\d+):\S+)+\s*(#.*)?")
_NO_DATA = (".crc", ".md", ".json")


@dataclass(frozen=True, slots=True)
class Reading:
    """How CSV files are read.

    Attributes:
        header: Whether the first line has the names of the columns. "auto": it does if it has the target's name, or no
            number. Columns without names are called column1, column2, ….
        separator: "": found.
        target: Name of the target column; "": not known.
    """

    header: Literal["auto", "yes", "no"] = "auto"
    separator: str = ""
    target: str = ""


@dataclass(frozen=True, slots=True)
class Table:
    """A table in memory.

    Attributes:
        columns: Name to cells.
        form: "csv", "parquet" or "libsvm".
        header: Whether its files have the names of the columns.
        notes: What a person should know about how it was read.
        of: The file or folder, for messages.
    """

    columns: Columns
    form: str
    header: bool
    of: str
    notes: tuple[str, ...] = ()

    @property
    def rows(self) -> int:
        """Number of rows."""
        return len(next(iter(self.columns.values()), ()))


def read_table(
    path: Path, reading: Reading, names: Iterable[str] | None = None, texts: Collection[str] = ()
) -> Table:
    """Return the table in a file, or of all files in a folder, in the order of their names.

    Args:
        path: A channel.
        names: Features of a libsvm file; None: all that occur.
        texts: Columns of a CSV file that are text even if all their cells are numbers.

    Raises:
        BadData: A file is missing, empty or damaged, or the files differ in format or columns. Messages have the line.
    """
    files = data_files(path)
    forms = {file: form_of(file) for file in files}
    if len(set(forms.values())) > 1:
        first, second = files[0], next(file for file in files if forms[file] != forms[files[0]])
        raise BadData(f"{path} has files of different formats: {first.name} is {forms[first]}, {second.name} is "
                      f"{forms[second]}. Use one format in a channel.")
    form = forms[files[0]]
    if form == "libsvm":
        return _libsvm(path, files, names)
    tables = [_csv(file, reading, texts) if form == "csv" else _parquet(file) for file in files]
    for file, table in zip(files[1:], tables[1:], strict=True):
        differing = set(tables[0].columns) ^ set(table.columns)
        if differing:
            lacking = file if min(differing) in tables[0].columns else files[0]
            raise BadData(f'{lacking} has no column "{min(differing)}", which other files of {path} have.')
    mixed = {name for name in tables[0].columns if len({type(table.columns[name]) for table in tables}) > 1}
    if mixed and form == "csv":
        tables = [_csv(file, reading, {*texts, *mixed}) for file in files]
    columns = {name: _joined([table.columns[name] for table in tables]) for name in tables[0].columns}
    table = Table(columns, form, tables[0].header, str(path), tuple(note for item in tables for note in item.notes))
    if not table.rows:
        raise BadData(f"{path} has the names of columns, but no rows.")
    return table


def column_names(path: Path, reading: Reading) -> list[str]:
    """Return the names of the columns of a channel without reading its rows.

    Raises:
        BadData: As `read_table`.
    """
    file = data_files(path)[0]
    form = form_of(file)
    if form == "libsvm":
        return [LABEL]
    if form == "csv":
        return _layout(file, reading)[1]
    from pyarrow import parquet

    with _named(file):
        return [str(name) for name in parquet.read_schema(file).names]


def data_files(path: Path) -> list[Path]:
    """Return the files of a channel, sorted: hidden ones, and those that begin with "_", are left out.

    Raises:
        BadData: There are none.
    """
    if path.is_file():
        return [path]
    if not path.exists():
        raise BadData(f"{path} does not exist.")
    found = sorted(file for file in path.rglob("*") if file.is_file() and file.suffix not in _NO_DATA
                   and not any(part.startswith((".", "_")) for part in file.relative_to(path).parts))
    if not found:
        raise BadData(f"{path} has no files.")
    return found


def form_of(file: Path) -> str:
    """Return "csv", "parquet" or "libsvm", from the suffix or the first bytes.

    Raises:
        BadData: The file is empty.
    """
    suffixes = [suffix for suffix in file.suffixes if suffix != ".gz"]
    known = _FORMS.get(suffixes[-1].lower()) if suffixes else None
    with _opened(file) as stream:
        begin = stream.read(4096)
    if not begin.strip():
        raise BadData(f"{file} is empty.")
    if known in ("parquet", "libsvm"):
        return known
    if begin.startswith(b"PAR1"):
        return "parquet"
    first = begin.decode("utf-8", "replace").strip().splitlines()[0]
    return "libsvm" if _LIBSVM_LINE.fullmatch(first) else "csv"


def reading_of(options: Mapping[str, str], target: str) -> Reading:
    """Return how CSV files are read, from the options of a trainer."""
    separator = options.get("separator", "")
    header = options.get("header", "auto")
    return Reading("yes" if header == "yes" else "no" if header == "no" else "auto",
                   "\t" if separator == "tab" else separator, target)


def target_in(names: Sequence[str], reading: Reading, of: str) -> str:
    """Return the name of the target column: as given, or the usual one of a libsvm file or of a CSV file without names.

    Raises:
        BadData: There is no such column, or none is given.
    """
    names = [name for name in names if name]
    usual = next((name for name in (LABEL, _FIRST) if name in names[:1]), "")
    if not reading.target and not usual:
        raise BadData(f"Which column of {of} is the target? Pass --target NAME. Columns: {', '.join(names[:40])}.")
    target = reading.target or usual
    if target not in names:
        hint = " The file has no names of columns (pass --header yes if its first line has them)." if (
            usual == _FIRST and reading.header == "auto") else ""
        raise BadData(f'No column "{target}" in {of}. {nearest(target, names)}{hint}')
    return target


def _opened(file: Path) -> Any:
    return gzip.open(file) if file.suffix == ".gz" else file.open("rb")


def _layout(file: Path, reading: Reading) -> tuple[str, list[str], bool]:
    """Return the separator of a CSV file, the names of its columns, and whether its first line has them."""
    with _named(file), _opened(file) as stream:
        text = io.TextIOWrapper(stream, "utf-8-sig", newline="")
        lines = [line for line in text.readlines(100_000) if line.strip()][:50]
    separator = reading.separator or separator_of(lines)
    first = [name.strip() for name in next(csv.reader(lines, delimiter=separator))]
    header = reading.header == "yes" or (reading.header == "auto" and (
        reading.target in first or not any(_is_number(cell) for cell in first)))
    if not header:
        return separator, [f"column{place}" for place in range(1, len(first) + 1)], False
    twice = next((name for place, name in enumerate(first) if name and name in first[:place]), None)
    if twice is not None:
        raise BadData(f'{file} has two columns called "{twice}". Rename one.')
    return separator, first, True


def _is_number(cell: str) -> bool:
    try:
        return number(cell) == number(cell)
    except ValueError:
        return False


def _csv(file: Path, reading: Reading, texts: Collection[str]) -> Table:
    import pandas

    separator, names, header = _layout(file, reading)
    as_text = {place: str for place, name in enumerate(names) if name in texts}
    frame = _frame(file, separator, header, len(names), as_text)
    if len(names) > 1 and frame.iloc[:, -1].isna().any():
        # pandas fills short lines up.
        read_rows(file, separator)
    # Booleans and integers of more than 64 bits: as they are written.
    other = [place for place in range(len(names)) if frame.dtypes.iloc[place].kind not in "iuf"
             and pandas.api.types.infer_dtype(frame.iloc[:, place], skipna=True) not in ("string", "empty")]
    again = _frame(file, separator, header, len(names), dict.fromkeys(other, str)) if other else frame
    # A column without a name is most often the index that pandas wrote.
    columns = {name: _cells((again if place in other else frame).iloc[:, place])
               for place, name in enumerate(names) if name}
    notes = tuple(f"Column {place + 1} of {file.name} has no name: left out."
                  for place, name in enumerate(names) if not name)
    return Table(columns, "csv", header, str(file), notes)


def _frame(file: Path, separator: str, header: bool, columns: int, as_text: Mapping[int, type]) -> Any:
    import pandas

    # Later versions read numbers exactly, and deprecate the argument.
    exact = {"float_precision": "round_trip"} if tuple(map(int, pandas.__version__.split(".")[:2])) < (3, 1) else {}
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error", pandas.errors.ParserWarning)
            return pandas.read_csv(file, sep=separator, header=0 if header else None, names=list(range(columns)),
                                   dtype=dict(as_text), index_col=False, encoding="utf-8-sig", low_memory=False,
                                   keep_default_na=False, na_values=sorted(MISSING), **exact)
    except (pandas.errors.ParserError, pandas.errors.ParserWarning, pandas.errors.EmptyDataError) as error:
        # It finds the line, with its number in the file.
        read_rows(file, separator)
        raise BadData(f"Cannot read {file}: {error}.") from error
    except UnicodeDecodeError as error:
        raise _not_text(file, error) from error


def _cells(values: Any) -> Any:
    if values.dtype.kind in "iuf":
        return finite(values.to_numpy(np.float64))
    return values.fillna("").astype(str).tolist()


def _parquet(file: Path) -> Table:
    import pandas

    with _named(file):
        frame = pandas.read_parquet(file)
    columns = columns_of_frame(frame)
    notes = tuple(f'Column "{name}" of {file.name} has the type {frame[name].dtype}: left out. Convert it to numbers '
                  "or strings to use it." for name in frame.columns if str(name) not in columns)
    return Table(columns, "parquet", True, str(file), notes)


def _libsvm(path: Path, files: list[Path], names: Iterable[str] | None) -> Table:
    labels: list[float] = []
    rows: list[dict[int, float]] = []
    for file in files:
        of_file = read_libsvm(file)
        labels += of_file[0]
        rows += of_file[1]
    if names is None:
        indices = {index for row in rows for index in row}
        names = [f"feature{index}" for index in range(0 if 0 in indices else 1, max(indices, default=0) + 1)]
    names = list(names)
    if len(names) * len(rows) > MOST_CELLS:
        raise BadData(f"{path} has {len(rows):,} rows of {len(names):,} features, which do not fit in memory as a "
                      "table. Reduce the number of features, for example by hashing to fewer.")
    return Table({LABEL: np.array(labels), **dense(rows, names)}, "libsvm", True, str(path))


def _joined(parts: list[Any]) -> Any:
    """Return the cells of one column in several files; numbers become text where another file has text."""
    if any(isinstance(part, list) for part in parts):
        return [cell for part in parts for cell in (part if isinstance(part, list) else map(label, part.tolist()))]
    return np.concatenate(parts)


def _not_text(file: Path, error: UnicodeDecodeError) -> BadData:
    with file.open("rb") as stream:
        begin = stream.read(1024)
    is_binary = b"\0" in begin and not begin.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE))
    return BadData(f"{file} is not a table in CSV, Parquet or libsvm. For images, use --algorithm image-classifier."
                   if is_binary else f"{file} is not UTF-8: {error}. Convert it, for example with iconv.")


@contextmanager
def _named(file: Path) -> Iterator[None]:
    """Name the file in errors of a library that reads it."""
    try:
        yield
    except UnicodeDecodeError as error:
        raise _not_text(file, error) from error
    except (ValueError, TypeError, OSError, csv.Error) as error:
        # ValueError includes pyarrow's ArrowInvalid.
        raise BadData(f"Cannot read {file}: {error}") from error
