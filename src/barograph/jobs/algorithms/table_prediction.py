"""Predicts the target of each row of a table, with the model in the folder of this script.

    python predict.py new.csv > predictions.csv

A trainer of Barograph copied this file beside its model as `predict.py`. It needs NumPy and the library of the model
(xgboost or lightgbm), and pandas for Parquet files; it does not need Barograph. `model.json` describes the columns, the
classes and the versions of the libraries.
"""

from __future__ import annotations

import csv
import gzip
import json
import math
import signal
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, TextIO

import numpy as np

Columns = dict[str, Any]
"""Name to the cells of a column: an array of floats, or a list of strings."""

MISSING = frozenset(("", "?", "#N/A", "<NA>", "N/A", "NA", "NULL", "NaN", "None", "n/a", "nan", "null"))
"""Cells without a value, besides infinite numbers."""

PLAIN, THOUSANDS, DECIMAL_COMMA = "plain", "thousands", "decimal comma"
"""Formats of numbers: 1234.5; 1,234.5; 1.234,5."""

SEPARATORS = ",;\t|"
_BLOCK_ROWS = 256


class BadData(Exception):
    """A file cannot be used; the message names the file, the place and what to do."""


def number(text: str, form: str = PLAIN) -> float:
    """Return the number in a cell; NaN if it is missing.

    Raises:
        ValueError: The cell is not a number.

    Example:
        >>> number("1.5"), number(" NA"), number("1,234.5", THOUSANDS), number("1.234,5", DECIMAL_COMMA)
        (1.5, nan, 1234.5, 1234.5)
    """
    text = text.strip()
    if text in MISSING:
        return math.nan
    if form == THOUSANDS:
        text = text.replace(",", "")
    elif form == DECIMAL_COMMA:
        text = text.replace(".", "").replace(",", ".")
    if "_" in text:
        raise ValueError(text)
    value = float(text)
    return value if math.isfinite(value) else math.nan


def counted(number: int, noun: str) -> str:
    """Return a number of things, with the noun in the plural unless it is one.

    Example:
        >>> counted(1, "row"), counted(1200, "row")
        ('1 row', '1,200 rows')
    """
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def separator_of(lines: Sequence[str]) -> str:
    """Return the character that separates the fields of a CSV file: the one that gives all lines the most fields.

    Example:
        >>> separator_of(["a;b;c", "1,5;2;x"])
        ';'
    """
    def rank(separator: str) -> tuple[bool, int]:
        counts = [len(row) for row in csv.reader(lines, delimiter=separator) if row]
        return len(set(counts)) == 1 and counts[0] > 1, min(counts, default=0)

    return max(SEPARATORS, key=rank)


def read_rows(path: Path, separator: str = "") -> list[list[str]]:
    """Return the fields of each line of a CSV file but empty lines; "": the separator is found.

    Raises:
        BadData: The file is empty, or a line has another number of fields than the first.
    """
    with (gzip.open if path.suffix == ".gz" else open)(path, "rt", encoding="utf-8-sig", newline="") as file:
        separator = separator or separator_of(file.readlines(100_000)[:50])
        file.seek(0)
        reader = csv.reader(file, delimiter=separator)
        rows: list[list[str]] = []
        for row in reader:
            if row and rows and len(row) != len(rows[0]):
                raise BadData(f"Line {reader.line_num} of {path} has {counted(len(row), 'field')}; the first line has "
                              f"{len(rows[0])}. Correct the line, or pass the separator if it is not {separator!r}.")
            if row:
                rows.append(row)
    if not rows:
        raise BadData(f"{path} is empty.")
    return rows


def read_libsvm(path: Path) -> tuple[list[float], list[dict[int, float]]]:
    """Return the label and the features of each line of a libsvm file, by their numbers.

    Raises:
        BadData: A line is not in the format; the message has its number.
    """
    labels, rows = [], []
    with path.open(encoding="utf-8-sig") as file:
        for line_number, line in enumerate(file, 1):
            words = line.partition("#")[0].split()
            if not words:
                continue
            try:
                labels.append(float(words[0]))
                pairs = (word.split(":") for word in words[1:] if not word.startswith("qid:"))
                rows.append({int(index): float(value) for index, value in pairs})
            except ValueError as error:
                raise BadData(f"Line {line_number} of {path} is not in libsvm format: expected "
                              f'"LABEL INDEX:VALUE …" with numbers, found {line.strip()[:60]!r}.') from error
    if not rows:
        raise BadData(f"{path} is empty.")
    return labels, rows


