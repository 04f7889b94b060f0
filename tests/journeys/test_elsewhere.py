"""Import from MLflow and export to it from the command line, with its real server."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from barograph.experiments.catalog import Catalog
from barograph.experiments.item import Item
from barograph.model.key import Kind
from barograph.runs.reading.histories import histories_of
from barograph.runs.reading.reader import RunReader
from barograph.store.urls import store_from_url
from barograph.tracking import Run as TrackedRun
from barograph.wire.web import Web
from real_trackers import QUIET, Unavailable, made_by, python_with_trackers

START_SECS = 600.0


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of an empty MLflow server on loopback."""
    try:
        python = python_with_trackers()
    except Unavailable as error:
        pytest.skip(str(error))
    folder = tmp_path_factory.mktemp("server")
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    process = subprocess.Popen(
        [python, "-m", "mlflow", "server", "--backend-store-uri", f"sqlite:///{folder}/mlflow.db",
         "--artifacts-destination", str(folder / "served"), "--workers", "1", "--port", str(port)],
        cwd=folder, env={**os.environ, **QUIET, "PATH": f"{python.parent}{os.pathsep}{os.environ['PATH']}"},
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True)
    try:
        _await(f"http://127.0.0.1:{port}/health", process)
        yield f"http://127.0.0.1:{port}"
    finally:
        os.killpg(process.pid, 15)
        process.wait(START_SECS)


