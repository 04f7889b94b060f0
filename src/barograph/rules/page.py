"""Generates a rule's documentation page from its docstring.

A rule's docstring starts with one line, `CODE: One sentence.`, followed by one section per title in
`SECTIONS`, in any order. A section starts with its title and a colon at the start of a line and ends at
the next one.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterable
from dataclasses import MISSING, dataclass, fields
from itertools import groupby
from typing import Any

from barograph.errors import BadRule
from barograph.model.selection import Histogram, Schedule, Selection
from barograph.model.significant import significant
from barograph.model.step import Mode
from barograph.rules.base import Parameter, Rule, limits_in_words
from barograph.rules.words import sentence

SECTIONS = ("What it sees", "Why it matters", "What to do", "When it is wrong", "Source")
"""Sections that every page has."""

TESTED_ON = "Tested on"
"""An optional section: the trainings that tested the rule, and the results."""

FAMILIES = {
    "A": "Activations", "D": "Data", "G": "Gradients", "L": "Loss", "M": "Machine and time", "N": "Numbers",
    "O": "Optimizer", "P": "Training loop and workers", "R": "Several runs", "T": "Boosted trees", "W": "Weights",
}
"""Rule families by the first letter of the code."""

_TITLE = re.compile(rf"^({'|'.join((*SECTIONS, TESTED_ON))}):\s*", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Page:
    """The parsed docstring of a rule.

    Attributes:
        fault: The one sentence of the first line, without the code.
        sections: Title to text, in the order of `SECTIONS`, then `TESTED_ON` if present.
    """

    fault: str
    sections: dict[str, str]


def page_from_rule(rule_class: type[Rule]) -> Page:
    """Return the page of a rule.

    Raises:
        BadRule: The docstring does not start with "CODE: ", or a section is missing or empty.
    """
    title = f"{rule_class.__module__}.{rule_class.__qualname__}"
    text = inspect.cleandoc(rule_class.__doc__ or "")
    head, _, body = text.partition("\n")
    if not head.startswith(f"{rule_class.code}: "):
        raise BadRule(f'{title}: the docstring starts with "{head[:40]}"; it must start with "{rule_class.code}: ".')
    parts = _TITLE.split(body)
    found = {name: sentence(_flush_left(parts[at + 1])) for at, name in enumerate(parts) if at % 2 == 1}
    for name in SECTIONS:
        if not found.get(name):
            raise BadRule(f'{title}: the docstring has no section "{name}:"; required: '
                          f"{', '.join(SECTIONS)}.")
    order = [name for name in (*SECTIONS, TESTED_ON) if name in found]
    return Page(fault=head.removeprefix(f"{rule_class.code}: "), sections={name: found[name] for name in order})


def why_it_matters(rule_class: type[Rule]) -> str:
    """Return the "Why it matters" section of a rule in one line; "" if it has no valid page.

    Example:
        >>> from barograph.rules.numbers import NonFinite
        >>> why_it_matters(NonFinite)[:11]
        'NaN spreads'
    """
    try:
        return " ".join(page_from_rule(rule_class).sections["Why it matters"].split())
    except BadRule:
        return ""


def _flush_left(text: str) -> str:
    return "\n".join(line.strip() for line in text.strip().splitlines())


def file_name(rule_class: type[Rule]) -> str:
    """Return the file name of a rule's page.

    Example:
        >>> from barograph.rules.numbers import NonFinite
        >>> file_name(NonFinite)
        'N101-non-finite.md'
    """
    return f"{rule_class.code}-{rule_class.name}.md"


def markdown_from_rule(rule_class: type[Rule]) -> str:
    """Return a rule's page as Markdown."""
    page = page_from_rule(rule_class)
    lines = [f"# {rule_class.code} {rule_class.name}", "", page.fault, "",
             f"Severity: **{rule_class.severity.value}**.", ""]
    for name, text in page.sections.items():
        lines += [f"## {name}", "", text, ""]
    lines += ["## Parameters", "", f"Set them in `[rule_settings.{rule_class.code}]` in `barograph.toml`.", "",
              *_parameter_table(rule_class), "", "## Needs", "", *_needs(rule_class().needs), ""]
    return "\n".join(lines)


