"""Writes a run of another tracker: metrics, origin and metadata."""

from __future__ import annotations

import hashlib
import tempfile
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any, NamedTuple

from barograph.errors import BarographError, ImportFailed, ObjectNotFound
from barograph.ingest.tensorboard.writing import GatheredWriter, RunMetadata
from barograph.ingest.trackers.curves import gathered_series
from barograph.ingest.trackers.foreign import ForeignEnd, ForeignFile, ForeignRun
from barograph.model.items import ArtifactLink, Entry, MetricSummary, Relation, Value, Verb, checked_name
from barograph.model.manifest import EndState, Manifest
from barograph.model.origin import Code, Origin
from barograph.model.settings import Settings
from barograph.provenance.gathering import Gathered
from barograph.provenance.secrets import Secrets
from barograph.runs.format.layout import IMPORTED, MANIFEST
from barograph.runs.format.metadata import manifest_from_bytes, sealed, unsealed
from barograph.runs.reading.glance import RunState, glance
from barograph.runs.state.journal import JOURNAL_OF_RUN, Journal
from barograph.runs.state.origins import write_origin
from barograph.store.base import Store
from barograph.version import __version__

Keep = Callable[[Path, str], ArtifactLink]
"""Stores the bytes of a file beside the runs under a name; returns the artifact."""

TITLES: Mapping[str, str] = {"mlflow": "MLflow", "wandb": "Weights & Biases", "aim": "Aim"}

_ENDS: Mapping[ForeignEnd, tuple[EndState, str]] = {
    ForeignEnd.FINISHED: (EndState.FINISHED, ""),
    ForeignEnd.FAILED: (EndState.FAILED, "It failed, according to {}."),
    ForeignEnd.KILLED: (EndState.FAILED, "It was killed, according to {}."),
    ForeignEnd.RUNNING: (EndState.STOPPED, "It was still running when it was imported, according to {}."),
}


class Written(NamedTuple):
    """Result of writing one run.

    Attributes:
        points: Number of written points.
        of_steps: Metrics that are also losses or learning rates: name to mode and key.
        copied, referenced: Number of files copied, and of files recorded by location only.
        damage: What could not be imported, one sentence each.
    """

    points: int
    of_steps: Mapping[str, str]
    copied: int
    referenced: int
    damage: list[str]


def stands_already(store: Store, run: ForeignRun, *, copies: bool) -> bool:
    """Return whether a run was imported completely and is unchanged.

    Args:
        store: Target of the run.
        run: Its current state in the tracker.
        copies: Whether files are to be copied; an import without copies is incomplete then.

    Raises:
        ImportFailed: The target has something else.
        StoreError: The place cannot be read.
    """
    try:
        manifest = manifest_from_bytes(store.get(MANIFEST), MANIFEST)
    except ObjectNotFound:
        if any(not item.name.startswith(f"{JOURNAL_OF_RUN}/") for item in store.list()):
            raise ImportFailed(f"The directory for run {run.name!r} has something else. Move it, or choose another "
                               f"--root ({store.url}).") from None
        return False
    if manifest.run_id != run.run_id:
        raise ImportFailed(f"The directory for run {run.name!r} has another run. Move it, or choose another --root "
                           f"({store.url}).")
    try:
        book = unsealed(store.get(_book(run)), _book(run))
    except ObjectNotFound:
        if glance(store).state is RunState.RUNNING:
            raise ImportFailed(f"another process is importing it ({store.url}).") from None
        return False  # an earlier import was interrupted
    return book.get("mark") == run.mark and (not copies or bool(book.get("copies")))


