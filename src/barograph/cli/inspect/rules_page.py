"""Output of `barograph rules`."""

from __future__ import annotations

import inspect
import sys
from dataclasses import fields
from pathlib import Path

from rich.text import Text

from barograph.cli.printing import Column, Printer
from barograph.cli.signs import severity_text
from barograph.errors import BadRule, ObjectExists, StoreDenied
from barograph.model.key import kind_from_name
from barograph.model.one_line import shown_lines
from barograph.model.significant import significant
from barograph.rules.base import Parameter, Rule, limits_in_words, rule_with
from barograph.rules.page import page_from_rule, selection_in_words
from barograph.rules.registry import installed
from barograph.rules.starter import class_name_of, module_name_of, starter

_LIST = (Column("code"), Column("name"), Column("severity"), Column("what is wrong", prose=True))
_PARAMETERS = (
    Column("parameter"), Column("default", right=True), Column("must be", spare=1), Column("meaning", prose=True),
)


def print_rules(*, as_json: bool) -> None:
    """Print the installed rules."""
    catalog, printer = installed(), Printer()
    if as_json:
        printer.json([_brief(rule_class) for rule_class in catalog.classes])
    else:
        printer.table(_LIST, [
            [Text(rule_class.code, "bold"), rule_class.name, severity_text(rule_class.severity), _fault(rule_class)]
            for rule_class in catalog.classes
        ])
        if printer.on_terminal:
            printer.line()
            printer.line("The whole page of one:  barograph rules explain CODE", indent=2)
    for problem in catalog.problems:
        print(f"barograph: {shown_lines(str(problem))}", file=sys.stderr)


def print_rule(name: str, *, as_json: bool) -> None:
    """Print the page of one rule.

    Raises:
        UnknownName: No rule has that name; the message suggests the closest.
        BadRule: The rule cannot be used.
        SettingsError: A parameter of the rule has no default.
    """
    rule_class = installed().named(name)
    rule, printer = rule_with(rule_class, {}), Printer()
    needs = [selection_in_words(selection) for selection in rule.needs]
    sections, problem = _sections(rule_class)
    if as_json:
        printer.json({**_brief(rule_class), "sections": sections, "problem": problem, "needs": needs,
                      "parameters": _parameters(rule)})
        return
    printer.line(Text.assemble((f"{rule_class.code} {rule_class.name}", "bold"), "  ",
                               severity_text(rule_class.severity)))
    printer.line(_fault(rule_class) or "This rule has no docstring.")
    for title, text in sections.items():
        printer.heading(title)
        printer.line(text, indent=2)
    printer.heading("Parameters", f"set them below [rule_settings.{rule_class.code}] in barograph.toml")
    printer.table(_PARAMETERS, [
        [str(item["name"]), _shown(item["default"]), str(item["must_be"]), str(item["meaning"])]
        for item in _parameters(rule)
    ])
    printer.heading("Needs", "what must be recorded")
    for need in needs:
        printer.line(need, indent=2)
    if problem:
        printer.heading("Page", problem)


def write_new_rule(name: str, *, code: str, kind: str, to: str, as_json: bool) -> None:
    """Write a new rule to a file.

    Raises:
        BadRule: The name or the code is invalid, or an installed rule has it.
        UnknownName: The kind does not exist; the message suggests the closest.
        StoreError: The file exists or cannot be written.
    """
    for rule_class in installed().classes:
        if rule_class.code == code or rule_class.name == name:
            raise BadRule(f"{rule_class.code} {rule_class.name} is there already: choose another code and name.")
    text = starter(name, code=code, kind=kind_from_name(kind))
    path = Path(to or f"{module_name_of(name)}.py")
    try:
        with path.open("x", encoding="utf-8") as file:
            file.write(text)
    except FileExistsError:
        raise ObjectExists(f"A file with that name exists; choose another with --to ({path}).") from None
    except OSError as error:
        raise StoreDenied(f"Cannot write the rule: {error.strerror} ({path}).") from error
    printer, place = Printer(), f"{path.stem}:{class_name_of(name)}"
    if as_json:
        printer.json({"file": str(path), "rule": place, "code": code, "name": name})
        return
    printer.line(f"Wrote {path}. Change what it looks for, and watch with it:")
    printer.line(f"barograph run --rules all,{place} train.py", indent=2)


def _brief(rule_class: type[Rule]) -> dict[str, object]:
    return {"code": rule_class.code, "name": rule_class.name, "severity": rule_class.severity,
            "fault": _fault(rule_class)}


def _fault(rule_class: type[Rule]) -> str:
    try:
        return page_from_rule(rule_class).fault
    except BadRule:
        # Rules of users may lack a page; print the first line of their docstring.
        return _docstring(rule_class).partition("\n")[0].removeprefix(f"{rule_class.code}: ")


def _sections(rule_class: type[Rule]) -> tuple[dict[str, str], str]:
    """Return the sections of a rule's page; without a page, none and the reason."""
    try:
        page = page_from_rule(rule_class)
    except BadRule as error:
        return {}, str(error) if _docstring(rule_class) else "it has none: a page is made from a docstring."
    return {title: " ".join(text.split()) for title, text in page.sections.items()}, ""


def _docstring(rule_class: type[Rule]) -> str:
    """Return the author's docstring; "" for the signature that a dataclass without a docstring gets."""
    text = inspect.cleandoc(rule_class.__doc__ or "")
    return "" if text.startswith(f"{rule_class.__name__}(") else text


def _parameters(rule: Rule) -> list[dict[str, object]]:
    values = rule.parameters
    limits = {item.name: item.metadata.get("parameter", Parameter()) for item in fields(rule)}
    own_first = sorted(values, key=lambda name: name in ("patience", "recovery"))
    return [
        {"name": name, "default": values[name], "must_be": limits_in_words(limits[name]), "meaning": limits[name].doc}
        for name in own_first
    ]


def _shown(value: object) -> str:
    if isinstance(value, bool):
        return str(value).lower()  # as in TOML
    if isinstance(value, list):
        return ", ".join(str(entry) for entry in value)
    return significant(value, 6) if isinstance(value, float) else str(value)
