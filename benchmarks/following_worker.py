"""Follows a run that another process writes, like `barograph watch`, and reports the cost of each block of steps."""

from __future__ import annotations

import multiprocessing
import resource
import time
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from barograph.model.settings import Settings
from barograph.rules.registry import rules_from_settings
from barograph.runs.reading.memory import give_memory_back
from barograph.store.urls import store_from_url
from barograph.watch.loop import Watcher
from benchmarks.processes import Request, Result, answer_request, peak_bytes

KEEP_LAST = 2000
POLL_SECS = 0.2


def measure(request: Result) -> Request:
    """Return the cost and the memory of the watcher (this process) for each block of steps."""
    url = str(Path(request["directory"], "run"))
    here, there = multiprocessing.Pipe()
    writer = multiprocessing.get_context("spawn").Process(target=_write, args=(there, request["recorded"], url))
    writer.start()
    give_memory_back()
    keys = here.recv()
    watcher = Watcher(store_from_url(url), rules_from_settings(Settings()))
    blocks: list[dict[str, Any]] = []
    for through in range(request["block"], request["steps"] + 1, request["block"]):
        here.send(request["block"])
        begun = time.process_time()
        while watcher.steps < through:
            if not watcher.poll().more and watcher.steps < through:
                time.sleep(POLL_SECS)
        blocks.append({"through": through, "steps": request["block"], "cpu_secs": time.process_time() - begun,
                       "resident_bytes": _resident_bytes()})
    here.send(0)
    writer.join()
    while not watcher.poll().ended:
        time.sleep(POLL_SECS)
    watcher.close()
    if watcher.problems or watcher.steps != request["steps"]:
        raise ValueError(f"{watcher.steps} steps were followed: {watcher.problems}")
    return {"blocks": blocks, "peak_bytes": peak_bytes(), "keys": keys, "keep_last": KEEP_LAST,
            "findings": sorted({finding.code for finding in watcher.findings})}


def _write(pipe: Connection, recorded: str, url: str) -> None:
    """Write as many steps as requested, until none are."""
    from benchmarks.recording import Repeater

    with Repeater(url, store_from_url(recorded), keep_last=KEEP_LAST) as repeater:
        pipe.send(repeater.write(1))
        ahead = 1
        while steps := pipe.recv():
            repeater.write(steps - ahead)
            ahead = 0


def _resident_bytes() -> int:
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    return pages * resource.getpagesize()


if __name__ == "__main__":
    answer_request(measure)
