"""Common parts of the tabular trainers: reading channels, splitting, model folder, metrics and predictions."""

from __future__ import annotations

import hashlib
import json
import re
import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from barograph.errors import SettingsError
from barograph.jobs.algorithms import table_prediction
from barograph.jobs.algorithms.columns import Target, describe, split, target_of, task_of
from barograph.jobs.algorithms.contract import Folders, Options, folders, options, write_json
from barograph.jobs.algorithms.folds import folds_of, mean_scores, number_of_folds
from barograph.jobs.algorithms.registry import algorithm_named
from barograph.jobs.algorithms.results import report, say, say_refitted, scores, versions
from barograph.jobs.algorithms.table_prediction import BadData, counted
from barograph.jobs.algorithms.tables import Reading, Table, read_table, target_in
from barograph.version import __version__


@dataclass(frozen=True, slots=True)
class Part:
    """Rows of a data set as the model reads them.

    Attributes:
        name: "train", "validation" or "test".
        rows: Number of each row in its channel, from 1.
        matrix: Features, shape (rows, features).
        target: Numbers or class numbers, shape (rows,).
    """

    name: str
    rows: Any
    matrix: Any
    target: Any

    def take(self, places: Any, name: str = "") -> Part:
        """Return some of the rows, by their places."""
        return Part(name or self.name, self.rows[places], self.matrix[places], self.target[places])


@dataclass(frozen=True, slots=True)
class Task:
    """A training that is ready to start.

    Attributes:
        model: Content of `model.json`, which the trainer completes.
        parts: Name to part: "train", "validation" without cross-validation, "test" if there is such a channel.
        folds: For cross-validation, the places in "train" of the rows to train on, and of those to validate on.
    """

    options: Options
    folders: Folders
    model: dict[str, Any]
    parts: Mapping[str, Part]
    parameters: dict[str, str] = field(default_factory=dict)
    folds: Sequence[tuple[Any, Any]] = ()

    @property
    def train(self) -> Part:
        """The rows for training."""
        return self.parts["train"]

    @property
    def validation(self) -> Part:
        """The rows for validation, without cross-validation."""
        return self.parts["validation"]

    @property
    def splits(self) -> Sequence[tuple[Part, Part]]:
        """The rows to train and to validate on: of each fold, or the only ones."""
        return [(self.train.take(fitted), self.train.take(validated, "validation"))
                for fitted, validated in self.folds] or [(self.train, self.validation)]

    @property
    def digest(self) -> str:
        """Digest of what a model learns from, and how: the rows, their split, the parameters and the seed."""
        how = [self.model[name] for name in ("algorithm", "task", "classes", "feature_names", "parameters", "seed")]
        digest = hashlib.blake2b(json.dumps(how, sort_keys=True).encode(), digest_size=16)
        parts = [part for name, part in self.parts.items() if name != "test"]
        arrays = [array for part in parts for array in (part.rows, part.matrix, part.target)]
        for array in (*arrays, *(validated for _, validated in self.folds)):
            digest.update(f"{array.shape}".encode() + np.ascontiguousarray(array).tobytes())
        return digest.hexdigest()

    @property
    def classes(self) -> tuple[str, ...]:
        """Names of the classes; empty for regression."""
        return tuple(self.model["classes"] or ())


