"""The order of layers from input to loss, and which of them lie on one path to a loss."""

from __future__ import annotations

import re
from collections.abc import Mapping

import numpy as np

from barograph.model.facts import Fact
from barograph.model.key import Kind
from barograph.rules.base import Memory
from barograph.rules.columns import LayerTable
from barograph.rules.step_groups import Flags, Numbers
from barograph.rules.suspects import about, remember_facts
from barograph.runs.reading.view import StepView

_DIGITS = re.compile(r"\d+")


def remember_order(view: StepView, memory: Memory) -> None:
    """Remember the order in which layers ran and the heads that each feeds, if this step recorded them."""
    remember_facts(view, memory, Fact.HEADS)
    if Kind.OUTPUT in view.kinds:
        ran = [subject.key.path for subject in view.columns(Kind.OUTPUT, histograms=False).subjects]
        if len(ran) > len(memory.get("ran", ())):
            memory["ran"] = ran


def forward_order(layers: LayerTable, memory: Memory) -> list[int] | None:
    """Return the rows of the layers from input to loss; None if the order is unknown.

    This is the order in which they ran, if recorded, else the model's order, if a framework recorded the layers (they
    have classes then). Other tools may record gradients in backward order: there numbers in the names decide, and
    without comparable numbers the order is unknown.

    Args:
        layers: In any order.
        memory: As filled by `remember_order`.

    Example:
        >>> from barograph.model.key import Key
        >>> from barograph.model.summary import Summary
        >>> from barograph.rules.columns import table_of
        >>> keys = [Key(Kind.GRADIENT, f"{number}.weight") for number in (4, 2, 0)]
        >>> layers = table_of(StepView.of(0, dict.fromkeys(keys, Summary(count=1))), Kind.GRADIENT).layers
        >>> forward_order(layers, {})
        [2, 1, 0]
    """
    ran = {path: place for place, path in enumerate(memory.get("ran", ()))}
    if ran and all(path in ran for path in layers.paths):
        return sorted(range(len(layers)), key=lambda row: ran[layers.paths[row]])
    if any(layers.classes):
        return list(range(len(layers)))
    rising = _rises(layers.paths)
    if rising is None:
        return None
    return list(range(len(layers))) if rising else list(range(len(layers)))[::-1]


def _rises(paths: tuple[str, ...]) -> bool | None:
    """Return whether numbers rise between similar names; None if they rise and fall, or no names are similar."""
    last: dict[str, list[int]] = {}
    directions = set()
    for path in paths:
        alike, numbers = _DIGITS.sub("#", path), [int(item) for item in _DIGITS.findall(path)]
        if alike in last and last[alike] != numbers:
            directions.add(last[alike] < numbers)
        last[alike] = numbers
    return directions.pop() if len(directions) == 1 else None


def heads_of(layers: LayerTable, memory: Memory) -> list[int]:
    """Return, for each layer, the heads that it feeds, as bits; all bits if not recorded.

    A head is the last layer before a loss. Layers without a common head are on parallel paths, so their gradients
    cannot be compared.
    """
    known: Mapping[str, float] = about(memory.get("facts", {}), Fact.HEADS)
    return [int(known.get(path, _ALL)) for path in layers.paths]


_ALL = (1 << 52) - 1


def greatest_on_path(norms: Numbers, heads: list[int]) -> list[int]:
    """Return, for each layer, the row with the greatest norm among those with a common head.

    Example:
        >>> greatest_on_path(np.array([1.0, 2.0, 9.0]), [1, 1, 2])
        [1, 1, 2]
    """
    by_heads: dict[int, int] = {}
    for own in set(heads):
        shared = np.array([bool(own & other) for other in heads])
        by_heads[own] = int(np.argmax(np.where(shared, norms, -1.0)))
    return [by_heads[own] for own in heads]


def growth_backwards(layers: LayerTable, memory: Memory) -> float | None:
    """Return the ratio of the gradients of the first third of the layers to those of the last third.

    Medians of their norms, on the path to a loss where they grow most; 0 if fewer than four layers have a gradient, or
    if it does not grow in most of them; None if the order of the layers is unknown.
    """
    if layers.carrying_count < _LEAST_DEPTH:
        return 0.0
    order = forward_order(layers, memory)
    if order is None:
        return None
    heads = heads_of(layers, memory)
    return max((_growth(layers.l2, [row for row in order if heads[row] & own], layers.carrying)
                for own in set(heads)), default=0.0)


def _growth(norms: Numbers, rows: list[int], carrying: Flags) -> float:
    path = np.array([norms[row] for row in rows if carrying[row]])
    third = max(1, len(path) // 3)
    if len(path) < _LEAST_DEPTH or (np.diff(path) < 0).mean() < _MOST:
        return 0.0
    return float(np.median(path[:third]) / np.median(path[-third:]))


_LEAST_DEPTH, _MOST = 4, 0.7