def dense(rows: Sequence[Mapping[int, float]], names: Sequence[str]) -> Columns:
    """Return features of a libsvm file as columns: "feature7" is number 7; absent ones are 0."""
    places = {int(name.removeprefix("feature")): place for place, name in enumerate(names)}
    matrix = np.zeros((len(rows), len(names)))
    for row, features in enumerate(rows):
        for index, value in features.items():
            if index in places:
                matrix[row, places[index]] = value
    return {name: matrix[:, place] for place, name in enumerate(names)}


def read_columns(path: Path, model: Mapping[str, Any]) -> Columns:
    """Return the columns of a file that are features of a model: cells of CSV as strings, of Parquet as they are."""
    names = [column["name"] for column in model["columns"]]
    if model["format"] == "libsvm":
        return dense(read_libsvm(path)[1], names)
    if path.suffix in (".parquet", ".pq"):
        import pandas

        return columns_of_frame(pandas.read_parquet(path))
    rows = read_rows(path, model["separator"])
    if model["header"]:
        header, rows = [name.strip() for name in rows[0]], rows[1:]
    else:
        header = list(model["header_names"])
        if len(rows[0]) == len(header) - 1:
            header.remove(model["target"])
    if not rows:
        raise BadData(f"{path} has the names of columns, but no rows.")
    if len(rows[0]) != len(header):
        raise BadData(f"{path} has {counted(len(rows[0]), 'column')}; the model was trained on {len(header)} with its "
                      "target.")
    absent = next((name for name in names if name not in header), None)
    if absent is not None:
        raise BadData(f'{path} has no column "{absent}". Columns: {", ".join(header)}.')
    return {name: [row[header.index(name)] for row in rows] for name in names}


def columns_of_frame(frame: Any) -> Columns:
    """Return the columns of a pandas table: numbers as floats, strings and booleans as strings.

    Columns of other types, such as dates and lists, are left out.
    """
    found: Columns = {}
    for name in frame.columns:
        values = frame[name]
        kind = str(values.dtype)
        first = next((value for value in values if value is not None and value == value), None)
        if kind.startswith(("int", "uint", "float", "Int", "UInt", "Float", "double")) or (
                kind == "object" and first.__class__.__name__ == "Decimal"):
            found[str(name)] = finite(values.to_numpy(np.float64, na_value=math.nan))
        elif isinstance(first, str | bool | np.bool_ | int) or kind == "category":
            found[str(name)] = ["" if value is None or value != value else str(value) for value in values]
        elif first is None:
            found[str(name)] = np.full(len(values), math.nan)
    return found


def finite(values: Any) -> Any:
    """Return an array of floats with NaN in place of infinities."""
    return np.where(np.isfinite(values), values, math.nan)


def features(columns: Mapping[str, Any], model: Mapping[str, Any], of: str = "the table") -> Any:
    """Return the matrix that the model reads. Shape (rows, features), float64.

    Raises:
        BadData: A column is missing, or holds text where the model expects a number.
    """
    made = []
    for column in model["columns"]:
        if column["name"] not in columns:
            raise BadData(f'{of} has no column "{column["name"]}", which the model reads.')
        cells = columns[column["name"]]
        made += _of_category(cells, column) if column["kind"] == "category" else [_of_number(cells, column, of)]
    return np.column_stack(made)


def _of_number(cells: Any, column: Mapping[str, Any], of: str) -> Any:
    if isinstance(cells, list):
        values = np.empty(len(cells))
        for row, text in enumerate(cells):
            try:
                values[row] = number(text, column["numbers"])
            except ValueError as error:
                raise BadData(f'Row {row + 1} of {of}: "{text}" in column "{column["name"]}" is not a number '
                              f'({column["numbers"]}).') from error
    else:
        values = np.asarray(cells, np.float64)
    if "scale" not in column:
        return values
    return np.where(np.isnan(values), 0.0, (values - column["mean"]) / column["scale"])


def _of_category(cells: Any, column: Mapping[str, Any]) -> list[Any]:
    """Return the number of each category (NaN if missing or unknown), or one column of 0 and 1 for each."""
    texts = cells if isinstance(cells, list) else [label(value) for value in np.asarray(cells).tolist()]
    numbers = {category: float(place) for place, category in enumerate(column["categories"])}
    codes = np.array([numbers.get(text.strip(), math.nan) for text in texts])
    if not column["one_hot"]:
        return [codes]
    return [(codes == place).astype(np.float64) for place in range(len(numbers))]


def label(value: float) -> str:
    """Return a number as the name of a class or category: 3 for 3.0; "" for NaN."""
    return "" if math.isnan(value) else str(int(value)) if value.is_integer() else repr(value)


