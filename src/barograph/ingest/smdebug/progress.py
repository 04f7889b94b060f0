"""Progress of a worker for its metadata files, from steps in smdebug's terms."""

from __future__ import annotations

from barograph.ingest.smdebug.book import Book
from barograph.model.key import Kind
from barograph.model.manifest import Coverage, Heartbeat
from barograph.model.step import Mode, Step


class Progress:
    """Counts the steps of a worker.

    Args:
        unseen: What the coverage lists as not recorded.

    Attributes:
        problems: Problems, one sentence each.
    """

    def __init__(self, unseen: str) -> None:
        self._unseen = unseen
        self.problems: tuple[str, ...] = ()
        self._made = self._with_tensors = self._evaluations = 0
        self._kinds: set[Kind] = set()
        self._parameters = self._gradients = 0
        self._time_unix = 0.0

    def take(self, step: Step, kinds: set[Kind], book: Book) -> None:
        """Count a step with these recorded kinds."""
        self._kinds |= kinds
        self._time_unix = step.time_unix
        if step.mode is Mode.TRAIN:
            self._made = max(self._made, step.number + 1)
            self._with_tensors += bool(kinds & {Kind.WEIGHT, Kind.GRADIENT})
        else:
            self._evaluations += 1
        keys = list(book.naming.keys.values())
        whole = [key for key in keys if not key.path.endswith("]")]
        self._parameters = sum(key.kind is Kind.WEIGHT for key in whole)
        self._gradients = sum(key.kind is Kind.GRADIENT for key in whole)

    def heartbeat(self) -> Heartbeat:
        """Return the current heartbeat."""
        coverage = Coverage(
            parameters=self._parameters, parameters_seen=self._parameters, gradients_seen=self._gradients,
            loss_seen=Kind.LOSS in self._kinds, steps=self._made, steps_seen=self._with_tensors,
            evaluations=self._evaluations, reasons=(self._unseen,),
        )
        return Heartbeat(0, self._time_unix, step=self._made, coverage=coverage, problems=self.problems)


