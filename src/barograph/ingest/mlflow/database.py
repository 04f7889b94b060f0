"""Reads MLflow's database: SQLite, or a server that SQLAlchemy supports. Read-only."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any
from urllib.parse import quote, unquote

import numpy as np
from sqlalchemy import Connection, Engine, create_engine, inspect, text
from sqlalchemy.engine import URL, make_url
from sqlalchemy.exc import ArgumentError, NoSuchModuleError, SQLAlchemyError

from barograph.errors import DamagedSource, ImportFailed, MissingExtra
from barograph.ingest.mlflow.making import (
    RunData,
    experiment_from_data,
    run_from_data,
    series_from_rows,
    whole_of,
    with_infinities,
)
from barograph.ingest.trackers.folders import ArtifactFolders
from barograph.ingest.trackers.foreign import ForeignExperiment, ForeignFile, ForeignRun, ForeignSeries, mark_of
from barograph.provenance.secrets import Secrets

_NEEDED: Mapping[str, frozenset[str]] = {
    "experiments": frozenset({"experiment_id", "name", "lifecycle_stage"}),
    "runs": frozenset({"run_uuid", "name", "user_id", "status", "start_time", "end_time", "lifecycle_stage",
                       "artifact_uri", "experiment_id"}),
    "metrics": frozenset({"key", "value", "timestamp", "run_uuid", "step", "is_nan"}),
    "params": frozenset({"key", "value", "run_uuid"}),
    "tags": frozenset({"key", "value", "run_uuid"}),
}
"""Required tables and columns; MLflow has had them since version 1.3."""

_POINTS_AT_ONCE = 100_000


class DatabaseSource:
    """Runs in a database.

    Args:
        url: SQLAlchemy URL, or path of an SQLite file.
        folders: Directories that artifacts may be copied from.

    Raises:
        ImportFailed: It is unreachable, or not an MLflow database.
        MissingExtra: The driver in the URL is not installed.
    """

    def __init__(self, url: str, folders: ArtifactFolders) -> None:
        made = _url(url)
        self.url = _shown(made)
        self.passed_over: dict[str, int] = {}
        self.damage: list[str] = []
        self._folders = folders
        self._engine = _engine(made)
        try:
            self._tables = self._checked_tables()
        except BaseException:
            self.close()
            raise

    def experiments(self) -> Sequence[ForeignExperiment]:
        """See `ForeignSource.experiments`."""
        tags = self._named("experiment_tags", "experiment_id") if "experiment_tags" in self._tables else {}
        created = "creation_time" if "creation_time" in self._tables["experiments"] else "0"
        rows = self._rows(f"SELECT experiment_id, name, {created} FROM experiments")
        return [experiment_from_data(str(name), tags.get(str(number), {}), whole_of(when))
                for number, name, when in rows]

    def runs(self) -> Sequence[ForeignRun]:
        """See `ForeignSource.runs`."""
        parameters, tags = self._named("params", "run_uuid"), self._named("tags", "run_uuid")
        datasets, models = self._datasets(), self._models()
        counted: dict[str, list[Any]] = {}
        for run_id, *rest in self._rows("SELECT run_uuid, key, COUNT(*), MAX(timestamp), MAX(step) FROM metrics "
                                        "GROUP BY run_uuid, key ORDER BY run_uuid, key"):
            counted.setdefault(str(run_id), []).append(rest)
        found: list[ForeignRun] = []
        rows = self._rows(
            "SELECT r.run_uuid, r.name, r.user_id, r.status, r.start_time, r.end_time, r.lifecycle_stage, "
            "r.artifact_uri, e.name, e.lifecycle_stage FROM runs r JOIN experiments e "
            "ON e.experiment_id = r.experiment_id ORDER BY r.start_time, r.run_uuid")
        for run_id, name, user, status, start, end, stage, uri, experiment, stage_of_all in rows:
            if "deleted" in (stage, stage_of_all):
                self.passed_over["deleted run"] = self.passed_over.get("deleted run", 0) + 1
                continue
            damage: list[str] = []
            files = [*self._folders.files(uri or "", "", damage), *models.get(run_id, [])]
            own = parameters.get(run_id, {}), tags.get(run_id, {}), datasets.get(run_id, [])
            mark = mark_of(run_id, name, status, start, end, experiment, *own, counted.get(run_id),
                           [(file.name, file.size_bytes) for file in files])
            found.append(run_from_data(RunData(
                str(run_id), str(experiment), str(status), mark, partial(self._series, str(run_id)),
                name=name or "", user=user or "", start_ms=whole_of(start), end_ms=whole_of(end),
                artifact_uri=uri or "", parameters=own[0], tags=own[1], datasets=own[2], files=files, damage=damage,
            )))
        return found

    def close(self) -> None:
        """See `ForeignSource.close`."""
        self._engine.dispose()

    def _series(self, run_id: str) -> Mapping[str, ForeignSeries]:
        """Return the metrics of a run; read in parts, because a Python row takes a hundred bytes."""
        parts: dict[str, list[tuple[Any, ...]]] = {}
        with self._reading() as connection:
            result = connection.execution_options(stream_results=True).execute(
                text("SELECT key, step, timestamp, value, is_nan FROM metrics WHERE run_uuid = :run "
                     "ORDER BY key, timestamp, step"), {"run": run_id})
            while rows := result.fetchmany(_POINTS_AT_ONCE):
                try:
                    _take(rows, parts)
                except (TypeError, ValueError, OverflowError) as error:
                    raise DamagedSource(f"a metric has an invalid number: {error} (run {run_id}).") from error
        return {name: _joined(pieces) for name, pieces in parts.items()}

    def _datasets(self) -> dict[str, list[dict[str, str]]]:
        if not {"datasets", "inputs", "input_tags"} <= self._tables.keys():
            return {}
        rows = self._rows(
            "SELECT i.destination_id, d.name, d.digest, d.dataset_source_type, d.dataset_source, d.dataset_schema, "
            "d.dataset_profile, t.value FROM inputs i JOIN datasets d ON d.dataset_uuid = i.source_id "
            "LEFT JOIN input_tags t ON t.input_uuid = i.input_uuid AND t.name = 'mlflow.data.context' "
            "WHERE i.source_type = 'DATASET' AND i.destination_type = 'RUN' ORDER BY d.name, d.digest")
        names = ("name", "digest", "source_type", "source", "schema", "profile", "context")
        found: dict[str, list[dict[str, str]]] = {}
        for run_id, *said in rows:
            found.setdefault(run_id, []).append(
                {name: str(item or "") for name, item in zip(names, said, strict=True)})
        return found

    def _models(self) -> dict[str, list[ForeignFile]]:
        found: dict[str, list[ForeignFile]] = {}
        if "logged_models" in self._tables:
            for run_id, name, place in self._rows("SELECT source_run_id, name, artifact_location FROM logged_models "
                                                  "WHERE source_run_id IS NOT NULL ORDER BY name, model_id"):
                found.setdefault(run_id, []).extend(
                    self._folders.files(place or "", f"models/{name}/", self.damage))
        if "model_versions" in self._tables:
            for run_id, name, version in self._rows("SELECT run_id, name, version FROM model_versions "
                                                    "WHERE run_id IS NOT NULL ORDER BY name, version"):
                found.setdefault(run_id, []).append(
                    ForeignFile(f"registered {name} {version}", f"models:/{name}/{version}"))
        return found

    def _named(self, table: str, of: str) -> dict[str, dict[str, str]]:
        found: dict[str, dict[str, str]] = {}
        for owner, key, value in self._rows(f"SELECT {of}, key, value FROM {table} ORDER BY {of}, key"):
            found.setdefault(str(owner), {})[str(key)] = "" if value is None else str(value)
        return found

    def _checked_tables(self) -> dict[str, set[str]]:
        with self._reading() as connection:
            looked = inspect(connection)
            there = set(looked.get_table_names())
            tables = {name: {column["name"] for column in looked.get_columns(name)} for name in sorted(there)}
            missing = sorted(_NEEDED.keys() - there)
            if missing:
                what = f"it has {', '.join(sorted(there)[:6])}" if there else "it has no tables"
                raise ImportFailed(f"Not an MLflow database: table {missing[0]} is missing; {what} "
                                   f"({self.url}).")
            for name, columns in _NEEDED.items():
                if lacking := sorted(columns - tables[name]):
                    version = _version(connection, there)
                    raise ImportFailed(
                        f"Unknown schema of an MLflow database ({version}): table {name} lacks {', '.join(lacking)}. "
                        "If it is old, copy it and run `mlflow db upgrade`.")
        return tables

    def _rows(self, statement: str) -> list[Any]:
        with self._reading() as connection:
            return list(connection.execute(text(statement)).all())

    @contextmanager
    def _reading(self) -> Iterator[Connection]:
        try:
            with self._engine.connect() as connection:
                yield connection
        except SQLAlchemyError as error:
            cause = str(getattr(error, "orig", None) or error).splitlines()[0]
            raise ImportFailed(f"Cannot read the database: {cause} ({self.url}).") from error


def _take(rows: Sequence[Any], parts: dict[str, list[tuple[Any, ...]]]) -> None:
    names, steps, times, values, is_nan = zip(*rows, strict=True)
    columns = (np.array(steps, np.int64), np.array(times, np.int64), np.array(values, np.float64))
    columns[2][np.array(is_nan, bool)] = np.nan
    starts = [0, *(place for place in range(1, len(names)) if names[place] != names[place - 1]), len(names)]
    for start, stop in pairwise(starts):
        parts.setdefault(str(names[start]), []).append(tuple(column[start:stop] for column in columns))


def _joined(pieces: Sequence[tuple[Any, ...]]) -> ForeignSeries:
    steps, times, values = (np.concatenate(column) for column in zip(*pieces, strict=True))
    return series_from_rows(steps, times, with_infinities(values))


def _url(url: str) -> URL:
    if "://" not in url:
        return _read_only(Path(url))
    try:
        made = make_url(url)
    except ArgumentError:
        raise ImportFailed("Not a database URL; write sqlite:///mlflow.db or "
                           "postgresql://user@host/name.") from None
    if made.drivername.partition("+")[0] == "sqlite":
        return _read_only(Path(made.database or ""))
    if made.drivername in ("postgresql", "postgres"):
        return made.set(drivername="postgresql+psycopg")
    return made


def _shown(url: URL) -> str:
    """Return the location of a database without secrets, including those in the query string."""
    if url.drivername == "sqlite":
        return unquote((url.database or "").removeprefix("file:"))
    return Secrets().hide(url.render_as_string(hide_password=True))


def _read_only(path: Path) -> URL:
    if not path.is_file():
        raise ImportFailed(f"No database: the file does not exist ({path}).")
    with path.open("rb") as file:
        if file.read(16) != b"SQLite format 3\0":
            raise ImportFailed(f"Not an SQLite database ({path}).")
    return URL.create("sqlite", database=f"file:{quote(str(path.resolve()))}", query={"mode": "ro", "uri": "true"})


def _engine(url: URL) -> Engine:
    try:
        return create_engine(url)
    except NoSuchModuleError:
        raise ImportFailed(f'Unknown kind of database: "{url.drivername}".') from None
    except ImportError as error:
        hint = "pip install 'barograph[postgresql]'" if url.drivername.startswith("postgresql") else \
            f"pip install {error.name}"
        raise MissingExtra(f"The driver of {url.drivername} is not installed: {hint}") from error


def _version(connection: Connection, tables: set[str]) -> str:
    if "alembic_version" not in tables:
        return "without a version"
    versions = connection.execute(text("SELECT version_num FROM alembic_version")).scalars().all()
    return f"version {', '.join(map(str, versions)) or 'none'}"
