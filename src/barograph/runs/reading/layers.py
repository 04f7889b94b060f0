"""The layers of a model: last statistics, gradients over time, findings."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np

from barograph.measures.summary import merge
from barograph.model.finding import SEVERITY_ORDER, Finding, FindingState
from barograph.model.key import Key, Kind
from barograph.model.key import layer_path as layer_of_parameter
from barograph.model.step import Mode
from barograph.model.summary import Summary
from barograph.runs.reading.bundle import bundle
from barograph.runs.reading.inventory import Entry, inventory, natural_order
from barograph.runs.reading.reader import RunReader

LAYER_KINDS = (Kind.WEIGHT, Kind.GRADIENT, Kind.UPDATE, Kind.OUTPUT)
"""Kinds shown for a layer."""

_OF_PARAMETERS = frozenset({Kind.WEIGHT, Kind.GRADIENT, Kind.GRADIENT_CLIPPED, Kind.UPDATE, Kind.OPTIMIZER_STATE})
_OF_MODULES = frozenset({Kind.INPUT, Kind.OUTPUT})
_ITEMS = re.compile(r"(\[[^\[\]]*\])+$")


@dataclass(frozen=True, slots=True)
class Trend:
    """A number over the recorded steps.

    Attributes:
        steps: Steps, ascending.
        values: Values; NaN if something was not finite.
    """

    steps: tuple[int, ...] = ()
    values: tuple[float, ...] = ()


@dataclass(frozen=True, slots=True)
class Layer:
    """One module of the model.

    Attributes:
        path: Path of the module; "" for the model itself.
        layer: Class of the module; "" if not recorded.
        figures: Kind to the Summary at its last recorded step, over all parameters of the module.
        steps: Kind to that step.
        gradient_norms: Norm of the gradient of all its parameters.
        findings: Findings with evidence about it, open ones first, then the worst.
    """

    path: str
    layer: str
    figures: Mapping[Kind, Summary]
    steps: Mapping[Kind, int]
    gradient_norms: Trend
    findings: tuple[Finding, ...]


def layers_of(
    run: RunReader, findings: Iterable[Finding] = (), *, norms: Mapping[str, Trend] | None = None
) -> list[Layer]:
    """Return the layers with training records or findings.

    In the order in which they ran, if their outputs were recorded.

    Args:
        run: The run.
        findings: Its findings.
        norms: Path to the norm of the gradient, if already read; None: read them.

    Raises:
        StoreError: The store cannot be read.
    """
    entries = _entries_by_layer(run)
    named = _findings_by_layer(findings)
    norms = _gradient_norms(run) if norms is None else norms
    paths = [*_in_order(entries), *sorted(set(named) - set(entries), key=natural_order)]
    return [_layer(path, entries.get(path, {}), norms.get(path, Trend()), named.get(path, ())) for path in paths]


def layers_in_order(run: RunReader) -> list[str]:
    """Return the paths of the layers with training records, in the order in which they ran.

    Raises:
        StoreError: The store cannot be read.
    """
    return _in_order(_entries_by_layer(run))


def layer_path(key: Key) -> str | None:
    """Return the path of the module of a key; None if it has none.

    Example:
        >>> layer_path(Key(Kind.GRADIENT, "blocks.0.fc.weight")), layer_path(Key(Kind.OUTPUT, "lstm[1][0]"))
        ('blocks.0.fc', 'lstm')
        >>> layer_path(Key(Kind.LOSS, "total")) is None
        True
    """
    if key.kind not in _OF_PARAMETERS | _OF_MODULES:
        return None
    path = _ITEMS.sub("", key.path)
    return layer_of_parameter(path) if key.kind in _OF_PARAMETERS else path


def _entries_by_layer(run: RunReader) -> dict[str, dict[Kind, list[Entry]]]:
    entries: dict[str, dict[Kind, list[Entry]]] = {}
    for kind in LAYER_KINDS:
        for entry in inventory(run, kind):
            # A module's own name may have brackets; then its parameters, which come first, have shown it.
            path = entry.key.path if entry.key.path in entries else layer_path(entry.key)
            if entry.mode is Mode.TRAIN and path is not None:
                entries.setdefault(path, {}).setdefault(kind, []).append(entry)
    return entries


def _in_order(entries: Mapping[str, Mapping[Kind, list[Entry]]]) -> list[str]:
    """Return the layers in execution order; those without recorded output are in the order of their parameters."""
    order: list[str] = []
    for kind in (Kind.OUTPUT, *LAYER_KINDS):
        # Models trained by separate optimizers (as in a GAN) follow one another.
        first = {path: min((entry.optimizer, entry.position) for entry in found[kind])
                 for path, found in entries.items() if kind in found}
        before = -1
        for path in sorted(first, key=lambda path: (first[path], natural_order(path))):
            if path in order:
                before = order.index(path)
            else:
                before += 1
                order.insert(before, path)
    return order


def _layer(path: str, entries: Mapping[Kind, list[Entry]], norms: Trend, findings: tuple[Finding, ...]) -> Layer:
    figures, steps = {}, {}
    for kind, found in entries.items():
        known = [entry for entry in found if entry.summary is not None]
        if known:
            # Skip parameters that are no longer recorded, for example because they were frozen.
            steps[kind] = max(entry.last_step for entry in known)
            figures[kind] = merge(*(item.summary for item in known if item.summary and item.last_step == steps[kind]))
    classes = [entry.layer for found in entries.values() for entry in found if entry.layer]
    return Layer(path, classes[0] if classes else "", figures, steps, norms, findings)


def _findings_by_layer(findings: Iterable[Finding]) -> dict[str, tuple[Finding, ...]]:
    worst_first = sorted(
        findings, key=lambda item: (item.state is not FindingState.OPEN, SEVERITY_ORDER.index(item.severity))
    )
    named: dict[str, tuple[Finding, ...]] = {}
    for finding in worst_first:
        paths = {layer_path(item.key) for item in finding.evidence if item.key is not None}
        for path in paths - {None}:
            assert path is not None
            named[path] = (*named.get(path, ()), finding)
    return named


def _gradient_norms(run: RunReader) -> dict[str, Trend]:
    squares: dict[str, dict[int, float]] = {}
    for power, bad in bundle(run, Kind.GRADIENT, ("sum_sq", "nonfinite")):
        of_layer = squares.setdefault(layer_path(power.key) or "", {})
        for step, value in zip(power.steps.tolist(), np.where(bad.values > 0, np.nan, power.values), strict=True):
            of_layer[step] = of_layer.get(step, 0.0) + float(value)
    return {
        path: Trend(tuple(sorted(by_step)), tuple(math.sqrt(by_step[step]) for step in sorted(by_step)))
        for path, by_step in squares.items()
    }
