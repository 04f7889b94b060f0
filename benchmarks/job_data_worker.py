"""Delivers objects of a local S3 server to a job, in each mode, alternating with plain gets of obstore."""

from __future__ import annotations

import contextlib
import os
import queue
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

from obstore.store import S3Store

from barograph.jobs.data.channel import Channel, Mode
from barograph.jobs.data.delivery import Delivery, deliver
from barograph.jobs.data.lazy import lazy_problem
from barograph.jobs.data.listing import DataListing
from barograph.jobs.data.settings import USUAL
from barograph.jobs.data.source import objects_of
from benchmarks.processes import Request, Result, answer_request

_READ_BYTES = 2**20
_READER = """
import sys, time
buffer = bytearray(2**20)
start = time.perf_counter()
with open(sys.argv[1], "rb", buffering=0) as pipe:
    count = len(pipe.read(1))
    first = time.perf_counter() - start
    while size := pipe.readinto(buffer):
        count += size
print(count, first, time.perf_counter() - start)
"""
"""A script that reads a pipe; the clock starts when it opens the pipe."""


def measure(request: Result) -> Request:
    """Return the seconds of each way in the requested order, and the bytes that lazy directories fetched."""
    os.environ.update(request["environment"])
    root = Path(request["directory"])
    listing = objects_of(Channel("train", request["source"]))
    if request["order"] == ["lazy"]:
        return {"lazy": _lazy(request["source"], listing, root), "problem": lazy_problem()}
    ways: dict[str, Callable[[DataListing, Path], dict[str, float]]] = {
        "gets": _gets, "gets to files": _gets_to_files, "copy": _copy, "pipe": _pipe, "boto3": _boto3}
    _gets(listing, root)  # fills connections and caches of the server
    measured = []
    for number, name in enumerate(request["order"]):
        # Nothing is deleted in between: ext4 creates files slowly right after many were deleted.
        place = root / f"{number}"
        cpu = time.process_time()
        found = ways[name](listing, place)
        measured.append({"name": name, **found, "cpu_secs": time.process_time() - cpu})
    return {"measured": measured, "total_bytes": listing.total_bytes}


def _gets(listing: DataListing, place: Path) -> dict[str, float]:
    store = _store(listing)

    def get(name: str) -> int:
        return len(store.get(name).bytes())

    return {"secs": _in_threads(get, listing)}


def _gets_to_files(listing: DataListing, place: Path) -> dict[str, float]:
    store = _store(listing)
    place.mkdir()

    def get(name: str) -> int:
        return (place / name).write_bytes(store.get(name).bytes())

    return {"secs": _in_threads(get, listing)}


def _store(listing: DataListing) -> S3Store:
    bucket, _, prefix = listing.root.removeprefix("s3://").partition("/")
    return S3Store(bucket, prefix=prefix, client_options={"allow_http": True})


def _boto3(listing: DataListing, place: Path) -> dict[str, float]:
    import boto3

    bucket, _, prefix = listing.root.removeprefix("s3://").partition("/")
    client = boto3.session.Session().client("s3")
    place.mkdir()

    def download(name: str) -> int:
        client.download_file(bucket, f"{prefix}/{name}", str(place / name))
        return (place / name).stat().st_size

    return {"secs": _in_threads(download, listing)}


def _in_threads(do: Callable[[str], int], listing: DataListing) -> float:
    names: queue.SimpleQueue[str] = queue.SimpleQueue()
    for item in listing.objects:
        names.put(item.name)
    done: list[int] = []

    def run() -> None:
        with contextlib.suppress(queue.Empty):
            while True:
                done.append(do(names.get_nowait()))

    threads = [threading.Thread(target=run) for _ in range(USUAL.at_once)]
    start = time.perf_counter()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    secs = time.perf_counter() - start
    assert sum(done) == listing.total_bytes
    return secs


def _copy(listing: DataListing, place: Path) -> dict[str, float]:
    start = time.perf_counter()
    with _delivered(listing, place, Mode.COPY) as delivery:
        secs = time.perf_counter() - start
        assert sum(path.stat().st_size for path in delivery.directory.iterdir()) == listing.total_bytes
    return {"secs": secs}


def _pipe(listing: DataListing, place: Path) -> dict[str, float]:
    with _delivered(listing, place, Mode.PIPE) as delivery:
        command = [sys.executable, "-c", _READER, f"{delivery.directory}_0"]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
    count, first, secs = done.stdout.split()
    assert int(count) == listing.total_bytes
    return {"secs": float(secs), "first_byte_secs": float(first)}


def _lazy(source: str, listing: DataListing, root: Path) -> dict[str, Any]:
    """Return the share of bytes fetched for a script that reads a tenth."""
    if len(listing.objects) > 1:
        plans: dict[str, Iterator[tuple[str, int, int]]] = {"every tenth object": (
            (item.name, 0, item.size_bytes) for item in listing.objects[::10])}
    else:
        (item,) = listing.objects
        plans = {"the first tenth of a large object": iter([(item.name, 0, item.size_bytes // 10)]),
                 "ten hundredths of a large object": (
                     (item.name, at * item.size_bytes // 10, item.size_bytes // 100) for at in range(10))}
    found = {}
    for number, (name, plan) in enumerate(plans.items()):
        with _delivered(listing, root / f"{number}", Mode.LAZY) as delivery:
            start = time.perf_counter()
            for file, at, size_bytes in plan:
                _read(delivery.directory / file, at, size_bytes)
            secs = time.perf_counter() - start
        found[name] = {"share": delivery.fetched_bytes / listing.total_bytes, "secs": secs}
    return found


def _read(file: Path, start: int, size_bytes: int) -> None:
    with open(file, "rb") as stream:
        stream.seek(start)
        while size_bytes and (data := stream.read(min(size_bytes, _READ_BYTES))):
            size_bytes -= len(data)


def _delivered(listing: DataListing, place: Path, mode: Mode) -> AbstractContextManager[Delivery]:
    return deliver(Channel("train", listing.root, mode), listing, place / "train", index=0, count=1,
                   cache=place / "cache", progress=lambda found: None, cancelled=threading.Event())


def orders(ways: Sequence[str], times: int) -> list[str]:
    """Return an order in which gets surround each way.

    Example:
        >>> orders(["copy", "pipe"], 1)
        ['gets', 'copy', 'gets', 'pipe', 'gets']
    """
    return ["gets", *(name for _ in range(times) for way in ways for name in (way, "gets"))]


if __name__ == "__main__":
    answer_request(measure)
