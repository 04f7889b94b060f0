"""Runs of an Aim repository, which only Aim can read: runs a Python that has Aim."""

from __future__ import annotations

import hashlib
import json
import os
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from barograph.errors import BarographError, DamagedSource, ImportFailed
from barograph.ingest.aim import dump
from barograph.ingest.trackers.foreign import (
    ForeignEnd,
    ForeignExperiment,
    ForeignFile,
    ForeignRun,
    ForeignSeries,
    mark_of,
    time_from,
)
from barograph.model.items import Value, checked_value, flattened
from barograph.processes.command import Command
from barograph.processes.run_to_end import run_to_end
from barograph.provenance.secrets import Secrets

_FOLDER = ".aim"
_SYSTEM, _OF_MACHINE = "__system__", "machine "
_NO_RUN_NAME = "Run: "
_OTHERS = b'{"file"', b'{"passed_over"'
_Line = tuple[int, int]


class AimSource:
    """The runs of a repository.

    Args:
        path: The directory that contains `.aim`, or `.aim` itself.
        python: An interpreter with Aim installed.

    Raises:
        ImportFailed: There is no repository, the interpreter lacks Aim, or Aim cannot read the repository.
    """

    def __init__(self, path: Path, python: str) -> None:
        self.url = str(path)
        self.passed_over: dict[str, int] = {}
        self.damage: list[str] = []
        folder = path if path.name == _FOLDER else path / _FOLDER
        if not folder.is_dir():
            raise ImportFailed(f"No Aim repository: there is no {_FOLDER} directory ({path}).")
        self._repository, self._python = folder.parent, python
        self._listing = _listed([python, dump.__file__, str(folder.parent.resolve())], folder.parent)
        self._extracted: tuple[str, tempfile.TemporaryDirectory[str]] | None = None

    def experiments(self) -> Sequence[ForeignExperiment]:
        """See `ForeignSource.experiments`."""
        return []

    def runs(self) -> Sequence[ForeignRun]:
        """See `ForeignSource.runs`."""
        found: list[ForeignRun] = []
        for head, metrics, others, mark in _sorted_lines(self._listing):
            if "not_indexed" in head:
                self.damage.append(f"Run {head['not_indexed']} is missing from Aim's index, so Aim cannot read it. "
                                   f"Run: aim storage --repo {self.url} reindex")
                continue
            try:
                damage: list[str] = []
                files = tuple(self._files(str(head["run"]), others, damage))
                found.append(_run(head, partial(_series, self._listing, metrics), mark, files, damage))
            except (BarographError, KeyError, TypeError, ValueError, AttributeError) as error:
                self.damage.append(f"Aim's data of run {head.get('run')} is invalid: {error!r}.")
        return sorted(found, key=lambda run: (run.started_unix, run.uid))

    def close(self) -> None:
        """See `ForeignSource.close`."""
        self._listing.unlink(missing_ok=True)
        if self._extracted is not None:
            self._extracted[1].cleanup()

    def _files(self, uid: str, others: Sequence[Mapping[str, Any]], damage: list[str]) -> Iterator[ForeignFile]:
        number = 0
        for said in others:
            if "passed_over" in said:
                what = str(said["passed_over"])
                self.passed_over[what] = self.passed_over.get(what, 0) + int(said["number"])
                continue
            name = f"{said['file']}/{_named(str(said['name']), said.get('context') or {})}"
            if "damage" in said:
                damage.append(f'Cannot read the object tracked as "{name}": {said["damage"]}.')
                continue
            name = f"{name}{'/' if said['which'] else ''}{said['which']}.{said['ending']}"
            yield ForeignFile(name, f"{(self._repository / _FOLDER).resolve().as_uri()}#{uid}", int(said["size_bytes"]),
                              f"sha256:{said['sha256']}",
                              fetch=partial(self._fetched, uid, number, str(said["ending"]), str(said["sha256"])))
            number += 1

    def _fetched(self, uid: str, number: int, ending: str, sha256: str, folder: Path) -> Path:
        """Write a file to a directory. All files of a run are fetched together, and only one run is cached."""
        if self._extracted is None or self._extracted[0] != uid:
            if self._extracted is not None:
                self._extracted[1].cleanup()
            self._extracted = uid, tempfile.TemporaryDirectory(prefix="barograph-aim-")
            _listed([self._python, dump.__file__, str(self._repository.resolve()), uid, self._extracted[1].name],
                  self._repository).unlink()
        path = Path(self._extracted[1].name, str(number))
        if not path.is_file() or hashlib.sha256(path.read_bytes()).hexdigest() != sha256:
            raise ImportFailed("the run changed during the import; import it again.")
        # The extension determines the media type.
        return path.rename(folder / f"{number}.{ending if ending.isalnum() else 'bin'}")