class ForeignRunWriter:
    """Writes one run.

    Args:
        store: Target of the run.
        run: The run.
        source: Location of the source, for messages.
        keep: Stores the bytes of its files; None: files are not copied.
        run_ids: IDs in Barograph of other runs, by their IDs in the tracker.
    """

    def __init__(
        self, store: Store, run: ForeignRun, source: str, keep: Keep | None, run_ids: Mapping[str, str]
    ) -> None:
        self._store = store
        self._run = run
        self._secrets = Secrets()
        self._source = source
        self._keep = keep
        self._run_ids = run_ids
        self._damage: list[str] = []
        self._copied = self._referenced = 0

    def write(self, on_progress: Callable[[int, int], object] = lambda done, of: None) -> Written:
        """Write the run, replacing an earlier import, but not what was added in Barograph.

        Raises:
            ImportFailed: It cannot be written.
            DamagedSource: Its metrics cannot be read.
            StoreError: The place cannot be written to.
        """
        run = self._run
        whole = gathered_series(run.series(), run.started_unix)
        self._damage += [*run.damage, *whole.damage]
        self._clear()
        end, reason = _ENDS[run.end]
        metadata = RunMetadata(
            self._manifest(),
            f"what the script did not log with {TITLES[run.tracker]}",
            run.ended_unix,
            end,
            reason.format(TITLES[run.tracker]),
        )
        GatheredWriter(self._store, whole, self._source, on_progress, metadata).write()
        write_origin(self._store, 0, Gathered(self._origin()))
        if entries := list(self._entries({place.key.path for place in whole.logged})):
            Journal(self._store, JOURNAL_OF_RUN).write(entries, mark=self._mark)
        of_steps = {name: f"{place.mode.value} {place.key}" for name, place in whole.names.items()}
        self._store.put(_book(run), sealed({
            "source": self._source, "uid": run.uid, "mark": run.mark, "copies": self._keep is not None,
            "name": run.name, "experiment": run.experiment, "state": run.end, "of_steps": of_steps,
            "damage": self._damage, "book": dict(run.book),
        }))
        points = sum(map(len, whole.logged.values()))
        return Written(points, of_steps, self._copied, self._referenced, self._damage)

    @property
    def _mark(self) -> str:
        return hashlib.sha256(f"import {self._run.run_id}".encode()).hexdigest()[:8]

    def _clear(self) -> None:
        names = [item.name for item in self._store.list()]
        noted_here = [name for name in names
                      if name.startswith(f"{JOURNAL_OF_RUN}/") and not name.endswith(f"-{self._mark}.json")]
        # The book first, so that a killed import is repeated.
        for name in sorted(set(names) - set(noted_here), key=lambda name: (name != _book(self._run), name == MANIFEST)):
            self._store.delete(name)

    def _manifest(self) -> Manifest:
        run = self._run
        experiment = self._checked("the experiment", run.experiment)
        trial = self._checked("the trial", run.trial) if experiment else ""
        settings = Settings(to=self._store.url, budget=None, machine_hz=0.0, trace=False, experiment=experiment,
                            trial=trial)
        return Manifest(run.run_id, self._checked("the run", run.name) or run.uid, run.started_unix,
                        versions={"barograph": __version__}, settings=settings.to_json())

    def _checked(self, what: str, name: str) -> str:
        """Return a valid name; changes are reported."""
        if not name:
            return ""
        try:
            return checked_name(what, name)
        except BarographError as error:
            plain = " ".join(name.replace("\0", " ").split())[:200]
            self._damage.append(f"{error} It is renamed to {plain or self._run.uid!r}.")
            return plain or self._run.uid

    def _origin(self) -> Origin:
        run = self._run
        # The tracker may have stored secrets; Barograph records none.
        program, repository = (self._secrets.hide(text) for text in (run.program, run.repository))
        code = Code(repository or run.directory, repository, run.branch, run.commit)
        return Origin(
            program=program, directory=run.directory, host=run.host, user=run.user,
            code=code if run.commit or run.repository else None, started_unix=run.started_unix,
            parameters={name: self._secrets.hide_parameter(name, value) for name, value in run.parameters.items()
                        if value is not None},
        )

    def _entries(self, recorded: Collection[str]) -> Iterator[Entry]:
        run, when = self._run, self._run.started_unix
        without_value: dict[str, Value] = {name: None for name, value in run.parameters.items() if value is None}
        if without_value:
            yield self._entry(Verb.PARAMETERS, without_value)
        yield self._entry(Verb.TAG, {**run.tags, f"{run.tracker}.run_id": run.uid})
        summaries = {name: asdict(MetricSummary(value, value, value, value, 0.0))
                     for name, value in run.summaries.items() if name not in recorded}
        if summaries:
            yield self._entry(Verb.METRICS, summaries)
        if run.note:
            yield Entry(run.run_id, Verb.NOTE, {"text": run.note}, when, run.user)
        for file in run.files:
            yield self._entry(Verb.OUTPUT if file.is_output else Verb.INPUT, asdict(self._link(file)))
        if run.same_as and run.same_as != run.run_id:
            yield self._entry(Verb.RELATE, {"relation": Relation.SAME_AS, "target": run.same_as})
        if run.parent:
            target = self._run_ids.get(run.parent)
            if target is None:
                self._damage.append(f"Its parent run {run.parent} no longer exists.")
            else:
                yield self._entry(Verb.RELATE, {"relation": Relation.CONTRIBUTED_TO, "target": target})

    def _entry(self, verb: Verb, data: Mapping[str, Any]) -> Entry:
        return Entry(self._run.run_id, verb, data, self._run.started_unix)

    def _link(self, file: ForeignFile) -> ArtifactLink:
        name = self._checked("an artifact", file.name) or "artifact"
        if self._keep is not None and file.fetch is not None:
            try:
                with tempfile.TemporaryDirectory(prefix="barograph-import-") as folder:
                    link = self._keep(file.fetch(Path(folder)), name)
                self._copied += 1
                return link
            except (BarographError, OSError) as error:
                self._damage.append(f'Artifact "{name}" was not copied: {error} Only its location is recorded.')
        self._referenced += 1
        return ArtifactLink(name, self._secrets.hide(file.uri), "", file.digest, file.size_bytes)


def _book(run: ForeignRun) -> str:
    return f"{IMPORTED}/{run.tracker}.json"
