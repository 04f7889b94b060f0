"""The installed rules, and the selection of rules for a run.

Rules come from the entry points of the group "barograph.rules", built-in rules included, and by name as
`module:Class`. If the rules of an installed package cannot be loaded, the catalog reports a problem and
loads the others; if a rule that the user selects cannot be loaded, it is an error.
"""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from types import ModuleType
from typing import TYPE_CHECKING, Any

from barograph.errors import BadRule, BarographError, SettingsError, UnknownName, nearest
from barograph.model.actions import ActionName, actions_from
from barograph.model.notify import severity_from
from barograph.model.selection import Selection
from barograph.model.settings import Settings
from barograph.plugins import installed_plugins, is_ours
from barograph.rules.base import RESERVED, Rule, check_rule_class, rule_with, with_severity

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

GROUP = "barograph.rules"
"""Entry point group. Each entry point is a module or an iterable of rule classes."""


@dataclass(frozen=True, slots=True)
class Catalog:
    """The installed rules.

    Attributes:
        classes: Sorted by code.
        problems: One sentence per entry point or class that cannot be used.
    """

    classes: tuple[type[Rule], ...]
    problems: tuple[str, ...] = ()

    def named(self, name: str) -> type[Rule]:
        """Return the rule of that code or name, or the class at `module:Class`.

        Raises:
            UnknownName: There is none; the message suggests the nearest.
            BadRule: `module:Class` is not a rule, or uses the code or the name of another.
        """
        for rule_class in self.classes:
            if name in (rule_class.code, rule_class.name, rule_class.__name__):
                return rule_class
        if ":" in name:
            return self._of_the_user(name)
        known = [text for rule_class in self.classes for text in (rule_class.code, rule_class.name)]
        # rules.G101 means G101: users copy the name of the settings table.
        near = nearest(name.rpartition(".")[2], known)
        hint = near if near.startswith("Did you") else "`barograph rules` lists them."
        raise UnknownName(f'"{name}" is not a rule. {hint} Write a custom rule as module:Class.')

    def _of_the_user(self, name: str) -> type[Rule]:
        rule_class = check_rule_class(_object_at(name))
        for other in self.classes:
            if other.code == rule_class.code and other is not rule_class:
                raise _taken(name, other)
            if other.name == rule_class.name and other is not rule_class:
                raise BadRule(f'{name} ({rule_class.code}) uses the name "{other.name}" of '
                              f"{_place(other)} ({other.code}); rename it.")
        return rule_class


def installed() -> Catalog:
    """Return the rules of all installed packages."""
    points, problems = installed_plugins(GROUP)
    catalog = catalog_from_entry_points(points)
    return replace(catalog, problems=(*problems, *catalog.problems))


def catalog_from_entry_points(points: Iterable[EntryPoint]) -> Catalog:
    """Return the rules of these entry points.

    If two share a code or a name, the first one wins (built-in rules, then by entry point name), and the
    other is reported as a problem.
    """
    classes: dict[str, type[Rule]] = {}
    problems: list[str] = []
    for point in sorted(points, key=lambda item: (not is_ours(item), item.name, item.value)):
        try:
            found = list(_classes_in(point.load()))
        except Exception as error:  # noqa: BLE001 - third-party code may raise anything
            problems.append(f"the rules of {point.name} ({point.value}) cannot be loaded: "
                            f"{type(error).__name__}: {error}")
            continue
        for candidate in found:
            try:
                rule_class = check_rule_class(candidate)
            except BarographError as error:
                problems.append(f"a rule of {point.name} ({point.value}) is ignored: {error}")
                continue
            first = next((item for item in classes.values()
                          if rule_class.code == item.code or rule_class.name == item.name), None)
            if first is None:
                classes[rule_class.code] = rule_class
            elif first is not rule_class:
                problems.append(f"{_place(rule_class)} is ignored: {rule_class.code} {rule_class.name} "
                                f"is already used by {_place(first)} ({first.code} {first.name})")
    return Catalog(tuple(classes[code] for code in sorted(classes)), tuple(problems))


