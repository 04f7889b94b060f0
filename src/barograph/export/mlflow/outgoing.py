"""A run, or another component, as it is told to MLflow: in MLflow's words, within what it takes."""

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
from barograph.runs.reading.reader import Run

RUN_ID = "barograph.run_id"
"""Tag by which an exported run is known again."""

_MOST_PARAMETER_CHARS, _MOST_TAG_CHARS, _MOST_NAME_CHARS, _MOST_DIGEST_CHARS = 6000, 8000, 250, 36
_NOT_TAKEN = re.compile(r"[^\w\-. :/]")


@dataclass(frozen=True, slots=True)
class OutgoingFile:
    """An artifact that a run made.

    Attributes:
        name: In MLflow, parts joined by "/".
        uri: Where it is.
        read: Returns its bytes; None: its place alone is kept.
    """

    name: str
    uri: str
    read: Callable[[], bytes] | None = None


@dataclass(frozen=True, slots=True)
class Outgoing:
    """A run.

    Attributes:
        uid: Its identity here.
        name: For people.
        experiment: Name of its experiment.
        status: "FINISHED", "FAILED", "KILLED", "RUNNING".
        started_ms, ended_ms: Milliseconds since 1970 UTC; 0: not known.
        parameters, tags: Texts by name.
        datasets: What it read, each with `name`, `digest`, `source_type`, `source`, `context`.
        files: What it made.
        parent: Identity here of the run that it is part of; "": of none.
        run: Its records; None where it has none.
        imported: Its losses and rates are metrics of the tracker that it came from, which are there as scalars.
        summaries: Last values of metrics that no records tell of, by name.
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
    run: Run | None = None
    imported: bool = False
    summaries: Mapping[str, float] = field(default_factory=dict)


@dataclass(slots=True)
class Fitting:
    """Makes names and texts fit for MLflow, and tells what it changed."""

    told: list[str] = field(default_factory=list)
    _taken: dict[str, str] = field(default_factory=dict)

    def name(self, what: str, name: str) -> str:
        """Return a name as MLflow takes it: of letters, digits and `_-. :/`, and one of its own.

        Example:
            >>> Fitting().name("the metric", "loss [optimizer d]")
            'loss _optimizer d_'
        """
        plain = _NOT_TAKEN.sub("_", name)[:_MOST_NAME_CHARS].strip("/") or "_"
        plain = "/".join("_" if part in ("", ".", "..") else part for part in plain.split("/"))
        while self._taken.setdefault(f"{what} {plain}", name) != name:
            plain = f"{plain[:_MOST_NAME_CHARS - 1]}_"
        if plain != name:
            self.told.append(f'MLflow takes no {what.removeprefix("the ")} "{name[:80]}"; it is "{plain[:80]}" there.')
        return plain

    def parameters(self, parameters: Mapping[str, str]) -> dict[str, str]:
        """Return parameters likewise; texts that are too long are cut."""
        return {self.name("the parameter", name): self._cut(f'Parameter "{name}"', text, _MOST_PARAMETER_CHARS)
                for name, text in parameters.items()}

    def tags(self, tags: Mapping[str, str]) -> dict[str, str]:
        """Return tags likewise."""
        return {self.name("the tag", name): self._cut(f'Tag "{name}"', text, _MOST_TAG_CHARS)
                for name, text in tags.items()}

    def _cut(self, what: str, text: str, most: int) -> str:
        if len(text) <= most:
            return text
        self.told.append(f"{what} has {len(text):,} characters, of which MLflow takes {most:,}.")
        return text[:most]


def histories(outgoing: Outgoing) -> Iterator[tuple[str, History]]:
    """Yield the metrics of a run with the names that they have in MLflow.

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
    """Return the times of a series as MLflow counts them."""
    return (history.times_us + 500) // 1000


def dataset_of(name: str, uri: str, digest: str) -> dict[str, str]:
    """Return an input that did not come from MLflow as it tells of data sets.

    Example:
        >>> dataset_of("train.csv", "s3://bucket/train.csv", "sha256:0a1b")["source"]
        '{"uri": "s3://bucket/train.csv"}'
    """
    plain = digest.rpartition(":")[2][:_MOST_DIGEST_CHARS] or "unknown"
    return {"name": name, "digest": plain, "source_type": "barograph", "source": json.dumps({"uri": uri}),
            "schema": "", "profile": "", "context": ""}
