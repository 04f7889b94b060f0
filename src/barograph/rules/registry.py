"""Which rules there are, and those a run is watched with.

Rules come from the entry points of the group "barograph.rules", ours through the same door as
anybody's, and by name as `module:Class`. An installed package whose rules cannot be loaded is named as a
problem and takes nothing else down; a rule that the user asks for and that cannot be loaded is an error.
"""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from importlib.metadata import EntryPoint, entry_points
from types import ModuleType
from typing import Any

from barograph.errors import BadRule, BarographError, SettingsError, UnknownName, nearest
from barograph.model.actions import ActionName, actions_from
from barograph.model.notify import severity_from
from barograph.model.selection import Selection
from barograph.model.settings import Settings
from barograph.rules.base import RESERVED, Rule, check_rule_class, rule_with, with_severity

GROUP = "barograph.rules"
"""Group of entry points. Each names a module, or an iterable of rule classes."""


@dataclass(frozen=True, slots=True)
class Catalog:
    """The installed rules.

    Attributes:
        classes: By code.
        problems: One sentence for each entry point or class that could not be used.
    """

    classes: tuple[type[Rule], ...]
    problems: tuple[str, ...] = ()

    def named(self, name: str) -> type[Rule]:
        """Return the rule of that code or name, or the class at `module:Class`.

        Raises:
            UnknownName: There is none; the message says the nearest.
            BadRule: What is at `module:Class` is no rule, or has the code or the name of another.
        """
        for rule_class in self.classes:
            if name in (rule_class.code, rule_class.name, rule_class.__name__):
                return rule_class
        if ":" in name:
            return self._of_the_user(name)
        known = [text for rule_class in self.classes for text in (rule_class.code, rule_class.name)]
        # Whoever writes rules.G101 means the rule, by where its settings stand.
        near = nearest(name.rpartition(".")[2], known)
        hint = near if near.startswith("Did you") else "`barograph rules` lists them."
        raise UnknownName(f'"{name}" is no rule. {hint} A rule of your own is written module:Class.')

    def _of_the_user(self, name: str) -> type[Rule]:
        rule_class = check_rule_class(_object_at(name))
        for other in self.classes:
            if other.code == rule_class.code and other is not rule_class:
                raise _taken(name, other)
            if other.name == rule_class.name and other is not rule_class:
                raise BadRule(f'{name} ({rule_class.code}) has the name "{other.name}", which is that of '
                              f"{_place(other)} ({other.code}); give it another.")
        return rule_class


def installed() -> Catalog:
    """Return the rules of all installed packages."""
    return catalog_from_entry_points(entry_points(group=GROUP))


def catalog_from_entry_points(points: Iterable[EntryPoint]) -> Catalog:
    """Return the rules that these entry points lead to.

    Where two have one code, or one name, the first stays (ours before others, then by the name of the
    entry point) and the other is named as a problem.
    """
    classes: dict[str, type[Rule]] = {}
    problems: list[str] = []
    for point in sorted(points, key=lambda item: (not item.value.startswith("barograph."), item.name, item.value)):
        try:
            found = list(_classes_in(point.load()))
        except Exception as error:  # noqa: BLE001 - foreign code runs here, and may raise anything
            problems.append(f"the rules of {point.name} ({point.value}) cannot be loaded: "
                            f"{type(error).__name__}: {error}")
            continue
        for candidate in found:
            try:
                rule_class = check_rule_class(candidate)
            except BarographError as error:
                problems.append(f"a rule of {point.name} ({point.value}) is left out: {error}")
                continue
            first = next((item for item in classes.values()
                          if rule_class.code == item.code or rule_class.name == item.name), None)
            if first is None:
                classes[rule_class.code] = rule_class
            elif first is not rule_class:
                problems.append(f"{_place(rule_class)} is left out: {rule_class.code} {rule_class.name} "
                                f"is taken by {_place(first)} ({first.code} {first.name})")
    return Catalog(tuple(classes[code] for code in sorted(classes)), tuple(problems))


