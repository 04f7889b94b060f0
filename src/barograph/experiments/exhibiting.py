"""Logging of tables, figures, confusion matrices and curves as artifacts in open formats."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Sequence
from typing import Any, TypeVar

from barograph.errors import SettingsError, UnknownName, nearest
from barograph.experiments.artifacts import artifact_from_bytes, bytes_in
from barograph.experiments.making import Answer, Making
from barograph.experiments.pictures import picture_of
from barograph.experiments.scoring import confusion_matrix_of, precision_recall_of, roc_curves_of
from barograph.experiments.shown import exhibits_of
from barograph.experiments.table_artifact import PARQUET, ArrowTable, table_from_parquet, table_to_parquet
from barograph.model.exhibit_json import exhibit_to_bytes, media_type_of
from barograph.model.exhibits import ConfusionMatrix, Exhibit, PrecisionRecallCurves, RocCurves
from barograph.model.items import ArtifactLink, checked_name
from barograph.store.base import Store

Made = TypeVar("Made", bound="Exhibit")


class Exhibiting(Making[Answer]):
    """Something that can log tables, figures, confusion matrices and curves.

    Each is stored as an artifact: tables as Parquet, matrices and curves as JSON, figures as PNG or SVG. `barograph
    show`, the report and notebooks show them. If two share a title, the last one wins.
    """

    @property
    def _roots(self) -> Sequence[Store]:
        """Roots that may contain its artifacts, in order of preference."""
        return (self._root,)

    @abstractmethod
    def _links(self) -> Sequence[ArtifactLink]:
        """Return its artifacts, outputs last."""

    def log_table(
        self, title: str | None = None, values: Any = None, data_frame: Any = None, is_output: bool = True
    ) -> ArtifactLink:
        """Log a table; `table(title)` returns it.

        Args:
            title: None: "table".
            values: Columns by name, a list of rows (name to value), or a pandas, polars or Arrow table.
            data_frame: Alias of `values`.
            is_output: Whether it is an output; otherwise it is an input.

        Raises:
            SettingsError: It is not a table.
            SessionClosed, StoreError: As in `log_parameter`.
        """
        if (values is None) == (data_frame is None):
            raise SettingsError("log_table takes exactly one of values and data_frame.")
        data = table_to_parquet(values if values is not None else data_frame)
        return self._keep(data, title or "table", PARQUET, is_output=is_output)

    def log_figure(
        self, figure: Any, title: str | None = None, is_output: bool = True, *, drawn_as: str = "png"
    ) -> ArtifactLink:
        """Log a figure.

        Args:
            figure: A matplotlib figure or axes, a Pillow image, the bytes of a PNG, JPEG, GIF, WebP or SVG, the text of
                an SVG, or the path of such a file.
            title: None: "figure".
            is_output: As in `log_table`.
            drawn_as: "png" or "svg", for matplotlib figures.

        Raises:
            SettingsError: It is not a figure.
            SessionClosed, StoreError: As in `log_parameter`.
        """
        data, media_type = picture_of(figure, drawn_as)
        return self._keep(data, title or "figure", media_type, is_output=is_output)

    def log_confusion_matrix(
        self, y_true: Any, y_pred: Any, title: str | None = None, is_output: bool = True, *,
        labels: Iterable[Any] | None = None, normalize: str | None = None, sample_weight: Any = None,
    ) -> ConfusionMatrix:
        """Log a confusion matrix and return it.

        Args:
            y_true: Target of each sample. Shape (n,).
            y_pred: Prediction for each sample. Shape (n,).
            title: None: "confusion matrix".
            is_output: As in `log_table`.
            labels: Classes, in order; samples of other classes are left out. None: all classes, sorted.
            normalize: "true", "pred" or "all" for shares of the target, of the prediction or of all; None: counts.
            sample_weight: None: 1 for each sample. Shape (n,).

        Raises:
            SettingsError: The lengths differ, or a label is NaN or None.
            SessionClosed, StoreError: As in `log_parameter`.
        """
        made = confusion_matrix_of(y_true, y_pred, title or "confusion matrix", labels=labels, normalize=normalize,
                                   sample_weight=sample_weight)
        return self._exhibit(made, is_output=is_output)

    def log_roc_curve(
        self, y_true: Any, y_score: Any, title: str | None = None, is_output: bool = True, *,
        positive_label: Any = None, labels: Iterable[Any] | None = None, sample_weight: Any = None,
    ) -> RocCurves:
        """Log ROC curves with their AUC and return them.

        Args:
            y_true: Target of each sample. Shape (n,).
            y_score: Scores of the positive class, shape (n,), or of each class, shape (n, classes). The latter gives a
                curve for each class against the others; for two classes, that of the second.
            title: None: "ROC curve".
            is_output: As in `log_table`.
            positive_label: Label of the positive class; None: 1, if the labels are 0 and 1 or -1 and 1.
            labels: Classes of the columns of `y_score`, in order; None: those of `y_true`, sorted.
            sample_weight: As in `log_confusion_matrix`.

        Raises:
            SettingsError: The shapes do not match, or a score is NaN or infinite.
            SessionClosed, StoreError: As in `log_parameter`.
        """
        made = roc_curves_of(y_true, y_score, title or "ROC curve", positive_label=positive_label, labels=labels,
                             sample_weight=sample_weight)
        return self._exhibit(made, is_output=is_output)

    def log_precision_recall(
        self, y_true: Any, predicted_probabilities: Any, positive_label: Any = None, title: str | None = None,
        is_output: bool = True, no_skill: float | None = None, *, labels: Iterable[Any] | None = None,
        sample_weight: Any = None,
    ) -> PrecisionRecallCurves:
        """Log precision-recall curves with their average precision and return them.

        Args:
            y_true, predicted_probabilities, positive_label, labels, sample_weight: As in `log_roc_curve`, where
                `y_score` are the probabilities.
            title: None: "precision and recall".
            is_output: As in `log_table`.
            no_skill: Precision of a model without skill, drawn as a baseline.

        Raises:
            SettingsError, SessionClosed, StoreError: As in `log_roc_curve`.
        """
        made = precision_recall_of(y_true, predicted_probabilities, title or "precision and recall",
                                   positive_label=positive_label, labels=labels, sample_weight=sample_weight,
                                   no_skill=no_skill)
        return self._exhibit(made, is_output=is_output)

    def table(self, title: str = "table") -> ArrowTable:
        """Return a logged table as an Arrow table: `.to_pandas()`, `polars.from_arrow(…)`.

        Raises:
            UnknownName: No table has that title.
            DamagedChunk, StoreError: It cannot be read.
        """
        tables = {link.name: link for link in self._links() if link.media_type == PARQUET}
        if title not in tables:
            raise UnknownName(f'No table "{title}". {nearest(title, sorted(tables))}')
        return table_from_parquet(bytes_in(self._roots, tables[title]))

    def exhibits(self) -> Sequence[Exhibit]:
        """Return its tables, figures, matrices and curves by title; an unreadable one has a reason instead."""
        return exhibits_of(self._roots, self._links())

    def _exhibit(self, made: Made, *, is_output: bool) -> Made:
        self._keep(exhibit_to_bytes(made), made.title, media_type_of(made), is_output=is_output)
        return made

    def _keep(self, data: bytes, title: str, media_type: str, *, is_output: bool) -> ArtifactLink:
        link = artifact_from_bytes(self._root, data, checked_name("what is shown", title), media_type,
                                   clock=self._artifact_clock)
        self._link(link, is_output=is_output)
        return link
