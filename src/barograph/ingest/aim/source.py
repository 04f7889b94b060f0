"""Runs of a repository of Aim, which its own package alone reads: so a Python that has it is asked."""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from barograph.errors import BarographError, DamagedSource, ImportFailed
from barograph.ingest.aim import telling
from barograph.ingest.trackers.foreign import (
    ForeignEnd,
    ForeignExperiment,
    ForeignRun,
    ForeignSeries,
    mark_of,
    time_from,
)
from barograph.model.items import Value, checked_value, flattened
from barograph.provenance.secrets import Secrets

_FOLDER = ".aim"
_SYSTEM, _OF_MACHINE = "__system__", "machine "
_NO_RUN_NAME = "Run: "
_Line = tuple[int, int]


class AimSource:
    """The runs of a repository.

    Args:
        path: The folder that holds `.aim`, or that one itself.
        python: An interpreter that has Aim.

    Raises:
        ImportFailed: There is no repository, the interpreter has no Aim, or that cannot read it.
    """

    def __init__(self, path: Path, python: str) -> None:
        self.url = str(path)
        self.passed_over: dict[str, int] = {}
        self.damage: list[str] = []
        folder = path if path.name == _FOLDER else path / _FOLDER
        if not folder.is_dir():
            raise ImportFailed(f"There is no repository of Aim at {path}: no folder {_FOLDER}.")
        self._told = _told(folder.parent, python)

    def experiments(self) -> Sequence[ForeignExperiment]:
        """See `ForeignSource.experiments`."""
        return []

    def runs(self) -> Sequence[ForeignRun]:
        """See `ForeignSource.runs`."""
        found: list[ForeignRun] = []
        for head, metrics, mark in _sorted_lines(self._told):
            if "not_indexed" in head:
                self.damage.append(f"Run {head['not_indexed']} is not in Aim's index, without which Aim does not read "
                                   f"it: aim storage --repo {self.url} reindex")
                continue
            try:
                found.append(_run(head, partial(_series, self._told, metrics), mark))
            except (BarographError, KeyError, TypeError, ValueError, AttributeError) as error:
                self.damage.append(f"What Aim tells of the run {head.get('run')} makes no sense: {error!r}.")
        return sorted(found, key=lambda run: (run.started_unix, run.uid))

    def close(self) -> None:
        """See `ForeignSource.close`."""
        self._told.unlink(missing_ok=True)


def _told(path: Path, python: str) -> Path:
    """Return a file with what Aim tells."""
    handle, name = tempfile.mkstemp(prefix="barograph-aim-", suffix=".jsonl")
    try:
        with os.fdopen(handle, "wb") as file:
            done = subprocess.run([python, telling.__file__, str(path.resolve())], stdout=file, stderr=subprocess.PIPE,
                                  stdin=subprocess.DEVNULL, check=False, cwd=path)
    except OSError as error:
        Path(name).unlink()
        raise ImportFailed(f"{python} cannot be run: {error.strerror}. Name a Python that has Aim by --python.") \
            from error
    except BaseException:
        Path(name).unlink()
        raise
    if done.returncode == 0:
        return Path(name)
    Path(name).unlink()
    said = done.stderr.decode("utf-8", "replace").strip().splitlines()
    last = said[-1] if said else f"exit code {done.returncode}"
    if "No module named 'aim'" in last:
        raise ImportFailed(f"Aim's repositories can be read by its own package alone, which {python} does not have: "
                           "pip install aim, or name a Python that has it by --python.")
    raise ImportFailed(f"Aim cannot read the repository {path}: {last}")


def _sorted_lines(told: Path) -> Iterator[tuple[dict[str, Any], list[_Line], str]]:
    """Yield what is told of each run: its own line, where those of its metrics are, and a mark of all of them."""
    head: dict[str, Any] | None = None
    metrics: list[_Line] = []
    marks: list[object] = []
    with told.open("rb") as file:
        at = 0
        for line in file:
            if not line.startswith(b'{"metric"'):
                if head is not None:
                    yield head, metrics, mark_of(*marks)
                head, metrics, marks = json.loads(line), [], [line]
            else:
                metrics.append((at, len(line)))
                marks.append(mark_of(line))
            at += len(line)
    if head is not None:
        yield head, metrics, mark_of(*marks)


def _run(said: Mapping[str, Any], series: Any, mark: str) -> ForeignRun:
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
    )


def _series(told: Path, metrics: Sequence[_Line]) -> Mapping[str, ForeignSeries]:
    found: dict[str, ForeignSeries] = {}
    with told.open("rb") as file:
        for at, length in metrics:
            file.seek(at)
            said = json.loads(file.read(length))
            try:
                series = ForeignSeries(np.array(said["steps"], np.int64), np.array(said["times"], np.float64),
                                       np.array(said["values"], np.float64))
            except (TypeError, ValueError, OverflowError) as error:
                raise DamagedSource(f'the metric "{said["metric"]}" makes no sense: {error}') from error
            if not len(series.steps) == len(series.times) == len(series.values):
                raise DamagedSource(f'the metric "{said["metric"]}" has {len(series.values)} values at '
                                    f"{len(series.times)} times.")
            name = str(said["metric"])
            of_machine = name.startswith(_SYSTEM)
            name = _named(name.removeprefix(_SYSTEM), said.get("context") or {})
            found[f"{_OF_MACHINE}{name}" if of_machine and name in found else name] = \
                series._replace(of_machine=of_machine)
    return found


def _named(name: str, context: Mapping[str, Any]) -> str:
    """Return what a metric is called: by its subset, as others write it, and by what else its context says.

    Example:
        >>> _named("loss", {"subset": "val"}), _named("loss", {"fold": 2})
        ('val/loss', 'loss {fold=2}')
    """
    rest = ", ".join(f"{key}={value}" for key, value in sorted(context.items()) if key != "subset")
    subset = f"{context['subset']}/" if context.get("subset") else ""
    return f"{subset}{name}{f' {{{rest}}}' if rest else ''}"

