"""The template of a custom rule: a working file, with its test at the end."""

from __future__ import annotations

import keyword
import re

from barograph.errors import BadRule
from barograph.model.key import Kind

_NAME = re.compile(r"[a-z][a-z0-9]*(-[a-z0-9]+)*")
_CODE = re.compile(r"[A-Z]\d{3}")

NUMBERS = frozenset({
    Kind.LOSS, Kind.LEARNING_RATE, Kind.SCALAR, Kind.LABEL, Kind.CONFUSION, Kind.FACT, Kind.TIME, Kind.MACHINE,
    Kind.VITAL, Kind.IMPORTANCE, Kind.TREE,
})
"""Kinds recorded as plain numbers; all others are recorded as summaries."""

_TEMPLATE = '''"""{title}: a rule for Barograph."""

from collections.abc import Iterable
from dataclasses import dataclass

from barograph.model.finding import Evidence, Severity, Symptom
from barograph.model.key import Kind
from barograph.model.selection import Selection, every
from barograph.rules.base import Memory, Rule, Unjudged, parameter
from barograph.runs.reading.view import StepView


@dataclass(frozen=True, kw_only=True)
class {class_name}(Rule):
    """{code}: A {noun} is larger than it should be.

    What it sees: the {what} of each recorded step.
    Why it matters: what the problem costs the user.
    What to do: which setting to change, from which value to which.
    When it is wrong: cases in which this is not a problem.
    Source: a reference.
    """

    code, name, severity = "{code}", "{name}", Severity.DOUBTFUL
    needs = (Selection(kinds=frozenset({{Kind.{kind}}}), schedule=every({every})),)
    limit: float = parameter(10.0, "Largest allowed {what}.", above=0.0)

    def judge(self, view: StepView, memory: Memory) -> Iterable[Symptom | Unjudged]:
{body}

{tests}'''

_OF_TENSORS = '''        for subject, seen in view.summaries(Kind.{kind}):
            if seen.max_abs > self.limit:
                yield Symptom(
                    f"{{subject.key.path}} reaches {{seen.max_abs:.3g}}.",
                    "Lower the learning rate.",
                    (Evidence(subject.key, view.step.number, "max_abs", seen.max_abs, self.limit),),
                    subject=subject.key.path,
                )
'''

_OF_NUMBERS = '''        for key, seen in view.scalars(Kind.{kind}).items():
            if seen > self.limit:
                yield Symptom(
                    f"{{key.path}} is {{seen:.3g}}.",
                    "Lower the learning rate.",
                    (Evidence(key, view.step.number, "value", seen, self.limit),),
                    subject=key.path,
                )
'''

_TESTS = '''# To test it, save the lines below as test_{module}.py next to this file and run pytest.
#
# from barograph.model.key import Key, Kind
{summary_note}# from barograph.runs.reading.view import StepView
# from barograph.testing.rules import RuleConformance
#
# from {module} import {class_name}
#
# SEEN = Key(Kind.{kind}, "name")
#
#
# class Test{class_name}(RuleConformance):
#     rule = {class_name}()
#     sick = [StepView.of(step, {{SEEN: {sick}}}) for step in range(0, 50, {every})]
#     well = [StepView.of(step, {{SEEN: {well}}}) for step in range(0, 500, {every})]
'''


def class_name_of(name: str) -> str:
    """Return the class name of a rule.

    Example:
        >>> class_name_of("loud-weights")
        'LoudWeights'
    """
    return "".join(part.capitalize() for part in name.split("-"))


def module_name_of(name: str) -> str:
    """Return the module name of a rule.

    Example:
        >>> module_name_of("loud-weights")
        'loud_weights'
    """
    return name.replace("-", "_")


def starter(name: str, *, code: str = "X101", kind: Kind = Kind.WEIGHT) -> str:
    """Return the source of a module with a working rule, to be adapted.

    Args:
        name: Lowercase with hyphens.
        code: A capital letter and three digits.
        kind: Kind of record to check.

    Raises:
        BadRule: The name or the code is invalid, or the name is not a valid module name.
    """
    if not _NAME.fullmatch(name) or keyword.iskeyword(module_name_of(name)):
        raise BadRule(f'"{name}" is not a valid rule name; use lowercase with hyphens, such as "loud-weights".')
    if not _CODE.fullmatch(code):
        raise BadRule(f'"{code}" is not a valid rule code; use a capital letter and three digits, such as "X101".')
    plain = kind in NUMBERS
    noun = kind.value.replace("_", " ")
    rate = 1 if plain else 10
    words = {
        "title": name.replace("-", " ").capitalize(), "class_name": class_name_of(name), "code": code, "name": name,
        "module": module_name_of(name), "kind": kind.name, "noun": noun, "every": rate,
        "what": noun if plain else f"greatest magnitude of each {noun}",
    }
    tests = _TESTS.format(
        **words, sick="30.0" if plain else "Summary(count=2, min=-30.0, max=4.0)",
        well="3.0" if plain else "Summary(count=2, min=-3.0, max=4.0)",
        summary_note="" if plain else "# from barograph.model.summary import Summary\n",
    )
    body = (_OF_NUMBERS if plain else _OF_TENSORS).format(**words)
    return _TEMPLATE.format(**words, body=body, tests=tests)
