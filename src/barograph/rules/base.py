"""The base class of rules: one problem each. Its fields are parameters; `judge` evaluates a step.

A rule has no hidden state. It keeps what it needs between steps in the `Memory` passed to it: plain JSON
data, one per group of workers and optimizer, saved by the loop. Live analysis and replay therefore run the
same code, a restarted watcher resumes, and a test of a rule is a list of views.
"""

from __future__ import annotations

import copy
import math
import types
import typing
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from dataclasses import MISSING, dataclass, field, fields
from functools import cache
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

from barograph.errors import BadRule, SettingsError, UnknownName, nearest
from barograph.model.finding import Severity, Symptom
from barograph.model.selection import Selection
from barograph.model.significant import significant

if TYPE_CHECKING:
    from barograph.runs.reading.view import StepView

Memory = dict[str, Any]
"""State of a rule between steps: a JSON object."""

Value = TypeVar("Value")


@dataclass(frozen=True, slots=True)
class Unjudged:
    """Yielded for a step that a rule could not evaluate: the step neither shows the problem nor ends it.

    Attributes:
        reason: Why, shown if the rule never evaluated a step: "needs 20 losses; this run has 10".
        passing: The reason concerns this step alone (the next window is not full yet); an earlier reason explains more.
    """

    reason: str
    passing: bool = field(default=False, compare=False)


@dataclass(frozen=True, slots=True)
class Parameter:
    """Documentation and limits of one rule parameter.

    Attributes:
        doc: One sentence for the rule's page.
        above, below: Exclusive limits; None: no limit.
        at_least, at_most: Inclusive limits; None: no limit.
        choices: Allowed values, also of each entry of a list; empty: any.
    """

    doc: str = ""
    above: float | None = None
    at_least: float | None = None
    below: float | None = None
    at_most: float | None = None
    choices: tuple[str, ...] = ()


def parameter(
    default: Value,
    doc: str,
    *,
    above: float | None = None,
    at_least: float | None = None,
    below: float | None = None,
    at_most: float | None = None,
    choices: Iterable[str] = (),
) -> Value:
    """Return the field of a rule that holds one parameter, with its limits.

    Args:
        default: Used if the user sets none.
        doc: One sentence for the rule's page.
        above, at_least, below, at_most: Limits of a number, see `Parameter`.
        choices: Allowed strings.
    """
    limits = Parameter(doc, above, at_least, below, at_most, tuple(choices))
    # To a type checker the field has its default's type, as dataclasses.field itself claims.
    return field(default=default, metadata={"parameter": limits})


@dataclass(frozen=True, kw_only=True)
class Rule(ABC):
    """One problem that can occur in training.

    A rule is a frozen dataclass that inherits from this one. Its fields are its parameters (`int`, `float`,
    `bool`, `str` or `tuple[str, ...]`), validated on construction. Its docstring is its page: see `rules.page`.

    Class attributes:
        code: A capital letter and three digits, "G101"; unique among the installed rules.
        name: Lowercase with hyphens: "vanishing-gradient".
        severity: How much the problem costs the user.
        across_attempts: The rule compares a restarted run with its earlier attempts, so its memory is kept on restart.
            The memory of other rules is cleared, because steps may repeat.
        needs: Data the rule requires. The rule counts as fully evaluated only if each Selection matched
            something; alternatives go in one Selection.
    """

    code: ClassVar[str]
    name: ClassVar[str]
    severity: ClassVar[Severity]
    across_attempts: ClassVar[bool] = False

    patience: int = parameter(1, "Consecutive evaluated steps with the fault before a finding opens.", at_least=1)
    recovery: int = parameter(3, "Consecutive evaluated steps without the fault before a finding closes.", at_least=1)

    @property
    @abstractmethod
    def needs(self) -> tuple[Selection, ...]:
        """Data that this rule requires."""

    @abstractmethod
    def judge(self, view: StepView, memory: Memory) -> Iterable[Symptom | Unjudged]:
        """Yield the problems of this step; nothing if there are none; `Unjudged` if the step cannot be evaluated.

        Called once, in order, for each step that recorded a kind this rule needs. Yield a symptom again in
        every step that still shows it: the loop merges them into one finding. A symptom whose evidence
        names keys counts as gone only in steps that recorded one of these keys.

        Args:
            view: The records of the step, for the workers of one group.
            memory: State of this rule for this group and optimizer; empty at the first step. Modified in place.
        """

    @property
    def other_run(self) -> str:
        """Location of a run to compare with, step by step, as `view.beside(location)`; "" for none."""
        return ""

    def __post_init__(self) -> None:
        kinds = _types_of_parameters(type(self))
        for item in fields(self):
            value = _checked(f"{_title(type(self))}.{item.name}", getattr(self, item.name), kinds[item.name],
                             item.metadata.get("parameter", Parameter()))
            object.__setattr__(self, item.name, value)

    @property
    def parameters(self) -> dict[str, Any]:
        """Parameter values by name, as JSON data."""
        values = {item.name: getattr(self, item.name) for item in fields(self)}
        return {name: list(value) if isinstance(value, tuple) else value for name, value in values.items()}


