"""A job whose data, code, checkpoints and outputs are in a bucket, on an S3-compatible server."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from barograph.jobs.interruptions.file import write_notice
from barograph.jobs.interruptions.notice import Notice
from barograph.jobs.job_log import EVENTS, EventLog
from barograph.jobs.outputs import fetched_model
from barograph.jobs.uploads import CheckpointSync
from barograph.store.urls import store_from_url

TRAIN = """
import json, os, pathlib, time
from totals import total

saved = pathlib.Path(os.environ["SM_CHECKPOINT_DIR"], "attempts", "count.txt")
count = int(saved.read_text()) if saved.exists() else 0
saved.parent.mkdir(exist_ok=True)
saved.write_text(str(count + 1))
if count == 0:
    print("saved", flush=True)
    time.sleep(600)
with open(os.environ["SM_MODEL_DIR"] + "/model.json", "w") as file:
    json.dump({"before": count, "total": total(pathlib.Path(os.environ["SM_CHANNEL_TRAIN"]))}, file)
pathlib.Path(os.environ["SM_OUTPUT_DATA_DIR"], "large.bin").write_bytes(bytes(9 * 2**20))
"""
TOTALS = """
def total(folder):
    return sum(int(path.read_text()) for path in folder.rglob("*.txt"))
"""


@pytest.fixture
def jobs(desk: Any) -> Any:
    desk.environment["BAROGRAPH_HOME"] = str(desk.folder / "home")
    return desk


def test_data_code_checkpoints_and_outputs_are_all_in_a_bucket(jobs: Any, s3_url: str, tmp_path: Path) -> None:
    data = store_from_url(f"{s3_url}/data")
    for name, text in (("1.txt", b"1"), ("2.txt", b"20"), ("more/3.txt", b"300"), ("notes.md", b"no number")):
        data.put(name, text)
    jobs.write("train.py", TRAIN)
    jobs.write("totals.py", TOTALS)
    started = jobs.end(jobs.start("barograph", "submit", "--name", "bucket", "--to", f"{s3_url}/run", "--spot",
                                  "--data", f"train={s3_url}/data", "train.py"))
    assert started.code == 0, started.err
    jobs.wait_until(lambda: "saved" in jobs.end(jobs.start("barograph", "logs", "bucket")).text, "it has saved")
    run = store_from_url(f"{s3_url}/run")
    (handle,) = [event.data["handle"] for event in EventLog(run, EVENTS).new() if event.kind == "started"]
    write_notice(Path(handle["work"]), Notice("file", "a test", None))
    done = jobs.end(jobs.start("barograph", "wait", "bucket", "--json"))
    report = json.loads(done.out)
    assert (done.code, report["phase"], report["interruptions"]) == (0, "finished", 1), report
    model = fetched_model(run, tmp_path / "fetched")
    assert json.loads((model / "model.json").read_text("utf-8")) == {"before": 1, "total": 321}
    (tmp_path / "checkpoints").mkdir()
    CheckpointSync(run, tmp_path / "checkpoints", 0).download()
    assert (tmp_path / "checkpoints/attempts/count.txt").read_text("utf-8") == "2"
    shown = jobs.end(jobs.start("barograph", "show", "bucket"))
    assert (shown.code, f"{s3_url}/run" in shown.text) == (0, True), shown.text + shown.err
    assert not (jobs.folder / "barograph-runs").exists()
    assert not list((jobs.folder / "home").rglob("model.json"))
