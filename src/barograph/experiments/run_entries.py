"""Metadata of a run as journal entries."""

from __future__ import annotations

import math
import shlex
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from barograph.errors import DamagedChunk, StoreError
from barograph.model.items import Entry, ItemKind, Relation, Verb, uid_of
from barograph.model.manifest import Manifest
from barograph.model.origin import Origin
from barograph.runs.reading.glance import Glance, RunState
from barograph.runs.state.origins import read_origin
from barograph.store.urls import store_from_url

ENDED = frozenset({
    RunState.FINISHED, RunState.STOPPED, RunState.FAILED, RunState.KILLED, RunState.EMPTY, RunState.DAMAGED,
})
"""Final states of a run."""

GONE = "gone"
"""State in the catalog of a run whose directory no longer has it."""


def run_entries(seen: Glance, manifest: Manifest, origin: Origin | None) -> list[Entry]:
    """Return the metadata files of a run as entries.

    Args:
        seen: Its current state.
        manifest: Its manifest.
        origin: Its origin; None if not recorded.
    """
    uid, when, settings = manifest.run_id, manifest.created_unix, manifest.settings
    entries = [Entry(uid, Verb.CREATE, {"kind": ItemKind.RUN, "name": manifest.name}, when),
               Entry(uid, Verb.SET, _facts(seen, manifest), when)]
    experiment, trial = (str(settings.get(name) or "") for name in ("experiment", "trial"))
    entries += membership(uid, experiment, trial, manifest.name, when)
    tags = settings.get("tags")
    if isinstance(tags, Mapping) and tags:
        entries.append(Entry(uid, Verb.TAG, dict(tags), when))
    return entries + (list(_of_origin(uid, origin, when)) if origin is not None else [])


def _of_origin(uid: str, origin: Origin, when: float) -> Iterator[Entry]:
    facts: dict[str, Any] = {"host": origin.host, "by": origin.user}
    if origin.code is not None:
        code = origin.code
        facts |= {"repository": code.remote or code.root, "branch": code.branch, "commit": code.commit,
                  "dirty": code.dirty}
    yield Entry(uid, Verb.SET, {name: value for name, value in facts.items() if value != ""}, when)
    if origin.parameters:
        yield Entry(uid, Verb.PARAMETERS, dict(origin.parameters), when)
    for file in origin.data:
        # That of artifacts where it is known: a file that one run logs and another reads is one artifact.
        digest = (f"sha256:{file.sha256}" if file.sha256 else
                  f"xxh3:{file.fingerprint}" if file.fingerprint and file.whole else "")
        name = _below(file.path, origin.directory)
        yield Entry(uid, Verb.INPUT, {"name": name, "uri": Path(file.path).as_uri(), "digest": digest,
                                      "size_bytes": file.size_bytes}, when)
    if origin.derived_from:
        yield Entry(uid, Verb.RELATE, {"relation": Relation.DERIVED_FROM, "target": origin.derived_from}, when)


def _below(path: str, directory: str) -> str:
    """Return a path relative to the run's directory if it is below it, so that it survives moves."""
    within = bool(directory) and Path(path).is_relative_to(directory)
    return str(Path(path).relative_to(directory)) if within else path


def packages_of(place: str) -> dict[str, str]:
    """Return the packages of a run, name to version; empty if not recorded, or gone."""
    if not place:
        return {}
    try:
        origin = read_origin(store_from_url(place))
    except (DamagedChunk, StoreError):
        return {}
    return {name: package.version for name, package in origin.packages.items()} if origin is not None else {}


def membership(uid: str, experiment: str, trial: str, name: str, when: float) -> list[Entry]:
    """Return the entries that add a component to a trial; trial and experiment are created if new.

    Args:
        uid: ID of the component.
        experiment: Name of the experiment; "": none.
        trial: Name of the trial; "": a trial of its own, with the component's name.
        name: Name of the component.
        when: Seconds since 1970 UTC.
    """
    if not experiment:
        return []
    its_trial, trial_name = trial_uid(experiment, trial or name), trial or name
    return [
        Entry(uid_of(ItemKind.EXPERIMENT, experiment), Verb.CREATE,
              {"kind": ItemKind.EXPERIMENT, "name": experiment}, when),
        Entry(its_trial, Verb.CREATE, {"kind": ItemKind.TRIAL, "name": trial_name,
                                       "parent": uid_of(ItemKind.EXPERIMENT, experiment)}, when),
        Entry(uid, Verb.JOIN, {"trial": its_trial}, when),
    ]


def trial_uid(experiment: str, trial: str) -> str:
    """Return the ID of a trial by the names of its experiment and itself."""
    return uid_of(ItemKind.TRIAL, trial, parent=uid_of(ItemKind.EXPERIMENT, experiment))


def _facts(seen: Glance, manifest: Manifest) -> dict[str, Any]:
    facts: dict[str, Any] = {
        "state": str(seen.state), "place": seen.url, "command": shlex.join(manifest.command), "steps": seen.steps,
        "message": next(_messages(seen), ""), "started_unix": manifest.created_unix,
    }
    if seen.workers:
        facts["started_unix"] = min(item.worker.started_unix for item in seen.workers)
        facts["host"] = seen.workers[0].worker.host
    if seen.state in ENDED and not math.isnan(seen.ended_unix):
        facts["ended_unix"] = seen.ended_unix
    return facts


def _messages(seen: Glance) -> Iterator[str]:
    for item in seen.newest_workers:
        if item.ending is not None and item.ending.reason:
            yield item.ending.reason
    yield from seen.problems