def prepare(name: str, arguments: Sequence[str], *, one_hot: bool) -> Task:
    """Read the data of a job, and print what was decided.

    Args:
        name: Name of the algorithm.
        one_hot: As for `columns.describe`.

    Raises:
        BadData: Nothing can be learned from the data; the message says what to do.
        SettingsError: An option is wrong.
    """
    algorithm = algorithm_named(name)
    given = options(algorithm, arguments)
    places = folders(algorithm.script.name)
    train = read_table(places.channels["train"], given.reading)
    target = target_in(list(train.columns), given.reading, train.of)
    task, reason = (given.task, "as given") if given.task != "auto" else task_of(train, target, given.decimal)
    say(f"{task} of {target}: {reason}")
    learned = target_of(train, target, task, given.decimal)
    rows = {"train": _rows_with_target("train", train, target, learned)}
    _expect_variety(train, target, learned)
    folds: list[tuple[Any, Any]] = []
    if "validation" in places.channels:
        if given.folds > 1:
            raise SettingsError("With a validation channel there is no cross-validation: remove --folds.")
    elif not (folds := _folds(learned, rows["train"], given)):
        rows = _split(train, learned, rows["train"], given)
    described, notes = describe(train, target, rows["train"], one_hot=one_hot, decimal=given.decimal)
    for note in (*train.notes, *notes):
        say(note)
    model = {
        "algorithm": name, "task": task, "target": target, "classes": learned.classes, "format": train.form,
        "header": train.header, "separator": given.reading.separator, "header_names": list(train.columns),
        "columns": described,
        "feature_names": _feature_names([column["name"] for column in described]), "parameters": given.parameters,
        "seed": given.seed, "versions": versions(algorithm.requires), "barograph": __version__,
    }
    matrix = table_prediction.features(train.columns, model, train.of)
    parts = {part: Part(part, chosen + 1, matrix[chosen], learned.values[chosen]) for part, chosen in rows.items()}
    parts |= {channel: _part_of_channel(channel, places.channels[channel], given, model, learned)
              for channel in ("validation", "test") if channel in places.channels}
    say(f"{counted(len(described), 'column')}; "
        + ", ".join(f"{counted(len(part.rows), 'row')} for {part.name}" for part in parts.values())
        + (f"; cross-validation with {len(folds)} folds" if folds else ""))
    return Task(given, places, model, parts, dict(given.parameters), folds)


def finish(
    task: Task, fit: Callable[[Part], object], of_folds: Sequence[Any] = (), **facts: Any
) -> dict[str, dict[str, float]]:
    """Write `model.json`, `predict.py`, metrics and predictions, those of the model that the trainer saved.

    With the option `refit`, that model is then replaced by one that is trained on all rows; a test channel is predicted
    with the latter. After a cross-validation, there is only the model that is trained on all rows.

    Returns:
        Metrics of each part.

    Args:
        fit: Trains a model on other rows, with as many rounds or epochs as were best, and saves it.
        of_folds: After a cross-validation, the predictions for each fold, as from `table_prediction.predict`.
        facts: Added to `metrics.json`.
    """
    model, parts = task.model, dict(task.parts)
    if task.folds:
        _fit_all(task, fit, parts["train"])
        metrics = {"train": _scored(task, parts["train"])}
        parts["validation"], metrics["validation"] = _cross_validated(task, of_folds)
    else:
        metrics = {name: _scored(task, parts[name]) for name in ("train", "validation")}
        if task.options.refit:
            _fit_all(task, fit, _joined([parts["train"], parts["validation"]]))
    if "test" in parts:
        metrics["test"] = _scored(task, parts["test"])
    write_json(task.folders.model / "model.json", model)
    shutil.copyfile(table_prediction.__file__, task.folders.model / "predict.py")
    folds = {"folds": len(task.folds)} if task.folds else {}
    report(task.folders, metrics, {"task": model["task"], "target": model["target"], **folds,
                                   "rows": {name: len(part.rows) for name, part in parts.items()}, **facts})
    return metrics


def _fit_all(task: Task, fit: Callable[[Part], object], rows: Part) -> None:
    fit(rows)
    task.model["refitted_rows"] = len(rows.target)
    say_refitted(len(rows.target))


def _cross_validated(task: Task, of_folds: Sequence[Any]) -> tuple[Part, dict[str, float]]:
    """Return the validated rows of all folds, and the means of their metrics; write their predictions."""
    places = np.concatenate([validated for _, validated in task.folds])
    order = np.argsort(places)
    together = task.train.take(places[order], "validation")
    _write_predictions(task, together, np.concatenate(of_folds)[order])
    targets = [task.train.target[validated] for _, validated in task.folds]
    return together, mean_scores(targets, of_folds, task.classes)


def _joined(parts: Sequence[Part]) -> Part:
    return Part(parts[0].name, *(np.concatenate([getattr(part, name) for part in parts])
                                 for name in ("rows", "matrix", "target")))