def predict(folder: Path, model: Mapping[str, Any], matrix: Any) -> Any:
    """Return predictions, shape (rows,), or for classes their probabilities, shape (rows, classes)."""
    return shaped(_EVALUATORS[model["algorithm"]](folder, model, matrix), model)


def shaped(raw: Any, model: Mapping[str, Any]) -> Any:
    """Return predictions as `predict` does, from those of a library."""
    if model["task"] == "regression":
        return raw.reshape(len(raw))
    return np.column_stack([1 - raw, raw]) if raw.ndim == 1 else raw


def _xgboost(folder: Path, model: Mapping[str, Any], matrix: Any) -> Any:
    import xgboost

    types = ["c" if column["kind"] == "category" else "q" for column in model["columns"]]
    named = {"feature_names": model["feature_names"], "feature_types": types, "enable_categorical": True}
    data = xgboost.DMatrix(matrix, **({} if model["parameters"].get("booster") == "gblinear" else named))
    return xgboost.Booster(model_file=folder / "model.ubj").predict(data)


def _lightgbm(folder: Path, model: Mapping[str, Any], matrix: Any) -> Any:
    import lightgbm

    return lightgbm.Booster(model_file=folder / "model.txt").predict(matrix)


def _network(folder: Path, model: Mapping[str, Any], matrix: Any) -> Any:
    """Evaluate layers, in blocks of equal size: so the numbers of a row do not depend on the other rows."""
    with np.load(folder / "model.npz", allow_pickle=False) as saved:
        layers = [(saved[f"weight{place}"], saved[f"bias{place}"]) for place in range(len(saved.files) // 2)]
    made = []
    for first in range(0, len(matrix), _BLOCK_ROWS):
        block = matrix[first:first + _BLOCK_ROWS]
        values = np.zeros((_BLOCK_ROWS, matrix.shape[1]))
        values[:len(block)] = block
        for place, (weight, bias) in enumerate(layers):
            values = values @ weight + bias
            values = _ACTIVATIONS[model["activation"] if place < len(layers) - 1 else model["output"]](values)
        made.append(values[:len(block)])
    values = np.concatenate(made) * model["target_scale"] + model["target_mean"]
    return values[:, 0] if values.shape[1] == 1 else values


def _logistic(values: Any) -> Any:
    return np.exp(-np.logaddexp(0.0, -values))


def _softmax(values: Any) -> Any:
    powers = np.exp(values - values.max(axis=1, keepdims=True))
    return powers / powers.sum(axis=1, keepdims=True)


_ACTIVATIONS: dict[str, Callable[[Any], Any]] = {
    "identity": lambda values: values, "relu": lambda values: np.maximum(values, 0.0), "tanh": np.tanh,
    "logistic": _logistic, "softmax": _softmax,
}
_EVALUATORS = {"xgboost": _xgboost, "lightgbm": _lightgbm, "linear": _network, "mlp": _network}


def outputs(predictions: Any, classes: Sequence[str] | None) -> dict[str, list[Any]]:
    """Return the columns of a file of predictions: the prediction, and the probability of each class."""
    if classes is None:
        return {"prediction": predictions.tolist()}
    names = [classes[place] for place in predictions.argmax(axis=1)]
    # As text of its own precision: the shortest that reads back as the same number.
    columns = {f"probability_{name}": [str(value) for value in predictions[:, place]]
               for place, name in enumerate(classes)}
    return {"prediction": names, **columns}


def write_csv(file: TextIO, columns: Mapping[str, Sequence[Any]]) -> None:
    """Write columns as CSV."""
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow(columns)
    writer.writerows(zip(*columns.values(), strict=True))


def main(arguments: Sequence[str]) -> None:
    """Predict the file of the command line."""
    if len(arguments) != 1 or arguments[0].startswith("-"):
        raise SystemExit("usage: python predict.py NEW.csv > predictions.csv")
    folder = Path(__file__).resolve().parent
    model = json.loads((folder / "model.json").read_text(encoding="utf-8"))
    try:
        matrix = features(read_columns(Path(arguments[0]), model), model, arguments[0])
        columns = outputs(predict(folder, model, matrix), model["classes"])
    except (BadData, OSError, ImportError) as error:
        raise SystemExit(f"predict.py: {error}") from error
    write_csv(sys.stdout, columns)


if __name__ == "__main__":
    if hasattr(signal, "SIGPIPE"):  # end silently when `head` has read enough
        signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    main(sys.argv[1:])
