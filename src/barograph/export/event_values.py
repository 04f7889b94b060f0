"""Converts records to TensorBoard events: numbers to scalars, tensors to scalars and a histogram, findings to texts."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from operator import attrgetter

from barograph.export.event_buckets import buckets_of
from barograph.export.tensor_rows import TensorRow
from barograph.model.finding import Finding
from barograph.model.key import Kind
from barograph.model.summary import Summary
from barograph.wire.writing import histogram, scalar, summary_event, tagged, text

NUMBER_KINDS = (Kind.LOSS, Kind.LEARNING_RATE, Kind.SCALAR, Kind.TIME, Kind.MACHINE, Kind.IMPORTANCE, Kind.TREE)
"""Kinds that are numbers over time and useful as a curve."""

STATISTICS: Mapping[str, Callable[[Summary], float]] = {
    name: attrgetter(name) for name in ("mean", "std", "l2", "mean_abs", "min", "max", "sparsity", "nonfinite")
}
"""Statistics of a tensor that become scalars."""


class EventValues:
    """Makes events and counts their values.

    Attributes:
        scalars, histograms, texts: Number of values of each type.
    """

    def __init__(self) -> None:
        self._tags: dict[tuple[Kind, str, str], bytes] = {}
        self.scalars = self.histograms = self.texts = 0

    def number(self, kind: Kind, path: str, optimizer: str, step: int, time_unix: float, value: float) -> bytes:
        """Return the event of a number."""
        tag = self._tags.get((kind, path, optimizer))
        if tag is None:
            tag = tagged(_named(f"{kind.value}/{path}", optimizer), "scalars")
            self._tags[kind, path, optimizer] = tag
        self.scalars += 1
        return summary_event(time_unix, step, [scalar(tag, value)])

    def tensor(self, kind: Kind, row: TensorRow) -> bytes:
        """Return the event of a tensor's summary."""
        name = _named(f"{kind.value}/{row.path}", row.optimizer)
        values = [
            scalar(tagged(f"{name}/{statistic}", "scalars"), measure(row.summary))
            for statistic, measure in STATISTICS.items()
        ]
        self.scalars += len(values)
        buckets = buckets_of(row.summary)
        if len(buckets):
            values.append(histogram(tagged(name, "histograms"), buckets))
            self.histograms += 1
        return summary_event(row.time_unix, row.step, values)

    def finding(self, finding: Finding) -> bytes:
        """Return the event of a finding, at its opening step."""
        tag = tagged(_named(f"findings/{finding.code} {finding.rule}", finding.optimizer), "text")
        self.texts += 1
        return summary_event(finding.opened_unix, finding.opened_step, [text(tag, "\n\n".join(_said(finding)))])


def reporting_worker(finding: Finding, workers: list[str]) -> str:
    """Return the worker whose directory shows a finding; "" if there are no workers.

    A group of ranks has no records of its own, so its first rank is used.
    """
    of_group = [name for name in workers if name.startswith(finding.worker)]
    return finding.worker if finding.worker in workers else next(iter(of_group or workers), "")


def optimizer_in(tag: str, optimizers: Iterable[str]) -> str:
    """Return the optimizer of a tag; "" if it belongs to none of these.

    Example:
        >>> optimizer_in("weight/out.bias (critic)/l2", ["actor", "critic"])
        'critic'
    """
    return next((name for name in optimizers if name and f" ({name})" in tag), "")


def _named(name: str, optimizer: str) -> str:
    """Return a tag that includes the optimizer, if there are several."""
    return f"{name} ({optimizer})" if optimizer else name


def _said(finding: Finding) -> Iterator[str]:
    yield f"**{finding.severity.value}** · {finding.message}"
    yield f"Fix: {finding.remedy}"
    for item in finding.evidence:
        yield f"Step {item.step}: {f'{item.key} ' if item.key else ''}{item.statistic} {item.value:.6g}. {item.text}"
    if finding.closed_step is not None:
        yield f"Closed at step {finding.closed_step}."
