"""Opens runs one after the other, in one of several ways, and measures the time of each."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

from benchmarks.origin import repository
from benchmarks.processes import Request, Result, answer_request

Opening = Callable[[int], AbstractContextManager[Any]]
"""Opens the run with this number."""


def measure(request: Result) -> Request:
    """Return the time to open the first run, including imports, and later ones.

    The request contains `way`, and `times`: the number of runs to open after the first.
    """
    os.chdir(repository(Path(request["directory"], "repository")))
    place = f"{request['directory']}/runs"
    if request["way"] == "attach":
        _as_a_script_has()
    begun = time.perf_counter()
    opening = _WAYS[request["way"]](place)
    with opening(0):
        first_secs = time.perf_counter() - begun
    again_secs = []
    for number in range(1, request["times"] + 1):
        begun = time.perf_counter()
        with opening(number):
            again_secs.append(time.perf_counter() - begun)
    return {"first_secs": first_secs, "again_secs": again_secs}


def _as_a_script_has() -> None:
    """Import what a training script has imported by then in any case: creating an optimizer imports torch._dynamo."""
    import torch

    torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))])


def _attach(place: str) -> Opening:
    import barograph

    return lambda number: barograph.attach(to=f"{place}/{number}", watch=False)


def _run(place: str) -> Opening:
    from barograph.tracking import Run

    return lambda number: Run(f"run-{number}", root=place)


def _mlflow(place: str) -> Opening:
    import mlflow

    os.mkdir(place)
    mlflow.set_tracking_uri(f"sqlite:///{place}/mlflow.db")
    return lambda number: mlflow.start_run(run_name=f"run-{number}")


_WAYS: dict[str, Callable[[str], Opening]] = {"attach": _attach, "Run": _run, "mlflow": _mlflow}


if __name__ == "__main__":
    answer_request(measure)
