"""`barograph spot`: forecasts of jobs, from random interruptions and from traces."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Call = Callable[..., Any]

JOB = """
command = ["train.py"]
spot = true
price = 3.0
spot-price = 1.0

[settings.checkpoints]
auto = true
mtbf_hours = 2.0
"""


@pytest.fixture
def job(tmp_path: Path) -> Path:
    path = tmp_path / "job.toml"
    path.write_text(JOB, encoding="utf-8")
    return path


def test_random_interruptions_are_simulated(call: Call, job: Path) -> None:
    words = ("spot", "simulate", job, "--work", "8h", "--mtbf", "2h", "--simulations", "50", "--json")
    said = call(*words)
    assert said.code == 0
    assert said.json["simulations"] == 50
    assert 4 < said.json["lost_percent"] < 7
    warned = call(*words, "--notice", "2m")
    assert warned.json["lost_percent"] < said.json["lost_percent"]
    assert warned.json["repeated_steps"]["high"] == 0


def test_a_trace_is_simulated_from_random_times(call: Call, job: Path, tmp_path: Path) -> None:
    trace = tmp_path / "prices.csv"
    trace.write_text("time,price\n0,1\n43200,4\n86400,4\n", encoding="utf-8")
    said = call("spot", "simulate", job, "--work", "1h", "--start", "0s", "--checkpoint-cost", "0s", "--trace", trace,
                "--simulations", "20")
    assert said.code == 0
    assert said.lines[0] == "100% of 20 simulations finished"
    assert said.lines[2].startswith("cost: 1.00 (90% between 1.00 and 1.00); 3.00 on demand")


@pytest.mark.parametrize(("words", "message"), [
    (("--mtbf", "2h", "--trace", "x.csv"), "--trace and --mtbf exclude each other"),
    (("--mtbf", "0s"), "must be above 0"), (("--simulations", "0"), "must be at least 1"),
    (("--trace", "x.csv"), "Cannot read the trace: No such file"), (("--mtbf", "soon"), '--mtbf is "soon"'),
])
def test_what_cannot_be_simulated_is_refused(call: Call, job: Path, words: tuple[str, ...], message: str) -> None:
    said = call("spot", "simulate", job, "--work", "1h", *words)
    assert said.code == 2
    assert message in said.err
