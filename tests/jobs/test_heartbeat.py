"""Heartbeats of an agent that is busy with something else."""

from __future__ import annotations

import threading
from typing import Any

from barograph.errors import StoreUnavailable
from barograph.jobs.heartbeat import Heartbeat
from barograph.jobs.job_log import NOW, instance_folder
from barograph.model.clock import ManualClock
from barograph.runs.format.metadata import unsealed

PATIENCE_SECS = 60.0


class Store:
    """A store of heartbeats that is unreachable for some of them."""

    def __init__(self, unreachable: tuple[int, ...] = ()) -> None:
        self._tries, self._unreachable = 0, unreachable
        self.written: list[dict[str, Any]] = []

    def put(self, name: str, data: bytes) -> None:
        assert name == f"{instance_folder(0, 1)}/{NOW}"
        self._tries += 1
        if self._tries in self._unreachable:
            raise StoreUnavailable("The store cannot be reached.")
        self.written.append(dict(unsealed(data, name)))


def repeated(store: Any, *, waits: int, **data: Any) -> Heartbeat:
    """Return a heart whose agent has sent one heartbeat, then does something else while its thread waits so often."""
    clock, ended, left = ManualClock(), threading.Event(), iter(range(waits))

    def wait(secs: float) -> bool:
        clock.advance(secs)
        if next(left, None) is None:
            ended.set()
            return True
        return False

    heart = Heartbeat(store, 0, 1, clock=clock.monotonic, wait=wait)
    heart.beat(**data)
    heart.start()
    assert ended.wait(PATIENCE_SECS)
    return heart


def test_the_last_heartbeat_is_repeated_while_the_agent_does_something_else() -> None:
    store = Store()
    repeated(store, waits=6, opened_epochs=3)
    assert [beat["beat"] for beat in store.written] == [1, 2, 3, 4]
    assert {beat["opened_epochs"] for beat in store.written} == {3}


def test_a_store_that_is_unreachable_for_a_while_does_not_end_the_heartbeats() -> None:
    store = Store(unreachable=(2, 3))
    repeated(store, waits=6)
    assert [beat["beat"] for beat in store.written] == [1, 4]


def test_no_heartbeat_is_repeated_that_the_agent_has_just_sent() -> None:
    store = Store()
    repeated(store, waits=1)
    assert len(store.written) == 1
