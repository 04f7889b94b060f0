"""Exhibits of a run: confusion matrices, score curves, tables and figures."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any, ClassVar

from barograph.model.plain import plain


@dataclass(frozen=True, slots=True, repr=False)
class Exhibit:
    """Base class of exhibits.

    Attributes:
        title: Its title.
    """

    kind: ClassVar[str] = ""
    title: str

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.title!r}{self._figures()})"

    def to_json(self) -> dict[str, Any]:
        """Return strict JSON data."""
        return {"kind": self.kind, **{item.name: plain(getattr(self, item.name)) for item in fields(self)}}

    def _figures(self) -> str:
        """Return the part of `repr` after the title."""
        return ""


@dataclass(frozen=True, slots=True, repr=False)
class ConfusionMatrix(Exhibit):
    """A confusion matrix.

    Attributes:
        labels: Labels of the classes.
        counts: A row per target, a column per prediction, both in the order of `labels`.
        normalize: "true", "pred" or "all": shares of the row, the column or all; "": counts.
    """

    kind: ClassVar[str] = "confusion-matrix"
    labels: tuple[str, ...]
    counts: tuple[tuple[float, ...], ...]
    normalize: str = ""

    @property
    def accuracy(self) -> float:
        """Accuracy; NaN if the matrix is empty, or rows or columns are normalized."""
        total = sum(map(sum, self.counts))
        if not total or self.normalize in ("true", "pred"):
            return math.nan
        return sum(row[at] for at, row in enumerate(self.counts)) / total

    def _figures(self) -> str:
        return f", {len(self.labels)} classes, accuracy={self.accuracy:.3g}"


@dataclass(frozen=True, slots=True)
class RocOfClass:
    """ROC curve of one class.

    Attributes:
        label: Label of the class.
        positives, negatives: Number of samples of the class, and of others; weighted, if weights are given.
        area: AUC: 0.5 is chance, 1 is perfect; NaN if positives or negatives are missing.
        false_positives, true_positives: Rates along the curve; NaN if undefined.
        thresholds: Score thresholds; the first is infinite.
    """

    label: str
    positives: float
    negatives: float
    area: float
    false_positives: tuple[float, ...]
    true_positives: tuple[float, ...]
    thresholds: tuple[float, ...]


@dataclass(frozen=True, slots=True, repr=False)
class RocCurves(Exhibit):
    """ROC curves: of the positive class, or of each class against the others.

    Attributes:
        curves: One per class.
    """

    kind: ClassVar[str] = "roc"
    curves: tuple[RocOfClass, ...]

    @property
    def area(self) -> float:
        """Macro-averaged AUC; NaN if one is undefined."""
        return _mean([curve.area for curve in self.curves])

    def _figures(self) -> str:
        return f", area={self.area:.3g}"


@dataclass(frozen=True, slots=True)
class PrecisionRecallOfClass:
    """Precision-recall curve of one class.

    Attributes:
        label: Label of the class.
        positives, negatives: As in `RocOfClass`.
        average_precision: Precision at each threshold, weighted by the increase in recall.
        precision, recall: Values along the curve; the last point, 1 and 0, has no threshold.
        thresholds: One fewer, ascending.
    """

    label: str
    positives: float
    negatives: float
    average_precision: float
    precision: tuple[float, ...]
    recall: tuple[float, ...]
    thresholds: tuple[float, ...]


@dataclass(frozen=True, slots=True, repr=False)
class PrecisionRecallCurves(Exhibit):
    """Precision-recall curves: of the positive class, or of each class against the others.

    Attributes:
        curves: One per class.
        no_skill: Precision of a model without skill, drawn as a baseline; None: not given.
    """

    kind: ClassVar[str] = "precision-recall"
    curves: tuple[PrecisionRecallOfClass, ...]
    no_skill: float | None = None

    @property
    def average_precision(self) -> float:
        """Macro-averaged average precision."""
        return _mean([curve.average_precision for curve in self.curves])

    def _figures(self) -> str:
        return f", average_precision={self.average_precision:.3g}"


@dataclass(frozen=True, slots=True, repr=False)
class Sheet(Exhibit):
    """First rows of a table.

    Attributes:
        columns: Column names.
        rows: The first rows, as strings.
        count: Number of all rows.
    """

    kind: ClassVar[str] = "table"
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    count: int


@dataclass(frozen=True, slots=True, repr=False)
class Picture(Exhibit):
    """An image.

    Attributes:
        media_type: image/png, image/svg+xml, image/jpeg, image/gif or image/webp.
        data: Its bytes.
    """

    kind: ClassVar[str] = "picture"
    media_type: str
    data: bytes

    def to_json(self) -> dict[str, Any]:
        """Return JSON data without the bytes, which are in the artifact."""
        return {"kind": self.kind, "title": self.title, "media_type": self.media_type, "size_bytes": len(self.data)}


@dataclass(frozen=True, slots=True, repr=False)
class NotShown(Exhibit):
    """An exhibit that cannot be shown.

    Attributes:
        reason: Reason, in a sentence.
    """

    kind: ClassVar[str] = "not-shown"
    reason: str


def _mean(values: Sequence[float]) -> float:
    return math.fsum(values) / len(values) if values else math.nan
