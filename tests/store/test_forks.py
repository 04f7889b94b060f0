"""A process that has used a store and then forks: the child uses it, too."""

from __future__ import annotations

import multiprocessing
import os
from collections.abc import Callable
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import pytest

from barograph.errors import ObjectExists, ObjectNotFound, StoreUnavailable
from barograph.store.base import Browsable, Openable, Ranged, Store, Streaming
from barograph.store.urls import store_from_url

pytestmark = [
    pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here"),
    # Newer Pythons warn of every fork of a process with threads; that is what is tested.
    pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning"),
]

_WATCHDOG_SECS = 600.0
"""A child that hangs is killed and fails the test; one that does not takes a second."""


def in_child(work: Callable[[], object]) -> Any:
    """Return what a function returns in a forked child."""
    ours, theirs = multiprocessing.Pipe()
    child = multiprocessing.get_context("fork").Process(target=_answer, args=(work, theirs))
    child.start()
    theirs.close()
    try:
        assert ours.poll(_WATCHDOG_SECS), "the forked child hangs"
        went_well, answer = ours.recv()
        assert went_well, answer
        return answer
    finally:
        child.kill()
        child.join()
        ours.close()


def _answer(work: Callable[[], object], line: Connection) -> None:
    try:
        line.send((True, work()))
    except BaseException as error:  # noqa: BLE001 - told where it is asserted
        line.send((False, f"{type(error).__name__}: {error}"))


@pytest.fixture(params=["file", pytest.param("s3", marks=pytest.mark.s3)])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Store:
    return store_from_url(tmp_path / "run" if request.param == "file" else request.getfixturevalue("s3_url"))


def every_verb(store: Store) -> dict[str, object]:
    assert isinstance(store, Browsable)
    assert isinstance(store, Streaming)
    assert isinstance(store, Openable)
    store.put("b/parts", [b"one", memoryview(b"two")])
    store.put_parts("b/large", (bytes(2**20) for _ in range(10)))
    store.create("b/new", b"1")
    try:
        store.create("b/new", b"2")
    except ObjectExists:
        taken = True
    try:
        store.get("nothing")
    except ObjectNotFound:
        missing = True
    with store.opened("a") as file:
        file.seek(2)
        opened = file.read()
    # Versions of objects, which no file has.
    ranged = bytes(store.read("a", 1, 3).data) + store.info("a").name.encode() if isinstance(store, Ranged) else b"yta"
    store.delete("a")
    return {
        "ranged": ranged,
        "get": bytes(store.get("b/parts")), "list": [item[:2] for item in store.list()], "level": store.level(),
        "parts": sum(map(len, store.parts("b/large"))), "taken": taken, "missing": missing, "opened": opened,
    }


def test_a_child_does_all_that_its_parent_could_do(store: Store) -> None:
    store.put("a", b"bytes")
    assert bytes(store.get("a")) == b"bytes"
    assert in_child(lambda: every_verb(store)) == {
        "ranged": b"yta",
        "get": b"onetwo", "list": [("b/large", 10 * 2**20), ("b/new", 1), ("b/parts", 6)], "level": (["b"], []),
        "parts": 10 * 2**20, "taken": True, "missing": True, "opened": b"tes",
    }
    assert bytes(store.get("b/new")) == b"1"


def test_a_child_of_a_child_does_so_too_and_a_store_of_its_own_as_well(store: Store) -> None:
    store.put("a", b"bytes")

    def read() -> list[bytes]:
        return [bytes(store.get("a")), bytes(store_from_url(store.url).get("a"))]

    assert in_child(lambda: [read(), in_child(read), read()]) == [[b"bytes", b"bytes"]] * 3


def test_of_a_store_in_memory_a_child_says_why_it_cannot_be_used() -> None:
    store = store_from_url("memory://forks")
    store.put("a", b"bytes")

    def read() -> str:
        with pytest.raises(StoreUnavailable) as raised:
            store.get("a")
        return str(raised.value)

    assert "forked after its first use" in in_child(read)
