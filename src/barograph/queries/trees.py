"""Feature importance and growth of tree models."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from barograph.model.importance import is_counted_otherwise
from barograph.model.key import Kind
from barograph.model.plain import plain
from barograph.queries.curves import Curve, curves_of
from barograph.runs.reading.reader import RunReader

MOST_FEATURES = 30
"""Maximum number of features in a report."""


@dataclass(frozen=True, slots=True)
class Importance:
    """Importance of a feature in a tree model.

    Attributes:
        feature: Name of the feature.
        share: Share of the total importance at the last recorded step.
        over_time: Importance over the rounds.
    """

    feature: str
    share: float
    over_time: Curve

    def to_json(self) -> dict[str, Any]:
        """Return it as strict JSON data."""
        data: dict[str, Any] = plain(self)
        return data


def importance_in(run: RunReader) -> tuple[tuple[Importance, ...], int]:
    """Return the most important features, and the number left out.

    Raises:
        StoreError: The store cannot be read.
    """
    curves = [curve for curve in curves_of(run, Kind.IMPORTANCE)
              if curve.mode == "train" and not is_counted_otherwise(curve.key)]
    # A feature without splits is not recorded, and its importance is 0.
    newest = max((curve.steps[-1] for curve in curves), default=0)
    last = {id(curve): curve.last if curve.steps[-1] == newest and curve.last > 0 else 0.0 for curve in curves}
    total = sum(last.values()) or 1.0
    heaviest = sorted(curves, key=lambda curve: -last[id(curve)])
    kept = heaviest[:MOST_FEATURES]
    return tuple(
        Importance(curve.key.partition(":")[2], last[id(curve)] / total, curve) for curve in kept
    ), len(heaviest) - len(kept)


def trees_in(run: RunReader) -> tuple[Curve, ...]:
    """Return depth, leaves and other records of the trees over the rounds.

    Raises:
        StoreError: The store cannot be read.
    """
    return tuple(curves_of(run, Kind.TREE))
