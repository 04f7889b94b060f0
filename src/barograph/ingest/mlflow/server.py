"""Reads MLflow's tracking server over its REST API, version 2.0."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from barograph.errors import DamagedSource, ImportFailed
from barograph.ingest.mlflow.making import (
    RunData,
    dataset_from_json,
    experiment_from_data,
    run_from_data,
    series_from_rows,
    whole_of,
    with_infinities,
)
from barograph.ingest.trackers.folders import MOST_COPIED_BYTES
from barograph.ingest.trackers.foreign import ForeignExperiment, ForeignFile, ForeignRun, ForeignSeries, mark_of
from barograph.wire.web import Web, WebFailed

API = "api/2.0/mlflow"
_RUNS_AT_ONCE = 500
_POINTS_AT_ONCE = 25_000
_MOST_PAGES = 100_000
_DEEPEST = 32
_NOT_THERE = (404, 405, 501)


class ServerSource:
    """Runs on a tracking server.

    Args:
        web: Connection to the server.

    Raises:
        ImportFailed: It is unreachable, refuses, or is not an MLflow server.
    """

    def __init__(self, web: Web) -> None:
        self.url = web.url
        self.passed_over: dict[str, int] = {}
        self.damage: list[str] = []
        self._web = web
        self._experiments = list(self._pages("experiments/search", "experiments", {
            "max_results": 1000, "view_type": "ACTIVE_ONLY"}))

    def experiments(self) -> Sequence[ForeignExperiment]:
        """See `ForeignSource.experiments`."""
        return [experiment_from_data(str(item.get("name", "")), _texts(item.get("tags")),
                                     whole_of(item.get("creation_time"))) for item in self._experiments]

    def runs(self) -> Sequence[ForeignRun]:
        """See `ForeignSource.runs`."""
        names = {str(item.get("experiment_id")): str(item.get("name", "")) for item in self._experiments}
        versions = self._versions()
        found: list[ForeignRun] = []
        for some in (list(names)[at : at + 50] for at in range(0, len(names), 50)):
            for item in self._pages("runs/search", "runs", {
                    "experiment_ids": some, "max_results": _RUNS_AT_ONCE, "run_view_type": "ACTIVE_ONLY"}):
                try:
                    found.append(self._run(item, names, versions))
                except (AttributeError, KeyError, TypeError) as error:
                    self.damage.append(f"The server returned an invalid run: {error!r}.")
        return sorted(found, key=lambda run: (run.started_unix, run.uid))

    def close(self) -> None:
        """See `ForeignSource.close`."""

    def _run(self, item: Mapping[str, Any], names: Mapping[str, str], versions: Mapping[str, list[ForeignFile]]) \
            -> ForeignRun:
        info, data = item["info"], item.get("data") or {}
        run_id, uri = str(info.get("run_id") or info["run_uuid"]), str(info.get("artifact_uri") or "")
        inputs, outputs = item.get("inputs") or {}, item.get("outputs") or {}
        damage: list[str] = []
        files = [*self._artifacts(run_id, uri, damage), *self._models(outputs), *versions.get(run_id, [])]
        keys = [str(metric["key"]) for metric in data.get("metrics") or []]
        return run_from_data(RunData(
            run_id, names.get(str(info.get("experiment_id")), ""), str(info.get("status")),
            # The server returns the newest point of each metric, which changes with each new value.
            mark_of(info, data, inputs, outputs, [(file.name, file.size_bytes) for file in files]),
            partial(self._series, run_id, keys), name=str(info.get("run_name") or ""),
            user=str(info.get("user_id") or ""), start_ms=whole_of(info.get("start_time")),
            end_ms=whole_of(info.get("end_time")), artifact_uri=uri, parameters=_texts(data.get("params")),
            tags=_texts(data.get("tags")),
            datasets=[dataset_from_json(said.get("dataset") or {}, said.get("tags") or [])
                      for said in inputs.get("dataset_inputs") or []],
            files=files, damage=damage,
        ))

    def _series(self, run_id: str, keys: Sequence[str]) -> Mapping[str, ForeignSeries]:
        return {key: self._history(run_id, key) for key in keys}

    def _history(self, run_id: str, key: str) -> ForeignSeries:
        steps: list[int] = []
        times: list[int] = []
        values: list[float] = []
        try:
            for point in self._asked("metrics/get-history", "metrics", {
                    "run_id": run_id, "metric_key": key, "max_results": _POINTS_AT_ONCE}):
                steps.append(int(point.get("step", 0)))
                times.append(int(point["timestamp"]))
                values.append(float(point.get("value", 0.0)))
            return series_from_rows(np.array(steps, np.int64), np.array(times, np.int64),
                                    with_infinities(np.array(values, np.float64)))
        except (AttributeError, KeyError, TypeError, ValueError, OverflowError) as error:
            raise DamagedSource(f'the server returned invalid data for metric "{key}": {error!r} '
                                f"(run {run_id}).") from error

    def _artifacts(self, run_id: str, uri: str, damage: list[str]) -> Iterator[ForeignFile]:
        try:
            yield from self._folder(run_id, uri, "", damage, 0)
        except ImportFailed as error:
            damage.append(f"Cannot list its artifacts: {error}")

    def _folder(self, run_id: str, uri: str, folder: str, damage: list[str], depth: int) -> Iterator[ForeignFile]:
        query = {"run_id": run_id, **({"path": folder} if folder else {})}
        for item in self._asked("artifacts/list", "files", query):
            path = str(item.get("path", "")) if isinstance(item, Mapping) else ""
            below = path.startswith(f"{folder}/") if folder else bool(path)
            if not below or depth > _DEEPEST or any(part in ("", ".", "..") for part in path.split("/")):
                damage.append(f"The server lists artifact {path[:100]!r}, which is outside the run's directory; it "
                              "is left out.")
            elif item.get("is_dir"):
                yield from self._folder(run_id, uri, path, damage, depth + 1)
            else:
                size_bytes = whole_of(item.get("file_size")) if item.get("file_size") is not None else -1
                copied = 0 <= size_bytes <= MOST_COPIED_BYTES
                yield ForeignFile(path, f"{uri.rstrip('/')}/{path}", size_bytes,
                                  fetch=partial(self._fetched, run_id, path, size_bytes) if copied else None)

    def _fetched(self, run_id: str, path: str, size_bytes: int, folder: Path) -> Path:
        # The local file name is ours, because the server's is not trusted.
        target = folder / "artifact"
        try:
            self._web.download("get-artifact", {"run_uuid": run_id, "path": path}, target, most_bytes=size_bytes)
        except WebFailed as error:
            raise ImportFailed(f"{error}.") from error
        if target.stat().st_size != size_bytes:
            raise ImportFailed(f"the server sent {target.stat().st_size:,} of its {size_bytes:,} bytes.")
        return target

    def _models(self, outputs: Mapping[str, Any]) -> Iterator[ForeignFile]:
        for said in outputs.get("model_outputs") or []:
            model_id = str(said.get("model_id", ""))
            try:
                info = (self._web.get(f"{API}/logged-models/{model_id}").get("model") or {}).get("info") or {}
            except WebFailed as error:
                self.damage.append(f"Cannot fetch model {model_id}: {error}.")
                continue
            yield ForeignFile(f"models/{info.get('name') or model_id}", str(info.get("artifact_uri") or model_id))

    def _versions(self) -> dict[str, list[ForeignFile]]:
        found: dict[str, list[ForeignFile]] = {}
        try:
            for item in self._asked("model-versions/search", "model_versions", {"max_results": 1000}):
                name, version = item.get("name"), item.get("version")
                found.setdefault(str(item.get("run_id")), []).append(
                    ForeignFile(f"registered {name} {version}", f"models:/{name}/{version}"))
        except ImportFailed as error:
            # Servers may lack a model registry.
            if not isinstance(error.__cause__, WebFailed) or error.__cause__.status not in _NOT_THERE:
                self.damage.append(f"Cannot list registered models: {error}")
        return found

    def _pages(self, path: str, of: str, body: Mapping[str, Any]) -> Iterator[Any]:
        """Yield the items of all pages of a POST request."""
        return self._turned(path, of, lambda token: self._web.post(
            f"{API}/{path}", {**body, **({"page_token": token} if token else {})}))

    def _asked(self, path: str, of: str, query: Mapping[str, str | int]) -> Iterator[Any]:
        """Yield the items of all pages of a GET request."""
        return self._turned(path, of, lambda token: self._web.get(
            f"{API}/{path}", {**query, **({"page_token": token} if token else {})}))

    def _turned(self, path: str, of: str, ask: Any) -> Iterator[Any]:
        token = ""
        seen: set[str] = set()
        while True:
            try:
                answer = ask(token)
            except WebFailed as error:
                raise ImportFailed(f"The tracking server refused a request ({path}): {error} "
                                   f"({self.url}).") from error
            items = answer.get(of) or []
            if not isinstance(items, list):
                raise ImportFailed(f"The tracking server sent an invalid response ({path}): {of} is "
                                   f"{type(items).__name__} ({self.url}).")
            yield from items
            token = str(answer.get("next_page_token") or "")
            if not token:
                return
            if token in seen or len(seen) >= _MOST_PAGES:
                raise ImportFailed(f"The tracking server repeats its pages ({path}; {self.url}).")
            seen.add(token)


def _texts(said: object) -> dict[str, str]:
    items = said if isinstance(said, list) else []
    return {str(item["key"]): str(item.get("value") or "") for item in items if isinstance(item, Mapping)
            and "key" in item}
