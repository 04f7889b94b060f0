"""Studies from options of `barograph tune` and from tune.toml."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from barograph.errors import TuneError, UnknownName, closest, nearest
from barograph.model.units import seconds_from
from barograph.tune.spec import Completion, Stopping, default_stopping

DEFAULT_TRIALS = 20
NO_RULE = "none"
_ALIKE = 0.75
OPTIONS = ("vary", "constraint", "maximize", "minimize", "metric", "value", "jobs", "parallel", "strategy", "seed",
           "stop_rule", "stop_on_findings", "target_value", "max_time", "max_cost", "patience", "convergence",
           "confirm", "name", "parent", "transfer", "refit")
"""Options of a study; in tune.toml they are entries, beside those of a job file."""
_LISTS = ("constraint", "maximize", "minimize", "stop_rule", "parent")
_KINDS: Mapping[str, type | tuple[type, ...]] = {
    "value": str, "jobs": int, "parallel": int, "strategy": str, "seed": int, "stop_on_findings": bool,
    "target_value": (int, float), "max_time": (str, int, float), "max_cost": (int, float), "patience": int,
    "convergence": bool, "confirm": int, "name": str, "transfer": bool, "refit": bool,
}


def split_entries(entries: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the entries of tune.toml that describe the study, checked, and those of its job.

    Raises:
        TuneError: An entry has the wrong type.
    """
    ours = {name: value for name, value in entries.items() if name in OPTIONS}
    for name, value in ours.items():
        if name in _LISTS:
            ours[name] = [value] if isinstance(value, str) else value
            if not isinstance(ours[name], list) or not all(isinstance(item, str) for item in ours[name]):
                raise TuneError(f"{name} is {value!r}; it must be a string or a list of strings.")
        elif name in ("vary", "metric"):
            if not isinstance(value, Mapping):
                raise TuneError(f"{name} is {value!r}; it must be a table, as in [{name}].")
            if name == "metric" and not all(isinstance(item, str) for item in value.values()):
                raise TuneError("The entries of [metric] must be regular expressions, as strings.")
        elif not isinstance(value, _KINDS[name]) or (isinstance(value, bool) and _KINDS[name] is not bool):
            raise TuneError(f"{name.replace('_', '-')} is {value!r}, which has the wrong type.")
    return ours, {name: value for name, value in entries.items() if name not in OPTIONS}


def better_error(error: UnknownName, entries: Mapping[str, Any], synonyms: Mapping[str, str]) -> UnknownName:
    """Return the error of an unknown entry of tune.toml, with the option of a study that it resembles, if any.

    Args:
        error: The error.
        entries: Entries of the job.
        synonyms: Names that other tuners use, to ours, as options: "--n-trials".

    Example:
        >>> str(better_error(UnknownName('"maximise" is not an option of a job.'), {"maximise": "accuracy"}, {}))
        '"maximise" is not an option of a study. Did you mean "maximize"?'
    """
    for name in entries:
        shown = name.replace("_", "-")
        meant = synonyms.get(f"--{shown}", "")[2:] or closest(name, OPTIONS, least=_ALIKE)
        if meant and str(error).startswith(f'"{shown}" '):
            return UnknownName(f'"{shown}" is not an option of a study. Did you mean "{meant.replace("_", "-")}"?')
    return error


def completion_of(options: Mapping[str, Any]) -> Completion:
    """Return when a study ends.

    Raises:
        TuneError, SettingsError: A value is wrong.
    """
    for name in ("jobs", "max_cost", "patience"):
        check_positive(name, options.get(name))
    return Completion(
        trials=options["jobs"] if options.get("jobs") is not None else DEFAULT_TRIALS,
        secs=max_secs_of(options.get("max_time")), cost=options.get("max_cost"), target=options.get("target_value"),
        patience=options.get("patience"), convergence=bool(options.get("convergence")))


def max_secs_of(limit: str | float | None) -> float | None:
    """Return the time limit that `max-time` describes, in seconds; None: no limit.

    Raises:
        TuneError, SettingsError: It is no time, or not above 0.
    """
    secs = None if limit is None else seconds_from("max-time", limit)
    check_positive("max_time", secs)
    return secs


def check_positive(option: str, value: float | None) -> None:
    """Raise `TuneError` if an option is given and is 0 or less."""
    if value is not None and value <= 0:
        raise TuneError(f"{option.replace('_', '-')} is {value}; it must be above 0.")


def stopping_of(options: Mapping[str, Any]) -> Stopping:
    """Return which trials are stopped early.

    Raises:
        TuneError: There is no such rule.
    """
    findings = options.get("stop_on_findings") is not False
    if rules := options.get("stop_rule"):
        return Stopping(tuple(rule for rule in rules if rule != NO_RULE), findings=findings)
    return default_stopping(options.get("strategy") or "auto", findings=findings)


def check_objectives(options: Mapping[str, Any]) -> None:
    """Raise `TuneError` unless a parameter varies, a metric is optimized, and what else is given belongs to these."""
    names = [*(options.get("maximize") or ()), *(options.get("minimize") or ())]
    if not names:
        raise TuneError("A study needs a metric to optimize: --maximize METRIC or --minimize METRIC.")
    if not options.get("vary"):
        raise TuneError("No parameter varies. Add one, for example --vary lr=1e-4..1:log.")
    if options.get("transfer") and not options.get("parent"):
        raise TuneError("--transfer needs an earlier study: --parent STUDY.")
    for name in options.get("metric") or ():
        if name not in names:
            raise UnknownName(f'"{name}" has a regular expression, but is not optimized. {nearest(name, names)}')
