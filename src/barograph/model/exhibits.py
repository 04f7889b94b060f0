"""What a run was given to show: confusion matrices, curves of scores, tables, pictures."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any, ClassVar

from barograph.model.plain import plain


@dataclass(frozen=True, slots=True, repr=False)
class Exhibit:
    """Something to look at; each sort of it is a class of its own below.

    Attributes:
        title: By which the component calls it.
    """

    kind: ClassVar[str] = ""
    title: str

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.title!r}{self._figures()})"

    def to_json(self) -> dict[str, Any]:
        """Return it as strict JSON data."""
        return {"kind": self.kind, **{item.name: plain(getattr(self, item.name)) for item in fields(self)}}

    def _figures(self) -> str:
        """Return what its `repr` says beside the title."""
        return ""


@dataclass(frozen=True, slots=True, repr=False)
class ConfusionMatrix(Exhibit):
    """How often each class was taken for each.

    Attributes:
        labels: Of the classes.
        counts: A row for each truth, a column for each answer, both in the order of `labels`.
        normalize: "true", "pred" or "all": the counts are shares of their row, of their column, of all; "": counts.
    """

    kind: ClassVar[str] = "confusion-matrix"
    labels: tuple[str, ...]
    counts: tuple[tuple[float, ...], ...]
    normalize: str = ""

    @property
    def accuracy(self) -> float:
        """The share of right answers; NaN where there are none, or rows or columns are normalized."""
        total = sum(map(sum, self.counts))
        if not total or self.normalize in ("true", "pred"):
            return math.nan
        return sum(row[at] for at, row in enumerate(self.counts)) / total

    def _figures(self) -> str:
        return f", {len(self.labels)} classes, accuracy={self.accuracy:.3g}"


@dataclass(frozen=True, slots=True)
class RocOfClass:
    """How well scores tell one class from the others.

    Attributes:
        label: Of the class.
        positives, negatives: Samples of it, and of the others; by weight, where they have one.
        area: Under the curve: 0.5 is chance, 1 is perfect; NaN where one sort is missing.
        false_positives, true_positives: The curve, as shares; NaN where a sort is missing.
        thresholds: Of the scores; the first is infinite.
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
        curves: One for each class.
    """

    kind: ClassVar[str] = "roc"
    curves: tuple[RocOfClass, ...]

    @property
    def area(self) -> float:
        """The mean of the areas, each class counting alike; NaN where one is not defined."""
        return _mean([curve.area for curve in self.curves])

    def _figures(self) -> str:
        return f", area={self.area:.3g}"


@dataclass(frozen=True, slots=True)
class PrecisionRecallOfClass:
    """Precision over recall of one class.

    Attributes:
        label: Of the class.
        positives, negatives: As of `RocOfClass`.
        average_precision: The precision at each threshold, weighted by the recall that it adds.
        precision, recall: Shares; the last point, 1 and 0, belongs to no threshold.
        thresholds: One fewer, rising.
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
    """Curves of precision and recall: of the positive class, or of each class against the others.

    Attributes:
        curves: One for each class.
        no_skill: Precision of answers that know nothing, drawn beside them; None: not said.
    """

    kind: ClassVar[str] = "precision-recall"
    curves: tuple[PrecisionRecallOfClass, ...]
    no_skill: float | None = None

    @property
    def average_precision(self) -> float:
        """The mean over the classes, each counting alike."""
        return _mean([curve.average_precision for curve in self.curves])

    def _figures(self) -> str:
        return f", average_precision={self.average_precision:.3g}"


@dataclass(frozen=True, slots=True, repr=False)
class Sheet(Exhibit):
    """The beginning of a table.

    Attributes:
        columns: Their names.
        rows: The first ones, as texts.
        count: Of all rows.
    """

    kind: ClassVar[str] = "table"
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    count: int


@dataclass(frozen=True, slots=True, repr=False)
class Picture(Exhibit):
    """A picture.

    Attributes:
        media_type: image/png, image/svg+xml, image/jpeg, image/gif or image/webp.
        data: Its bytes.
    """

    kind: ClassVar[str] = "picture"
    media_type: str
    data: bytes

    def to_json(self) -> dict[str, Any]:
        """Return what it is; the bytes are in the artifact."""
        return {"kind": self.kind, "title": self.title, "media_type": self.media_type, "size_bytes": len(self.data)}


@dataclass(frozen=True, slots=True, repr=False)
class NotShown(Exhibit):
    """Something that cannot be shown.

    Attributes:
        reason: Why, in a sentence.
    """

    kind: ClassVar[str] = "not-shown"
    reason: str


def _mean(values: Sequence[float]) -> float:
    return math.fsum(values) / len(values) if values else math.nan
