"""Which records to take and when, as requested by rules, presets and users."""

from __future__ import annotations

import fnmatch
from dataclasses import dataclass, field
from enum import IntEnum

from barograph.errors import SettingsError
from barograph.model.key import Key, Kind
from barograph.model.step import Mode


class Histogram(IntEnum):
    """Sampling of the exponent histogram. A greater one satisfies requests for a lesser one."""

    NONE = 0
    SAMPLED = 1
    """One element in eight, spread evenly."""
    EXACT = 2


@dataclass(frozen=True, slots=True)
class Schedule:
    """Which steps are recorded.

    A step is recorded if its mode is in `modes` and it is either in `steps` or, with `start` <= step <
    `end`, a multiple of `every` steps after `start`.

    Attributes:
        every: Interval in steps, from 1. 0: only those in `steps`.
        start: First step.
        end: First step that is no longer recorded; None: no end.
        steps: Steps recorded whatever the interval.
        modes: Modes in which it applies.

    Example:
        >>> [step for step in range(12) if Schedule(every=5, start=1, steps=frozenset({3})).includes(step)]
        [1, 3, 6, 11]
    """

    every: int = 1
    start: int = 0
    end: int | None = None
    steps: frozenset[int] = frozenset()
    modes: frozenset[Mode] = frozenset(Mode)

    def __post_init__(self) -> None:
        if self.every < 0:
            raise SettingsError(f"every is {self.every}; it must be 0 (only the listed steps) or more.")
        if self.start < 0:
            raise SettingsError(f"start is {self.start}; it must be 0 or more.")
        if self.end is not None and self.end <= self.start:
            raise SettingsError(f"end is {self.end}; it must be after start, which is {self.start}.")

    def includes(self, step: int, mode: Mode = Mode.TRAIN) -> bool:
        """Return whether this step of this mode is recorded."""
        if mode not in self.modes:
            return False
        if step in self.steps:
            return True
        if self.every == 0 or step < self.start or (self.end is not None and step >= self.end):
            return False
        return (step - self.start) % self.every == 0

    def includes_any(self, first: int, last: int, mode: Mode = Mode.TRAIN) -> bool:
        """Return whether any of the steps `first` to `last` of this mode is recorded.

        Example:
            >>> Schedule(every=10).includes_any(11, 19), Schedule(every=10).includes_any(11, 20)
            (False, True)
        """
        if mode not in self.modes or last < first:
            return False
        if self.steps and any(first <= step <= last for step in self.steps):
            return True
        end = last if self.end is None else min(last, self.end - 1)
        begin = max(first, self.start)
        if self.every == 0 or end < begin:
            return False
        return (end - self.start) // self.every > (begin - 1 - self.start) // self.every


def every(interval_steps: int) -> Schedule:
    """Return the schedule that records every `interval_steps`-th step from 0."""
    return Schedule(every=interval_steps)


@dataclass(frozen=True, slots=True)
class Selection:
    """Named set of series to record, with what to record of them and when.

    The `needs` of a rule, the collections of users and presets are Selections. The plan is their union.

    Attributes:
        name: Name of the collection; "" for the needs of a rule.
        kinds: Kinds of records.
        include: Shell patterns; a path must match one. Empty: all paths.
        exclude: Shell patterns that a path must not match.
        layers: Module classes; empty: all.
        schedule: Steps to record.
        histogram: Sampling of the exponent histogram.
        units: Also record per-unit summaries.
        raw: Also save whole tensors.

    Example:
        >>> Selection(kinds=frozenset({Kind.WEIGHT}), include=("*.bias",)).matches(Key(Kind.WEIGHT, "fc.bias"))
        True
    """

    name: str = ""
    kinds: frozenset[Kind] = frozenset()
    include: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()
    layers: frozenset[str] = frozenset()
    schedule: Schedule = field(default_factory=Schedule)
    histogram: Histogram = Histogram.NONE
    units: bool = False
    raw: bool = False

    def matches(self, key: Key, layer: str = "") -> bool:
        """Return whether the key of a module of class `layer` is part of it."""
        if key.kind not in self.kinds or (self.layers and layer not in self.layers):
            return False
        if self.include and not any(fnmatch.fnmatchcase(key.path, pattern) for pattern in self.include):
            return False
        return not any(fnmatch.fnmatchcase(key.path, pattern) for pattern in self.exclude)