def _scored(task: Task, part: Part) -> dict[str, float]:
    """Return metrics of a part; write its predictions, if it is not the training data."""
    predictions = table_prediction.predict(task.folders.model, task.model, part.matrix)
    if part.name != "train":
        _write_predictions(task, part, predictions)
    return scores(part.target, predictions, task.classes)


def _folds(learned: Target, rows: Any, given: Options) -> list[tuple[Any, Any]]:
    """Return `Task.folds` for the rows with a target; empty without cross-validation."""
    known = Target(learned.values[rows], learned.classes, learned.numbers)
    count = number_of_folds(given.folds, known)
    everything = np.arange(len(rows))
    return [(np.setdiff1d(everything, fold), fold) for fold in folds_of(known, count, given.seed)] if count > 1 else []


def _split(train: Table, learned: Target, rows: Any, given: Options) -> dict[str, Any]:
    """Return the rows for training and those for validation, of those with a target."""
    known = Target(learned.values[rows], learned.classes, learned.numbers)
    chosen, kept = split(known, given.validation_fraction, given.seed)
    if not len(kept):
        raise BadData(f"{train.of} has no two rows of one class, so none can be kept for validation. Add rows, or pass "
                      "--data validation=FILE.")
    return {"train": rows[chosen], "validation": rows[kept]}


def _part_of_channel(name: str, path: Path, given: Options, model: Mapping[str, Any], learned: Target) -> Part:
    """Return a channel other than the training data, read as the training data was."""
    columns, target = model["columns"], model["target"]
    texts = {column["name"] for column in columns if column["kind"] == "category"}
    names = [column["name"] for column in columns] if model["format"] == "libsvm" else None
    reading = Reading("yes" if model["header"] else "no", given.reading.separator, target)
    table = read_table(path, reading, names, {*texts, *([] if learned.numbers else [target])})
    if target not in table.columns:
        raise BadData(f'{table.of} has no column "{target}", the target. Add it, or leave the channel out.')
    found = target_of(table, target, model["task"], like=learned)
    rows = _rows_with_target(name, table, target, found)
    return Part(name, rows + 1, table_prediction.features(table.columns, model, table.of)[rows], found.values[rows])


def _rows_with_target(channel: str, table: Table, target: str, found: Target) -> Any:
    usable = np.flatnonzero(~np.isnan(found.values))
    if not len(usable):
        raise BadData(f'No row of {table.of} has a value in the target column "{target}"'
                      f"{' that occurs in the training data' if channel != 'train' and found.classes else ''}.")
    absent = table.rows - len(usable)
    if absent:
        say(f'{absent:,} of {counted(table.rows, "row")} of {channel} left out: no '
            f'{"known " if channel != "train" and found.classes else ""}value in "{target}".')
    return usable


def _expect_variety(table: Table, target: str, learned: Target) -> None:
    values = np.unique(learned.values[~np.isnan(learned.values)])
    if len(values) == 1:
        value = learned.classes[0] if learned.classes else table_prediction.label(float(values[0]))
        raise BadData(f'The target column "{target}" of {table.of} is {value} in every row: there is nothing to learn. '
                      "Choose another target, or add rows with other values.")


def _write_predictions(task: Task, part: Part, predictions: Any) -> None:
    classes = task.classes
    target = [classes[int(place)] for place in part.target] if classes else part.target.tolist()
    columns = {"row": part.rows.tolist(), "target": target, **table_prediction.outputs(predictions, classes or None)}
    with (task.folders.output / f"{part.name}_predictions.csv").open("w", encoding="utf-8", newline="") as file:
        table_prediction.write_csv(file, columns)


def _feature_names(names: Sequence[str]) -> list[str]:
    """Return names that XGBoost and LightGBM accept: without brackets, white space and characters of JSON."""
    made: list[str] = []
    for name in names:
        plain = re.sub(r'[\s\[\]<>{}",:]+', "_", name)
        made.append(plain if plain not in made else f"{plain}_{len(made)}")
    return made
