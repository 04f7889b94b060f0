"""The search space of a study: parameters, when they apply, and constraints between them."""

from __future__ import annotations

import functools
import itertools
import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from barograph.errors import BadSpace, nearest
from barograph.tune.expression import Constraint
from barograph.tune.parameter import (
    Choice,
    Domain,
    FloatRange,
    IntRange,
    Value,
    builtin,
    domain_from_json,
    domain_from_text,
)

_NAME = re.compile(r"[A-Za-z_][\w.-]*")
_MOST_GRID = 1_000_000
_MOST_COUNTED = 10_000


@dataclass(frozen=True, slots=True)
class Condition:
    """When a parameter applies: only if another one has one of some values.

    Attributes:
        parameter: The other one.
        values: Its values.
    """

    parameter: str
    values: tuple[Value, ...]

    def __str__(self) -> str:
        return f"{self.parameter}={','.join(map(str, self.values))}"


@dataclass(frozen=True, slots=True)
class Parameter:
    """One dimension of a space.

    Attributes:
        name: Name of the script's argument.
        domain: Its values.
        condition: When it applies; None: always.
    """

    name: str
    domain: Domain
    condition: Condition | None = None

    def applies(self, values: Mapping[str, Any]) -> bool:
        """Return whether the parameter applies, given the values of earlier ones."""
        return self.condition is None or values.get(self.condition.parameter) in self.condition.values

    def __str__(self) -> str:
        return f"{self.name}={self.domain}" + (f" if {self.condition}" if self.condition else "")