RESERVED = ("severity", "actions", "enabled")
"""Settings of every rule; a parameter must not use these names."""


def with_severity(rule: Rule, severity: Severity) -> Rule:
    """Return the rule with a severity that overrides the rule's own.

    Example:
        >>> from barograph.rules.numbers import NonFinite
        >>> with_severity(NonFinite(), Severity.NOTE).severity
        <Severity.NOTE: 'note'>
    """
    changed = copy.copy(rule)
    # An instance attribute hides the class attribute; `severity_set` distinguishes the two.
    object.__setattr__(changed, "severity", severity)
    return changed


def severity_set(rule: Rule) -> Severity | None:
    """Return the severity that the user set; None if the rule keeps its own."""
    return vars(rule).get("severity")


def rule_with(rule_class: type[Rule], values: Mapping[str, Any]) -> Rule:
    """Return a rule built from a TOML or JSON table of parameters.

    Raises:
        UnknownName: The rule has no such parameter; the message suggests the nearest.
        SettingsError: A value has the wrong type or is out of range, or a parameter without a default has none.
    """
    known = [item.name for item in fields(rule_class)]
    for name in values:
        if name not in known:
            raise UnknownName(f'"{name}" is not a parameter of {_title(rule_class)}. {nearest(name, known)}')
    missing = [item.name for item in fields(rule_class)
               if item.init and item.default is MISSING and item.default_factory is MISSING and item.name not in values]
    if missing:
        raise SettingsError(f"{_title(rule_class)}.{missing[0]} has no default; set {' and '.join(missing)} in "
                            f"[rule_settings.{rule_class.code}] in barograph.toml.")
    return rule_class(**values)


def check_rule_class(candidate: object) -> type[Rule]:
    """Return `candidate` if it is a valid rule class.

    Raises:
        BadRule: It is not a rule, lacks a class attribute, or declares parameters without being a dataclass.
    """
    if not (isinstance(candidate, type) and issubclass(candidate, Rule)):
        raise BadRule(f"{candidate!r} is not a rule: inherit from barograph.Rule.")
    title = f"{candidate.__module__}.{candidate.__qualname__}"
    for attribute in ("code", "name", "severity"):
        if not hasattr(candidate, attribute):
            raise BadRule(f"{title} has no {attribute}: add this class attribute.")
    if not _is_code(candidate.code):
        raise BadRule(f'{title}.code is {candidate.code!r}; it must be a capital letter and three digits, such as '
                      '"X101".')
    if not isinstance(candidate.name, str) or not candidate.name:
        raise BadRule(f'{title}.name is {candidate.name!r}; it must be a short string, such as "vanishing-gradient".')
    if not isinstance(candidate.severity, Severity):
        raise BadRule(f"{title}.severity is {candidate.severity!r}; it must be one of "
                      f"{', '.join(f'Severity.{item.name}' for item in Severity)}.")
    reserved = [name for name in _own_parameters(candidate) if name in RESERVED]
    if reserved:
        raise BadRule(f'{title} has a parameter "{reserved[0]}", which is reserved; rename it.')
    missing: frozenset[str] = getattr(candidate, "__abstractmethods__", frozenset())
    if missing:
        raise BadRule(f"{title} does not define {' and '.join(sorted(missing))}.")
    if "__dataclass_params__" not in vars(candidate) and _own_parameters(candidate):
        raise BadRule(f"{title} has parameters ({', '.join(_own_parameters(candidate))}) but is not a dataclass: "
                      "decorate it with @dataclass(frozen=True, kw_only=True).")
    return candidate


