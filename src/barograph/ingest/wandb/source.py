"""Reads local Weights & Biases runs, `wandb/offline-run-*/run-*.wandb`, without wandb."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Any

from barograph.errors import BarographError, ImportFailed
from barograph.ingest.trackers.folders import ArtifactFolders
from barograph.ingest.trackers.foreign import (
    ForeignEnd,
    ForeignExperiment,
    ForeignFile,
    ForeignRun,
    ForeignSeries,
    mark_of,
)
from barograph.ingest.wandb.content import Content, leaves
from barograph.ingest.wandb.messages import real_from
from barograph.model.items import Value, checked_value, flattened

_LOG = "*.wandb"
_RUN_FOLDER = re.compile(r"(?:offline-)?run-(?P<when>\d{8}_\d{6})-(?P<id>.+)")
_LOG_NAME = re.compile(r"run-(?P<id>.+)\.wandb")
_ID, _ENTITY, _PROJECT, _GROUP, _JOB, _NAME, _NOTES, _TAGS, _SWEEP, _HOST = 1, 2, 3, 6, 7, 8, 9, 10, 12, 13
_PROGRAM, _DIRECTORY, _EMAIL, _USER = 6, 11, 10, 13
_ARTIFACT_TYPE, _ARTIFACT_NAME, _ARTIFACT_DIGEST = 4, 5, 6
_USED_ID, _USED_TYPE, _USED_NAME = 1, 2, 3
_NO_PROJECT = "uncategorized"


class WandbSource:
    """Runs below a directory, or in one file.

    Args:
        path: A file `run-ID.wandb`, the directory of a run, `wandb/`, or its parent directory.

    Raises:
        ImportFailed: There is no log.
    """

    def __init__(self, path: Path) -> None:
        self.url = str(path)
        self.passed_over: dict[str, int] = {}
        self.damage: list[str] = []
        self._logs = _logs_at(path)

    def experiments(self) -> Sequence[ForeignExperiment]:
        """See `ForeignSource.experiments`."""
        return []

    def runs(self) -> Sequence[ForeignRun]:
        """See `ForeignSource.runs`."""
        found = []
        for logs in self._logs.values():
            try:
                found.append(_run(logs))
            except BarographError as error:
                self.damage.append(str(error))
        return sorted(found, key=lambda run: (run.started_unix, run.uid))

    def close(self) -> None:
        """See `ForeignSource.close`."""


def _logs_at(path: Path) -> dict[str, list[Path]]:
    """Return the logs of each run, in order of writing."""
    if path.is_file():
        return {path.name: [path]}
    if not path.is_dir():
        raise ImportFailed(f"No such file or directory ({path}).")
    found: dict[str, list[Path]] = {}
    patterns = (_LOG, f"*run-*/{_LOG}", f"wandb/*run-*/{_LOG}")
    logs = [log for pattern in patterns for log in path.glob(pattern) if not log.parent.is_symlink()]
    for log in sorted(set(logs), key=lambda log: (log.parent.name.removeprefix("offline-"), log.name)):
        found.setdefault(log.name, []).append(log)
    if not found:
        raise ImportFailed("No local Weights & Biases run: there is no wandb/offline-run-…/run-….wandb. Runs that are "
                           f"only on its server cannot be imported ({path}).")
    return found


def _content(logs: Sequence[Path], *, with_numbers: bool) -> Content:
    content = Content()
    for log in logs:
        content.add(log, with_numbers=with_numbers)
    return content


def _run(logs: Sequence[Path]) -> ForeignRun:
    content = _content(logs, with_numbers=False)
    said, around = partial(_first, content.run), partial(_first, content.environment)
    if not said(_ID) and (match := _LOG_NAME.fullmatch(logs[0].name)):
        content.run[_ID] = [match["id"]]
    content.started_unix = content.started_unix or _folder_time(logs[0].parent.name)
    project = said(_PROJECT) or _NO_PROJECT
    parameters = dict(_parameters(content))
    ends = {None: ForeignEnd.RUNNING, 0: ForeignEnd.FINISHED}
    files = [*_kept(logs, content), *_artifacts(content, project)]
    return ForeignRun(
        "wandb", f"{project}.{said(_ID)}", mark_of([log.stat().st_size for log in logs], len(files)),
        said(_NAME) or said(_ID), partial(_series, logs, content.damage), experiment=project, trial=said(_GROUP),
        end=ends.get(content.exit_code, ForeignEnd.FAILED), started_unix=content.started_unix,
        user=said(_ENTITY) or around(_USER) or around(_EMAIL), host=said(_HOST), program=around(_PROGRAM),
        directory=around(_DIRECTORY), commit=content.commit, repository=content.remote, parameters=parameters,
        tags=dict(_tags(content)), note=said(_NOTES), files=files, summaries=dict(_summaries(content)),
        book={"summary": content.summary, "exit_code": content.exit_code}, damage=content.damage,
    )


def _folder_time(name: str) -> float:
    """Return the start time in a directory name, in local time; 0.0 if there is none."""
    match = _RUN_FOLDER.fullmatch(name)
    try:
        return datetime.strptime(match["when"], "%Y%m%d_%H%M%S").timestamp() if match else 0.0
    except ValueError:
        return 0.0


def _series(logs: Sequence[Path], damage: list[str]) -> Mapping[str, ForeignSeries]:
    content = _content(logs, with_numbers=True)
    damage += [sentence for sentence in content.damage if sentence not in damage]
    return content.series


def _first(texts: Mapping[int, Sequence[str]], number: int) -> str:
    return texts.get(number, [""])[0]


def _parameters(content: Content) -> Iterator[tuple[str, Value]]:
    for name, value in flattened({key: item for key, item in content.config.items() if key != "_wandb"}).items():
        try:
            yield name, checked_value(name, value)
        except BarographError:
            # A list of dictionaries becomes a string, so that it can be searched.
            yield name, str(value)


def _tags(content: Content) -> Iterator[tuple[str, str]]:
    for label in content.run.get(_TAGS, []):
        yield label, "true"
    for name, number in (("group", _GROUP), ("job_type", _JOB), ("sweep", _SWEEP)):
        if text := _first(content.run, number):
            yield name, text


def _summaries(content: Content) -> Iterator[tuple[str, float]]:
    for path, value in leaves({name: item for name, item in content.summary.items() if name[:1] != "_"}):
        if isinstance(value, int | float):
            yield ".".join(path), real_from(value)


def _kept(logs: Sequence[Path], content: Content) -> Iterator[ForeignFile]:
    for log in logs:
        folders = ArtifactFolders([log.parent])
        if (log.parent / "files").is_dir():
            yield from folders.files(str((log.parent / "files").resolve()), "", content.damage)


def _artifacts(content: Content, project: str) -> Iterator[ForeignFile]:
    for is_output, texts in content.artifacts:
        said: Any = partial(_first, texts)
        name = said(_ARTIFACT_NAME) if is_output else said(_USED_NAME) or said(_USED_ID)
        kind = said(_ARTIFACT_TYPE) if is_output else said(_USED_TYPE)
        digest = said(_ARTIFACT_DIGEST) if is_output else ""
        yield ForeignFile(f"{kind} {name}".strip(), f"wandb-artifact:///{project}/{name}", is_output=is_output,
                          digest=f"wandb:{digest}" if digest else "")
