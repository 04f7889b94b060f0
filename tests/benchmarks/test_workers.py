"""The bench's own adapters against the Barograph of today, in real processes."""

import subprocess
import sys

import pytest

from benchmarks.environments import ROOT
from benchmarks.processes import WorkerFailed, peak_bytes, run_worker

FEW_STEPS = {
    "workload": "tiny", "device": "cpu", "warm_up_steps": 2, "warm_up_secs": 0.0, "least_steps": 5, "least_secs": 0.0,
}  # fmt: skip


def test_bare_steps_are_measured():
    result = run_worker("step_worker", {**FEW_STEPS, "tool": "bare", "options": {}})

    assert result["steps"] == 5
    assert 0 < result["median_secs"] < 1
    assert result["bytes_per_step"] == 0


def test_steps_under_barograph_are_measured_and_recorded_every_one():
    result = run_worker("step_worker", {**FEW_STEPS, "tool": "barograph", "options": {"preset": "exact"}})

    assert result["steps"] == 5
    assert result["bytes_per_step"] > 0
    assert result["facts"]["coverage"]["steps_seen"] == 7
    assert result["facts"]["cost"]["capture_secs"] > 0


def test_a_log_of_barograph_keeps_every_point():
    result = run_worker("log_worker", {"tool": "barograph", "scalars": 10, "pace_hz": 1000.0, "calls": 50})

    assert (result["points"], result["kept"]) == (500, 500)


def test_checkpoints_are_measured_by_each_way():
    result = run_worker("checkpoint_worker", {"workload": "tiny", "rounds": 2})

    assert {way: len(secs) for way, secs in result["secs"].items()} == dict.fromkeys(
        ("barograph", "torch.save", "plain", "read"), 2)
    assert all(secs > 0 for times in result["secs"].values() for secs in times)
    assert result["bytes"] > 1000


def test_trainings_with_and_without_checkpoints_are_measured():
    request = {"workload": "tiny", "secs": 0.5}
    often = run_worker("job_checkpoints_worker", {**request, "checkpoints": {"every_steps": 5, "on_sigterm": False}})
    none = run_worker("job_checkpoints_worker", {**request, "checkpoints": None})

    assert often["costs_secs"]
    assert none["costs_secs"] == []
    assert all(result["steps"] > 0 and result["secs"] >= 0.5 for result in (often, none))


def test_a_worker_that_fails_says_why():
    with pytest.raises(WorkerFailed, match="no_such_tool"):
        run_worker("step_worker", {**FEW_STEPS, "tool": "no_such_tool", "options": {}})


def test_the_most_memory_of_a_process_is_its_own_and_not_of_the_one_that_began_it() -> None:
    held = bytearray(300 * 2**20)
    code = "from benchmarks.processes import peak_bytes; print(peak_bytes())"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT, check=True)

    assert 2**20 < int(done.stdout) < len(held) / 2
    assert peak_bytes() > len(held)
