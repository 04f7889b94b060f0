"""Subjects come back in the order in which the worker met them, whatever order the file has."""

from __future__ import annotations

import numpy as np

from barograph.measures.summary import row_from_summary
from barograph.model.clock import ManualClock
from barograph.model.key import Key, Kind
from barograph.model.manifest import EndState, Heartbeat, Manifest
from barograph.model.records import StepRecords, Subject
from barograph.model.settings import Settings
from barograph.model.step import Step
from barograph.model.summary import Summary
from barograph.runs.reading.feed import Feed
from barograph.runs.state.claim import claim_run, claim_worker
from barograph.runs.writing.writer import RunWriter
from barograph.store.urls import store_from_url

ONE = row_from_summary(Summary(count=1, min=1.0, max=1.0, sum=1.0, sum_sq=1.0, sum_abs=1.0))[0]


def test_layers_come_back_in_the_order_in_which_they_ran() -> None:
    store, clock = store_from_url("memory://order"), ManualClock()
    claimed = claim_run(store, Manifest("order", "order", clock.unix()), clock=clock)
    worker = claim_worker(store, attempt=claimed.attempt, clock=clock)
    writer = RunWriter(store, worker, settings=Settings(), clock=clock, status=lambda: Heartbeat(0, 0.0),
                       background=False)
    ran = [Subject(Key(Kind.OUTPUT, path)) for path in ("stem", "body.10", "body.2", "act", "head")]
    for tick, seen in enumerate((ran, ran[1:], [*ran, Subject(Key(Kind.OUTPUT, "adapter"))])):
        writer.put(StepRecords(Step(tick, tick), tuple(seen), np.stack([ONE] * len(seen))))
    writer.close(EndState.FINISHED)

    views = Feed(store, clock=clock).poll().views

    assert [[subject.key.path for subject in view.columns(Kind.OUTPUT).subjects] for view in views] == [
        ["stem", "body.10", "body.2", "act", "head"],
        ["body.10", "body.2", "act", "head"],
        ["stem", "body.10", "body.2", "act", "head", "adapter"],
    ]
