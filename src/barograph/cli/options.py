"""Settings on the command line: the shared options of `run` and others, and how they override the file."""

from __future__ import annotations

import os
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import fields
from pathlib import Path
from typing import Annotated, Any

import typer

from barograph.errors import SettingsError
from barograph.model.actions import INTERVENTIONS
from barograph.model.settings import Settings, settings_from_mapping
from barograph.model.settings_file import settings_from_file

Live = Annotated[bool, typer.Option("--live/--no-live", help="Show progress in the last line of the terminal.")]
SummaryAsJson = Annotated[
    bool, typer.Option("--json", help="Print the summary as JSON on standard error, and nothing else from Barograph "
                                      "there.")
]

DEFAULT_CONFIG = "barograph.toml"
"""Read from the working directory unless another file is named."""


Trust = Annotated[
    bool, typer.Option("--trust", help="Allow what the settings file or another user's run would execute. Barograph "
                                       "remembers the folder of the settings file; BAROGRAPH_TRUST lists more folders.")
]

OF_TRAINING = {"recorder": "the flight recorder works", "checkpoints": "checkpoints are saved"}
"""Tables of settings other than rules and actions, and what they configure in the training."""


def default_config() -> str:
    """Return the path of the settings file of this directory; "" if there is none.

    A directory or a broken link with this name is an error, not ignored.
    """
    return DEFAULT_CONFIG if os.path.lexists(DEFAULT_CONFIG) else ""


def settings_from_options(options: Mapping[str, Any], config: str | None, *, trusts: bool = False,
                          of_job: Mapping[str, Any] | None = None) -> Settings:
    """Return the settings: options on top of the file, on top of the defaults.

    Args:
        options: Values by setting; None: not given. `notify`, `allow`, `rule_settings`, `action_settings`, `recorder`
            and `checkpoints` add to the file's.
        config: Path of a TOML file; None: `barograph.toml`, if it exists here.
        trusts: The user trusts the folder of that file.
        of_job: Settings of a job file, on top of those of that file.

    Raises:
        SettingsError: A setting is invalid; or the file would start programs, and its folder is not trusted.
    """
    base = Settings()
    if file := config or default_config():
        from barograph.cli.trust import check_settings_file  # imported on use: most directories have no such file

        path = Path(file)
        base = settings_from_file(path)
        check_settings_file(path, base, named=config is not None, trusts=trusts)
    return on_top_of(on_top_of(base, of_job or {}), options)


def on_top_of(base: Settings, options: Mapping[str, Any]) -> Settings:
    """Return the settings with options on top; None: not given. See `settings_from_options`.

    Raises:
        SettingsError: A setting is invalid.
    """
    typed = {name: value for name, value in options.items() if value is not None}
    if "notify" in typed:
        typed["notify"] = [*base.notify, *typed["notify"]]
    if "allow" in typed:
        typed["allow"] = [*base.allow, *typed["allow"]]
    for name, begun in (("recorder", base.recorder), ("checkpoints", base.checkpoints)):
        if name in typed:
            # Setting a part of a table enables it.
            typed[name] = {**(begun.to_json() if begun else {}), **typed[name]}
    for name, known in (("rule_settings", base.rule_settings), ("action_settings", base.action_settings.to_json())):
        if name in typed:
            tables = typed[name]
            typed[name] = {entry: {**known.get(entry, {}), **tables.get(entry, {})} for entry in {**known, **tables}}
    return settings_from_mapping(typed, base=base)


def tables_set(texts: Sequence[str] | None) -> dict[str, dict[str, Any]]:
    """Return the tables set by `--set NAME.PARAMETER=VALUE` options: rules, actions, and `OF_TRAINING`.

    Args:
        texts: The options. Values are parsed as TOML; other values are strings.

    Raises:
        SettingsError: An option has another form.

    Example:
        >>> tables_set(["G101.threshold=1e-4", "G101.severity=note"])
        {'rule_settings': {'G101': {'threshold': 0.0001, 'severity': 'note'}}}
        >>> tables_set(["lower-lr.factor=0.1"])
        {'action_settings': {'lower-lr': {'factor': 0.1}}}
        >>> tables_set(["recorder.then=skip"])
        {'recorder': {'then': 'skip'}}
        >>> tables_set(["checkpoints.keep=5"])
        {'checkpoints': {'keep': 5}}
    """
    tables: dict[str, dict[str, Any]] = {}
    for text in texts or ():
        left, equals, value = text.partition("=")
        name, dot, parameter = left.strip().rpartition(".")
        if not (equals and dot and name and parameter):
            raise SettingsError(f'--set is "{text}"; write RULE.PARAMETER=VALUE, as in G101.patience=5.')
        if name in OF_TRAINING:
            tables.setdefault(name, {})[parameter] = _value(value.strip())
            continue
        kind = "action_settings" if name.replace("_", "-") in INTERVENTIONS else "rule_settings"
        tables.setdefault(kind, {}).setdefault(name, {})[parameter] = _value(value.strip())
    return tables


def _value(text: str) -> Any:
    try:
        return tomllib.loads(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError:
        return text


def listed(text: str | None) -> list[str] | None:
    """Return the entries of a comma-separated list.

    Example:
        >>> listed("G101, G102")
        ['G101', 'G102']
    """
    return None if text is None else [entry.strip() for entry in text.split(",") if entry.strip()]


def tags_from(texts: Sequence[str] | None) -> dict[str, str] | None:
    """Return the tags of `--tag NAME=TEXT` options; None without any.

    Raises:
        SettingsError: An option has another form.

    Example:
        >>> tags_from(["team=vision", "baseline="])
        {'team': 'vision', 'baseline': ''}
    """
    tags: dict[str, str] = {}
    for text in texts or ():
        name, equals, value = text.partition("=")
        if not (equals and name.strip()):
            raise SettingsError(f'--tag is "{text}"; write NAME=TEXT, as in team=vision.')
        tags[name.strip()] = value.strip()
    return tags or None


def whole_path(path: str) -> str:
    """Return the absolute path, since the script may change its directory; "" stays "".

    Raises:
        SettingsError: The path is a directory or not writable.
    """
    if not path:
        return ""
    place = Path(path).expanduser().absolute()
    if place.is_dir():
        raise SettingsError(f"findings_to is a directory: {path}. It must be a file, as in "
                            f"{path.rstrip('/')}/findings.jsonl.")
    return str(place)


def replaced(settings: Settings, **changes: Any) -> Settings:
    """Return the settings with some of them changed."""
    return Settings(**{**{item.name: getattr(settings, item.name) for item in fields(Settings)}, **changes})
