"""Metadata of a run from its own files and the journals, without a catalog."""

from __future__ import annotations

import re
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor

from barograph.errors import DamagedChunk, NewerFormat, ObjectNotFound, StoreError
from barograph.experiments.artifacts import root_of
from barograph.experiments.folding import ItemState, folded
from barograph.experiments.run_entries import run_entries
from barograph.model.items import ArtifactLink, Entry
from barograph.model.origin import Code, Origin
from barograph.report.background import ArtifactFacts, Background, Made, OpenedFile, Remark, SourceCode
from barograph.runs.reading.glance import glance
from barograph.runs.reading.reader import RunReader
from barograph.runs.state.journal import JOURNAL_OF_ROOT, JOURNAL_OF_RUN, Batch, Journal
from barograph.runs.state.origins import read_file, read_origin
from barograph.store.base import Store

_THREADS = 8
_CHANGED = re.compile(rb"^diff --git a/(?P<name>.+) b/(?P=name)$", re.MULTILINE)
_MOST_CHANGED = 100


def background_of(run: RunReader) -> Background:
    """Return the metadata of a run: tags, notes, parameters, artifacts, code and environment.

    Args:
        run: The run; its own journal and that of its parent directory are read.

    Raises:
        StoreError: The run cannot be read.
    """
    damage: list[str] = []
    origin: Origin | None = None
    try:
        origin = read_origin(run.store)
    except DamagedChunk as error:
        damage.append(str(error))
    uid = run.manifest.run_id
    entries = [*run_entries(glance(run.store), run.manifest, origin),
               *(entry for batch in _batches(Journal(run.store, JOURNAL_OF_RUN), damage) for entry in batch.entries)]
    around: list[Entry] = []
    try:
        root = root_of(run.store)
        around = [entry for batch in _batches(Journal(root, JOURNAL_OF_ROOT), damage) for entry in batch.entries]
    except StoreError as error:
        # The parent directory may be unreadable even if the run is readable.
        damage.append(str(error))
    state = _state(uid, [*entries, *around])
    return Background(
        made=_made(run.store, origin, damage) if origin is not None else None,
        description=str(state.fields.get("description") or ""),
        trials=tuple(_trials(state, [*entries, *around])), parameters=dict(state.parameters), tags=dict(state.tags),
        notes=tuple(Remark(note.time_unix, note.by, note.text) for note in state.notes),
        artifacts=(*_artifacts("input", state.inputs.values()), *_artifacts("output", state.outputs.values())),
        damage=tuple(damage),
    )


def _state(uid: str, entries: Iterable[Entry]) -> ItemState:
    return folded(uid, sorted((entry for entry in entries if entry.uid == uid), key=lambda entry: entry.time_unix))


def _batches(journal: Journal, damage: list[str]) -> list[Batch]:
    def read(name: str) -> Batch | None:
        try:
            batch = journal.read(name)
            for entry in batch.entries:
                folded(entry.uid, [entry])
            return batch
        except (DamagedChunk, NewerFormat, ObjectNotFound) as error:
            damage.append(str(error))
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            damage.append(f"A batch of the journal is invalid: {error!r} ({name}).")
        return None

    with ThreadPoolExecutor(_THREADS) as pool:
        return [batch for batch in pool.map(read, journal.names()) if batch is not None]


def _trials(state: ItemState, entries: list[Entry]) -> Iterable[tuple[str, str]]:
    for uid in state.trials:
        trial = _state(uid, entries)
        experiment = _state(trial.parent, entries)
        if trial.name and experiment.name:
            yield experiment.name, trial.name


def _artifacts(role: str, links: Iterable[ArtifactLink]) -> list[ArtifactFacts]:
    return [ArtifactFacts(role, link.name, link.uri, link.media_type, link.digest, link.size_bytes) for link in links]


def _made(store: Store, origin: Origin, damage: list[str]) -> Made:
    machine = origin.hardware
    parts = [origin.host, machine.processor, f"{machine.cores} cores" if machine.cores else "",
             f"{machine.memory_bytes / 2**30:.0f} GiB" if machine.memory_bytes else "", *machine.gpus, machine.system]
    python = f"{origin.python_version} ({origin.interpreter})" if origin.interpreter else ""
    return Made(
        directory=origin.directory, code=_code(store, origin.code, damage) if origin.code else None, python=python,
        packages={name: package.version for name, package in origin.packages.items()},
        environment=dict(origin.environment), seeds=dict(origin.seeds), machine=tuple(part for part in parts if part),
        user=origin.user, data=tuple(OpenedFile(file.path, file.size_bytes, file.fingerprint) for file in origin.data),
        data_left_out=origin.data_uncounted, derived_from=origin.derived_from, problems=origin.problems,
    )


def _code(store: Store, code: Code, damage: list[str]) -> SourceCode:
    changed: list[str] = []
    try:
        found = _CHANGED.finditer(read_file(store, code.diff))
        changed = [match["name"].decode("utf-8", "replace") for match in found]
    except (DamagedChunk, ObjectNotFound) as error:
        damage.append(str(error))
    if len(changed) > _MOST_CHANGED:
        changed = [*changed[:_MOST_CHANGED], f"and {len(changed) - _MOST_CHANGED} more"]
    if code.untracked:
        changed.append("new files")
    return SourceCode(code.remote or code.root, code.branch, code.commit, code.describe, code.dirty, tuple(changed),
                      tuple(f"{item.what} ({item.why})" for item in code.left_out))
