"""Records a run, or measures the time to judge one with every rule, in this process and on one thread."""

from __future__ import annotations

import time

from barograph.model.clock import SystemClock
from barograph.model.settings import Settings
from barograph.rules.registry import rules_from_settings
from barograph.runs.reading.view import StepView
from barograph.store.base import Store
from barograph.store.urls import store_from_url
from barograph.watch.executor import one_executor
from barograph.watch.loop import Watcher
from benchmarks.processes import Request, Result, answer_request
from benchmarks.recording import Repeater, record_training, summaries_in, views_of


def measure(request: Result) -> Request:
    """Perform the request's `verb` on the runs at `recorded` and `url`."""
    if request["verb"] == "record":
        record_training(request["recorded"], request["steps"])
        return {}
    store = store_from_url(request["url"])
    if request["verb"] == "repeat":
        with Repeater(request["url"], store_from_url(request["recorded"]), towers=request["towers"]) as repeater:
            return {"summaries": repeater.write(request["steps"])}
    # In this order: one-time work, such as importing Arrow, is done before either clock starts.
    return {"judged": _judged(views_of(store)), "watched": _watched(store)}


def _watched(store: Store) -> Request:
    """Return the cost of reading and judging the run, like `barograph watch --fresh --once`."""
    watcher = Watcher(store, rules_from_settings(Settings()), record=False, patient=False)
    wall, processor = time.perf_counter(), time.process_time()
    while watcher.poll().more:
        pass
    return _taken(wall, processor) | {"findings": [item.code for item in watcher.findings],
                                      "problems": list(watcher.problems), "rules": len(watcher.rules)}


def _judged(views: list[StepView]) -> Request:
    """Return the cost of judging records already in memory."""
    (executor,) = one_executor(rules_from_settings(Settings()), SystemClock())
    wall, processor = time.perf_counter(), time.process_time()
    executor.begin(views)
    executor.finish()
    return _taken(wall, processor) | {"summaries": sum(map(summaries_in, views))}


def _taken(wall: float, processor: float) -> Result:
    return {"wall_secs": time.perf_counter() - wall, "cpu_secs": time.process_time() - processor}


if __name__ == "__main__":
    answer_request(measure)
