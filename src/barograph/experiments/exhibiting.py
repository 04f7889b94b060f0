"""What a component shows: tables, figures, confusion matrices, curves of scores; kept as artifacts in open formats."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Sequence
from typing import Any, TypeVar

from barograph.errors import SettingsError, UnknownName, nearest
from barograph.experiments.artifacts import artifact_from_bytes, bytes_in
from barograph.experiments.pictures import picture_of
from barograph.experiments.scoring import confusion_matrix_of, precision_recall_of, roc_curves_of
from barograph.experiments.shown import exhibits_of
from barograph.experiments.table_artifact import PARQUET, ArrowTable, table_from_parquet, table_to_parquet
from barograph.experiments.telling import Answer, Making
from barograph.model.exhibit_json import exhibit_to_bytes, media_type_of
from barograph.model.exhibits import ConfusionMatrix, Exhibit, PrecisionRecallCurves, RocCurves
from barograph.model.items import ArtifactLink, checked_name
from barograph.store.base import Store

Made = TypeVar("Made", bound="Exhibit")


class Exhibiting(Making[Answer]):
    """A piece of work that has something to show.

    What is logged is an artifact: tables are Parquet, matrices and curves JSON, figures PNG or SVG. `barograph show`,
    the report and notebooks draw them. Of those with the same title the last one counts.
    """

    @property
    def _roots(self) -> Sequence[Store]:
        """Where its artifacts may be; the first that has one."""
        return (self._root,)

    @abstractmethod
    def _links(self) -> Sequence[ArtifactLink]:
        """Return the artifacts that it has by now, those that it made last."""

    def log_table(
        self, title: str | None = None, values: Any = None, data_frame: Any = None, is_output: bool = True
    ) -> ArtifactLink:
        """Keep a table; `table(title)` gives it back.

        Args:
            title: By which it is called; None: "table".
            values: Columns by name, a list of rows (name to value), or a table of pandas, polars or Arrow.
            data_frame: The same, for those who know it by this name.
            is_output: It was made; else it was read.

        Raises:
            SettingsError: It is no table.
            SessionClosed, StoreError: As of `log_parameter`.
        """
        if (values is None) == (data_frame is None):
            raise SettingsError("log_table takes exactly one of values and data_frame.")
        data = table_to_parquet(values if values is not None else data_frame)
        return self._keep(data, title or "table", PARQUET, is_output=is_output)

    def log_figure(
        self, figure: Any, title: str | None = None, is_output: bool = True, *, drawn_as: str = "png"
    ) -> ArtifactLink:
        """Keep a figure.

        Args:
            figure: Of matplotlib (a figure, or axes), an image of Pillow, the bytes of a PNG, JPEG, GIF, WebP or SVG,
                the text of an SVG, or the path of such a file.
            title: By which it is called; None: "figure".
            is_output: As of `log_table`.
            drawn_as: "png" or "svg", of figures of matplotlib.

        Raises:
            SettingsError: It is no figure.
            SessionClosed, StoreError: As of `log_parameter`.
        """
        data, media_type = picture_of(figure, drawn_as)
        return self._keep(data, title or "figure", media_type, is_output=is_output)

    def log_confusion_matrix(
        self, y_true: Any, y_pred: Any, title: str | None = None, is_output: bool = True, *,
        labels: Iterable[Any] | None = None, normalize: str | None = None, sample_weight: Any = None,
    ) -> ConfusionMatrix:
        """Keep how often each class was taken for each, and return it.

        Args:
            y_true: The true label of each sample. Shape (n,).
            y_pred: The answered label. Shape (n,).
            title: By which it is called; None: "confusion matrix".
            is_output: As of `log_table`.
            labels: The classes, in order; samples of others are left out. None: all there are, sorted.
            normalize: "true", "pred", "all": shares of the truth, of the answer, of all; None: counts.
            sample_weight: What each sample counts for; None: 1. Shape (n,).

        Raises:
            SettingsError: They do not fit together, or hold NaN or None.
            SessionClosed, StoreError: As of `log_parameter`.
        """
        made = confusion_matrix_of(y_true, y_pred, title or "confusion matrix", labels=labels, normalize=normalize,
                                   sample_weight=sample_weight)
        return self._exhibit(made, is_output=is_output)

    def log_roc_curve(
        self, y_true: Any, y_score: Any, title: str | None = None, is_output: bool = True, *,
        positive_label: Any = None, labels: Iterable[Any] | None = None, sample_weight: Any = None,
    ) -> RocCurves:
        """Keep ROC curves with the areas under them, and return them.

        Args:
            y_true: The true label of each sample. Shape (n,).
            y_score: The score of the positive class, shape (n,); or of each class, shape (n, classes): then there is
                one curve for each class against the others, of two classes that of the second.
            title: By which it is called; None: "ROC curve".
            is_output: As of `log_table`.
            positive_label: Of the positive class; None: 1, where the labels are 0 and 1, or -1 and 1.
            labels: The classes of the columns of `y_score`, in order; None: those of `y_true`, sorted.
            sample_weight: As of `log_confusion_matrix`.

        Raises:
            SettingsError: They do not fit together, or scores are NaN or infinite.
            SessionClosed, StoreError: As of `log_parameter`.
        """
        made = roc_curves_of(y_true, y_score, title or "ROC curve", positive_label=positive_label, labels=labels,
                             sample_weight=sample_weight)
        return self._exhibit(made, is_output=is_output)

    def log_precision_recall(
        self, y_true: Any, predicted_probabilities: Any, positive_label: Any = None, title: str | None = None,
        is_output: bool = True, no_skill: float | None = None, *, labels: Iterable[Any] | None = None,
        sample_weight: Any = None,
    ) -> PrecisionRecallCurves:
        """Keep curves of precision and recall with their average precision, and return them.

        Args:
            y_true, predicted_probabilities, positive_label, labels, sample_weight: As of `log_roc_curve`, whose
                `y_score` are the probabilities.
            title: By which it is called; None: "precision and recall".
            is_output: As of `log_table`.
            no_skill: Precision of answers that know nothing, drawn beside the curve.

        Raises:
            SettingsError, SessionClosed, StoreError: As of `log_roc_curve`.
        """
        made = precision_recall_of(y_true, predicted_probabilities, title or "precision and recall",
                                   positive_label=positive_label, labels=labels, sample_weight=sample_weight,
                                   no_skill=no_skill)
        return self._exhibit(made, is_output=is_output)

    def table(self, title: str = "table") -> ArrowTable:
        """Return a table that was logged, as a table of Arrow: `.to_pandas()`, `polars.from_arrow(…)`.

        Raises:
            UnknownName: There is none of that title.
            DamagedChunk, StoreError: It cannot be read.
        """
        tables = {link.name: link for link in self._links() if link.media_type == PARQUET}
        if title not in tables:
            raise UnknownName(f'It has no table "{title}". {nearest(title, sorted(tables))}')
        return table_from_parquet(bytes_in(self._roots, tables[title]))

    def exhibits(self) -> Sequence[Exhibit]:
        """Return what it has to show, in the order of their titles; what cannot be read says why."""
        return exhibits_of(self._roots, self._links())

    def _exhibit(self, made: Made, *, is_output: bool) -> Made:
        self._keep(exhibit_to_bytes(made), made.title, media_type_of(made), is_output=is_output)
        return made

    def _keep(self, data: bytes, title: str, media_type: str, *, is_output: bool) -> ArtifactLink:
        link = artifact_from_bytes(self._root, data, checked_name("what is shown", title), media_type,
                                   clock=self._artifact_clock)
        self._link(link, is_output=is_output)
        return link