def _await(url: str, process: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + START_SECS
    while True:
        try:
            urllib.request.urlopen(url, timeout=60).close()
            return
        except OSError:
            # The server is a real process: there is nothing to wait on but its answer.
            if process.poll() is not None or time.monotonic() > deadline:
                raise
            time.sleep(0.1)


@pytest.fixture(scope="module")
def story(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A file store written by MLflow's client."""
    return made_by("mlflow_script.py", tmp_path_factory.mktemp("story"))


def barograph(folder: Path, *words: str | Path, code: int = 0) -> str:
    done = subprocess.run([sys.executable, "-m", "barograph", *words], cwd=folder, capture_output=True, text=True,
                          timeout=600, env={**os.environ, "BAROGRAPH_ROOT": ""})
    assert done.returncode == code, done.stdout + done.stderr
    return done.stdout + done.stderr * (code != 0)


def told(root: Path) -> dict[str, Any]:
    """The content of imported runs by name, without what depends on the place."""
    with Catalog(root) as catalog:
        catalog.feed()
        found = {item.name: item for item in catalog.find("")}
        names = {item.uid: item.name for item in found.values()}
        return {name: _told(item, names) for name, item in found.items()}


def _told(item: Item, names: dict[str, str]) -> dict[str, Any]:
    run = RunReader(store_from_url(str(item.facts["place"])))
    facts = {name: item.facts[name] for name in ("state", "message", "started_unix", "ended_unix", "commit", "branch",
                                                 "repository", "by")}
    return {
        **facts, "parameters": item.parameters, "notes": [(note.text, note.by) for note in item.notes],
        "tags": {name: text for name, text in item.tags.items() if name != "mlflow.run_id"},
        "experiments": [trial.experiment for trial in item.trials], "inputs": item.inputs,
        "outputs": {link.name: link.digest for link in item.outputs if link.digest},
        "part of": [names[uid] for relation, uid in item.relations if relation == "contributed_to"],
        "numbers": {str(history.metric): sorted(zip(history.times_us.tolist(), history.steps.tolist(),
                                                    map(float.hex, history.values.tolist()), strict=True))
                    for kind in (Kind.SCALAR, Kind.LOSS) for history in histories_of(run, kind)},
    }


def test_an_export_and_an_import_change_nothing(story: Path, server: str, tmp_path: Path) -> None:
    first = json.loads(barograph(tmp_path, "import", "mlflow", story / "mlflow.db", "--root", "first", "--json"))
    assert (len(first["runs"]), first["damage"]) == (5, [])
    sent = json.loads(barograph(tmp_path, "export", "mlflow", "digits", "--to", server, "--root", "first", "--json"))
    assert [run["notes"] for run in sent["runs"] if run["notes"]] == []
    assert sum(run["artifacts"] for run in sent["runs"]) == 2
    assert "5 runs exported before" in barograph(
        tmp_path, "export", "mlflow", "digits", "--to", server, "--root", "first")

    back = json.loads(barograph(tmp_path, "import", "mlflow", server, "--root", "back", "--json"))
    assert (len(back["runs"]), back["damage"]) == (5, [])
    assert told(tmp_path / "back") == told(tmp_path / "first")
    assert "5 runs imported before" in barograph(tmp_path, "import", "mlflow", server, "--root", "back")

    run = next(run["run"] for run in back["runs"] if run["name"] == "wide ü")
    assert "overfit" not in barograph(tmp_path, "watch", run, "--once", "--rules", "L102")


def test_a_run_is_exported_to_mlflow(server: str, tmp_path: Path) -> None:
    (tmp_path / "model.bin").write_bytes(b"weights")
    with TrackedRun("own", experiment="ours", tags={"team": "vision"}, root=tmp_path / "runs") as run:
        run.log_parameters({"lr": 1e-3, "betas": [0.9, 0.999]})
        for step in range(5):
            run.log_metric("acc [best]", step / 5, step, time_unix=1.7e9 + step)
        run.log_artifact(str(tmp_path / "model.bin"))
        run.log_input("table", "s3://bucket/table.csv", digest="sha256:0a1b")
        run.note("good")
    out = barograph(tmp_path, "export", "mlflow", run.url, "--to", server)
    assert "exported: 1 run with 5 numbers and 1 artifact." in out
    assert 'MLflow allows no metric "acc [best]"; renamed to "acc _best_".' in out

    web = Web(server)
    experiment = web.get("api/2.0/mlflow/experiments/get-by-name", {"experiment_name": "ours"})["experiment"]
    [there] = web.post("api/2.0/mlflow/runs/search", {"experiment_ids": [experiment["experiment_id"]]})["runs"]
    assert {item["key"]: item["value"] for item in there["data"]["params"]} == {"lr": "0.001", "betas": "[0.9, 0.999]"}
    tags = {item["key"]: item["value"] for item in there["data"]["tags"]}
    assert (tags["team"], tags["mlflow.note.content"], there["info"]["status"]) == ("vision", "good", "FINISHED")
    points = web.get("api/2.0/mlflow/metrics/get-history", {
        "run_id": there["info"]["run_id"], "metric_key": "acc _best_"})["metrics"]
    assert sorted((point["step"], point["value"], point["timestamp"]) for point in points) == [
        (step, step / 5, 1_700_000_000_000 + 1000 * step) for step in range(5)]
    dataset = there["inputs"]["dataset_inputs"][0]["dataset"]
    assert (dataset["name"], json.loads(dataset["source"])) == ("table", {"uri": "s3://bucket/table.csv"})

    barograph(tmp_path, "import", "mlflow", server, "--experiment", "ours", "--root", "runs")
    with Catalog(tmp_path / "runs") as catalog:
        catalog.feed()
        copies = [item for item in catalog.find("") if item.uid != run.uid]
    assert [item.relations for item in copies] == [[("same_as", run.uid)]]


def test_an_invalid_or_unreachable_server_is_an_error(tmp_path: Path) -> None:
    with TrackedRun("own", root=tmp_path / "runs"):
        pass
    said = barograph(tmp_path, "export", "mlflow", "own", "--to", "sqlite:///mlflow.db", "--root", "runs", code=2)
    assert "mlflow server --backend-store-uri sqlite:///mlflow.db" in said
    said = barograph(tmp_path, "export", "mlflow", "own", "--to", "http://127.0.0.1:9", "--root", "runs", code=2)
    assert "refused a request (experiments/get-by-name): it cannot be reached: Connection refused" in said
