"""One parameter of a search space: its values, and where each lies between 0 and 1.

A strategy searches the unit interval; the scale of a parameter spreads its values over it. An integer or a category
has an interval of its own there, so equally likely positions give equally likely values on a linear scale.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from barograph.errors import BadSpace

Value = int | float | str | bool
"""A value of a parameter."""
_AUTO_LOG_RATIO = 100.0
"""From this ratio of the bounds on, the scale `auto` is logarithmic."""
_MOST_DIGITS = 12
"""Significant digits of a proposed number: enough for any parameter, and short in a command line."""


class Scale(StrEnum):
    """How the values of a range are spread over the search."""

    AUTO = "auto"
    """Logarithmic if the range is positive and spans a factor of 100 or more; else linear."""
    LINEAR = "linear"
    LOG = "log"
    """Equal ratios are equally far apart. The range must be above 0."""
    REVERSE_LOG = "reverse-log"
    """Equal ratios of 1 − x are equally far apart, as for a momentum. The range must be in [0, 1)."""


@dataclass(frozen=True, slots=True)
class FloatRange:
    """Real numbers from `low` to `high`, both included.

    Attributes:
        low, high: Bounds.
        scale: How they are spread.

    Raises:
        BadSpace: The range is empty, reversed or infinite, or does not allow the scale.
    """

    low: float
    high: float
    scale: Scale = Scale.AUTO

    def __post_init__(self) -> None:
        _check_range(self.low, self.high, self.scale)

    def value(self, unit: float) -> float:
        """Return the value at a position between 0 and 1.

        Example:
            >>> FloatRange(1e-4, 1e-2).value(0.5)
            0.001
        """
        low, high = _forward(self.low, self._scale), _forward(self.high, self._scale)
        found = _backward(low + unit * (high - low), self._scale)
        return min(max(float(f"{found:.{_MOST_DIGITS}g}"), self.low), self.high)

    def unit(self, value: Any) -> float:
        """Return the position of a value, the inverse of `value`."""
        low, high = _forward(self.low, self._scale), _forward(self.high, self._scale)
        return (_forward(float(value), self._scale) - low) / (high - low)

    def allows(self, value: Any) -> bool:
        """Return whether a value lies in the range."""
        return is_number(value) and self.low <= value <= self.high

    @property
    def levels(self) -> int:
        """Number of different values; 0: any number."""
        return 0

    @property
    def is_ordered(self) -> bool:
        """Whether near positions mean similar values."""
        return True

    def to_json(self) -> dict[str, Any]:
        """Return JSON data."""
        return {"kind": "float", "low": self.low, "high": self.high, "scale": str(self.scale)}

    def __str__(self) -> str:
        return f"{self.low:g}..{self.high:g}{_scale_text(self.scale)}"

    @property
    def is_log(self) -> bool:
        """Whether the values are spread logarithmically."""
        return self._scale is Scale.LOG

    @property
    def _scale(self) -> Scale:
        return _chosen(self.low, self.high, self.scale)


@dataclass(frozen=True, slots=True)
class IntRange:
    """Integers from `low` to `high`, both included.

    Attributes:
        low, high: Bounds.
        scale: How they are spread.

    Raises:
        BadSpace: As `FloatRange`.
    """

    low: int
    high: int
    scale: Scale = Scale.AUTO

    def __post_init__(self) -> None:
        for bound in (self.low, self.high):
            if isinstance(bound, bool) or not isinstance(bound, int):
                raise BadSpace(f"{bound!r} is not an integer: the bounds of an integer range are integers.")
        if self.scale is Scale.REVERSE_LOG:
            raise BadSpace("The scale reverse-log is for real numbers between 0 and 1, not for integers.")
        _check_range(self.low, self.high, self.scale)

    def value(self, unit: float) -> int:
        """Return the value at a position between 0 and 1."""
        low, high = self._edges()
        found = _backward(low + unit * (high - low), self._scale)
        return min(max(math.floor(found + 0.5), self.low), self.high)

    def unit(self, value: Any) -> float:
        """Return the position of a value: the middle of its interval."""
        low, high = self._edges()
        below, above = _forward(value - 0.5, self._scale), _forward(value + 0.5, self._scale)
        return ((below + above) / 2 - low) / (high - low)

    def edge(self, value: int) -> float:
        """Return the position between a value and the next one."""
        low, high = self._edges()
        return (_forward(value + 0.5, self._scale) - low) / (high - low)

    def allows(self, value: Any) -> bool:
        """Return whether a value is an integer in the range."""
        return is_number(value) and self.low <= value <= self.high and value == int(value)

    @property
    def levels(self) -> int:
        """Number of different values."""
        return self.high - self.low + 1

    @property
    def is_ordered(self) -> bool:
        """Whether near positions mean similar values."""
        return True

    def to_json(self) -> dict[str, Any]:
        """Return JSON data."""
        return {"kind": "int", "low": self.low, "high": self.high, "scale": str(self.scale)}

    def __str__(self) -> str:
        return f"{self.low}..{self.high}:int{_scale_text(self.scale)}"

    def _edges(self) -> tuple[float, float]:
        return _forward(self.low - 0.5, self._scale), _forward(self.high + 0.5, self._scale)

    @property
    def is_log(self) -> bool:
        """Whether the values are spread logarithmically."""
        return self._scale is Scale.LOG

    @property
    def _scale(self) -> Scale:
        return _chosen(self.low, self.high, self.scale)


@dataclass(frozen=True, slots=True)
class Choice:
    """One of some values. If all are numbers, their order counts.

    Attributes:
        values: At least two different ones.

    Raises:
        BadSpace: There are fewer, or a value is not a number, string or boolean.
    """

    values: tuple[Value, ...]

    def __post_init__(self) -> None:
        object.__setattr__(self, "values", tuple(map(builtin, self.values)))
        for value in self.values:
            if not isinstance(value, int | float | str | bool) or (isinstance(value, float) and math.isnan(value)):
                raise BadSpace(f"{value!r} cannot be a choice: only numbers, strings and booleans can.")
        if len({(type(value) is bool, value) for value in self.values}) < len(self.values):
            raise BadSpace(f"A choice is listed twice: {', '.join(map(str, self.values))}.")
        if len(self.values) < 2:
            raise BadSpace("A choice needs at least two values: separate them by commas, or write a range "
                           "such as 0.1..0.9.")
        if self.is_ordered:
            object.__setattr__(self, "values", tuple(sorted(self.values)))

    def value(self, unit: float) -> Value:
        """Return the value at a position between 0 and 1."""
        return self.values[min(int(unit * len(self.values)), len(self.values) - 1)]

    def unit(self, value: Any) -> float:
        """Return the position of a value: the middle of its interval."""
        return (self._index(value) + 0.5) / len(self.values)

    def allows(self, value: Any) -> bool:
        """Return whether a value is one of the choices."""
        return any(_same(value, known) for known in self.values)

    @property
    def levels(self) -> int:
        """Number of values."""
        return len(self.values)

    @property
    def is_ordered(self) -> bool:
        """Whether near positions mean similar values."""
        return all(is_number(value) for value in self.values)

    def to_json(self) -> dict[str, Any]:
        """Return JSON data."""
        return {"kind": "choice", "values": list(self.values)}

    def __str__(self) -> str:
        return ",".join(str(value) for value in self.values)

    def _index(self, value: Any) -> int:
        return next(index for index, known in enumerate(self.values) if _same(value, known))


Domain = FloatRange | IntRange | Choice
"""What a parameter may be."""


def domain_from_json(data: Mapping[str, Any]) -> Domain:
    """Return the domain from its `to_json`."""
    match data["kind"]:
        case "float":
            return FloatRange(float(data["low"]), float(data["high"]), Scale(data["scale"]))
        case "int":
            return IntRange(int(data["low"]), int(data["high"]), Scale(data["scale"]))
        case _:
            return Choice(tuple(data["values"]))


def domain_from_text(text: str) -> Domain:
    """Return the domain that a text such as "1e-5..1e-1:log" or "adam,sgd" describes.

    Args:
        text: `LOW..HIGH` with any of `:int`, `:float` and a scale behind it, or values separated by commas.

    Raises:
        BadSpace: The text is neither, or the range is not possible.

    Example:
        >>> domain_from_text("16..256:int")
        IntRange(low=16, high=256, scale=<Scale.AUTO: 'auto'>)
        >>> domain_from_text("adam,sgd").values
        ('adam', 'sgd')
    """
    bounds, *options = text.strip().split(":")
    low_text, dots, high_text = bounds.partition("..")
    if high_text.startswith("."):
        raise BadSpace(f'"{text.strip()}" has three dots. Write LOW..HIGH, such as 1e-5..1e-1:log.')
    if not dots:
        return Choice(tuple(_plain(part.strip()) for part in text.strip().split(",") if part.strip()))
    is_int, scale = False, Scale.AUTO
    for option in (option.strip() for option in options):
        if option in ("int", "float"):
            is_int = option == "int"
        elif option in tuple(Scale):
            scale = Scale(option)
        else:
            raise BadSpace(f'"{option}" is unknown in "{text.strip()}". A range can be followed by int, float, '
                           f"{', '.join(Scale)}.")
    low, high = (_number(part.strip(), text) for part in (low_text, high_text))
    if is_int:
        if not (low.is_integer() and high.is_integer()):
            raise BadSpace(f'"{text.strip()}" is a range of integers with a bound that is not an integer.')
        return IntRange(int(low), int(high), scale)
    return FloatRange(low, high, scale)


def builtin(value: Any) -> Any:
    """Return a scalar of NumPy or a similar library as a Python value, and any other value unchanged."""
    if isinstance(value, int | float | str) or getattr(value, "ndim", None) != 0:
        return value
    return value.item()


def _check_range(low: float, high: float, scale: Scale) -> None:
    if not (is_number(low) and is_number(high) and math.isfinite(low) and math.isfinite(high)):
        raise BadSpace(f"The bounds of a range must be finite numbers, not {low!r} and {high!r}.")
    if not math.isfinite(high - low):
        raise BadSpace(f"The range {low:g}..{high:g} is too wide.")
    if low > high:
        raise BadSpace(f"The range {low:g}..{high:g} is reversed. Write {high:g}..{low:g}.")
    if low == high:
        raise BadSpace(f"The range {low:g}..{high:g} has only one value. Leave the parameter out of the space and pass "
                       "it to the script.")
    if scale is Scale.LOG and low <= 0:
        raise BadSpace(f"The range {low:g}..{high:g} contains values ≤ 0, which have no logarithm. Start above 0, "
                       "or use the linear scale.")
    if scale is Scale.REVERSE_LOG and not (low >= 0 and high < 1):
        raise BadSpace(f"The range {low:g}..{high:g} is not in [0, 1), which the scale reverse-log needs.")


def _chosen(low: float, high: float, scale: Scale) -> Scale:
    if scale is not Scale.AUTO:
        return scale
    return Scale.LOG if low > 0 and high / low >= _AUTO_LOG_RATIO else Scale.LINEAR


def _forward(value: float, scale: Scale) -> float:
    if scale is Scale.LOG:
        return math.log(value)
    return -math.log1p(-value) if scale is Scale.REVERSE_LOG else float(value)


def _backward(value: float, scale: Scale) -> float:
    if scale is Scale.LOG:
        return math.exp(value)
    return -math.expm1(-value) if scale is Scale.REVERSE_LOG else value


def _scale_text(scale: Scale) -> str:
    return "" if scale is Scale.AUTO else f":{scale}"


def is_number(value: Any) -> bool:
    """Return whether a value is a number, but not NaN or a boolean."""
    return isinstance(value, int | float) and not isinstance(value, bool) and not math.isnan(value)


def _same(one: Any, other: Value) -> bool:
    return bool(one == other) and isinstance(one, bool) == isinstance(other, bool)


def _number(text: str, whole: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise BadSpace(f'"{text}" is not a number in the range "{whole.strip()}". Write LOW..HIGH, such as '
                       "1e-5..1e-1:log.") from None


def _plain(text: str) -> Value:
    """Return a choice from the command line: a number if it is one."""
    for kind in (int, float):
        try:
            found = kind(text)
        except ValueError:
            continue
        return found if math.isfinite(found) else text
    return text