def rules_from_settings(settings: Settings, *, catalog: Catalog | None = None) -> tuple[Rule, ...]:
    """Return the rules that the settings ask for, with their parameters, by code.

    `settings.rules` holds codes, names and `module:Class`; "all" stands for every installed rule, "none"
    for none, and "-NAME" takes one away.

    Raises:
        UnknownName: A rule, a parameter, a severity or an action does not exist; the message says the nearest.
        SettingsError: A parameter has the wrong type or is out of range.
        BadRule: `module:Class` leads to no rule, or to one whose code is taken.

    Example:
        >>> [rule.name for rule in rules_from_settings(Settings(rules=("N101",)))]
        ['non-finite']
    """
    known = catalog or installed()
    chosen = _chosen(settings.rules, known)
    tables = _tables(settings, chosen, known)
    rules = []
    for code in sorted(chosen):
        table = tables.get(code, {})
        if table.get("enabled") is False:
            continue
        rule = rule_with(chosen[code], {name: value for name, value in table.items() if name not in RESERVED})
        rules.append(with_severity(rule, table["severity"]) if "severity" in table else rule)
    return tuple(rules)


def actions_by_rule(settings: Settings, *, catalog: Catalog | None = None) -> dict[str, tuple[ActionName, ...]]:
    """Return the code of each rule that has actions of its own to these; () for a rule that is to have none.

    Raises:
        As `rules_from_settings`.

    Example:
        >>> actions_by_rule(Settings(rule_settings={"non-finite": {"actions": ["stop"]}}))
        {'N101': (<ActionName.STOP: 'stop'>,)}
    """
    known = catalog or installed()
    tables = _tables(settings, _chosen(settings.rules, known), known)
    return {code: table["actions"] for code, table in tables.items() if "actions" in table}


def check_capsule_on(settings: Settings, rules: Iterable[Rule]) -> None:
    """Check that the rules whose findings have a step saved are among those that judge.

    Args:
        settings: Of the run.
        rules: That judge it; none: somebody else's may, later.

    Raises:
        UnknownName: One of them does not exist.
        SettingsError: One of them does not judge.
    """
    wanted = codes_of(settings.recorder.capsule_on if settings.recorder else (), settings)
    judging = {rule.code for rule in rules}
    idle = sorted(wanted - judging)
    if judging and idle:
        raise SettingsError(f"Steps are to be saved for findings of {', '.join(idle)} (recorder.capsule_on), and that "
                            "rule is not among those that judge (rules). Add it there, or leave it away here.")


def codes_of(names: Iterable[str], settings: Settings, *, catalog: Catalog | None = None) -> frozenset[str]:
    """Return the codes of the rules that names stand for, among those that the settings may watch with.

    Args:
        names: Codes and names; "all", "none", and "-NAME" to take one away.
        settings: Their own rules are known, too.
        catalog: None: the rules that are installed.

    Raises:
        UnknownName: A rule does not exist; the message says the nearest.

    Example:
        >>> sorted(codes_of(("N101", "dead-relu"), Settings()))
        ['A101', 'N101']
    """
    known = catalog or installed()
    chosen = _chosen(settings.rules, known)
    everything = {item.code for item in (*known.classes, *chosen.values())}
    found: set[str] = set()
    entries = tuple(names)
    for name in entries if not entries or not entries[0].startswith("-") else ("all", *entries):
        if name == "all":
            found |= everything
        elif name != "none":
            code = (_named(name.removeprefix("-"), chosen) or known.named(name.removeprefix("-"))).code
            found = found - {code} if name.startswith("-") else found | {code}
    return frozenset(found)


def _chosen(names: Iterable[str], known: Catalog) -> dict[str, type[Rule]]:
    chosen: dict[str, type[Rule]] = {}
    for name in names:
        if name == "all":
            chosen.update({rule_class.code: rule_class for rule_class in known.classes})
        elif name.startswith("-"):
            chosen.pop(known.named(name[1:]).code, None)
        elif name != "none":
            rule_class = known.named(name)
            if chosen.setdefault(rule_class.code, rule_class) is not rule_class:
                raise _taken(name, chosen[rule_class.code])
    return chosen


def _named(name: str, chosen: Mapping[str, type[Rule]]) -> type[Rule] | None:
    return next((item for item in chosen.values() if name in (item.code, item.name, item.__name__)), None)


