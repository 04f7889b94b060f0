"""Reads MLflow's file store, `mlruns/`: a directory per experiment and run, a file per metric."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import yaml

from barograph.errors import DamagedSource, ImportFailed
from barograph.ingest.mlflow.making import (
    RunData,
    experiment_from_data,
    run_from_data,
    series_from_rows,
    whole_of,
)
from barograph.ingest.trackers.folders import ArtifactFolders
from barograph.ingest.trackers.foreign import ForeignExperiment, ForeignFile, ForeignRun, ForeignSeries, mark_of

META = "meta.yaml"
_MOST_META_BYTES = 1 << 20
_MOST_TEXT_BYTES = 1 << 20
_MOST_METRIC_BYTES = 8 << 30
_STATUS = {1: "RUNNING", 2: "SCHEDULED", 3: "FINISHED", 4: "FAILED", 5: "KILLED"}
_CONTEXT = "mlflow.data.context"


class FileStoreSource:
    """Runs in a file store.

    Args:
        root: The directory, usually named `mlruns`.
        folders: Directories that artifacts may be copied from.

    Raises:
        ImportFailed: It is not a file store.
    """

    def __init__(self, root: Path, folders: ArtifactFolders) -> None:
        self.url = str(root)
        self.passed_over: dict[str, int] = {}
        self.damage: list[str] = []
        self._root = root
        self._folders = folders
        if not is_file_store(root):
            raise ImportFailed(f"No MLflow file store: there is no experiment with a {META} ({root}).")

    def experiments(self) -> Sequence[ForeignExperiment]:
        """See `ForeignSource.experiments`."""
        return [experiment_from_data(str(meta.get("name", "")), self._texts(folder / "tags", []),
                                     whole_of(meta.get("creation_time"))) for folder, meta in self._experiments()]

    def runs(self) -> Sequence[ForeignRun]:
        """See `ForeignSource.runs`."""
        found: list[ForeignRun] = []
        if deleted := _folders(self._root / ".trash"):
            self.passed_over["deleted experiment"] = len(deleted)
        for folder, meta in self._experiments():
            models = self._models(folder)
            for below in _folders(folder):
                if not (below / META).is_file() or below.name in ("models", "datasets", "tags"):
                    continue
                try:
                    run = self._run(below, str(meta.get("name", "")), models)
                except DamagedSource as error:
                    self.damage.append(f"Cannot read a run: {error}")
                    continue
                if run is None:
                    self.passed_over["deleted run"] = self.passed_over.get("deleted run", 0) + 1
                else:
                    found.append(run)
        return sorted(found, key=lambda run: (run.started_unix, run.uid))

    def close(self) -> None:
        """See `ForeignSource.close`."""

    def _experiments(self) -> Iterator[tuple[Path, Mapping[str, Any]]]:
        for folder in _folders(self._root):
            if folder.name.startswith(".") or not (folder / META).is_file():
                continue
            try:
                meta = _meta(folder)
            except DamagedSource as error:
                self.damage.append(f"Cannot read an experiment: {error}")
                continue
            if meta.get("lifecycle_stage") != "deleted":
                yield folder, meta

    def _run(self, folder: Path, experiment: str, models: Mapping[str, list[ForeignFile]]) -> ForeignRun | None:
        meta = _meta(folder)
        if meta.get("lifecycle_stage") == "deleted":
            return None
        damage: list[str] = []
        run_id = str(meta.get("run_id") or meta.get("run_uuid") or folder.name)
        parameters, tags = (self._texts(folder / name, damage) for name in ("params", "tags"))
        datasets = list(self._datasets(folder, damage))
        # The metadata file may have the path on another machine; the directory beside it has been copied along.
        beside = folder / "artifacts"
        place = str(beside.resolve()) if beside.is_dir() else str(meta.get("artifact_uri") or "")
        files = [*self._folders.files(place, "", damage), *models.get(run_id, [])]
        metrics = [(path.relative_to(folder / "metrics").as_posix(), path) for path in _files(folder / "metrics")]
        mark = mark_of(sorted(meta.items(), key=str), parameters, tags, datasets,
                       [(name, path.stat().st_size) for name, path in metrics],
                       [(file.name, file.size_bytes) for file in files])
        return run_from_data(RunData(
            run_id, experiment, _STATUS.get(whole_of(meta.get("status")), str(meta.get("status"))), mark,
            partial(_series, metrics, run_id), name=str(meta.get("run_name") or ""),
            user=str(meta.get("user_id") or ""),
            start_ms=whole_of(meta.get("start_time")), end_ms=whole_of(meta.get("end_time")),
            artifact_uri=str(meta.get("artifact_uri") or ""), parameters=parameters, tags=tags, datasets=datasets,
            files=files, damage=damage,
        ))

    def _models(self, experiment: Path) -> dict[str, list[ForeignFile]]:
        found: dict[str, list[ForeignFile]] = {}
        for folder in _folders(experiment / "models"):
            try:
                meta = _meta(folder)
            except DamagedSource as error:
                self.damage.append(f"Cannot read a model: {error}")
                continue
            run_id = str(meta.get("source_run_id") or "")
            found.setdefault(run_id, []).extend(
                self._folders.files(str((folder / "artifacts").resolve()), f"models/{meta.get('name')}/", self.damage))
        return found

    def _datasets(self, folder: Path, damage: list[str]) -> Iterator[dict[str, str]]:
        for below in _folders(folder / "inputs"):
            try:
                data = _meta(below)
                if data.get("source_type") != "DATASET":
                    continue
                dataset = _meta(folder.parent / "datasets" / _plain(str(data.get("source_id"))))
            except DamagedSource as error:
                damage.append(f"Cannot read a dataset: {error}")
                continue
            tags = data.get("tags")
            context = str(tags.get(_CONTEXT) or "") if isinstance(tags, Mapping) else ""
            yield {name: str(dataset.get(name) or "") for name in
                   ("name", "digest", "source_type", "source", "schema", "profile")} | {"context": context}

    def _texts(self, folder: Path, damage: list[str]) -> dict[str, str]:
        found: dict[str, str] = {}
        for path in _files(folder):
            name = path.relative_to(folder).as_posix()
            if path.stat().st_size > _MOST_TEXT_BYTES:
                damage.append(f'"{name}" has {path.stat().st_size:,} bytes, more than MLflow allows; it is '
                              "left out.")
                continue
            text = path.read_bytes().decode("utf-8", "replace")
            # MLflow itself strips only the last line break, which it wrote.
            found[name] = text.removesuffix("\n")
        return found


def is_file_store(folder: Path) -> bool:
    """Return whether a directory contains MLflow experiments."""
    return any((below / META).is_file() for below in _folders(folder) if not below.name.startswith("."))


def _series(metrics: Sequence[tuple[str, Path]], run_id: str) -> Mapping[str, ForeignSeries]:
    return {name: _history(path, name, run_id) for name, path in metrics}


def _history(path: Path, name: str, run_id: str) -> ForeignSeries:
    steps: list[int] = []
    times: list[int] = []
    values: list[float] = []
    if path.stat().st_size > _MOST_METRIC_BYTES:
        raise DamagedSource(f'metric "{name}" is too large, with {path.stat().st_size:,} bytes (run {run_id}).')
    with path.open("rb") as file:
        for number, line in enumerate(file, 1):
            parts = line.split()
            if not parts:
                continue
            try:
                # Old files have no step: TIME VALUE. A dataset may follow.
                times.append(int(parts[0]))
                values.append(float(parts[1]))
                steps.append(int(parts[2]) if len(parts) > 2 else 0)
            except (ValueError, IndexError):
                raise DamagedSource(f'line {number} of metric "{name}" is invalid: {line[:60]!r} '
                                    f"(run {run_id}, {path}).") from None
    try:
        return series_from_rows(np.array(steps, np.int64), np.array(times, np.int64), np.array(values, np.float64))
    except OverflowError:
        raise DamagedSource(f'metric "{name}" has a step or a time that exceeds 64 bits '
                            f"(run {run_id}, {path}).") from None


def _meta(folder: Path) -> Mapping[str, Any]:
    path = folder / META
    try:
        if path.stat().st_size > _MOST_META_BYTES:
            raise DamagedSource(f"not an MLflow metadata file, because it has {path.stat().st_size:,} bytes ({path}).")
        # Reading a pipe would block forever.
        meta = yaml.load(path.read_bytes() if path.is_file() else b"", _PlainLoader)
        repr(meta)  # a hexadecimal number may have more digits than Python prints
    except (OSError, yaml.YAMLError, UnicodeDecodeError, ValueError, RecursionError) as error:
        raise DamagedSource(f"{str(error).splitlines()[0]} ({path}).") from error
    if not isinstance(meta, Mapping):
        raise DamagedSource(f"not an MLflow metadata file ({path}).")
    return meta


class _PlainLoader(yaml.SafeLoader):  # type: ignore[misc]
    """YAML loader that refuses aliases: a few of them can expand to terabytes."""

    def compose_node(self, parent: yaml.Node | None, index: int) -> yaml.Node | None:
        if self.check_event(yaml.AliasEvent):
            raise yaml.YAMLError("aliases are not allowed")
        return super().compose_node(parent, index)


def _plain(name: str) -> str:
    if not name or "/" in name or name in (".", ".."):
        raise DamagedSource(f"{name!r} is no data set.")
    return name


def _folders(folder: Path) -> list[Path]:
    return sorted(path for path in folder.iterdir() if path.is_dir()) if folder.is_dir() else []


def _files(folder: Path) -> list[Path]:
    # A link may lead to any folder of the user's, and what is in its files would be texts of a run.
    if not folder.is_dir() or folder.is_symlink():
        return []
    return sorted(path for path in folder.rglob("*") if path.is_file() and not path.is_symlink())
