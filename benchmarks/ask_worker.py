"""Measures the time of one tool's queries about many runs, in this process."""

from __future__ import annotations

import importlib
import random
import time

from benchmarks.askers.asker import Asker
from benchmarks.processes import Request, Result, answer_request


def measure(request: Result) -> Request:
    """Return the times of filling and querying.

    The request contains `tool` (a module of `benchmarks.askers`), `components`, `points` and `times`: how often to
    measure each query, after one query that is not counted.
    """
    module = importlib.import_module(f"benchmarks.askers.{request['tool']}")
    asker: Asker = module.open_asker(request["directory"])
    began = time.perf_counter()
    asker.fill(request["components"])
    filled = time.perf_counter()
    draws = random.Random(0)
    asker.record([draws.gauss(0.0, 1.0) for _ in range(request["points"])])
    questions = asker.questions()
    answers = {name: ask() for name, ask in questions.items()}
    taken: dict[str, list[float]] = {name: [] for name in questions}
    for _ in range(request["times"]):
        for name, ask in questions.items():
            begin = time.perf_counter()
            ask()
            taken[name].append(time.perf_counter() - begin)
    return {"fill_secs": filled - began, "answers": answers, "taken": taken}


if __name__ == "__main__":
    answer_request(measure)