def _tables(settings: Settings, chosen: Mapping[str, type[Rule]], known: Catalog) -> dict[str, dict[str, Any]]:
    """Return the code of each rule that something is set of to what is, with what is reserved read and checked."""
    tables: dict[str, dict[str, Any]] = {}
    for name, table in settings.rule_settings.items():
        code = (_named(name, chosen) or known.named(name)).code
        tables.setdefault(code, {}).update(_with_reserved(f"rule_settings.{name}", table))
    return tables


def _with_reserved(where: str, table: Mapping[str, Any]) -> dict[str, Any]:
    read = dict(table)
    if "severity" in read:
        read["severity"] = severity_from(f"{where}.severity", read["severity"])
    if "actions" in read:
        read["actions"] = actions_from(f"{where}.actions", read["actions"])
    if not isinstance(read.get("enabled", True), bool):
        raise SettingsError(f"{where}.enabled is {read['enabled']!r}; it must be true or false.")
    return read


def installed_alone(
    settings: Settings, *, besides: Iterable[str] = (), catalog: Catalog | None = None
) -> tuple[Settings, tuple[str, ...]]:
    """Return settings without the rules that are not installed here, and the names of those that were left out.

    For the settings that a run brings along: a run is data, and says nothing about what code to load.

    Args:
        settings: Of the run.
        besides: Rules that the user asks for; their parameters stay, too.
        catalog: None: the rules that are installed.

    Raises:
        UnknownName, BadRule: One of `besides` is no rule.

    Example:
        >>> kept, left_out = installed_alone(Settings(rules=("N101", "theirs:Rule")))
        >>> kept.rules, left_out
        (('N101',), ('theirs:Rule',))
    """
    known = catalog or installed()
    classes = {*known.classes, *(known.named(name) for name in besides if ":" in name and not name.startswith("-"))}
    names = {text for item in classes for text in (item.code, item.name, item.__name__, _place(item))}
    chosen = [name for name in settings.rules if name in ("all", "none") or name.removeprefix("-") in names]
    # A class that is installed goes by its code, whatever the run calls it: nothing is looked up by place.
    codes = {_place(item): item.code for item in classes}
    rules = tuple(codes.get(name, name) for name in chosen)
    values = {name: table for name, table in settings.rule_settings.items() if name in names}
    left_out = tuple(name for name in settings.rules if name not in chosen and not name.startswith("-"))
    return replace(settings, rules=rules, rule_settings=values), left_out


def needs_of(rules: Iterable[Rule]) -> tuple[Selection, ...]:
    """Return what the rules need, each Selection once."""
    return tuple(dict.fromkeys(need for rule in rules for need in rule.needs))


def _classes_in(value: object) -> Iterator[object]:
    if isinstance(value, ModuleType):
        named = getattr(value, "RULES", None)
        yield from named if named is not None else _defined_in(value)
    elif isinstance(value, type):
        yield value
    elif isinstance(value, Iterable):
        yield from value
    else:
        raise BadRule(f"{value!r} is neither a module nor an iterable of rules")


def _defined_in(module: ModuleType) -> Iterator[object]:
    for value in vars(module).values():
        if isinstance(value, type) and issubclass(value, Rule) and value.__module__ == module.__name__:
            yield value


def _object_at(place: str) -> object:
    module_name, _, class_name = place.partition(":")
    # A program installed as a script does not look for modules where the user stands; people expect it to.
    here = os.getcwd()
    if here not in sys.path:
        # Last: what lies there must not stand in for a library.
        sys.path.append(here)
    try:
        module = importlib.import_module(module_name)
    except Exception as error:
        raise BadRule(f"the module {module_name} of the rule {place} cannot be loaded: {type(error).__name__}: "
                      f"{error}. It is looked for among what is installed, and in the working directory.") from error
    if not hasattr(module, class_name):
        known = [name for name, value in vars(module).items() if isinstance(value, type) and issubclass(value, Rule)]
        raise UnknownName(f'{module_name} has no "{class_name}". {nearest(class_name, known)}')
    return getattr(module, class_name)


def _taken(name: str, other: type[Rule]) -> BadRule:
    return BadRule(f"{name} has the code {other.code}, which is that of {_place(other)}; give it another.")


def _place(rule_class: type[Rule]) -> str:
    return f"{rule_class.__module__}:{rule_class.__qualname__}"
