"""Converts a run or a component of the catalog for MLflow."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any

from barograph.errors import BarographError
from barograph.experiments.artifacts import bytes_of
from barograph.experiments.item import Item
from barograph.export.mlflow.outgoing import Outgoing, OutgoingFile, dataset_of
from barograph.model.items import ArtifactLink, ItemKind, Relation
from barograph.runs.format.layout import IMPORTED
from barograph.runs.format.metadata import unsealed
from barograph.runs.reading.reader import RunReader
from barograph.runs.state.origins import read_origin
from barograph.store.base import Store
from barograph.store.urls import store_from_url

DEFAULT_EXPERIMENT = "Default"
"""Experiment of runs without one, as in MLflow."""

_TRACKERS = ("mlflow", "wandb", "aim")
_STATUS = {"finished": "FINISHED", "failed": "FAILED", "damaged": "FAILED", "killed": "KILLED", "stopped": "KILLED",
           "running": "RUNNING", "starting": "RUNNING", "unknown": "RUNNING"}
_REGISTERED = "models:/"


def outgoing_from_item(item: Item, root: Store) -> Outgoing:
    """Return a run or a component as it is sent to MLflow.

    Args:
        item: Item of the catalog.
        root: Store of the runs and their artifacts.

    Raises:
        NotARun, NewerFormat, DamagedChunk, StoreError: Its records cannot be read.
    """
    facts = item.facts
    run = RunReader(store_from_url(str(facts["place"]))) if item.kind is ItemKind.RUN and facts["place"] else None
    tracker, metadata_file = _metadata_file(run)
    book: Mapping[str, Any] = metadata_file.get("book") or {}
    spelled: Mapping[str, str] = book.get("spelled") or {}
    from_mlflow = book if tracker == "mlflow" else {}
    return Outgoing(
        item.uid, item.name, next((trial.experiment for trial in item.trials), DEFAULT_EXPERIMENT),
        str(from_mlflow.get("status") or _STATUS.get(str(facts["state"]), "FINISHED")),
        _milliseconds(facts["started_unix"] or facts["created_unix"]), _milliseconds(facts["ended_unix"]),
        {name: spelled.get(name, _text(value)) for name, value in item.parameters.items()},
        dict(_tags(item, run)), list(_datasets(item, from_mlflow)),
        [_file(link, root) for link in item.outputs if not link.uri.startswith(_REGISTERED)],
        next((target for relation, target in item.relations if relation == Relation.CONTRIBUTED_TO), ""),
        run, bool(tracker), {} if run is not None else {name: it.last for name, it in item.metrics.items()},
    )


def _tags(item: Item, run: RunReader | None) -> Iterator[tuple[str, str]]:
    facts = item.facts
    yield from ((name, text) for name, text in item.tags.items()
                if name not in {f"{tracker}.run_id" for tracker in _TRACKERS})
    origin = read_origin(run.store) if run is not None else None
    tags = {
        "mlflow.user": facts["by"], "mlflow.source.name": (origin.program if origin else "") or facts["command"],
        "mlflow.source.git.commit": facts["commit"], "mlflow.source.git.branch": facts["branch"],
        "mlflow.source.git.repoURL": facts["repository"],
        "mlflow.note.content": "\n\n".join(filter(None, [facts["description"], *(note.text for note in item.notes)])),
        "barograph.findings": ", ".join(sorted({f"{found.code} {found.rule}" for found in item.findings
                                                if found.state == "open"})),
    }
    yield from ((name, str(text)) for name, text in tags.items() if text)


def _datasets(item: Item, book: Mapping[str, Any]) -> Iterator[dict[str, str]]:
    """Yield the inputs of an item; datasets imported from MLflow are returned unchanged."""
    kept = {f"{it['name']} ({it['context']})" if it.get("context") else it["name"]: it
            for it in book.get("datasets") or []}
    for link in item.inputs:
        yield dict(kept.get(link.name) or dataset_of(link.name, link.uri, link.digest))


def _file(link: ArtifactLink, root: Store) -> OutgoingFile:
    # Only artifacts stored with the runs: another address may come from an untrusted source.
    kept = link.uri.startswith("artifact:")
    return OutgoingFile(link.name, link.uri, partial(bytes_of, root, link) if kept else None)


def _metadata_file(run: RunReader | None) -> tuple[str, Mapping[str, Any]]:
    """Return the tracker that a run was imported from and its metadata; "" if it was recorded here."""
    if run is None:
        return "", {}
    for item in run.store.list(IMPORTED):
        tracker = item.name.removeprefix(f"{IMPORTED}/").removesuffix(".json")
        if tracker in _TRACKERS:
            try:
                return tracker, unsealed(run.store.get(item.name), item.name)
            except BarographError as error:
                raise type(error)(f"{error} Import it again.") from None
    return "", {}


def _text(value: object) -> str:
    return json.dumps(value) if isinstance(value, list) else str(value)


def _milliseconds(time_unix: float | None) -> int:
    return round(time_unix * 1000) if time_unix else 0
