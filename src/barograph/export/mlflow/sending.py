"""Export of runs to MLflow's tracking server over its REST API, version 2.0; idempotent."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from barograph.errors import DamagedChunk, EndpointFailed, ObjectNotFound
from barograph.export.mlflow.outgoing import RUN_ID, Fitting, Outgoing, OutgoingFile, histories, milliseconds
from barograph.wire.web import Web, WebFailed

_API = "api/2.0/mlflow"
_ARTIFACTS = "api/2.0/mlflow-artifacts/artifacts"
_SERVED = "mlflow-artifacts:"
_METRICS_AT_ONCE, _TEXTS_AT_ONCE = 1000, 100
_NOT_FOUND = "RESOURCE_DOES_NOT_EXIST"


@dataclass(slots=True)
class SentRun:
    """Result of exporting one run.

    Attributes:
        name: Name of the run.
        uid: ID in Barograph.
        mlflow_run_id: ID in MLflow.
        unchanged: Whether it was exported already.
        points: Number of sent values.
        artifacts: Number of sent files.
        notes: What was changed or left out because of MLflow's limits, one sentence each.
    """

    name: str
    uid: str
    mlflow_run_id: str
    unchanged: bool = False
    points: int = 0
    artifacts: int = 0
    notes: list[str] = field(default_factory=list)

    def to_json(self) -> dict[str, Any]:
        """Return plain JSON data."""
        return asdict(self)


class MlflowServer:
    """A tracking server to which runs are exported.

    Args:
        web: Connection to the server.
    """

    def __init__(self, web: Web) -> None:
        self.url = web.url
        self._web = web
        self._experiments: dict[str, str] = {}
        self._run_ids: dict[str, str] = {}

    def describe(self, experiment: str, description: str, tags: Mapping[str, str]) -> None:
        """Set description and tags of an experiment; create it if it does not exist.

        Raises:
            EndpointFailed: The server refused it.
        """
        said = {**tags, **({"mlflow.note.content": description} if description else {})}
        for name, text in Fitting().tags(said).items():
            self._post("experiments/set-experiment-tag", {
                "experiment_id": self._experiment(experiment), "key": name, "value": text})

    def send(self, outgoing: Outgoing, on_progress: Callable[[int], object] = lambda points: None) -> SentRun:
        """Export a run unless it was exported completely before; a partial export is replaced.

        Args:
            outgoing: The run.
            on_progress: Called with the number of sent values.

        Raises:
            EndpointFailed: The server refused it, or is unreachable.
            StoreError: The run cannot be read.
        """
        experiment_id = self._experiment(outgoing.experiment)
        before = self._known(experiment_id, outgoing.uid)
        for run_id, is_whole in before.items():
            if is_whole:
                self._run_ids[outgoing.uid] = run_id
                return SentRun(outgoing.name, outgoing.uid, run_id, unchanged=True)
        for run_id in before:
            self._post("runs/delete", {"run_id": run_id})
        return self._sent(outgoing, experiment_id, on_progress)

    def _sent(self, outgoing: Outgoing, experiment_id: str, on_progress: Callable[[int], object]) -> SentRun:
        fitting = Fitting()
        tags = {**outgoing.tags, RUN_ID: outgoing.uid}
        if outgoing.parent in self._run_ids:
            tags["mlflow.parentRunId"] = self._run_ids[outgoing.parent]
        info = self._post("runs/create", {
            "experiment_id": experiment_id, "run_name": outgoing.name, "start_time": outgoing.started_ms})
        run_info = info.get("run", {}).get("info", {})
        run_id = str(run_info.get("run_id", ""))
        sent = SentRun(outgoing.name, outgoing.uid, run_id, notes=fitting.notes)
        for some in _parts(list(fitting.parameters(outgoing.parameters).items()), _TEXTS_AT_ONCE):
            self._log(run_id, params=some)
        for some in _parts(list(fitting.tags(tags).items()), _TEXTS_AT_ONCE):
            self._log(run_id, tags=some)
        self._send_numbers(outgoing, run_id, fitting, sent, on_progress)
        if outgoing.datasets:
            self._post("runs/log-inputs", {"run_id": run_id, "datasets": list(map(_dataset, outgoing.datasets))})
        for file in outgoing.files:
            self._send_file(file, str(run_info.get("artifact_uri", "")), fitting, sent)
        ended = {"end_time": outgoing.ended_ms} if outgoing.ended_ms else {}
        # Last: a run without this mark was interrupted, and is sent again.
        self._log(run_id, tags=[(f"{RUN_ID}.whole", "yes")])
        self._post("runs/update", {"run_id": run_id, "status": outgoing.status, **ended})
        self._run_ids[outgoing.uid] = run_id
        return sent

    def _send_numbers(
        self, outgoing: Outgoing, run_id: str, fitting: Fitting, sent: SentRun, on_progress: Callable[[int], object]
    ) -> None:
        for name, history in histories(outgoing):
            key = fitting.name("the metric", name)
            rows = list(zip(history.values.tolist(), milliseconds(history).tolist(), history.steps.tolist(),
                            strict=True))
            for some in _parts(rows, _METRICS_AT_ONCE):
                self._post("runs/log-batch", {"run_id": run_id, "metrics": [
                    {"key": key, "value": _number(value), "timestamp": time_ms, "step": step}
                    for value, time_ms, step in some]})
                sent.points += len(some)
                on_progress(sent.points)
        for name, value in outgoing.summaries.items():
            self._post("runs/log-batch", {"run_id": run_id, "metrics": [
                {"key": fitting.name("the metric", name), "value": _number(value),
                 "timestamp": outgoing.ended_ms or outgoing.started_ms, "step": 0}]})
            sent.points += 1

    def _send_file(self, file: OutgoingFile, artifact_uri: str, fitting: Fitting, sent: SentRun) -> None:
        if file.read is None:
            fitting.notes.append(f'Artifact "{file.name}" was not uploaded; it stays at {file.uri}.')
            return
        if not artifact_uri.startswith(_SERVED):
            fitting.notes.append(f'Artifact "{file.name}" was not sent: the server accepts no artifacts over HTTP (it '
                                f"stores them at {artifact_uri}; start it with --serve-artifacts).")
            return
        folder = artifact_uri.removeprefix(_SERVED).lstrip("/")
        name = fitting.name("the artifact", file.name)
        try:
            self._web.upload(f"{_ARTIFACTS}/{folder}/{name}", file.read())
        except WebFailed as error:
            raise self._failed(f'artifact "{file.name}"', error) from error
        except (DamagedChunk, ObjectNotFound) as error:
            fitting.notes.append(f'Artifact "{file.name}" was not sent: {error}')
            return
        sent.artifacts += 1

    def _experiment(self, name: str) -> str:
        if name not in self._experiments:
            try:
                found = self._web.get(f"{_API}/experiments/get-by-name", {"experiment_name": name})
                found = found.get("experiment", {})
            except WebFailed as error:
                if error.code != _NOT_FOUND:
                    raise self._failed("experiments/get-by-name", error) from error
                found = self._post("experiments/create", {"name": name})
            if found.get("lifecycle_stage") == "deleted":
                raise EndpointFailed(f'Experiment "{name}" is deleted on the server. Restore it, or delete it '
                                     f"permanently ({self.url}).")
            self._experiments[name] = str(found.get("experiment_id", ""))
        return self._experiments[name]

    def _known(self, experiment_id: str, uid: str) -> dict[str, bool]:
        """Return the exports of this run, and whether each is complete."""
        plain = uid.replace("'", "")
        found = self._post("runs/search", {
            "experiment_ids": [experiment_id], "max_results": 50, "filter": f"tags.`{RUN_ID}` = '{plain}'"})
        known: dict[str, bool] = {}
        for run in found.get("runs") or []:
            tags = {tag.get("key") for tag in run.get("data", {}).get("tags") or []}
            known[str(run.get("info", {}).get("run_id"))] = f"{RUN_ID}.whole" in tags
        return known

    def _log(self, run_id: str, **texts: Sequence[tuple[str, str]]) -> None:
        self._post("runs/log-batch", {"run_id": run_id, **{
            what: [{"key": name, "value": text} for name, text in some] for what, some in texts.items()}})

    def _post(self, path: str, body: Mapping[str, Any]) -> dict[str, Any]:
        try:
            return self._web.post(f"{_API}/{path}", body)
        except WebFailed as error:
            raise self._failed(path, error) from error

    def _failed(self, what: str, error: WebFailed) -> EndpointFailed:
        return EndpointFailed(f"The tracking server refused a request ({what}): {error} ({self.url}).")


def _dataset(said: Mapping[str, str]) -> dict[str, Any]:
    dataset = {name: said[name] for name in ("name", "digest", "source_type", "source", "schema", "profile")
               if said.get(name)}
    context = said.get("context")
    return {"dataset": dataset, "tags": [{"key": "mlflow.data.context", "value": context}] if context else []}


def _number(value: float) -> float | str:
    """Return a number for JSON; NaN and infinities as MLflow reads them."""
    if value != value:
        return "NaN"
    return value if value not in (float("inf"), float("-inf")) else ("Infinity" if value > 0 else "-Infinity")


def _parts(items: Sequence[Any], most: int) -> Iterator[Sequence[Any]]:
    return (items[at : at + most] for at in range(0, len(items), most))
