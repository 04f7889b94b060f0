"""Makes `run-format-N`, a small run that holds some of everything; kept for ever, so that every later version
reads it. Run once for each version of the format, never again for an old one:

    python tests/data/make_run.py
"""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np

from barograph.measures.summary import row_from_summary, summarize
from barograph.model.clock import ManualClock
from barograph.model.key import Key, Kind
from barograph.model.manifest import FORMAT_VERSION, EndState, Heartbeat, Manifest
from barograph.model.records import StepRecords, Subject, UnitSummaries
from barograph.model.settings import Settings
from barograph.model.step import Mode, Step
from barograph.model.tensor import RawTensor
from barograph.runs.state import claim, process
from barograph.runs.writing.writer import RunWriter
from barograph.store.base import Store
from barograph.store.urls import store_from_url

WEIGHT, RELU = Key(Kind.WEIGHT, "fc.weight"), Key(Kind.OUTPUT, "relu")
LOSS, RATE, MAP = Key(Kind.LOSS, "loss"), Key(Kind.LEARNING_RATE, "group0"), Key(Kind.CUSTOM, "map")
SUBJECTS = (Subject(WEIGHT, "Linear", "bfloat16"), Subject(RELU, "ReLU", "float32"), Subject(LOSS))


def records(tick: int, number: int, mode: Mode) -> StepRecords:
    parts = [np.array([number, -0.5, math.nan]), np.array([0.0, number]), np.array([1.0 / (number + 1)])]
    pairs = [row_from_summary(summarize(part)) for part in parts]
    tensors = {MAP: RawTensor("bfloat16", (2,), b"\xc0\x3f\x00\xc0")} if number == 2 else {}
    return StepRecords(
        Step(tick, number, "", mode, 1_800_000_000.0 + tick, skipped=number == 1), SUBJECTS,
        np.stack([pair[0] for pair in pairs]), np.stack([pair[1] for pair in pairs]),
        units={1: UnitSummaries(2, np.arange(14.0).reshape(2, 7), bound=8.75)}, scalars={RATE: 0.1 * number},
        tensors=tensors,
    )


def attempt(store: Store, clock: ManualClock, start: int, stop: int, state: EndState) -> None:
    claimed = claim.claim_run(store, Manifest("20270115T080000Z-0123", "kept for ever", clock.unix()), clock=clock)
    for rank in range(2):
        worker = claim.claim_worker(store, attempt=claimed.attempt, clock=clock, rank=rank, world_size=2)
        writer = RunWriter(store, worker, settings=Settings(), clock=clock, status=lambda: Heartbeat(0, 0.0, step=3),
                           background=False, wait=clock.advance)
        for tick, number in enumerate(range(start, stop)):
            writer.put(records(2 * tick, number, Mode.TRAIN))
            writer.put(records(2 * tick + 1, number + 1, Mode.EVAL))
            writer.log("accuracy", number / 4, number, Mode.TRAIN, clock.unix())
            clock.advance(1.0)
            writer.turn()
        writer.close(state)


if __name__ == "__main__":
    # Nothing of the machine it is made on.
    process.this_process = claim.this_process = lambda: process.Process(4711, "example", "boot", 1)
    place = store_from_url(Path(__file__).parent / f"run-format-{FORMAT_VERSION}")
    now = ManualClock()
    attempt(place, now, 0, 4, EndState.FAILED)
    attempt(place, now, 3, 6, EndState.FINISHED)
