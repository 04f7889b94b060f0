"""The built-in algorithms: their scripts, parameters and requirements. Importing this loads no framework."""

from __future__ import annotations

import importlib.util
import json
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from barograph.errors import SettingsError, UnknownName, nearest
from barograph.jobs.algorithms.parameters import (
    IMAGE_OPTIONS,
    IMAGES,
    LIGHTGBM,
    LINEAR,
    MLP,
    OPTIONS,
    XGBOOST,
    Parameter,
    count_or_auto,
)
from barograph.jobs.data.channel import Channel, Mode, channel_from_json
from barograph.processes.command import own_module
from barograph.processes.run_to_end import NotCompleted, run_to_end

CHANNELS = {"train": "train", "val": "validation", "validation": "validation", "test": "test"}
"""Channel to what its data is for."""

_LIBRARY_SECS = 60.0
_TRAINERS = Path(__file__).with_name("trainers")


@dataclass(frozen=True, slots=True)
class Algorithm:
    """A built-in algorithm.

    Attributes:
        script: Training script that follows SageMaker's script mode.
        requires: Packages that the script imports, by import name.
        extra: Extras of Barograph that install them, as in `pip install "barograph[EXTRA]"`.
        parameters: The usual parameters of the library; the script passes others on too.
        options: Options of the script itself.
        metric: Metric that tuning optimizes, in the run and in `metrics.json`.
        maximize: Whether more of it is better.
    """

    name: str
    summary: str
    script: Path
    requires: tuple[str, ...]
    extra: str
    parameters: tuple[Parameter, ...]
    options: tuple[Parameter, ...] = OPTIONS
    metric: str = "validation_loss"
    maximize: bool = False

    @property
    def reads_tables(self) -> bool:
        """Whether the data is a table with a target column."""
        return self.options is OPTIONS

    def copy_script(self, directory: Path) -> Path:
        """Copy the script into the code directory of a job; return the copy, which is to be run.

        Run from within Barograph's package, it would count as part of Barograph: its variables, such as the best epoch
        so far, would be missing in checkpoints.
        """
        directory.mkdir(parents=True, exist_ok=True)
        return Path(shutil.copy(self.script, directory))


def algorithms() -> tuple[Algorithm, ...]:
    """Return all built-in algorithms."""
    return _ALGORITHMS


def algorithm_named(name: str) -> Algorithm:
    """Return a built-in algorithm.

    Raises:
        UnknownName: There is none of that name; the message suggests the nearest.
    """
    found = next((algorithm for algorithm in _ALGORITHMS if algorithm.name == name), None)
    if found is None:
        known = [algorithm.name for algorithm in _ALGORITHMS]
        raise UnknownName(f'No algorithm "{name}". {nearest(name, known)}')
    return found


def problems_of(
    algorithm: Algorithm, parameters: Mapping[str, str], channels: Mapping[str, Any], target: str, *, processes: int = 1
) -> list[str]:
    """Return what would make a job of the algorithm fail, as sentences; reads no more than the beginning of the data.

    Args:
        parameters: Hyperparameters of the job.
        channels: Channel to its source, as in a job file; only files and folders on this machine are looked into.
        target: Target column; "": not given.
        processes: Number of processes of the job, on all instances.
    """
    problems = [f'The algorithm "{algorithm.name}" needs {package}: pip install "barograph[{algorithm.extra}]".'
                for package in algorithm.requires if importlib.util.find_spec(package) is None]
    wrong = parameter_problems(algorithm, parameters)
    if not problems and not wrong:
        wrong = _unknown(algorithm, parameters)
    problems += wrong
    problems += [f'The algorithm does not read the channel "{channel}". {nearest(channel, CHANNELS)}'
                 for channel in channels if channel not in CHANNELS]
    if processes > 1:
        problems.append(f'The algorithm "{algorithm.name}" trains in one process: remove --instances and --processes.')
    if not channels.get("train"):
        return [*problems, "No training data: pass --data train=FILE."]
    problems += _channel_problems(channels)
    if not algorithm.reads_tables:
        return [*problems, *(["The target of images is their folder: remove --target."] if target else [])]
    return [*problems, *_target_problems(channels["train"], parameters, target)]


