"""Metadata files prove themselves, and carry every number there is."""

from __future__ import annotations

import json
import math

import pytest

from barograph.errors import DamagedChunk, NewerFormat
from barograph.model.manifest import Cost, Coverage, Ending, EndState, Heartbeat, Manifest, Worker
from barograph.runs.format.metadata import (
    ending_bytes,
    ending_from_bytes,
    heartbeat_bytes,
    heartbeat_from_bytes,
    manifest_bytes,
    manifest_from_bytes,
    sealed,
    unsealed,
    worker_bytes,
    worker_from_bytes,
)

HEARTBEAT = Heartbeat(
    beat=3, time_unix=1.5, step=7, step_secs=0.25, loss=math.inf, chunks=2, dropped_steps=1,
    cost=Cost(train_secs=2.0, budget=0.01, interval_steps=3),
    coverage=Coverage(parameters=4, reasons=("one was not seen",)), problems=("a problem",), dropped_points=5,
)
MANIFEST = Manifest("id", "größe \udcff", 12.5, ("python", "train.py"), {"torch": "2"}, {"budget": "off"})
WORKER = Worker("r0", 1, 12, "host", "boot", 3.5, 2, {"torch": "2"}, "cpu", 99)


def test_a_manifest_comes_back() -> None:
    assert manifest_from_bytes(manifest_bytes(MANIFEST), "run.json") == MANIFEST


def test_a_worker_comes_back() -> None:
    assert worker_from_bytes(worker_bytes(WORKER), "w") == WORKER


def test_a_heartbeat_comes_back() -> None:
    assert heartbeat_from_bytes(heartbeat_bytes(HEARTBEAT), "h") == HEARTBEAT


def test_an_ending_comes_back_with_the_number_of_the_last_chunk() -> None:
    ending = Ending(EndState.FAILED, "ValueError: no", HEARTBEAT)
    assert ending_from_bytes(ending_bytes(ending, last_chunk=4), "e") == (ending, 4)


def test_what_is_not_a_number_comes_back_as_such() -> None:
    back = heartbeat_from_bytes(heartbeat_bytes(Heartbeat(0, 0.0)), "h")
    assert math.isnan(back.loss)
    assert math.isnan(back.step_secs)
    assert math.isnan(back.cost.budget)


def test_a_paper_is_plain_json() -> None:
    assert json.loads(sealed({"a": 1, "b": math.nan, "c": [-math.inf]}))["c"] == ["-inf"]


def test_every_flipped_bit_is_noticed() -> None:
    whole = sealed({"beat": 12, "name": "run", "share": 0.25})
    assert unsealed(whole, "p") == {"beat": 12, "name": "run", "share": 0.25}
    for position in range(len(whole)):
        flipped = bytearray(whole)
        flipped[position] ^= 1
        try:
            same = unsealed(bytes(flipped), "p")
        except DamagedChunk:
            continue
        # White space between entries means nothing, and a bit in it changes nothing.
        assert same == {"beat": 12, "name": "run", "share": 0.25}


@pytest.mark.parametrize("data", [b"", b"{", b"[]", b"null", b'{"a": 1}', b"\xff\xfe", sealed({"a": 1})[:-4]])
def test_what_is_no_paper_is_damaged(data: bytes) -> None:
    with pytest.raises(DamagedChunk, match="heartbeats/p0"):
        unsealed(data, "heartbeats/p0-0000.json")


def test_a_newer_format_is_refused_with_advice() -> None:
    with pytest.raises(NewerFormat, match="Update Barograph"):
        manifest_from_bytes(sealed({**unsealed(manifest_bytes(MANIFEST), "run.json"), "format": 2}), "run.json")


def test_entries_of_a_later_version_are_passed_over() -> None:
    body = unsealed(worker_bytes(WORKER), "w")
    assert worker_from_bytes(sealed({**body, "shoe_size": 43}), "w") == WORKER
