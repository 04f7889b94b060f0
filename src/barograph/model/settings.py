"""Settings of a run, shared by the command line, `barograph.toml` and `attach`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field, fields
from typing import Any

from barograph.errors import SettingsError, UnknownName, nearest
from barograph.model.actions import (
    INTERVENTIONS,
    ActionName,
    ActionSettings,
    action_settings_from_mapping,
    actions_from,
)
from barograph.model.checkpoints import CheckpointSettings, checkpoints_from
from barograph.model.key import kind_from_name
from barograph.model.notify import Notify, notify_from
from barograph.model.probe import ProbeSettings, probe_from
from barograph.model.recorder import RecorderSettings, recorder_from
from barograph.model.selection import Histogram, Schedule, Selection
from barograph.model.step import Mode
from barograph.model.units import bytes_from, seconds_from

MOST_HZ = 10.0
"""Highest rate of machine metrics: the writer wakes up ten times a second."""


@dataclass(frozen=True, slots=True)
class Settings:
    """Settings of a run.

    Attributes:
        to: Location of the run: a directory or a URL (`s3://bucket/prefix`). "" creates a new folder in
            `barograph-runs/`.
        rules: Codes or names of the rules to evaluate; ("all",): all of them.
        on_finding: "notify" only reports findings; the name of an action (see `ActionName`) also runs it at a
            finding that is costly or worse.
        allow: Actions that may change what the training computes, of `INTERVENTIONS`.
        action_settings: Settings of actions.
        notify: Receivers of notifications, besides the terminal. Never written into a run.
        notify_timeout_secs: How long the watcher waits at its end for notifications in progress.
        findings_to: File to which events of findings are appended, one line of JSON each; "": none.
        budget: Largest share of the training time that capture may cost; None: no limit, and schedules
            are kept as written.
        preset: What to record: see `capture.presets`.
        collections: Additional records, by name.
        rule_settings: Rule code or name to its parameters, and to `severity`, `actions` and `enabled`.
        strict: Raise errors of Barograph in the script. Otherwise: warn once, and training continues.
        flush_secs: Longest time before a recorded step is published.
        queue_bytes: Memory for records that are not published yet; beyond it whole steps are dropped and counted.
        close_timeout_secs: Longest time `close` waits for a store that does not answer.
        keep_last: Number of steps whose records are kept, by the optimizer with the most steps; None: all.
        max_bytes: Bytes of records kept; None: all.
        rule_timeout_secs: Longest time a third-party rule may take for one step. After that it is removed, and the
            others continue.
        machine_hz: Machine metrics a second; 0: none.
        recorder: Settings of the flight recorder; None: off.
        checkpoints: When checkpoints are saved; None: only if a finding requires one.
        probe: Samples whose layer outputs are stored at each evaluation; None: none.
        trace: Record the samples of each step.
        origin: Record provenance: code, packages, environment, opened data files, output.
        experiment: Name of the experiment of the run; "": none.
        trial: Name of its trial in the experiment; "": a new one with the name of the run.
        tags: Tags of the run, name to value.
    """

    to: str = ""
    rules: tuple[str, ...] = ("all",)
    on_finding: str = "notify"
    allow: tuple[ActionName, ...] = ()
    action_settings: ActionSettings = field(default_factory=ActionSettings)
    notify: tuple[Notify, ...] = ()
    notify_timeout_secs: float = 10.0
    findings_to: str = ""
    budget: float | None = 0.01
    preset: str = "standard"
    collections: tuple[Selection, ...] = ()
    rule_settings: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    strict: bool = False
    flush_secs: float = 0.5
    queue_bytes: int = 256 * 2**20
    close_timeout_secs: float = 10.0
    keep_last: int | None = None
    max_bytes: int | None = None
    machine_hz: float = 2.0
    rule_timeout_secs: float = 60.0
    recorder: RecorderSettings | None = None
    checkpoints: CheckpointSettings | None = None
    probe: ProbeSettings | None = None
    trace: bool = True
    origin: bool = True
    experiment: str = ""
    trial: str = ""
    tags: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        _check_choice("on_finding", self.on_finding, ("notify", *ActionName))
        if self.budget is not None:
            _check_number("budget", self.budget, above=0.0, at_most=1.0)
        _check_number("flush_secs", self.flush_secs, above=0.0)
        _check_number("close_timeout_secs", self.close_timeout_secs, above=0.0)
        _check_number("queue_bytes", self.queue_bytes, above=0)
        if self.machine_hz != 0:
            _check_number("machine_hz", self.machine_hz, above=0.0, at_most=MOST_HZ)
        _check_number("rule_timeout_secs", self.rule_timeout_secs, above=0.0)
        _check_number("notify_timeout_secs", self.notify_timeout_secs, above=0.0)
        for name in ("keep_last", "max_bytes"):
            if getattr(self, name) is not None:
                _check_number(name, getattr(self, name), above=0)
        if self.trial and not self.experiment:
            raise SettingsError(f'The trial "{self.trial}" has no experiment. Set experiment, too.')

    def to_json(self) -> dict[str, Any]:
        """Return plain JSON data that `settings_from_mapping` reads back, without `notify`."""
        data = asdict(self)
        del data["notify"]
        data["allow"] = [str(item) for item in self.allow]
        data["action_settings"] = self.action_settings.to_json()
        data["recorder"] = self.recorder.to_json() if self.recorder else None
        data["checkpoints"] = self.checkpoints.to_json() if self.checkpoints else None
        data["probe"] = self.probe.to_json() if self.probe else None
        data["budget"] = "off" if self.budget is None else self.budget
        data["rules"] = list(self.rules)
        data["collections"] = {item.name: selection_to_json(item) for item in self.collections}
        data["tags"] = dict(self.tags)
        data["rule_settings"] = {code: dict(values) for code, values in self.rule_settings.items()}
        return data


def settings_from_mapping(data: Mapping[str, Any], *, base: Settings | None = None) -> Settings:
    """Return `base` updated with the settings in a TOML or JSON table.

    Collections are tables below `collections`; parameters of rules are tables below `rule_settings`.

    Raises:
        UnknownName: A setting does not exist; the message suggests the nearest.
        SettingsError: A value has the wrong type or is out of range.

    Example:
        >>> settings_from_mapping({"budget": 0.02, "collections": {"biases": {"kinds": ["weight"]}}}).budget
        0.02
    """
    known = [item.name for item in fields(Settings)]
    values: dict[str, Any] = {}
    for name, value in data.items():
        if name not in known:
            raise UnknownName(f'"{name}" is not a setting. {nearest(name, known)}')
        values[name] = _READERS.get(name, _plain)(name, value)
    start = base or Settings()
    return Settings(**{**{name: getattr(start, name) for name in known}, **values})


def selection_from_mapping(name: str, data: Mapping[str, Any]) -> Selection:
    """Return the collection that a table describes.

    Args:
        name: Name of the collection.
        data: `kinds` (required), `include`, `exclude`, `layers`, `every`, `start`, `end`, `steps`, `modes`,
            `histogram` ("none", "sampled", "exact"), `units`, `raw`.

    Raises:
        UnknownName: An entry, a kind, a mode or a histogram does not exist.
        SettingsError: `kinds` is missing, or a value has the wrong type.
    """
    where = f"collections.{name}"
    known = ("kinds", "include", "exclude", "layers", "every", "start", "end", "steps", "modes", "histogram",
             "units", "raw")
    for entry in data:
        if entry not in known:
            raise UnknownName(f'"{entry}" is not a setting of {where}. {nearest(entry, known)}')
    if not data.get("kinds"):
        raise SettingsError(f'{where} has no kinds. Write, for example, kinds = ["weight"].')
    histogram = data.get("histogram", "none")
    _check_choice(f"{where}.histogram", histogram, tuple(item.name.lower() for item in Histogram))
    modes = _texts(f"{where}.modes", data.get("modes", [mode.value for mode in Mode]))
    for mode in modes:
        _check_choice(f"{where}.modes", mode, tuple(Mode))
    return Selection(
        name=name,
        kinds=frozenset(kind_from_name(kind) for kind in _texts(f"{where}.kinds", data["kinds"])),
        include=_texts(f"{where}.include", data.get("include", ())),
        exclude=_texts(f"{where}.exclude", data.get("exclude", ())),
        layers=frozenset(_texts(f"{where}.layers", data.get("layers", ()))),
        schedule=Schedule(
            every=_whole(f"{where}.every", data.get("every", 1)),
            start=_whole(f"{where}.start", data.get("start", 0)),
            end=None if data.get("end") is None else _whole(f"{where}.end", data["end"]),
            steps=frozenset(_whole(f"{where}.steps", step) for step in data.get("steps", ())),
            modes=frozenset(Mode(mode) for mode in modes),
        ),
        histogram=Histogram[histogram.upper()],
        units=_boolean(f"{where}.units", data.get("units", False)),
        raw=_boolean(f"{where}.raw", data.get("raw", False)),
    )


def budget_from_text(text: str) -> float | None:
    """Return the budget in a string: a share ("0.01"), a percentage ("1%"), or "off".

    Raises:
        SettingsError: The string is none of these, or the share is not above 0 and at most 1.

    Example:
        >>> budget_from_text("2%"), budget_from_text("off")
        (0.02, None)
    """
    if text.strip().lower() == "off":
        return None
    try:
        share = float(text.strip().removesuffix("%")) / (100 if text.strip().endswith("%") else 1)
    except ValueError:
        raise SettingsError(f'budget is "{text}"; it must be a share (0.01), a percentage (1%) or off.') from None
    _check_number("budget", share, above=0.0, at_most=1.0)
    return share


def selection_to_json(selection: Selection) -> dict[str, Any]:
    """Return the table that `selection_from_mapping` reads back, without the name."""
    schedule = selection.schedule
    return {
        "kinds": sorted(selection.kinds), "include": list(selection.include), "exclude": list(selection.exclude),
        "layers": sorted(selection.layers), "every": schedule.every, "start": schedule.start, "end": schedule.end,
        "steps": sorted(schedule.steps), "modes": sorted(schedule.modes),
        "histogram": selection.histogram.name.lower(), "units": selection.units, "raw": selection.raw,
    }


def _check_choice(name: str, value: object, choices: Iterable[str]) -> None:
    if value not in tuple(choices):
        raise UnknownName(f'{name} is "{value}". {nearest(str(value), choices)}')


def _check_number(name: str, value: object, *, above: float, at_most: float = float("inf")) -> None:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise SettingsError(f"{name} is {value!r}; it must be a number.")
    if not above < value <= at_most:
        limit = f" and at most {at_most:g}" if at_most != float("inf") else ""
        raise SettingsError(f"{name} is {value:g}; it must be above {above:g}{limit}.")


def _plain(name: str, value: Any) -> Any:
    return value


def _text(name: str, value: Any) -> str:
    if not isinstance(value, str):
        raise SettingsError(f"{name} is {value!r}; it must be a string.")
    return value


def _texts(name: str, value: Any) -> tuple[str, ...]:
    entries = (value,) if isinstance(value, str) else tuple(value) if isinstance(value, list | tuple) else None
    if entries is None or not all(isinstance(entry, str) for entry in entries):
        raise SettingsError(f"{name} is {value!r}; it must be a list of strings.")
    return entries


def _names(name: str, value: Any) -> tuple[str, ...]:
    """Return the entries of a list, or of a comma-separated string as on the command line."""
    if isinstance(value, str):
        return tuple(entry.strip() for entry in value.split(",") if entry.strip())
    return _texts(name, value)


def _rules(name: str, value: Any) -> tuple[str, ...]:
    if isinstance(value, Mapping):
        raise SettingsError(f"{name} is a table; it must be a list of rules. Parameters of a rule belong in their own "
                            "table, such as [rule_settings.dead-relu].")
    return _names(name, value)


def _whole(name: str, value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int):
        raise SettingsError(f"{name} is {value!r}; it must be an integer.")
    return value


def _boolean(name: str, value: Any) -> bool:
    if not isinstance(value, bool):
        raise SettingsError(f"{name} is {value!r}; it must be true or false.")
    return value


def _budget(name: str, value: Any) -> float | None:
    return budget_from_text(value) if isinstance(value, str) else value


def _optional_whole(name: str, value: Any) -> int | None:
    return None if value is None else _whole(name, value)


def _optional_bytes(name: str, value: Any) -> int | None:
    return None if value is None else bytes_from(name, value)


def _on_finding(name: str, value: Any) -> str:
    return _text(name, value).replace("_", "-")


def _allow(name: str, value: Any) -> tuple[ActionName, ...]:
    return actions_from(name, value, INTERVENTIONS)


def _action_settings(name: str, value: Any) -> ActionSettings:
    return value if isinstance(value, ActionSettings) else action_settings_from_mapping(value)


def _notify(name: str, value: Any) -> tuple[Notify, ...]:
    entries = value if isinstance(value, list | tuple) else [value]
    return tuple(notify_from(entry) for entry in entries)


def _collections(name: str, value: Any) -> tuple[Selection, ...]:
    if not isinstance(value, Mapping):
        raise SettingsError(f"{name} must be tables, as in [collections.biases].")
    return tuple(selection_from_mapping(entry, table) for entry, table in value.items())


def _rule_settings(name: str, value: Any) -> Mapping[str, Mapping[str, Any]]:
    if not isinstance(value, Mapping) or not all(isinstance(table, Mapping) for table in value.values()):
        raise SettingsError(f"{name} must be tables, as in [rule_settings.G101].")
    return value


def _tags(name: str, value: Any) -> dict[str, str]:
    if not isinstance(value, Mapping):
        raise SettingsError(f"{name} is {value!r}; it must be a table of strings.")
    return {str(tag): _text(f"{name}.{tag}", text) for tag, text in value.items()}


_READERS: Mapping[str, Any] = {
    "to": _text, "rules": _rules, "on_finding": _on_finding, "findings_to": _text, "preset": _text, "strict": _boolean,
    "budget": _budget, "queue_bytes": bytes_from, "keep_last": _optional_whole, "max_bytes": _optional_bytes,
    "flush_secs": seconds_from, "close_timeout_secs": seconds_from, "notify_timeout_secs": seconds_from,
    "rule_timeout_secs": seconds_from,
    "allow": _allow, "action_settings": _action_settings, "notify": _notify,
    "collections": _collections, "rule_settings": _rule_settings, "recorder": recorder_from,
    "checkpoints": checkpoints_from, "probe": probe_from,
    "trace": _boolean, "origin": _boolean,
    "experiment": _text, "trial": _text, "tags": _tags,
}