def index_from_rules(rule_classes: Iterable[type[Rule]]) -> str:
    """Return the page that lists the rules by family and code."""
    lines = ["# Rules", "",
             "`barograph run` and `barograph watch` use every rule below unless you "
             "[choose](../reference/settings.md#all-settings). "
             "Looking for the cause of something? See [rules by symptom](by-symptom.md). "
             "[What the rules catch](../explanation/what-rules-catch.md) says how they were tested.", ""]
    for letter, family in groupby(sorted(rule_classes, key=lambda item: item.code), key=lambda item: item.code[0]):
        lines += [f"## {FAMILIES.get(letter, letter)}", "", "| rule | severity | what is wrong |", "|---|---|---|"]
        lines += [f"| [{rule_class.code}]({file_name(rule_class)}) {rule_class.name} | {rule_class.severity.value} | "
                  f"{page_from_rule(rule_class).fault} |" for rule_class in family]
        lines.append("")
    return "\n".join(lines)


def _parameter_table(rule_class: type[Rule]) -> list[str]:
    lines = ["| parameter | default | must be | meaning |", "|---|---|---|---|"]
    own_first = sorted(fields(rule_class), key=lambda item: item.name in ("patience", "recovery"))
    for item in own_first:
        limits = item.metadata.get("parameter", Parameter())
        lines.append(f"| `{item.name}` | {_shown(item.default)} | {limits_in_words(limits)} | {limits.doc} |")
    return lines


def _shown(value: Any) -> str:
    if value is MISSING:
        return "none: must be set"
    if isinstance(value, tuple):
        return ", ".join(f"`{entry}`" for entry in value) or "none"
    return f"`{significant(value, 6)}`" if isinstance(value, float) else f"`{value}`"


def _needs(needs: Iterable[Selection]) -> list[str]:
    return [f"- {selection_in_words(selection)}" for selection in needs]


def selection_in_words(selection: Selection) -> str:
    """Return a rule's need in words.

    Example:
        >>> from barograph.model.key import Kind
        >>> selection_in_words(Selection(kinds=frozenset({Kind.WEIGHT, Kind.GRADIENT}), schedule=Schedule(every=10)))
        'gradient, weight, every 10 steps'
    """
    return f"{kinds_in_words(selection)}, {_schedule_in_words(selection.schedule)}"


def kinds_in_words(selection: Selection) -> str:
    """Return a rule's need in words, without its schedule.

    Example:
        >>> from barograph.model.key import Kind
        >>> kinds_in_words(Selection(kinds=frozenset({Kind.OPTIMIZER_STATE}), include=("*.exp_avg_sq",)))
        'optimizer state matching *.exp_avg_sq'
    """
    words = [", ".join(sorted(kind.value.replace("_", " ") for kind in selection.kinds))]
    if selection.layers:
        words.append(f"of {', '.join(sorted(selection.layers))}")
    if selection.include:
        words.append(f"matching {', '.join(selection.include)}")
    if selection.histogram is not Histogram.NONE:
        words.append(f"with {selection.histogram.name.lower()} exponent histograms")
    if selection.units:
        words.append("unit by unit")
    return " ".join(words)


def _schedule_in_words(schedule: Schedule) -> str:
    words = "every step" if schedule.every == 1 else f"every {schedule.every} steps" if schedule.every else ""
    if schedule.steps:
        listed = f"at step{'s' * (len(schedule.steps) > 1)} {', '.join(str(step) for step in sorted(schedule.steps))}"
        words = f"{words} and {listed}" if words else listed
    if schedule.start:
        words += f" from step {schedule.start}"
    if schedule.end is not None:
        words += f" before step {schedule.end}"
    if schedule.modes != frozenset(Mode):
        words += f" of {', '.join(sorted(mode.value for mode in schedule.modes))}"
    return words