def parameter_problems(algorithm: Algorithm, parameters: Mapping[str, str]) -> list[str]:
    """Return what is wrong with values of known parameters, as sentences. The library checks the others."""
    known = {item.name: item for item in (*algorithm.options, *algorithm.parameters)}
    return [f'{name} is "{value}"; it must be {wanted}.' for name, value in parameters.items()
            if (wanted := _unmet(known.get(name.replace("-", "_")), value))]


def _unknown(algorithm: Algorithm, parameters: Mapping[str, str]) -> list[str]:
    options = {item.name for item in algorithm.options}
    usual = {item.name for item in algorithm.parameters}
    given = {short: value for name, value in parameters.items() if (short := name.replace("-", "_")) not in options}
    if usual.issuperset(given):
        return []
    words = algorithm.name, json.dumps(given), json.dumps(sorted(usual))
    # A process of its own, because commands load no framework.
    try:
        done = run_to_end(own_module("barograph.jobs.algorithms.trainers.library_names", *words),
                          timeout_secs=_LIBRARY_SECS)
        return list(json.loads(done.out))
    except (OSError, NotCompleted, ValueError):
        return []  # the library says so when the job starts


def _unmet(parameter: Parameter | None, value: str) -> str:
    """Return what a value must be, if it is not; "": it may be right."""
    if parameter is None:
        return ""
    if parameter.kind == "choice":
        known = (*parameter.choices, *parameter.untuned)
        return "" if value in known else " or ".join(known)
    reads: Any = {"int": int, "count or auto": count_or_auto, "float": float, "text": str}[parameter.kind]
    try:
        reads(value)
    except ValueError:
        return {"int": "an integer", "count or auto": "auto or at least 1", "float": "a number"}[parameter.kind]
    return ""


def _channel_problems(channels: Mapping[str, Any]) -> list[str]:
    return [f"Built-in algorithms read files, not pipes: remove :pipe from --data {name}."
            for name, value in channels.items() if (channel := _channel(name, value)) and channel.mode is Mode.PIPE]


def _channel(name: str, value: Any) -> Channel | None:
    try:
        return channel_from_json(name, value)
    except SettingsError:
        return None  # whoever starts the job says so


def _target_problems(value: Any, parameters: Mapping[str, str], target: str) -> list[str]:
    channel = _channel("train", value)
    if channel is None or not Path(channel.source).exists():
        return []  # a bucket, a pattern or a missing file: whoever fetches the data says so
    # Loaded here, because NumPy takes most of the time of a small command.
    from barograph.jobs.algorithms.table_prediction import BadData
    from barograph.jobs.algorithms.tables import column_names, reading_of, target_in

    try:
        reading = reading_of(parameters, target)
        target_in(column_names(Path(channel.source), reading), reading, channel.source)
    except BadData as error:
        return [str(error)]
    return []


_ALGORITHMS = (
    Algorithm("xgboost", "gradient-boosted trees (XGBoost)", _TRAINERS / "xgboost_trainer.py", ("xgboost", "pandas"),
              "algorithms,xgboost", XGBOOST),
    Algorithm("lightgbm", "gradient-boosted trees (LightGBM)", _TRAINERS / "lightgbm_trainer.py",
              ("lightgbm", "pandas"), "algorithms,lightgbm", LIGHTGBM),
    Algorithm("linear", "ridge and logistic regression (scikit-learn)", _TRAINERS / "linear_trainer.py",
              ("sklearn", "pandas"), "algorithms", LINEAR),
    Algorithm("mlp", "a multi-layer perceptron (scikit-learn)", _TRAINERS / "mlp_trainer.py", ("sklearn", "pandas"),
              "algorithms", MLP),
    Algorithm("image-classifier", "a small convolutional network on folders of images (PyTorch)",
              _TRAINERS / "image_classifier_trainer.py", ("torch", "PIL"), "algorithms,torch", IMAGES, IMAGE_OPTIONS),
)
