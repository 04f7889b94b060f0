"""Statistics of many tensors at once, read from the columns of a step."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from barograph.model.key import Key, Kind
from barograph.model.records import Subject
from barograph.model.summary import MOMENT_FIELDS
from barograph.runs.view import StepView

_AT = {name: index for index, name in enumerate(MOMENT_FIELDS)}

Numbers = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Table:
    """The tensors of one kind that were seen in one step, a row each, with what can be said of them.

    Attributes:
        subjects: What each row is about.
        moments: Shape (rows, 10), as in `MOMENT_FIELDS`.
    """

    subjects: tuple[Subject, ...]
    moments: Numbers

    def __len__(self) -> int:
        return len(self.subjects)

    def column(self, name: str) -> Numbers:
        """Return one column of `MOMENT_FIELDS`."""
        return self.moments[:, _AT[name]]

    @property
    def infinite(self) -> Numbers:
        """Elements that are +inf or -inf."""
        return self.column("posinf") + self.column("neginf")

    @property
    def finite(self) -> Numbers:
        """Elements that are neither NaN nor infinite."""
        return self.column("count") - self.column("nan") - self.infinite

    @property
    def mean_abs(self) -> Numbers:
        """Mean magnitude of the finite elements; NaN where there is none."""
        return _divided(self.column("sum_abs"), self.finite)

    @property
    def l2(self) -> Numbers:
        """Euclidean norm of the finite elements."""
        return np.sqrt(self.column("sum_sq"))

    @property
    def variance(self) -> Numbers:
        """Population variance of the finite elements; NaN where there is none. See `Summary.variance`."""
        mean_square = _divided(self.column("sum_sq"), self.finite)
        mean = _divided(self.column("sum"), self.finite)
        return np.maximum(0.0, mean_square - mean**2)

    @property
    def max_abs(self) -> Numbers:
        """Largest magnitude among the finite elements; NaN where there is none."""
        largest = np.maximum(np.abs(self.column("min")), np.abs(self.column("max")))
        return np.where(self.finite > 0, largest, np.nan)

    @property
    def paths(self) -> tuple[str, ...]:
        """Path of each row."""
        return tuple(subject.key.path for subject in self.subjects)


def table_of(view: StepView, kind: Kind) -> Table:
    """Return the tensors of that kind with at least one element seen in this step."""
    columns = view.columns(kind, histograms=False)
    seen = columns.moments[:, _AT["count"]] > 0
    if seen.all():
        return Table(columns.subjects, columns.moments)
    return Table(tuple(subject for subject, is_seen in zip(columns.subjects, seen, strict=True) if is_seen),
                 columns.moments[seen])


def learning_rate(view: StepView) -> float | None:
    """Return the greatest learning rate of the step's parameter groups; None where none was recorded."""
    rates = view.scalars(Kind.LEARNING_RATE)
    return max(rates.values()) if rates else None


def stated_loss(view: StepView) -> tuple[Key, float] | None:
    """Return the loss of the step that stands for all: what `backward` started from, or the only one there is.

    In evaluation nothing is differentiated, so there the first loss by name is taken. None where no loss
    was recorded.
    """
    losses = view.scalars(Kind.LOSS)
    if not losses:
        return None
    total = Key(Kind.LOSS, "total")
    key = total if total in losses else min(losses)
    return key, losses[key]


def layer_path(parameter_path: str) -> str:
    """Return the module a parameter belongs to.

    Example:
        >>> layer_path("blocks.0.fc.weight"), layer_path("scale")
        ('blocks.0.fc', '')
    """
    return parameter_path.rpartition(".")[0]


def _divided(above: Numbers, below: Numbers) -> Numbers:
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(below > 0, above / below, np.nan)
