"""Health and gradient norms of layers."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from barograph.model.finding import Finding, FindingState
from barograph.model.key import Kind
from barograph.model.step import Mode
from barograph.model.summary import Summary
from barograph.queries.curves import Curve, CurveMaker
from barograph.queries.layers import LayerRow, layer_rows
from barograph.report.content import LayerHealth, TensorFigures
from barograph.runs.reading.bundle import bundles
from barograph.runs.reading.layers import layer_path
from barograph.runs.reading.reader import RunReader
from barograph.runs.reading.windows import windows_of

MOST_LAYERS = 150
"""Maximum number of layers in a report."""

_COLUMNS = 48


def layers_in(run: RunReader, findings: Iterable[Finding], *, judged: bool) -> tuple[tuple[LayerHealth, ...], int]:
    """Return the layers in execution order, and the number left out.

    If there are too many, those that a finding names come first.

    Args:
        run: The run.
        findings: Its findings.
        judged: Whether all records were evaluated.

    Raises:
        StoreError: The store cannot be read.
    """
    norms = gradient_norms(run)
    every = layer_rows(run, findings, judged=judged, norms={})
    kept = _kept(every)
    return tuple(_health(layer, norms.get(layer.path)) for layer in kept), len(every) - len(kept)


def gradient_norms(run: RunReader) -> dict[str, Curve]:
    """Return the gradient norm of each module over the steps; NaN where it is not finite."""
    windows = windows_of(run, Kind.GRADIENT, mode=Mode.TRAIN)
    makers: dict[str, CurveMaker] = {}
    for start, stop in windows:
        squares: dict[str, list[tuple[NDArray[np.int64], NDArray[np.float64]]]] = {}
        for mode, _, (power, bad) in bundles(run, Kind.GRADIENT, ("sum_sq", "nonfinite"), start=start, stop=stop):
            if mode is Mode.TRAIN:
                values = np.where(bad.values > 0, np.nan, power.values)
                squares.setdefault(layer_path(power.key) or "", []).append((power.steps, values))
        for path, parts in squares.items():
            if path not in makers:
                makers[path] = CurveMaker(f"gradient:{path}", Mode.TRAIN, "", low=windows.low, high=windows.high,
                                          columns=_COLUMNS)
            makers[path].add(*_root_of_sums(parts))
    return {path: maker.curve() for path, maker in makers.items()}


def _root_of_sums(
    parts: Sequence[tuple[NDArray[np.int64], NDArray[np.float64]]]
) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    steps, places = np.unique(np.concatenate([part[0] for part in parts]), return_inverse=True)
    sums = np.zeros(len(steps))
    np.add.at(sums, places, np.concatenate([part[1] for part in parts]))
    return steps, np.sqrt(sums)


def _kept(layers: Sequence[LayerRow]) -> list[LayerRow]:
    if len(layers) <= MOST_LAYERS:
        return list(layers)
    by_need = sorted(range(len(layers)), key=lambda at: (not layers[at].findings, at))
    return [layers[at] for at in sorted(by_need[:MOST_LAYERS])]


def _health(layer: LayerRow, norms: Curve | None) -> LayerHealth:
    codes = dict.fromkeys(
        item.code if item.state is FindingState.OPEN else f"({item.code})" for item in layer.findings
    )
    figures = {kind: _figures(layer.steps[kind], seen) for kind, seen in layer.figures.items()}
    update, weight = layer.figures.get(Kind.UPDATE), layer.figures.get(Kind.WEIGHT)
    ratio = update.l2 / weight.l2 if update is not None and weight is not None and weight.l2 else math.nan
    return LayerHealth(
        layer.path, layer.layer, layer.health, tuple(item.id for item in layer.findings), tuple(codes),
        weight=figures.get(Kind.WEIGHT), gradient=figures.get(Kind.GRADIENT), update=figures.get(Kind.UPDATE),
        output=figures.get(Kind.OUTPUT), update_ratio=ratio, gradient_norms=norms,
    )


def _figures(step: int, seen: Summary) -> TensorFigures:
    return TensorFigures(step, seen.l2, seen.std, seen.sparsity, seen.nonfinite)
