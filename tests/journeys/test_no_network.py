"""A machine without any network, not even loopback: everything that needs no other machine works."""

from __future__ import annotations

import json
import shutil
import subprocess
from typing import Any

import pytest

SCRIPT = """
import argparse
from barograph.tracking import load_run

parser = argparse.ArgumentParser()
parser.add_argument("--lr", type=float, default=0.5)
lr = parser.parse_args().lr
with load_run() as run:
    for step in range(20):
        run.log_metric("loss", lr / (step + 1), step)
    run.log_artifact("score.py")
"""


@pytest.fixture(scope="module")
def alone(make_desk: Any) -> Any:
    """A desk in a repository with an unreachable remote; `barograph` runs without network interfaces."""
    unshare = shutil.which("unshare")
    if unshare is None or subprocess.run([unshare, "-r", "-n", "true"], check=False, capture_output=True).returncode:
        pytest.skip("a process without a network can be started on Linux only, where the system lets it")
    desk = make_desk("alone")
    desk.write("score.py", SCRIPT)
    for words in (["init", "-q"], ["add", "score.py"],
                  ["-c", "user.name=a", "-c", "user.email=a@b", "commit", "-qm", "a"],
                  ["remote", "add", "origin", "https://nowhere.example/r.git"]):
        subprocess.run(["git", *words], cwd=desk.folder, check=True)
    return desk


def barograph(desk: Any, *words: str) -> Any:
    return desk.end(desk.start("unshare", "-r", "-n", "barograph", *words))


def test_a_run_is_recorded_found_exported_and_repeated(alone: Any) -> None:
    assert barograph(alone, "run", "--experiment", "digits", "score.py").code == 0
    [found] = json.loads(barograph(alone, "search", "params.lr = 0.5 and metrics.loss.min <= 0.025", "--json").text)
    assert barograph(alone, "export", "digits", "-o", "digits.zip").code == 0
    assert barograph(alone, "import", "digits.zip", "--root", "other").code == 0
    again = barograph(alone, "rerun", found["place"], "--json")
    assert (again.code, json.loads(again.text)["sameness"]) == (0, "identical"), again.err


def test_an_unreachable_bucket_is_named_at_once(alone: Any) -> None:
    alone.environment |= {"AWS_ACCESS_KEY_ID": "a", "AWS_SECRET_ACCESS_KEY": "b", "AWS_REGION": "us-east-1"}
    said = barograph(alone, "search", "--root", "s3://bucket/runs")
    assert (said.code, said.err.count("\n")) == (2, 1)
    assert "s3://bucket/runs" in said.err
