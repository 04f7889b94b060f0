"""Converts MLflow's data of a run from any of its stores."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from barograph.ingest.trackers.foreign import (
    ForeignEnd,
    ForeignExperiment,
    ForeignFile,
    ForeignRun,
    ForeignSeries,
    time_from,
)
from barograph.ingest.trackers.spelling import spelled_otherwise, value_from_text
from barograph.provenance.secrets import Secrets

NOTE, NAME, PARENT = "mlflow.note.content", "mlflow.runName", "mlflow.parentRunId"
_USER, _SOURCE = "mlflow.user", "mlflow.source.name"
_COMMIT, _BRANCH, _REPOSITORY = "mlflow.source.git.commit", "mlflow.source.git.branch", "mlflow.source.git.repoURL"
_OURS, _OURS_WHOLE = "barograph.run_id", "barograph.run_id.whole"
_FIELDS = (_OURS, _OURS_WHOLE, NOTE, NAME, PARENT, _USER, _SOURCE, _COMMIT, _BRANCH, _REPOSITORY)

_ENDS: Mapping[str, ForeignEnd] = {
    "FINISHED": ForeignEnd.FINISHED, "FAILED": ForeignEnd.FAILED, "KILLED": ForeignEnd.KILLED,
    "RUNNING": ForeignEnd.RUNNING, "SCHEDULED": ForeignEnd.RUNNING,
}
_CONTEXT = "mlflow.data.context"
_SOURCE_PLACES = ("url", "uri", "path", "table_name", "delta_table_name", "repo_id")
_MOST_DOUBLE = float(np.finfo(np.float64).max)


@dataclass(frozen=True, slots=True)
class RunData:
    """MLflow's data of a run.

    Attributes:
        run_id: ID of the run.
        experiment: Name of its experiment.
        status: "FINISHED", "FAILED", "KILLED", "RUNNING", "SCHEDULED".
        mark: See `ForeignRun.mark`.
        series: Reads its metrics.
        name, user: From its row; tags override them.
        start_ms, end_ms: Milliseconds since 1970 UTC; 0 if unknown.
        artifact_uri: Location of its artifacts.
        parameters, tags: Strings by name.
        datasets: Inputs, each with `name`, `digest`, `source_type`, `source`, `context`.
        files: Outputs.
        damage: What cannot be read.
    """

    run_id: str
    experiment: str
    status: str
    mark: str
    series: Callable[[], Mapping[str, ForeignSeries]]
    name: str = ""
    user: str = ""
    start_ms: int = 0
    end_ms: int = 0
    artifact_uri: str = ""
    parameters: Mapping[str, str] = field(default_factory=dict)
    tags: Mapping[str, str] = field(default_factory=dict)
    datasets: Sequence[Mapping[str, str]] = ()
    files: Sequence[ForeignFile] = ()
    damage: Sequence[str] = ()


def run_from_data(data: RunData) -> ForeignRun:
    """Return a run from MLflow's data."""
    tags, secrets = data.tags, Secrets()
    datasets = [{name: secrets.hide(text) for name, text in item.items()} for item in data.datasets]
    values = {name: value_from_text(text) for name, text in data.parameters.items()}
    damage = list(data.damage)
    if data.status not in _ENDS:
        damage.append(f'Unknown status "{data.status}"; the run is imported as failed.')
    return ForeignRun(
        "mlflow", data.run_id, data.mark, tags.get(NAME) or data.name or data.run_id, data.series,
        experiment=data.experiment, end=_ENDS.get(data.status, ForeignEnd.FAILED),
        started_unix=seconds(data.start_ms), ended_unix=seconds(data.end_ms),
        user=tags.get(_USER) or data.user, program=tags.get(_SOURCE, ""),
        commit=tags.get(_COMMIT, ""), branch=tags.get(_BRANCH, ""), repository=tags.get(_REPOSITORY, ""),
        parameters=values, tags={name: text for name, text in tags.items() if name not in _FIELDS},
        note=tags.get(NOTE, ""), parent=tags.get(PARENT, ""), same_as=tags.get(_OURS, ""),
        files=[*map(_file_from_dataset, datasets), *data.files],
        book={
            "status": data.status, "artifact_uri": secrets.hide(data.artifact_uri),
            "datasets": datasets,
            "spelled": spelled_otherwise(data.parameters, values),
        },
        damage=damage,
    )


def experiment_from_data(name: str, tags: Mapping[str, str], created_ms: int) -> ForeignExperiment:
    """Return an experiment from MLflow's data."""
    own = {name: text for name, text in tags.items() if name != NOTE}
    return ForeignExperiment(name, tags.get(NOTE, ""), own, seconds(created_ms))


def seconds(milliseconds: int) -> float:
    """Return seconds since 1970 UTC; 0.0 if the time is missing or invalid.

    Example:
        >>> seconds(1700000000123), seconds(-1)
        (1700000000.123, 0.0)
    """
    return time_from(milliseconds / 1000) if abs(milliseconds) < 1 << 63 else 0.0


def whole_of(said: object) -> int:
    """Return the integer in a field; 0 if there is none.

    Example:
        >>> whole_of("1700000000123"), whole_of(None), whole_of("soon")
        (1700000000123, 0, 0)
    """
    try:
        return int(said) if isinstance(said, int | str) else 0
    except ValueError:
        return 0


def series_from_rows(
    steps: NDArray[np.int64], times_ms: NDArray[np.int64], values: NDArray[np.float64]
) -> ForeignSeries:
    """Return the history of a metric, ordered by time and step.

    Args:
        steps: Step of each point.
        times_ms: Milliseconds since 1970 UTC.
        values: Values.
    """
    order = np.lexsort((np.arange(len(steps)), steps, times_ms))
    return ForeignSeries(steps[order], times_ms[order] / 1000, values[order])


def with_infinities(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return numbers of an MLflow database as logged: it stores infinities as the greatest double.

    Example:
        >>> with_infinities(np.array([1.0, 1.7976931348623157e308, -1.7976931348623157e308])).tolist()
        [1.0, inf, -inf]
    """
    return np.where(np.abs(values) == _MOST_DOUBLE, np.copysign(np.inf, values), values)


def _file_from_dataset(dataset: Mapping[str, str]) -> ForeignFile:
    name, context = dataset.get("name", "") or "dataset", dataset.get("context", "")
    digest = dataset.get("digest", "")
    return ForeignFile(f"{name} ({context})" if context else name, _place_of(dataset), is_output=False,
                       digest=f"mlflow:{digest}" if digest else "")


def dataset_from_json(dataset: Mapping[str, Any], tags: Sequence[Mapping[str, Any]]) -> dict[str, str]:
    """Return MLflow's data of a dataset, with the context in which a run used it."""
    found = {name: str(dataset.get(name) or "") for name in ("name", "digest", "source_type", "source", "schema",
                                                             "profile")}
    context = next((str(tag.get("value")) for tag in tags if tag.get("key") == _CONTEXT), "")
    return {**found, "context": context}


def _place_of(dataset: Mapping[str, str]) -> str:
    try:
        source = json.loads(dataset.get("source", ""))
    except ValueError:
        return dataset.get("source", "")
    if isinstance(source, Mapping):
        for name in _SOURCE_PLACES:
            if isinstance(source.get(name), str) and source[name]:
                return str(source[name])
    return dataset.get("source", "")
