"""Two processes that train together: replicas and shards."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from torch import distributed

from barograph.capture.torch import wrappers
from barograph.measures.summary import merge, summarize
from barograph.model.summary import Summary

WORKER = Path(__file__).with_name("distributed_worker.py")


CUT = ("cut ddp", "cut parts", "cut whole", "cut narrow")
TRAPS = ("trap reentrant", "trap offload", "trap grouped", "trap kept")


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> list[dict]:
    """What each of two processes recorded, by the way in which the model was spread over them."""
    folder = tmp_path_factory.mktemp("distributed")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    environment = {
        "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), "WORLD_SIZE": "2", "OMP_NUM_THREADS": "1",
        "PYTHONPATH": ":".join(path for path in sys.path if path),
    }
    processes = [
        subprocess.Popen(
            [sys.executable, str(WORKER), str(folder / f"{rank}.json"), "fsdp", "hybrid", "ddp", "flat", "original",
             *CUT, *TRAPS],
            env={**environment, "RANK": str(rank), "LOCAL_RANK": str(rank)}, stderr=subprocess.PIPE, text=True,
        )
        for rank in range(2)
    ]
    for process in processes:
        _, errors = process.communicate(timeout=600)
        assert process.returncode == 0, errors
    return [json.loads((folder / f"{rank}.json").read_text()) for rank in range(2)]


def summary_of(record: dict) -> Summary:
    return Summary(**{**record, "exponents": {int(field): count for field, count in record["exponents"].items()}})


@pytest.mark.parametrize("how", CUT)
def test_parameters_that_the_loss_does_not_reach_are_told_also_where_they_are_split(how, both):
    spare, cut = ["spare.bias", "spare.weight"], ["one.bias", "one.weight", "spare.bias", "spare.weight"]
    for worker in both:
        assert worker[how] == [[2.0, spare], [4.0, cut], [2.0, spare]]


@pytest.mark.parametrize("how", TRAPS)
def test_however_weights_are_split_they_stay_the_same_and_all_workers_hold_a_step_that_one_could_not_make(how, both):
    for worker in both:
        # Everything is recorded, and no bit is another.
        assert worker[how]["with"] == worker[how]["without"]
        # The fourth step was fed what is not finite, in the second worker alone.
        assert worker[how]["failed"] == worker[how]["with"]
        assert worker[how]["held"] == [3]


@pytest.mark.parametrize("how", ["fsdp", "hybrid", "flat", "original"])
def test_the_shards_of_a_parameter_merge_to_the_whole(how, both):
    first, second = (worker[how] for worker in both)
    assert first["shards"] == second["shards"] == {"weight": True, "gradient": True, "output": False}
    for key, values in first["whole"].items():
        expected = summarize(torch.tensor(values, dtype=torch.float32).numpy())
        parts = [summary_of(worker["summaries"][key]) for worker in (first, second) if key in worker["summaries"]]
        merged = merge(*parts)
        assert (merged.count, merged.zeros, merged.min, merged.max) == (
            expected.count, expected.zeros, expected.min, expected.max,
        )
        assert merged.exponents == expected.exponents
        assert first["sizes"][key] == second["sizes"][key] == expected.count
        assert merged.sum == pytest.approx(expected.sum, rel=1e-5, abs=1e-5)


def test_replicas_of_data_parallel_workers_have_the_same_weights_and_reduced_gradients(both):
    first, second = (worker["ddp"] for worker in both)
    assert first["shards"] == {"weight": False, "gradient": False, "output": False}
    for key in first["summaries"]:
        same = first["summaries"][key] == second["summaries"][key]
        assert same == key.startswith(("weight", "gradient"))
    assert set(first["summaries"]) >= {"weight:0.weight", "gradient:2.bias", "output:2"}


def test_other_threads_have_their_turn_before_a_process_group_goes(record, tmp_path, monkeypatch):
    plain = distributed.destroy_process_group
    tape = record()
    store = distributed.FileStore(str(tmp_path / "store"), 1)
    distributed.init_process_group("gloo", store=store, rank=0, world_size=1)
    stood = []
    watched = SimpleNamespace(sleep=lambda secs: stood.append((distributed.is_initialized(), secs)),
                              perf_counter=time.perf_counter)
    monkeypatch.setattr(wrappers, "time", watched)
    distributed.destroy_process_group()
    assert stood == [(True, 0.05)]
    assert not distributed.is_initialized()
    tape.close()
    assert distributed.destroy_process_group is plain