def _title(rule_class: type[Rule]) -> str:
    """Return the rule's name for messages; the class name if it has none."""
    return str(getattr(rule_class, "name", rule_class.__name__))


def _is_code(code: object) -> bool:
    return (isinstance(code, str) and len(code) == 4 and code.isascii()
            and code[0].isupper() and code[1:].isdigit())


def _own_parameters(rule_class: type[Rule]) -> list[str]:
    own = vars(rule_class).get("__annotations__", {})
    return [name for name, text in own.items() if "ClassVar" not in str(text)]


@cache
def _types_of_parameters(rule_class: type[Rule]) -> dict[str, Any]:
    try:
        return typing.get_type_hints(rule_class)
    except NameError as error:
        raise BadRule(f"{rule_class.__name__} declares a parameter of unknown type: {error}.") from error


def _checked(title: str, value: Any, kind: Any, limits: Parameter) -> Any:
    if kind is bool:
        if not isinstance(value, bool):
            raise SettingsError(f"{title} is {value!r}; it must be true or false.")
        return value
    if kind in (int, float):
        return _checked_number(title, value, kind, limits)
    if kind is str:
        if not isinstance(value, str):
            raise SettingsError(f"{title} is {value!r}; it must be a string.")
        return _checked_choice(title, value, limits)
    if isinstance(kind, types.GenericAlias) and kind == tuple[str, ...]:
        return tuple(_checked_choice(title, entry, limits) for entry in _texts_in(title, value))
    raise BadRule(f"{title} is declared as {kind}; a parameter is an int, float, bool, str or tuple[str, ...].")


def _texts_in(title: str, value: Any) -> list[str]:
    """Return the entries of a list, or of a comma-separated string from the command line."""
    if isinstance(value, str):
        return [entry.strip() for entry in value.split(",") if entry.strip()]
    entries = value if isinstance(value, list | tuple) else [value]
    if any(isinstance(entry, bool) or not isinstance(entry, str | int | float) for entry in entries):
        raise SettingsError(f"{title} is {value!r}; it must be a list of strings.")
    return [str(entry) for entry in entries]


def _checked_number(title: str, value: Any, kind: type[int] | type[float], limits: Parameter) -> int | float:
    if kind is int and (isinstance(value, bool) or not isinstance(value, int)):
        raise SettingsError(f"{title} is {value!r}; it must be an integer.")
    if isinstance(value, bool) or not isinstance(value, int | float) or math.isnan(value):
        raise SettingsError(f"{title} is {value!r}; it must be a number.")
    if not _within(value, limits):
        raise SettingsError(f"{title} is {significant(value, 6)}; it must be {limits_in_words(limits)}.")
    return kind(value)


def _within(value: float, limits: Parameter) -> bool:
    return (
        (limits.above is None or value > limits.above)
        and (limits.at_least is None or value >= limits.at_least)
        and (limits.below is None or value < limits.below)
        and (limits.at_most is None or value <= limits.at_most)
    )


def _checked_choice(title: str, value: str, limits: Parameter) -> str:
    if limits.choices and value not in limits.choices:
        raise UnknownName(f'{title} is "{value}". {nearest(value, limits.choices)}')
    return value


def limits_in_words(limits: Parameter) -> str:
    """Return the limits in words; "" if there are none.

    Example:
        >>> limits_in_words(Parameter(above=0.0, at_most=1.0))
        'above 0 and at most 1'
    """
    words = [
        f"{word} {significant(limit, 6)}"
        for word, limit in (("above", limits.above), ("at least", limits.at_least),
                            ("below", limits.below), ("at most", limits.at_most))
        if limit is not None
    ]
    if limits.choices:
        words.append(f"one of {', '.join(limits.choices)}")
    return " and ".join(words)
