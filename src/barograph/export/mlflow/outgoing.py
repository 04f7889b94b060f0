"""A run or another component in the terms of MLflow, within its limits."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from barograph.model.key import Kind
from barograph.runs.reading.histories import History, histories_of
from barograph.runs.reading.metrics import METRIC_KINDS
from barograph.runs.reading.reader import RunReader

RUN_ID = "barograph.run_id"
"""Tag that identifies an exported run."""

_MOST_PARAMETER_CHARS, _MOST_TAG_CHARS, _MOST_NAME_CHARS, _MOST_DIGEST_CHARS = 6000, 8000, 250, 36
_NOT_TAKEN = re.compile(r"[^\w\-. :/]")


@dataclass(frozen=True, slots=True)
class OutgoingFile:
    """An output artifact of a run.

    Attributes:
        name: Path in MLflow, joined by "/".
        uri: Its location.
        read: Returns its bytes; None: only the location is exported.
    """

    name: str
    uri: str
    read: Callable[[], bytes] | None = None


@dataclass(frozen=True, slots=True)
class Outgoing:
    """A run to export.

    Attributes:
        uid: ID in Barograph.
        name: Name.
        experiment: Name of its experiment.
        status: "FINISHED", "FAILED", "KILLED", "RUNNING".
        started_ms, ended_ms: Milliseconds since 1970 UTC; 0: unknown.
        parameters, tags: Strings by name.
        datasets: Inputs, each with `name`, `digest`, `source_type`, `source`, `context`.
        files: Outputs.
        parent: ID in Barograph of the parent run; "": none.
        run: Its records; None if it has none.
        imported: Whether it was imported from another tracker, so that its losses and rates are scalars already.
        summaries: Last values of metrics without records, by name.
    """

    uid: str
    name: str
    experiment: str
    status: str
    started_ms: int
    ended_ms: int
    parameters: Mapping[str, str] = field(default_factory=dict)
    tags: Mapping[str, str] = field(default_factory=dict)
    datasets: Sequence[Mapping[str, str]] = ()
    files: Sequence[OutgoingFile] = ()
    parent: str = ""
    run: RunReader | None = None
    imported: bool = False
    summaries: Mapping[str, float] = field(default_factory=dict)


@dataclass(slots=True)
class Fitting:
    """Adapts names and texts to MLflow's limits, and collects what it changed."""

    notes: list[str] = field(default_factory=list)
    _taken: dict[str, str] = field(default_factory=dict)

    def name(self, what: str, name: str) -> str:
        """Return a unique name that MLflow accepts: letters, digits and `_-. :/`.

        Example:
            >>> Fitting().name("the metric", "loss [optimizer d]")
            'loss _optimizer d_'
        """
        plain = _NOT_TAKEN.sub("_", name)[:_MOST_NAME_CHARS].strip("/") or "_"
        plain = "/".join("_" if part in ("", ".", "..") else part for part in plain.split("/"))
        while self._taken.setdefault(f"{what} {plain}", name) != name:
            plain = f"{plain[:_MOST_NAME_CHARS - 1]}_"
        if plain != name:
            self.notes.append(f'MLflow allows no {what.removeprefix("the ")} "{name[:80]}"; renamed to "{plain[:80]}".')
        return plain

    def parameters(self, parameters: Mapping[str, str]) -> dict[str, str]:
        """Return parameters with valid names; long values are cut."""
        return {self.name("the parameter", name): self._cut(f'Parameter "{name}"', text, _MOST_PARAMETER_CHARS)
                for name, text in parameters.items()}

    def tags(self, tags: Mapping[str, str]) -> dict[str, str]:
        """Return tags with valid names; long values are cut."""
        return {self.name("the tag", name): self._cut(f'Tag "{name}"', text, _MOST_TAG_CHARS)
                for name, text in tags.items()}

    def _cut(self, what: str, text: str, most: int) -> str:
        if len(text) <= most:
            return text
        self.notes.append(f"{what} is cut from {len(text):,} to MLflow's limit of {most:,} characters.")
        return text[:most]


def histories(outgoing: Outgoing) -> Iterator[tuple[str, History]]:
    """Yield the metrics of a run with their names in MLflow.

    Raises:
        StoreError: The run cannot be read.
    """
    if outgoing.run is None:
        return
    kinds = (Kind.SCALAR,) if outgoing.imported else (*METRIC_KINDS, Kind.LEARNING_RATE)
    for kind in kinds:
        for history in histories_of(outgoing.run, kind):
            name = history.metric.name
            yield (f"learning_rate.{name}" if kind is Kind.LEARNING_RATE else name), history


def milliseconds(history: History) -> NDArray[np.int64]:
    """Return the times of a metric in milliseconds, as MLflow does."""
    return (history.times_us + 500) // 1000


def dataset_of(name: str, uri: str, digest: str) -> dict[str, str]:
    """Return an MLflow dataset for an input that did not come from MLflow.

    Example:
        >>> dataset_of("train.csv", "s3://bucket/train.csv", "sha256:0a1b")["source"]
        '{"uri": "s3://bucket/train.csv"}'
    """
    plain = digest.rpartition(":")[2][:_MOST_DIGEST_CHARS] or "unknown"
    return {"name": name, "digest": plain, "source_type": "barograph", "source": json.dumps({"uri": uri}),
            "schema": "", "profile": "", "context": ""}
