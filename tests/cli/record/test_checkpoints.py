"""`barograph checkpoints`: what a training can go on from, and what not."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from barograph.cli.record import checkpoints_page
from barograph.model.clock import ManualClock
from barograph.model.settings import Settings
from barograph.model.tensor import RawTensor
from barograph.runs.reading.glance import Glance, RunState
from barograph.runs.state.checkpoints import write_checkpoint
from barograph.runs.state.claim import claim_run
from barograph.runs.state.places import new_manifest
from barograph.store.base import Store
from barograph.store.urls import store_from_url

PLACE = {"place": {"passes": [{}]}}


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Store:
    monkeypatch.chdir(tmp_path)
    there = store_from_url("run")
    clock = ManualClock()
    claim_run(there, new_manifest(Settings(to=there.url), command=("train.py",), clock=clock), clock=clock)
    return there


def save(store: Store, steps: int, content: Mapping[str, Any] = PLACE, who: str = "pid1") -> str:
    return write_checkpoint(store, attempt=0, steps=steps, who=who, content=content,
                            tensors={"w": RawTensor("float32", (1,), b"\0\0\x80?")})


def test_a_run_without_any_says_how_they_are_saved(store: Store, call: Callable[..., Any]) -> None:
    said = call("checkpoints", "run")
    assert said.out == "No checkpoints in this run. To save some: barograph run --checkpoint auto\n"
    assert call("checkpoints", "run", "--json").json == []


def test_each_is_listed_with_how_it_stands(store: Store, call: Callable[..., Any]) -> None:
    save(store, 10)
    save(store, 20)
    save(store, 30, {"place": {"why_not": "of the moon"}})
    file = save(store, 40)
    store.put(file, bytes(store.get(file))[:-1] + b"\x01")

    listed = call("checkpoints", "run", "--json").json
    assert [(item["steps"], item["state"]) for item in listed] == [
        (10, "not read"), (20, "good"), (30, "passed over"), (40, "passed over")]
    assert listed[2]["why_not"] == "of the moon"
    assert listed[3]["why_not"].startswith("The file is damaged")
    assert listed[1]["size_bytes"] > 4


def test_the_one_that_resume_goes_on_from_is_told(store: Store, call: Callable[..., Any]) -> None:
    save(store, 1200)
    said = call("checkpoints", "run")
    assert said.row("1,200")[-2:] == ["good", "checkpoints/0000-00001200-pid1.json"]
    assert said.out.endswith("Resume from step 1,200, in the folder of the script:  barograph resume run\n")


@pytest.mark.parametrize(("state", "says"), [
    (RunState.FINISHED, "The run has finished. There is nothing to resume."),
    (RunState.RUNNING, "Training is still running. After it ends, barograph resume restarts it from step 20."),
])
def test_nobody_is_sent_to_resume_what_cannot_be_resumed_now(
    store: Store, call: Callable[..., Any], monkeypatch: pytest.MonkeyPatch, state: RunState, says: str
) -> None:
    save(store, 20)
    monkeypatch.setattr(checkpoints_page, "glance", lambda there: Glance(there.url, state))
    assert call("checkpoints", "run").lines[-1] == says


def test_parts_of_several_workers_are_one_checkpoint(store: Store, call: Callable[..., Any]) -> None:
    for rank in (0, 1):
        save(store, 10, {**PLACE, "machine": {"rank": rank, "world_size": 2}}, f"r{rank}")
    save(store, 20, {**PLACE, "machine": {"rank": 0, "world_size": 2}}, "r0")

    first, second = call("checkpoints", "run", "--json").json
    assert (first["name"], first["state"]) == ("checkpoints/0000-00000010-r0.json", "good")
    assert first["size_bytes"] > second["size_bytes"]
    assert second["why_not"] == "worker 1 of 2 has not saved its part"


def test_where_nothing_can_go_on_that_is_said(store: Store, call: Callable[..., Any]) -> None:
    save(store, 30, {"place": {"why_not": "of the moon"}})
    said = call("checkpoints", "run")
    assert "skipped: of the moon" in said.out
    assert said.out.endswith("Training cannot resume from any of them.\n")
