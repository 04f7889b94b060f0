"""Inputs and outputs of a training script, as in SageMaker's script mode: arguments, channels, directories."""

from __future__ import annotations

import argparse
import json
import math
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from barograph.capture.recording import current, launched
from barograph.errors import BarographError, SettingsError
from barograph.experiments.recorded_run import recorded_run
from barograph.jobs.algorithms.parameters import count_or_auto
from barograph.jobs.algorithms.registry import CHANNELS, Algorithm, parameter_problems
from barograph.jobs.algorithms.table_prediction import BadData
from barograph.jobs.algorithms.tables import Reading, reading_of


@dataclass(frozen=True, slots=True)
class Options:
    """Command-line arguments of a trainer.

    Attributes:
        target: Name of the target column; "": the usual one of the format.
        task: "auto", "regression" or "classification".
        validation_fraction: Part of the rows that is for validation, without a channel for it.
        folds: Number of parts for cross-validation; 1: validation on one part; 0: it depends on the number of rows.
        seed: Seed of the split and of the library.
        reading: How CSV files are read.
        decimal: Decimal mark of numbers in CSV files: "auto", "." or ",".
        parameters: Parameters of the library, by its names.
        refit: Whether the saved model is trained on the rows for validation as well.
    """

    target: str
    task: str
    validation_fraction: float
    folds: int
    seed: int
    reading: Reading
    decimal: str
    parameters: dict[str, str]
    refit: bool


@dataclass(frozen=True, slots=True)
class Folders:
    """Where data is read and results are written.

    Attributes:
        channels: Channel to its folder or file: "train", and optionally "validation" and "test".
        model: Folder of the model.
        output: Folder of metrics and predictions.
    """

    channels: Mapping[str, Path]
    model: Path
    output: Path


def folders(script: str, environ: Mapping[str, str] = os.environ) -> Folders:
    """Return the folders of a job from its variables, such as `SM_CHANNEL_TRAIN`; the last two are created.

    Args:
        script: Name of the script, for messages.

    Raises:
        SettingsError: A variable is missing.
    """
    for name in ("SM_CHANNEL_TRAIN", "SM_MODEL_DIR", "SM_OUTPUT_DATA_DIR"):
        if not environ.get(name):
            raise SettingsError(f"{name} is not set. `barograph submit` sets it; to run {script} by hand, set it to a "
                                "folder.")
    channels = {name: Path(environ[variable]) for channel, name in CHANNELS.items()
                if environ.get(variable := f"SM_CHANNEL_{channel.upper()}")}
    made = Folders(channels, Path(environ["SM_MODEL_DIR"]), Path(environ["SM_OUTPUT_DATA_DIR"]))
    for folder in (made.model, made.output):
        folder.mkdir(parents=True, exist_ok=True)
    return made


def options(algorithm: Algorithm, arguments: Sequence[str]) -> Options:
    """Return the options and the parameters of a command line; `--a-b 1` is `--a_b 1`.

    Raises:
        SettingsError: A value has the wrong type or is out of range, or an option has no value.
    """
    parser = argparse.ArgumentParser(
        prog=algorithm.script.name, allow_abbrev=False, description=algorithm.summary,
        epilog="Other options are parameters of the library and are passed on to it.")
    for option in algorithm.options:
        parser.add_argument(f"--{option.name}", default=option.default, choices=option.choices or None,
                            type=cast("Callable[[str], Any]", _OPTION_TYPES[option.kind]), help=option.summary)
    for parameter in algorithm.parameters:
        # Without defaults: those are the library's.
        parser.add_argument(f"--{parameter.name}", default=argparse.SUPPRESS, help=parameter.summary.replace("%", "%%"))
    known, unknown = parser.parse_known_args([_with_underscores(word) for word in arguments])
    values = vars(known)
    own = {option.name for option in algorithm.options}
    parameters = {name: value for name, value in values.items() if name not in own} | _pairs(unknown)
    problems = parameter_problems(algorithm, parameters)
    fraction = float(values["validation_fraction"])
    if not 0 < fraction < 1:
        problems.append(f"--validation_fraction is {fraction:g}; it must be between 0 and 1.")
    if problems:
        raise SettingsError("\n".join(problems))
    target = values.get("target", "")
    return Options(target, values.get("task", "classification"), fraction, values.get("folds", 1), values["seed"],
                   reading_of(values, target), values.get("decimal", "auto"), parameters, values["refit"] == "yes")


def log(metrics: Mapping[str, float], step: int | None = None) -> None:
    """Record metrics in the run that records this process, if there is one."""
    run = recorded_run()
    if run is not None:
        run.log_metrics(metrics, step)


def log_step(loss: float, validation_loss: float) -> None:
    """Record a training of one step, for a solver that shows none, with an evaluation."""
    recording = launched() or current()
    if recording is not None:
        integration = recording.array_integration()
        integration.loss(loss)
        integration.end_step()
        integration.begin_evaluation()
        integration.loss(validation_loss)
        integration.end_evaluation()


def write_json(path: Path, content: Mapping[str, Any]) -> None:
    """Write JSON; NaN, which JSON lacks, becomes null."""
    path.write_text(json.dumps(_plain(content), indent=2, ensure_ascii=False, allow_nan=False) + "\n", encoding="utf-8")


def run_trainer(train: Callable[[Sequence[str]], None]) -> None:
    """Run a trainer on the command line; an error that the user can correct ends it with its message alone."""
    try:
        train(sys.argv[1:])
    except (BadData, BarographError) as error:
        raise SystemExit(f"{Path(sys.argv[0]).name}: {with_channels(str(error))}") from error


def with_channels(text: str, environ: Mapping[str, str] = os.environ) -> str:
    """Return a message with names of channels for their folders, which are gone after the job.

    Example:
        >>> with_channels("No column in /job/0-0/input/data/train/a.csv.",
        ...               {"SM_CHANNEL_TRAIN": "/job/0-0/input/data/train"})
        'No column in train/a.csv.'
    """
    names = {folder: name.removeprefix("SM_CHANNEL_").lower() for name, folder in environ.items()
             if name.startswith("SM_CHANNEL_") and folder.startswith("/")}
    for folder in sorted(names, key=len, reverse=True):
        text = text.replace(folder, names[folder])
    return text


def _with_underscores(word: str) -> str:
    if not word.startswith("--"):
        return word
    name, equals, value = word.partition("=")
    return f"--{name[2:].replace('-', '_')}{equals}{value}"


def _pairs(words: Sequence[str]) -> dict[str, str]:
    """Return `--name value` and `--name=value` as a dictionary."""
    found, waiting = {}, list(words)
    while waiting:
        word = waiting.pop(0)
        name, equals, value = word.partition("=")
        if not name.startswith("--") or not name[2:]:
            raise SettingsError(f'Expected "--name value", found "{word}".')
        if not equals:
            if not waiting or waiting[0].startswith("--"):
                raise SettingsError(f"{name} has no value.")
            value = waiting.pop(0)
        found[name[2:]] = value
    return found


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {str(name): _plain(item) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


_OPTION_TYPES = {"text": str, "choice": str, "int": int, "count or auto": count_or_auto, "float": float}