def rules_from_settings(settings: Settings, *, catalog: Catalog | None = None) -> tuple[Rule, ...]:
    """Return the rules that the settings select, with their parameters, sorted by code.

    `settings.rules` holds codes, names and `module:Class`; "all" selects every installed rule, "none"
    none, and "-NAME" removes one.

    Raises:
        UnknownName: A rule, a parameter, a severity or an action does not exist; the message suggests the nearest.
        SettingsError: A parameter has the wrong type or is out of range.
        BadRule: `module:Class` is not a rule, or uses the code of another.

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
    """Return the actions of each rule that sets its own, by code; () disables them.

    Raises:
        Same errors as `rules_from_settings`.

    Example:
        >>> actions_by_rule(Settings(rule_settings={"non-finite": {"actions": ["stop"]}}))
        {'N101': (<ActionName.STOP: 'stop'>,)}
    """
    known = catalog or installed()
    tables = _tables(settings, _chosen(settings.rules, known), known)
    return {code: table["actions"] for code, table in tables.items() if "actions" in table}


def check_capsule_on(settings: Settings, rules: Iterable[Rule]) -> None:
    """Check that the rules that trigger a capsule are enabled.

    Args:
        settings: Settings of the run.
        rules: Enabled rules; empty if the run is analyzed elsewhere.

    Raises:
        UnknownName: One of them does not exist.
        SettingsError: One of them is not enabled.
    """
    wanted = codes_of(settings.recorder.capsule_on if settings.recorder else (), settings)
    judging = {rule.code for rule in rules}
    idle = sorted(wanted - judging)
    if judging and idle:
        raise SettingsError(f"recorder.capsule_on names {', '.join(idle)}, but `rules` does not enable it. Add it to "
                            "`rules`, or remove it from recorder.capsule_on.")


def codes_of(names: Iterable[str], settings: Settings, *, catalog: Catalog | None = None) -> frozenset[str]:
    """Return the codes of the named rules.

    Args:
        names: Codes and names; "all", "none", and "-NAME" to remove one.
        settings: Settings of the run, with its custom rules.
        catalog: Default: the installed rules.

    Raises:
        UnknownName: A rule does not exist; the message suggests the nearest.

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
    """Return the settings of each configured rule by code, with reserved settings parsed."""
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
    """Return the settings without rules that are not installed here, and the names of the removed rules.

    Applied to the settings stored in a run: a run is data and must not cause code to load.

    Args:
        settings: Settings of the run.
        besides: Rules that the user selects; their parameters stay too.
        catalog: Default: the installed rules.

    Raises:
        UnknownName, BadRule: One of `besides` is not a rule.

    Example:
        >>> kept, left_out = installed_alone(Settings(rules=("N101", "theirs:Rule")))
        >>> kept.rules, left_out
        (('N101',), ('theirs:Rule',))
    """
    known = catalog or installed()
    classes = {*known.classes, *(known.named(name) for name in besides if ":" in name and not name.startswith("-"))}
    names = {text for item in classes for text in (item.code, item.name, item.__name__, _place(item))}
    chosen = [name for name in settings.rules if name in ("all", "none") or name.removeprefix("-") in names]
    # Replace installed classes by their code, so that nothing is imported by location.
    codes = {_place(item): item.code for item in classes}
    rules = tuple(codes.get(name, name) for name in chosen)
    values = {name: table for name, table in settings.rule_settings.items() if name in names}
    left_out = tuple(name for name in settings.rules if name not in chosen and not name.startswith("-"))
    return replace(settings, rules=rules, rule_settings=values), left_out


def needs_of(rules: Iterable[Rule]) -> tuple[Selection, ...]:
    """Return the needs of the rules, without duplicates."""
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
    # Installed scripts do not search the working directory for modules, but users expect it.
    here = os.getcwd()
    if here not in sys.path:
        # Last, so that local files do not shadow libraries.
        sys.path.append(here)
    try:
        module = importlib.import_module(module_name)
    except Exception as error:
        raise BadRule(f"the module {module_name} of the rule {place} cannot be loaded: {type(error).__name__}: "
                      f"{error}. Barograph searches installed packages and the working directory.") from error
    if not hasattr(module, class_name):
        known = [name for name, value in vars(module).items() if isinstance(value, type) and issubclass(value, Rule)]
        raise UnknownName(f'{module_name} has no "{class_name}". {nearest(class_name, known)}')
    return getattr(module, class_name)


def _taken(name: str, other: type[Rule]) -> BadRule:
    return BadRule(f"{name} uses the code {other.code} of {_place(other)}; choose another.")


def _place(rule_class: type[Rule]) -> str:
    return f"{rule_class.__module__}:{rule_class.__qualname__}"
