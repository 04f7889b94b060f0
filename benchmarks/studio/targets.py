"""What the web UI promises, and what was measured of it."""

from __future__ import annotations

import statistics
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Target:
    """A promise.

    Attributes:
        name: What is measured.
        most: Greatest value that keeps it.
        unit: "s", "kB", "MB", "" for a count.
    """

    name: str
    most: float
    unit: str = ""


@dataclass
class Measured:
    """Values of a target, one a round."""

    target: Target
    values: list[float] = field(default_factory=list)

    @property
    def median(self) -> float:
        """Median of the rounds; NaN if nothing was measured."""
        return statistics.median(self.values) if self.values else float("nan")

    @property
    def kept(self) -> bool:
        """Whether the median keeps the promise."""
        return self.median <= self.target.most

    @property
    def text(self) -> str:
        """Median, and least and greatest value.

        Example:
            >>> Measured(Target("first rows", 0.5, "s"), [0.2, 0.31, 0.25]).text
            '0.25 s [0.2–0.31]'
        """
        if not self.values:
            return "not measured"
        low, high = min(self.values), max(self.values)
        spread = f" [{_figure(low)}–{_figure(high)}]" if low != high else ""
        return f"{_figure(self.median)} {self.target.unit}".rstrip() + spread


class Board:
    """Measured values by target, in the order in which they were added."""

    def __init__(self) -> None:
        self._found: dict[str, Measured] = {}

    def add(self, name: str, most: float, unit: str, value: float) -> None:
        """Add a value."""
        self._found.setdefault(name, Measured(Target(name, most, unit))).values.append(value)

    @property
    def all(self) -> list[Measured]:
        """All of them."""
        return list(self._found.values())


def _figure(value: float) -> str:
    return f"{value:.3g}" if abs(value) < 1000 else f"{value:.0f}"