class Space:
    """The search space of a study.

    Args:
        parameters: The parameters, in any order: a condition may name a later one.
        constraints: Conditions that every trial meets, such as "width * depth <= 1024".

    Raises:
        BadSpace: A name is missing, wrong or listed twice, conditions are circular, or a constraint is wrong.
    """

    def __init__(self, parameters: Iterable[Parameter], constraints: Iterable[str] = ()) -> None:
        self.parameters = _ordered(tuple(parameters))
        self.names = tuple(parameter.name for parameter in self.parameters)
        self.constraints = tuple(Constraint(text, self.names) for text in constraints)

    def __len__(self) -> int:
        return len(self.parameters)

    def __iter__(self) -> Iterator[Parameter]:
        return iter(self.parameters)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Space) and self.to_json() == other.to_json()

    def __hash__(self) -> int:
        return hash(self.names)

    def __repr__(self) -> str:
        return f"<space {'; '.join(map(str, self.parameters))}>"

    def __getitem__(self, name: str) -> Parameter:
        for parameter in self.parameters:
            if parameter.name == name:
                return parameter
        raise BadSpace(f'The space has no parameter "{name}". {nearest(name, self.names)}')

    def values(self, units: Sequence[float]) -> dict[str, Value]:
        """Return the values at a position; parameters that do not apply are absent.

        Args:
            units: A number between 0 and 1 for each parameter.
        """
        found: dict[str, Value] = {}
        for parameter, unit in zip(self.parameters, units, strict=True):
            if parameter.applies(found):
                found[parameter.name] = parameter.domain.value(unit)
        return found

    def units(self, values: Mapping[str, Any]) -> list[float]:
        """Return the position of values; 0.5 for parameters that do not apply."""
        return [parameter.domain.unit(values[parameter.name]) if parameter.name in values else 0.5
                for parameter in self.parameters]

    def allows(self, values: Mapping[str, Any]) -> bool:
        """Return whether values meet all constraints."""
        return all(constraint.holds(values) for constraint in self.constraints)

    def problem_of(self, values: Mapping[str, Any], *, partial: bool = False) -> str:
        """Return why values do not belong to the space; "" if they do.

        Args:
            values: Name to value.
            partial: Whether some may be missing.
        """
        for name in values:
            if name not in self.names:
                return f'There is no parameter "{name}". {nearest(name, self.names)}'
        for parameter in self.parameters:
            if parameter.name not in values:
                if parameter.applies(values) and not partial:
                    return f"{parameter.name} is missing."
            elif not parameter.applies(values):
                return f"{parameter.name} applies only if {parameter.condition}."
            elif not parameter.domain.allows(values[parameter.name]):
                return f"{parameter.name} is {values[parameter.name]!r}, not in {parameter.domain}."
        broken = [constraint.text for constraint in self.constraints if not constraint.holds(values)]
        return f"The constraint {broken[0]} is not met." if broken else ""

    def size(self, points: int = 0) -> int:
        """Return the number of different combinations, conditions and constraints aside; 0 if there is no limit.

        Args:
            points: Values of each range of real numbers; 0: any number.
        """
        return math.prod(parameter.domain.levels or points for parameter in self.parameters)

    @functools.cached_property
    def combinations(self) -> int:
        """Number of different combinations that conditions and constraints allow; 0 if there is no limit.

        In a space with more than 10,000 combinations, conditions and constraints are ignored.
        """
        count = self.size()
        return sum(1 for _ in self.grid(count)) if 0 < count <= _MOST_COUNTED else count

    def grid(self, points: int) -> Iterator[dict[str, Value]]:
        """Yield every combination once that the constraints allow.

        Args:
            points: Most values of each range.

        Raises:
            BadSpace: There are more than a million.
        """
        axes = [_axis(parameter.domain, points) for parameter in self.parameters]
        if (count := math.prod(map(len, axes))) > _MOST_GRID:
            raise BadSpace(f"The grid has {count} combinations. Vary fewer parameters, or use another strategy.")
        seen: set[tuple[tuple[str, Value], ...]] = set()
        for units in itertools.product(*axes):
            values = self.values(units)
            if (key := tuple(values.items())) not in seen and self.allows(values):
                seen.add(key)
                yield values

    def to_json(self) -> dict[str, Any]:
        """Return JSON data."""
        return {
            "parameters": [{
                "name": parameter.name, **parameter.domain.to_json(),
                **({"if": {"parameter": parameter.condition.parameter, "values": list(parameter.condition.values)}}
                   if parameter.condition else {}),
            } for parameter in self.parameters],
            "constraints": [constraint.text for constraint in self.constraints],
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Space:
        """Return the space from its `to_json`."""
        return cls([Parameter(str(entry["name"]), domain_from_json(entry), Condition(
            str(entry["if"]["parameter"]), tuple(entry["if"]["values"])) if "if" in entry else None)
            for entry in data["parameters"]], data.get("constraints", ()))

    @classmethod
    def from_texts(cls, texts: Iterable[str], constraints: Iterable[str] = ()) -> Space:
        """Return the space from texts such as "lr=1e-5..1e-1:log" and "momentum=0.8..0.99 if optimizer=sgd".

        Raises:
            BadSpace: A text is wrong.

        Example:
            >>> Space.from_texts(["lr=1e-5..1e-1:log", "optimizer=adam,sgd"]).names
            ('lr', 'optimizer')
        """
        return cls([parameter_from_text(text) for text in texts], constraints)

    @classmethod
    def from_mapping(cls, space: Mapping[str, Any], constraints: Iterable[str] = ()) -> Space:
        """Return the space from a dictionary.

        Args:
            space: Name to a text as in `from_texts`, a tuple (low, high), a list of values, or a domain. A tuple of
                two integers is a range of integers.
            constraints: As for `Space`.

        Raises:
            BadSpace: An entry is wrong.

        Example:
            >>> Space.from_mapping({"lr": (1e-5, 0.1), "width": (16, 256), "optimizer": ["adam", "sgd"]})
            <space lr=1e-05..0.1; width=16..256:int; optimizer=adam,sgd>
        """
        return cls([_parameter(name, entry) for name, entry in space.items()], constraints)


def space_from(space: Space | Mapping[str, Any] | Iterable[str], constraints: Iterable[str] = ()) -> Space:
    """Return a space from a `Space`, a dictionary or texts, with these constraints besides its own."""
    constraints = (constraints,) if isinstance(constraints, str) else constraints
    if isinstance(space, Space):
        more = tuple(constraints)
        own = tuple(constraint.text for constraint in space.constraints)
        return Space(space.parameters, (*own, *more)) if more else space
    if isinstance(space, Mapping):
        return Space.from_mapping(space, constraints)
    if not isinstance(space, Iterable):
        raise BadSpace(f"{space!r} is not a search space. Pass a dictionary such as {{'lr': (1e-5, 0.1)}}.")
    return Space.from_texts((space,) if isinstance(space, str) else space, constraints)


def parameter_from_text(text: str) -> Parameter:
    """Return the parameter that a text such as "lr=1e-5..1e-1:log" describes.

    Raises:
        BadSpace: The text is wrong.
    """
    name, equals, rest = text.partition("=")
    if not equals or not rest.strip():
        raise BadSpace(f'"{text}" has no values. Write NAME=LOW..HIGH or NAME=VALUE,VALUE.')
    return _parameter(name.strip().lstrip("-"), rest)


def _parameter(name: str, entry: Any) -> Parameter:
    try:
        if isinstance(entry, str):
            domain, word, condition = entry.partition(" if ")
            return Parameter(name, domain_from_text(domain), _condition(condition) if word else None)
        if isinstance(entry, FloatRange | IntRange | Choice):
            return Parameter(name, entry)
        if isinstance(entry, list):
            return Parameter(name, Choice(tuple(entry)))
        if isinstance(entry, tuple) and len(entry) == 2:
            low, high = map(builtin, entry)
            is_int = all(isinstance(bound, int) and not isinstance(bound, bool) for bound in (low, high))
            return Parameter(name, IntRange(low, high) if is_int else FloatRange(low, high))
    except BadSpace as error:
        raise BadSpace(f"{name}: {error}") from None
    raise BadSpace(f'{name}: {entry!r} does not describe values. Pass a string such as "1e-5..1e-1:log", a tuple '
                   "(low, high) or a list of values.")


def _condition(text: str) -> Condition:
    parent, equals, values = text.partition("=")
    if not equals or not values.strip():
        raise BadSpace(f'"{text.strip()}" is not a condition. Write "if NAME=VALUE".')
    # One value may stand alone here, which a domain does not allow.
    found = tuple(value for part in values.split(",") if (value := part.strip()))
    return Condition(parent.strip(), found)


def _ordered(parameters: tuple[Parameter, ...]) -> tuple[Parameter, ...]:
    """Return the parameters, each after the one its condition names, with the values of conditions as there."""
    if not parameters:
        raise BadSpace("The space is empty. Add at least one parameter.")
    known: dict[str, Parameter] = {}
    for parameter in parameters:
        if not isinstance(parameter.name, str) or not _NAME.fullmatch(parameter.name):
            raise BadSpace(f'"{parameter.name}" cannot be the name of a parameter. Use letters, digits, ".", "_", "-".')
        if parameter.name in known:
            raise BadSpace(f"{parameter.name} is listed twice.")
        known[parameter.name] = parameter
    done: dict[str, Parameter] = {}
    waiting = list(parameters)
    while waiting:
        ready = [parameter for parameter in waiting if not parameter.condition or parameter.condition.parameter in done]
        if not ready:
            parameter = waiting[0]
            assert parameter.condition is not None
            if (parent := parameter.condition.parameter) not in known:
                raise BadSpace(f"{parameter.name} applies if {parameter.condition}, but there is no parameter "
                               f'"{parent}". {nearest(parent, known)}')
            raise BadSpace(f"The conditions of {' and '.join(item.name for item in waiting)} are circular.")
        for parameter in ready:
            done[parameter.name] = _resolved(parameter, known)
            waiting.remove(parameter)
    return tuple(done.values())


def _resolved(parameter: Parameter, known: Mapping[str, Parameter]) -> Parameter:
    condition = parameter.condition
    if condition is None:
        return parameter
    domain = known[condition.parameter].domain
    if not isinstance(domain, Choice):
        raise BadSpace(f"{parameter.name} applies if {condition}, but {condition.parameter} is a range, not a choice.")
    values = []
    for value in condition.values:
        match = [choice for choice in domain.values if choice == value or str(value) in _texts(choice)]
        if not match:
            raise BadSpace(f"{parameter.name} applies if {condition}, but {condition.parameter} is never {value}. "
                           f"{nearest(str(value), map(str, domain.values))}")
        values.append(match[0])
    return Parameter(parameter.name, parameter.domain, Condition(condition.parameter, tuple(values)))


def _texts(choice: Value) -> tuple[str, ...]:
    """Return how a value may be typed: a boolean as in Python and as in TOML."""
    return (str(choice), str(choice).lower()) if isinstance(choice, bool) else (str(choice),)


def _axis(domain: Domain, points: int) -> list[float]:
    if isinstance(domain, Choice):
        return [domain.unit(value) for value in domain.values]
    if isinstance(domain, IntRange) and domain.levels <= points:
        return [domain.unit(value) for value in range(domain.low, domain.high + 1)]
    return [index / max(points - 1, 1) for index in range(points)]
