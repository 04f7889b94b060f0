"""Writes a run in memory, from the training process itself."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from dataclasses import replace

from barograph.capture.session import Session
from barograph.capture.this_worker import Rank
from barograph.model.clock import SystemClock
from barograph.model.manifest import Heartbeat
from barograph.model.settings import Settings
from barograph.runs.state.claim import claim_worker
from barograph.runs.state.control import Requests, answer
from barograph.runs.writing.sampling import sampler_for
from barograph.runs.writing.writer import RunWriter
from barograph.store.base import Store
from barograph.store.urls import store_from_url


def memory_writer(
    session: Session, settings: Settings, attempt: int, rank: Rank, status: Callable[[], Heartbeat],
    versions: Mapping[str, str], claim: str
) -> tuple[RunWriter, Callable[[], None]]:
    """Return a writer with its own thread, for a run in memory, which another process could not write; and a function
    that writes the results of requests."""
    store = store_from_url(settings.to)
    worker = claim_worker(
        store, attempt=attempt, rank=rank.index, world_size=rank.world_size, clock=SystemClock(), versions=versions,
        claim=claim,
    )
    requests = Requests(worker.attempt, worker.name)
    hz = settings.machine_hz
    sampler = functools.partial(sampler_for, worker, hz=hz, clock=SystemClock()) if hz else None

    def write_answers() -> None:
        for done in session.steering.orders.reports():
            answer(store, replace(done, worker=worker.name))

    def look_for_requests(store: Store) -> None:
        write_answers()
        stop, asked = requests.look(store)
        if stop is not None:
            session.steering.request_stop(stop.reason, finding_id=stop.finding_id, checkpoint=stop.checkpoint)
        for request in asked:
            session.steering.orders.hear(request)

    writer = RunWriter(
        store, worker, settings=settings, status=status, on_control=look_for_requests, sampler=sampler
    )
    return writer, write_answers
