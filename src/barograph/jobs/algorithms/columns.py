"""Chooses how the columns of a table become the features and the target of a model.

`table_prediction.features` applies the choice, in training and in `predict.py`.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from dataclasses import dataclass
from typing import Any

import numpy as np

from barograph.jobs.algorithms.table_prediction import (
    DECIMAL_COMMA,
    MISSING,
    PLAIN,
    THOUSANDS,
    BadData,
    counted,
    label,
    number,
)
from barograph.jobs.algorithms.tables import Table

MOST_CLASSES = 20
"""Whole numbers with more values than this are not classes, unless the user says so."""

MOST_ONE_HOT = 100
"""Categories of a column that get a feature of their own; rarer ones have none."""

FEW_ROWS = 20
"""With more rows than this, a text column whose values are all unique is treated as an identifier."""

_GROUPED = re.compile(r"[+-]?\d{1,3}(,\d{3})+(\.\d*)?|[+-]?\d+(\.\d*)?")
_COMMA = re.compile(r"[+-]?\d{1,3}(\.\d{3})*,\d*|[+-]?\d+(,\d*)?|[+-]?\d{1,3}(\.\d{3})+")


@dataclass(frozen=True, slots=True)
class Target:
    """The target of each row.

    Attributes:
        values: Numbers, or class numbers from 0; NaN if missing. Shape (rows,).
        classes: Names of the classes, in the order of their numbers; None for regression.
        numbers: Format of the numbers; "": names of classes are text.
    """

    values: Any
    classes: tuple[str, ...] | None
    numbers: str


def describe(
    table: Table, target: str, rows: Any, *, one_hot: bool, decimal: str = "auto"
) -> tuple[list[dict[str, Any]], list[str]]:
    """Return how each column becomes features, for `model.json`, and notes about columns that are left out.

    Numbers stay numbers, or with `one_hot` are standardized to mean 0 and standard deviation 1, with missing ones at
    the mean. Text becomes a category number, or with `one_hot` a feature of 0 and 1 for each category.

    Args:
        rows: Numbers of the rows for training, which alone decide about means and categories.

    Raises:
        BadData: No column is left.
    """
    described: list[dict[str, Any]] = []
    notes: list[str] = []
    for name, cells in table.columns.items():
        if name == target:
            continue
        form = number_format(cells, decimal)
        of_rows = [cells[row] for row in rows] if isinstance(cells, list) else cells[rows]
        if form:
            column, note = _number_column(name, of_rows, form, one_hot)
        else:
            column, note = _category_column(name, of_rows, one_hot)
        described += [column] if column else []
        notes += [note] if note else []
    if not described:
        raise BadData(f'{table.of} has no column to predict "{target}" from.{"".join(f" {note}" for note in notes)}')
    return described, notes


def number_format(cells: Any, decimal: str = "auto") -> str:
    """Return the format of the numbers in a column; "": it is text.

    Args:
        decimal: "auto", or the decimal mark: "." or ",".

    Example:
        >>> [number_format(cells) for cells in (["1.5", ""], ["1,234"], ["1,5", "1.000,25"], ["a"])]
        ['plain', 'thousands', 'decimal comma', '']
    """
    if not isinstance(cells, list):
        return PLAIN
    if all(_is_number(text, PLAIN) for text in cells):
        return PLAIN
    texts = [text for text in map(str.strip, cells) if text not in MISSING]
    for form, pattern, mark in ((THOUSANDS, _GROUPED, "."), (DECIMAL_COMMA, _COMMA, ",")):
        if decimal in ("auto", mark) and all(pattern.fullmatch(text) for text in texts):
            return form
    return ""


def task_of(table: Table, target: str, decimal: str = "auto") -> tuple[str, str]:
    """Return the task that suits the type of the target, "regression" or "classification", and why.

    Whole numbers are classes if there are at most 20 of them, and at least two rows for each.
    """
    cells = table.columns[target]
    form = number_format(cells, decimal)
    if not form:
        return "classification", f'"{target}" has text'
    values = _numbers(cells, form)
    distinct = np.unique(values[~np.isnan(values)])
    if not np.all(distinct == np.floor(distinct)):
        return "regression", f'"{target}" has fractions'
    known = int(np.count_nonzero(~np.isnan(values)))
    if len(distinct) > MOST_CLASSES or 2 * len(distinct) > known:
        return "regression", f'"{target}" has {counted(len(distinct), "different number")}'
    return "classification", f'"{target}" has {counted(len(distinct), "distinct integer")}'


def target_of(table: Table, target: str, task: str, decimal: str = "auto", like: Target | None = None) -> Target:
    """Return the target.

    Args:
        like: Target of the training table, with its classes; None: this is the training table.

    Raises:
        BadData: The target is text but the task is regression.
    """
    cells = table.columns[target]
    form = number_format(cells, decimal) if like is None else like.numbers
    if task == "regression":
        wrong = next((row for row, text in enumerate(cells) if not _is_number(text, form)), -1) if (
            isinstance(cells, list)) else -1
        if wrong >= 0:
            raise BadData(f'Row {wrong + 1} of {table.of}: "{cells[wrong]}" in the target column "{target}" is not a '
                          "number. Pass --task classification to predict classes.")
        return Target(_numbers(cells, form), None, form)
    names = class_names(cells, form)
    if like is None:
        known = sorted({name for name in names if name}, key=(lambda name: (float(name), name)) if form else None)
        classes = tuple(known)
    else:
        classes = like.classes or ()
    places = {name: float(place) for place, name in enumerate(classes)}
    return Target(np.array([places.get(name, math.nan) for name in names]), classes, form)


def class_names(cells: Any, form: str) -> list[str]:
    """Return the class of each row; "": missing."""
    if not isinstance(cells, list):
        return [label(value) for value in np.asarray(cells, np.float64).tolist()]
    return ["" if text.strip() in MISSING else label(number(text, form)) if form and _is_number(text, form)
            else text.strip() for text in cells]


def split(target: Target, fraction: float, seed: int) -> tuple[Any, Any]:
    """Return the rows for training and those for validation, both ascending.

    Of each class, the same fraction is for validation, but a class with one row has it in training.
    """
    random = np.random.default_rng(seed)
    groups = [np.flatnonzero(target.values == place) for place in range(len(target.classes))] if target.classes else [
        np.arange(len(target.values))]
    chosen = [random.permutation(rows)[:min(max(round(fraction * len(rows)), 0), len(rows) - 1)] for rows in groups]
    if not sum(map(len, chosen)):
        largest = max(range(len(groups)), key=lambda place: len(groups[place]))
        chosen[largest] = random.permutation(groups[largest])[:1 if len(groups[largest]) > 1 else 0]
    validation = np.sort(np.concatenate(chosen))
    return np.setdiff1d(np.arange(len(target.values)), validation), validation


def _is_number(text: str, form: str) -> bool:
    try:
        number(text, form)
    except ValueError:
        return False
    return True


def _numbers(cells: Any, form: str) -> Any:
    if isinstance(cells, list):
        return np.array([number(text, form) for text in cells], np.float64)
    return np.asarray(cells, np.float64)


def _number_column(name: str, cells: Any, form: str, standardized: bool) -> tuple[dict[str, Any] | None, str]:
    values = _numbers(cells, form)
    known = values[~np.isnan(values)]
    if not len(known):
        return None, f'Column "{name}" has no value: left out.'
    column: dict[str, Any] = {"name": name, "kind": "number", "numbers": form}
    if standardized:
        column |= {"mean": float(known.mean()), "scale": float(known.std()) or 1.0}
    note = "" if form != THOUSANDS else (
        f'Column "{name}": commas group thousands. Pass --decimal , if they are decimal marks.')
    return column, note


def _category_column(name: str, cells: Any, one_hot: bool) -> tuple[dict[str, Any] | None, str]:
    counts = Counter(text.strip() for text in cells)
    for missing in MISSING:
        counts.pop(missing, None)
    if len(counts) == counts.total() > FEW_ROWS:
        return None, f'Column "{name}" has a different text in every row: left out.'
    common, note = list(counts), ""
    if one_hot and len(counts) > MOST_ONE_HOT:
        by_count = sorted(counts, key=lambda category: (-counts[category], category))
        common = by_count[:MOST_ONE_HOT]
        note = f'Column "{name}" has {len(counts):,} categories: the {MOST_ONE_HOT} most frequent are used.'
    return {"name": name, "kind": "category", "one_hot": one_hot, "categories": sorted(common)}, note
