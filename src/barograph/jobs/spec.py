"""Specification of a training job: command, resources and data."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from pathlib import Path
from typing import Any

from barograph.errors import SettingsError, UnknownName, nearest
from barograph.jobs.data.channel import channel_from_json, text_of
from barograph.model.settings import Settings
from barograph.model.units import bytes_from, seconds_from
from barograph.provenance.parameters import replaced

_NAME = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9._-]{0,61}[A-Za-z0-9])?")
_SECONDS = {"max_wait": "max_wait_secs", "max_runtime": "max_runtime_secs", "keep_alive": "keep_alive_secs"}
_WHOLE = {"instances": 1, "processes": 1, "gpus": 0, "retries": 0}
_PRICES = ("price", "spot_price")
_FLAGS = ("spot", "no_network")
_FIELDS = {"checkpoint_every": "checkpoint", "env": "environment"}
"""Options whose fields have other names."""
_TEXTS = ("name", "engine", "algorithm", "target", "requirements", "cluster", "checkpoint", "env_file")


@dataclass(frozen=True, slots=True)
class JobSpec:
    """A training job as the user described it.

    Attributes:
        command: Script with its arguments, or any command; empty for a built-in algorithm.
        algorithm: Name of a built-in algorithm; "": `command` is run.
        hyperparameters: Passed to the script as `--name value`, after the arguments of `command`.
        target: Column that a built-in algorithm predicts.
        data: Channel to its source, as after `--data NAME=`.
        name: Name of the job; "": made from the script and the time.
        engine: "local" or "ray".
        cluster: Cluster file for an engine that creates a cluster for the job; "": the running one.
        instances: Number of instances.
        processes: Processes that the script is started in on each instance.
        cpus: CPUs of each instance.
        memory_bytes: Memory of each instance; 0: no limit.
        gpus: GPUs of each instance.
        spot: Instances may be taken away at any time.
        max_wait_secs: Longest time from the submission to the end, waiting included; infinite: no limit.
        max_runtime_secs: Longest time of training; infinite: no limit.
        keep_alive_secs: How long its instances stay after it, for the next similar job.
        max_restarts: Restarts after lost instances; None: any number until `max_wait_secs`.
        retries: Restarts after an error of the script.
        price, spot_price: Price of an instance per hour; NaN if unknown.
        checkpoint: When checkpoints are saved, as for `barograph run --checkpoint`; "": `auto` for a spot job.
        no_network: The script has no network but its own machine.
        requirements: File with the packages of the script; "": found beside it; "none": those of this Python.
        environment: Names of environment variables of the submitting shell that the script gets. Values are not stored.
        env_file: File with further variables, a line NAME=VALUE for each. Values are not stored.
        settings: Settings of the recording, as in `barograph.toml`.
    """

    command: tuple[str, ...] = ()
    algorithm: str = ""
    hyperparameters: Mapping[str, str] = field(default_factory=dict)
    target: str = ""
    data: Mapping[str, str] = field(default_factory=dict)
    name: str = ""
    engine: str = "local"
    cluster: str = ""
    instances: int = 1
    processes: int = 1
    cpus: float = 1.0
    memory_bytes: int = 0
    gpus: int = 0
    spot: bool = False
    max_wait_secs: float = math.inf
    max_runtime_secs: float = math.inf
    keep_alive_secs: float = 0.0
    max_restarts: int | None = None
    retries: int = 0
    price: float = math.nan
    spot_price: float = math.nan
    checkpoint: str = ""
    no_network: bool = False
    requirements: str = ""
    environment: tuple[str, ...] = ()
    env_file: str = ""
    settings: Mapping[str, Any] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        """Return JSON data that `spec_from_json` reads back. Infinity and NaN are null."""
        return {name: None if isinstance(value, float) and not math.isfinite(value) else value
                for name, value in asdict(self).items()}

    def changed(self, hyperparameters: Mapping[str, str]) -> JobSpec:
        """Return a copy with other hyperparameters.

        An option that the command has, as `--lr 0.1` or `--lr=0.1`, is replaced there.

        Example:
            >>> spec = JobSpec(("train.py", "--lr", "0.1"), hyperparameters={"seed": "1"})
            >>> spec.changed({"lr": "1", "seed": "3"}).words
            ('train.py', '--lr', '1', '--seed', '3')
        """
        ours = {name: value for name, value in hyperparameters.items()
                if name in self.hyperparameters or not self.command}
        others = {name: value for name, value in hyperparameters.items() if name not in ours}
        command = tuple(replaced(self.command, others)) if others else self.command
        return replace(self, command=command, hyperparameters={**self.hyperparameters, **ours})

    @property
    def words(self) -> tuple[str, ...]:
        """The command with the hyperparameters."""
        return (*self.command, *(word for name, value in self.hyperparameters.items() for word in (f"--{name}", value)))

    @property
    def shown(self) -> tuple[str, ...]:
        """The algorithm or the command, with hyperparameters, for display."""
        return (self.algorithm, *self.words) if self.algorithm else self.words

    @property
    def title(self) -> str:
        """Name of the script or the algorithm."""
        script = next((word for word in self.command if word.endswith((".py", ".sh"))), "")
        return self.algorithm or Path(script or (self.command or ("job",))[0]).stem


def spec_from_json(data: Mapping[str, Any]) -> JobSpec:
    """Return the job from the output of `JobSpec.to_json`."""
    known = {item.name for item in fields(JobSpec)}
    endless = {name: math.inf for name in ("max_wait_secs", "max_runtime_secs") if data.get(name) is None}
    unknown = {name: math.nan for name in _PRICES if data.get(name) is None}
    values = {name: value for name, value in data.items() if name in known}
    return JobSpec(**{**values, **endless, **unknown, "command": tuple(values.get("command", ())),
                      "environment": tuple(values.get("environment", ()))})


def spec_from_options(options: Mapping[str, Any]) -> JobSpec:
    """Return a job from options of `barograph submit`, or from the entries of a job file.

    Args:
        options: By their long names with underscores; None: not given. Times and sizes may have units.

    Raises:
        UnknownName: There is no such option.
        SettingsError: A value has the wrong type or is out of range.

    Example:
        >>> spec_from_options({"command": ["train.py"], "memory": "2GiB", "max_wait": "6h"}).max_wait_secs
        21600.0
    """
    known = ("command", "hyperparameters", "data", "cpus", "memory", "max_restarts", "environment", "settings",
             *_SECONDS, *_WHOLE, *_PRICES, *_FLAGS, *_TEXTS)
    values: dict[str, Any] = {}
    for option, value in options.items():
        name = _FIELDS.get(option, option)
        if name not in known:
            raise _unknown(option, known)
        if value is not None:
            values.update(_checked(name, value))
    spec = JobSpec(**values)
    if bool(spec.command) == bool(spec.algorithm):
        raise SettingsError("A job has two things to run: a command and an algorithm. Remove one." if spec.command else
                            "A job needs something to run: a script, or --algorithm NAME.")
    if spec.target and not spec.algorithm:
        raise SettingsError("A target is for built-in algorithms only. Add --algorithm NAME, or remove --target.")
    return spec


def spec_from_file(path: Path) -> JobSpec:
    """Return the job of a job file in TOML. Its entries are the options of `barograph submit`.

    Raises:
        UnknownName, SettingsError: As `spec_from_options`, or the file cannot be read; the message names the file.
    """
    return spec_from_options(entries_of_file(path))


def entries_of_file(path: Path) -> dict[str, Any]:
    """Return the entries of a job file, unchecked, by the names of the options.

    Raises:
        SettingsError: The file cannot be read.
    """
    import tomllib  # loaded here, because most jobs are typed

    try:
        return {name.replace("-", "_"): value for name, value in tomllib.loads(path.read_text("utf-8")).items()}
    except OSError as error:
        raise SettingsError(f"Cannot read the job file {path}: {error.strerror}.") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise SettingsError(f"The job file {path} is not valid TOML: {error}.") from error


def _unknown(option: str, known: Sequence[str]) -> UnknownName:
    if option in {item.name for item in fields(Settings)}:
        return UnknownName(f'"{option}" is a setting of the recording. Write it below [settings].')
    shown = [_shown({field: name for name, field in _FIELDS.items()}.get(name, name)) for name in known]
    return UnknownName(f'"{_shown(option)}" is not an option of a job. {nearest(_shown(option), shown)}')


def _shown(option: str) -> str:
    """Return the name of an option as it is typed, without the dashes in front."""
    return option.replace("_", "-")


def _checked(name: str, value: Any) -> dict[str, Any]:
    """Return one option as a field of `JobSpec`."""
    if name in _SECONDS:
        return {_SECONDS[name]: seconds_from(_shown(name), value)}
    if name == "memory":
        return {"memory_bytes": bytes_from(name, value)}
    if name in _WHOLE or name == "max_restarts":
        return {name: _whole(name, value, _WHOLE.get(name, 0))}
    if name == "cpus" or name in _PRICES:
        return {name: _positive(name, value)}
    if name in _FLAGS:
        if not isinstance(value, bool):
            raise SettingsError(f"{_shown(name)} is {value!r}; it must be true or false.")
        return {name: value}
    if name in ("command", "environment"):
        return {name: _words(name, value)}
    if name == "hyperparameters":
        return {name: {key: _text(item) for key, item in _table(name, value).items()}}
    if name == "data":
        return {name: {key: item if isinstance(item, str) else text_of(channel_from_json(key, item))
                       for key, item in _table(name, value).items()}}
    if name == "settings":
        return {name: dict(_table(name, value))}
    if not isinstance(value, str):
        raise SettingsError(f"{_shown(name)} is {value!r}; it must be a string.")
    if name == "name":
        check_name(value)
    return {name: value}


def check_name(name: str, of: str = "job", longest: int = 63) -> None:
    """Raise `SettingsError` if this cannot be the name of a job, or of something else whose name has the same form."""
    if not _NAME.fullmatch(name) or len(name) > longest:
        raise SettingsError(f'"{name}" cannot be the name of a {of}. Use at most {longest} letters, digits, ".", "_" '
                            'and "-".')


def _whole(name: str, value: object, least: int) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise SettingsError(f"{_shown(name)} is {value!r}; it must be an integer, at least {least}.")
    return value


def _positive(name: str, value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < math.inf:
        raise SettingsError(f"{_shown(name)} is {value!r}; it must be a number above 0.")
    return float(value)


def _words(name: str, value: object) -> tuple[str, ...]:
    if isinstance(value, str) or not isinstance(value, Sequence) or not all(isinstance(item, str) for item in value):
        such = f", such as {value.split()}" if isinstance(value, str) else ""
        raise SettingsError(f"{_shown(name)} is {value!r}; it must be a list of strings{such}.")
    return tuple(value)


def _table(name: str, value: object) -> Mapping[str, Any]:
    if not isinstance(value, Mapping):
        raise SettingsError(f"{_shown(name)} is {value!r}; it must be a table of names and values.")
    return value


def _text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
