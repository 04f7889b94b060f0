"""How a run is to be recorded and watched: the one set of settings behind the command line, the file
`barograph.toml` and `attach`."""

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
from barograph.model.recorder import RecorderSettings, recorder_from
from barograph.model.selection import Histogram, Schedule, Selection
from barograph.model.step import Mode
from barograph.model.units import bytes_from, seconds_from

MOST_HZ = 10.0
"""The writer looks ten times a second what is due."""


@dataclass(frozen=True, slots=True)
class Settings:
    """What the user may set.

    Attributes:
        to: Where the run is kept: a directory or a URL (`s3://bucket/prefix`). "" picks a new place below
            `barograph-runs/`.
        rules: Codes or names of the rules to watch with; ("all",): every one.
        on_finding: "notify" tells; the name of an action (see `ActionName`) also does it at a finding that is
            costly or worse.
        allow: Actions that change what the training computes and that it allows, of `INTERVENTIONS`.
        action_settings: How actions are done.
        notify: Who is told, beside the terminal. Never written into a run.
        notify_timeout_secs: Longest time the end of the watching waits for notices that are on their way.
        findings_to: File that what is told of findings is appended to, one line of JSON for each event; "": none.
        budget: Greatest share of the training time that capture may cost; None: no limit, the schedules
            are kept as written.
        preset: What to record: see `capture.presets`.
        collections: More to record, by name.
        rule_settings: Rule code or name to its parameters, and to `severity`, `actions` and `enabled`.
        strict: An error of ours is raised in the script. Without: one warning, and training goes on.
        flush_secs: Longest time a recorded step waits before it is published.
        queue_bytes: Memory the records that wait may take; beyond it whole steps are dropped and counted.
        close_timeout_secs: Longest time `close` waits for a store that does not answer.
        keep_last: Steps whose records are kept, by the optimizer that has made the most; None: all.
        max_bytes: Bytes of records kept; None: all.
        rule_timeout_secs: Longest time a rule that does not come with Barograph may take for one step; then it is
            taken out, and the others go on.
        machine_hz: How often a second the use of the machine is recorded; 0: never.
        recorder: How the flight recorder works; None: it does not.
        checkpoints: When checkpoints are saved; None: none is, but where a finding asks for one.
        trace: Which samples each step was fed is taken down.
        origin: What made the run is kept: code, packages, environment, data that was opened, output.
        experiment: Name of the experiment that the run is for; "": of none.
        trial: Name of the trial in it that the run belongs to; "": one of its own, called as the run is.
        tags: Of the run, name to text.
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
            raise SettingsError(f'The trial "{self.trial}" is of no experiment; name that, too.')

    def to_json(self) -> dict[str, Any]:
        """Return it as plain JSON data that `settings_from_mapping` reads back, but for `notify`, which is left out."""
        data = asdict(self)
        del data["notify"]
        data["allow"] = [str(item) for item in self.allow]
        data["action_settings"] = self.action_settings.to_json()
        data["recorder"] = self.recorder.to_json() if self.recorder else None
        data["checkpoints"] = self.checkpoints.to_json() if self.checkpoints else None
        data["budget"] = "off" if self.budget is None else self.budget
        data["rules"] = list(self.rules)
        data["collections"] = {item.name: selection_to_json(item) for item in self.collections}
        data["tags"] = dict(self.tags)
        data["rule_settings"] = {code: dict(values) for code, values in self.rule_settings.items()}
        return data


def settings_from_mapping(data: Mapping[str, Any], *, base: Settings | None = None) -> Settings:
    """Return the settings that a TOML or JSON table says, on top of `base`.

    Collections are tables below `collections`; parameters of rules are tables below `rule_settings`.

    Raises:
        UnknownName: A setting does not exist; the message says the nearest.
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
        name: Of the collection.
        data: `kinds` (needed), `include`, `exclude`, `layers`, `every`, `start`, `end`, `steps`, `modes`,
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
            raise UnknownName(f'"{entry}" is nothing that {where} can set. {nearest(entry, known)}')
    if not data.get("kinds"):
        raise SettingsError(f'{where} does not say which kinds it records; write kinds = ["weight"], say.')
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
        units=_truth(f"{where}.units", data.get("units", False)),
        raw=_truth(f"{where}.raw", data.get("raw", False)),
    )


def budget_from_text(text: str) -> float | None:
    """Return the budget that a person wrote: a share ("0.01"), a percentage ("1%"), or "off".

    Raises:
        SettingsError: It is none of these, or not above 0 and at most 1.

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
    """Return the entries of a list; of a text those between its commas, as they are typed on the command line."""
    if isinstance(value, str):
        return tuple(entry.strip() for entry in value.split(",") if entry.strip())
    return _texts(name, value)


def _rules(name: str, value: Any) -> tuple[str, ...]:
    if isinstance(value, Mapping):
        raise SettingsError(f"{name} is a table; it must be a list of texts: which rules watch. Parameters of a rule "
                            "stand in a table of its own, [rule_settings.dead-relu] for instance.")
    return _names(name, value)


def _whole(name: str, value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int):
        raise SettingsError(f"{name} is {value!r}; it must be an integer.")
    return value


def _truth(name: str, value: Any) -> bool:
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
        raise SettingsError(f"{name} must be a table of texts; it is {value!r}.")
    return {str(tag): _text(f"{name}.{tag}", text) for tag, text in value.items()}


_READERS: Mapping[str, Any] = {
    "to": _text, "rules": _rules, "on_finding": _on_finding, "findings_to": _text, "preset": _text, "strict": _truth,
    "budget": _budget, "queue_bytes": bytes_from, "keep_last": _optional_whole, "max_bytes": _optional_bytes,
    "flush_secs": seconds_from, "close_timeout_secs": seconds_from, "notify_timeout_secs": seconds_from,
    "rule_timeout_secs": seconds_from,
    "allow": _allow, "action_settings": _action_settings, "notify": _notify,
    "collections": _collections, "rule_settings": _rule_settings, "recorder": recorder_from,
    "checkpoints": checkpoints_from,
    "trace": _truth, "origin": _truth,
    "experiment": _text, "trial": _text, "tags": _tags,
}