def _listed(command: Sequence[str], path: Path) -> Path:
    """Run Aim and return a file with its output.

    Args:
        command: Command that runs Aim.
        path: Path of the repository.
    """
    handle, name = tempfile.mkstemp(prefix="barograph-aim-", suffix=".jsonl")
    try:
        with os.fdopen(handle, "wb") as file:
            done = run_to_end(Command(tuple(command), os.fspath(path)), timeout_secs=None, stdout=file)
    except OSError as error:
        Path(name).unlink()
        raise ImportFailed(f"Cannot run {command[0]}: {error.strerror}. Pass a Python with Aim as --python.") \
            from error
    except BaseException:
        Path(name).unlink()
        raise
    if done.exit_code == 0:
        return Path(name)
    Path(name).unlink()
    said = done.err.decode("utf-8", "replace").strip().splitlines()
    last = said[-1] if said else f"exit code {done.exit_code}"
    if "No module named 'aim'" in last:
        raise ImportFailed("Only the package aim can read its repositories, and it is not installed in "
                           f"{command[0]}. Run pip install aim, or pass a Python with Aim as --python.")
    raise ImportFailed(f"Aim cannot read the repository: {last} ({path})")


def _sorted_lines(listing: Path) -> Iterator[tuple[dict[str, Any], list[_Line], list[dict[str, Any]], str]]:
    """Yield for each run its own line, the positions of its metrics, its other lines, and a digest of all."""
    head: dict[str, Any] | None = None
    metrics: list[_Line] = []
    others: list[dict[str, Any]] = []
    marks: list[object] = []
    with listing.open("rb") as file:
        at = 0
        for line in file:
            if line.startswith(b'{"metric"'):
                metrics.append((at, len(line)))
                marks.append(mark_of(line))
            elif line.startswith(_OTHERS):
                others.append(json.loads(line))
                marks.append(mark_of(line))
            else:
                if head is not None:
                    yield head, metrics, others, mark_of(*marks)
                head, metrics, others, marks = json.loads(line), [], [], [line]
            at += len(line)
    if head is not None:
        yield head, metrics, others, mark_of(*marks)


def _run(
    said: Mapping[str, Any], series: Any, mark: str, files: Sequence[ForeignFile], damage: Sequence[str]
) -> ForeignRun:
    name, uid = str(said.get("name") or ""), str(said["run"])
    arguments, commit = said.get("arguments") or [], str(said.get("commit") or "")
    words = arguments if isinstance(arguments, list) else str(arguments).split()
    parameters: dict[str, Value] = {}
    for key, value in flattened(said.get("params") or {}).items():
        try:
            parameters[key] = checked_value(key, value)
        except BarographError:
            parameters[key] = str(value)
    labels = {str(label): "true" for label in said.get("tags") or []}
    archived = {"archived": "true"} if said.get("archived") else {}
    return ForeignRun(
        "aim", uid, mark, uid if not name or name == f"{_NO_RUN_NAME}{uid}" else name, series,
        experiment=str(said.get("experiment") or ""), end=ForeignEnd.RUNNING if said.get("active") else
        ForeignEnd.FINISHED, started_unix=time_from(said.get("started")), ended_unix=time_from(said.get("ended")),
        program=" ".join(Secrets().hide_words([str(word) for word in words])), commit=commit,
        branch=str(said.get("branch") or ""), repository=str(said.get("remote") or "") if commit else "",
        parameters=parameters, tags={**labels, **archived}, note=str(said.get("description") or ""),
        files=files, damage=damage,
    )


def _series(listing: Path, metrics: Sequence[_Line]) -> Mapping[str, ForeignSeries]:
    found: dict[str, ForeignSeries] = {}
    with listing.open("rb") as file:
        for at, length in metrics:
            file.seek(at)
            said = json.loads(file.read(length))
            try:
                series = ForeignSeries(np.array(said["steps"], np.int64), np.array(said["times"], np.float64),
                                       np.array(said["values"], np.float64))
            except (TypeError, ValueError, OverflowError) as error:
                raise DamagedSource(f'metric "{said["metric"]}" is invalid: {error}') from error
            if not len(series.steps) == len(series.times) == len(series.values):
                raise DamagedSource(f'metric "{said["metric"]}" has {len(series.values)} values but '
                                    f"{len(series.times)} times.")
            name = str(said["metric"])
            of_machine = name.startswith(_SYSTEM)
            name = _named(name.removeprefix(_SYSTEM), said.get("context") or {})
            found[f"{_OF_MACHINE}{name}" if of_machine and name in found else name] = \
                series._replace(of_machine=of_machine)
    return found


def _named(name: str, context: Mapping[str, Any]) -> str:
    """Return the name of a metric: prefixed with its subset, as in other trackers, with the rest of its context.

    Example:
        >>> _named("loss", {"subset": "val"}), _named("loss", {"fold": 2})
        ('val/loss', 'loss {fold=2}')
    """
    rest = ", ".join(f"{key}={value}" for key, value in sorted(context.items()) if key != "subset")
    subset = f"{context['subset']}/" if context.get("subset") else ""
    return f"{subset}{name}{f' {{{rest}}}' if rest else ''}"

