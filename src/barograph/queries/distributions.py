"""Distributions of weights, gradients, updates and outputs over the steps."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from barograph.measures.histogram import magnitude_quantile
from barograph.model.finding import Finding
from barograph.model.key import Key
from barograph.model.plain import plain
from barograph.model.records import Subject
from barograph.model.summary import Summary
from barograph.runs.reading.bundle import optimizers_of
from barograph.runs.reading.histograms import steps_with_histogram
from barograph.runs.reading.layers import LAYER_KINDS, layer_path
from barograph.runs.reading.reader import RunReader

QUANTILES = (0.05, 0.25, 0.5, 0.75, 0.95)
"""Quantiles of the nonzero magnitudes."""

MOST_TENSORS = 48
"""Maximum number of tensors in a report."""

_MOST_STEPS = 16
_MOST_ASKED = 8


@dataclass(frozen=True, slots=True)
class Distribution:
    """Distribution of the magnitudes of a tensor over the steps.

    Attributes:
        key: Key of the tensor.
        layer: Class of its module.
        steps: Steps with a histogram.
        quantiles: For each step, the 5%, 25%, 50%, 75% and 95% quantiles of the nonzero magnitudes, within a factor
            of two.
        zeros: For each step, the share of zeros.
        nonfinite: For each step, the number of NaN and infinite elements.
    """

    key: str
    layer: str
    steps: tuple[int, ...]
    quantiles: tuple[tuple[float, ...], ...]
    zeros: tuple[float, ...]
    nonfinite: tuple[int, ...]

    def to_json(self) -> dict[str, Any]:
        """Return it as strict JSON data."""
        data: dict[str, Any] = plain(self)
        return data


def distributions_in(run: RunReader, findings: Iterable[Finding]) -> tuple[tuple[Distribution, ...], int]:
    """Return tensors with histograms, by kind, and the number left out.

    If there are too many, layers that a finding names come first.

    Raises:
        StoreError: The store cannot be read.
    """
    seen: dict[Key, list[tuple[int, Subject, Summary]]] = {}
    for optimizer, step in _moments(run):
        view = run.at(step, optimizer=optimizer)
        for kind in LAYER_KINDS:
            for subject, summary in view.summaries(kind):
                seen.setdefault(subject.key, []).append((step, subject, summary))
    # A tensor that is all zero or NaN has no histogram; such a step must not be left out.
    seen = {key: moments for key, moments in seen.items() if any(summary.exponents for _, _, summary in moments)}
    kept = _kept(list(seen), findings)
    return tuple(_distribution(key, seen[key]) for key in kept), len(seen) - len(kept)


def _moments(run: RunReader) -> list[tuple[str, int]]:
    """Return optimizers and steps with histograms, evenly spaced."""
    for kind in LAYER_KINDS:
        keys = run.keys(kind)
        if not keys:
            continue
        moments = []
        for optimizer in optimizers_of(run, kind):
            steps = _steps(run, keys, optimizer)
            chosen = np.unique(np.linspace(0, len(steps) - 1, min(_MOST_STEPS, len(steps))).round().astype(int))
            moments += [(optimizer, steps[at]) for at in chosen.tolist()]
        if moments:
            return moments
    return []


def _steps(run: RunReader, keys: Sequence[Key], optimizer: str) -> list[int]:
    """Return the steps of an optimizer with histograms; several tensors are checked, because one may be dead."""
    of_it = set(run.arrow(keys[0].kind, mode="train", optimizer=optimizer, columns=("path",))["path"].unique()
                .to_pylist())
    found: set[int] = set()
    asked = 0
    for key in keys:
        if key.path in of_it and asked < _MOST_ASKED:
            steps = steps_with_histogram(run, key, optimizer=optimizer).tolist()
            asked += bool(steps)
            found.update(steps)
    return sorted(found)


def _kept(keys: Sequence[Key], findings: Iterable[Finding]) -> list[Key]:
    """Return the keys in the report, by kind and in order of occurrence."""
    named = {layer_path(item.key) for finding in findings for item in finding.evidence if item.key is not None} - {None}
    by_need = sorted(keys, key=lambda key: layer_path(key) not in named)
    kept: list[Key] = []
    # The same number of each kind, if possible.
    queues = [[key for key in by_need if key.kind is kind] for kind in LAYER_KINDS]
    while len(kept) < MOST_TENSORS and any(queues):
        kept += [queue.pop(0) for queue in queues if queue][: MOST_TENSORS - len(kept)]
    return sorted(kept, key=lambda key: (LAYER_KINDS.index(key.kind), keys.index(key)))


def _distribution(key: Key, seen: Sequence[tuple[int, Subject, Summary]]) -> Distribution:
    return Distribution(
        str(key), seen[0][1].layer, tuple(step for step, _, _ in seen),
        quantiles=tuple(tuple(magnitude_quantile(summary, q) for q in QUANTILES) for _, _, summary in seen),
        zeros=tuple(summary.sparsity for _, _, summary in seen),
        nonfinite=tuple(summary.nonfinite for _, _, summary in seen),
    )
