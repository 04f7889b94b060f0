"""Measures the cost of the data trace per step, or its size on disk, in this process."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import torch
from torch import nn
from torch.utils.data import DataLoader, RandomSampler, TensorDataset, WeightedRandomSampler

import barograph
from barograph.capture.session import Session
from barograph.capture.torch.integration import TorchIntegration
from barograph.model.settings import Settings
from barograph.runs.writing.inbox import Inbox
from benchmarks.null_writer import NullWriter
from benchmarks.processes import Request, Result, answer_request, size_of

FEATURES, HIDDEN, CLASSES = 64, 256, 10

WARM_UP_STEPS = 200

_BLOCK_BATCHES = 100


def measure(request: Result) -> Request:
    """Return the result of the request's `verb`: time per step, time per batch alone, or bytes on disk."""
    torch.set_num_threads(1)
    torch.manual_seed(0)
    return {"steps": _steps, "batches": _batches, "bytes": _bytes}[request["verb"]](request)


def _steps(request: Result) -> Request:
    """Train a small network on a shuffled data set, with or without the trace."""
    samples, steps = request["samples"], request["steps"]
    data = TensorDataset(torch.randn(samples, FEATURES), torch.randint(0, CLASSES, (samples,)))
    model = nn.Sequential(nn.Linear(FEATURES, HIDDEN), nn.ReLU(), nn.Linear(HIDDEN, CLASSES))
    optimizer = torch.optim.SGD(model.parameters(), 0.01)
    url = f"{request['directory']}/run"
    with barograph.attach(model, optimizer, to=url, watch=False, preset="free", budget=None, trace=request["trace"]):
        batches = _endless(DataLoader(data, batch_size=request["batch"], shuffle=True))
        clocks = 0.0, 0.0, 0.0
        for step in range(WARM_UP_STEPS + steps):
            if step == WARM_UP_STEPS:
                clocks = _clocks()
            inputs, labels = next(batches)
            optimizer.zero_grad()
            nn.functional.cross_entropy(model(inputs), labels).backward()
            optimizer.step()
        wall, thread, cpu = (now - then for now, then in zip(_clocks(), clocks, strict=True))
    return {"mean_secs": wall / steps, "thread_secs": thread / steps, "cpu_secs": cpu / steps}


def _batches(request: Result) -> Request:
    """Iterate over a loader without data, with all work of the trace per batch up to the writer's queue."""
    inbox = Inbox(2**30)
    session = Session(Settings(preset="free", budget=None, trace=request["trace"]), (), lambda *_: _BatchWriter(inbox))
    session.began()
    integration = TorchIntegration(session)
    integration.install()
    batches = _endless(DataLoader(range(1_000_000), request["batch"], shuffle=True, collate_fn=len))  # type: ignore[arg-type]
    next(batches)
    secs = []
    for _ in range(request["blocks"]):
        begin = time.thread_time()
        for _ in range(_BLOCK_BATCHES):
            next(batches)
            session.pass_step("")
        secs.append((time.thread_time() - begin) / _BLOCK_BATCHES)
        inbox.take_batches()
    integration.remove()
    return {"least_secs": min(secs)}


class _BatchWriter(NullWriter):
    """Keeps only the batches that fed the steps."""

    def __init__(self, inbox: Inbox) -> None:
        super().__init__()
        self.put_batches = inbox.put_batches  # type: ignore[method-assign]


def _bytes(request: Result) -> Request:
    """Trace steps over a data set of `samples` samples in the given `order`; nothing is trained."""
    samples, steps, batch = request["samples"], request["steps"], request["batch"]
    weight = nn.Parameter(torch.ones(1))
    optimizer = torch.optim.SGD([weight], 0.0)
    url = f"{request['directory']}/run"
    sampler = _sampler(request["order"], range(samples), steps * batch)
    with barograph.attach(to=url, watch=False, preset="free", budget=None):
        batches = _endless(DataLoader(range(samples), batch_size=batch, sampler=sampler))  # type: ignore[arg-type]
        for _ in range(steps):
            next(batches)
            weight.sum().backward()
            optimizer.step()
    trace = barograph.open(url).trace()
    if len(trace.steps) != steps:
        raise ValueError(f"{len(trace.steps)} of {steps} steps were traced")
    files = size_of(f"{url}/trace")
    return {"bytes": files, "samples": sum(one.count for one in trace.at(steps - 1, before=steps))}


def _sampler(order: str, data: Any, drawn: int) -> Any:
    if order == "in order":
        return None
    if order == "another sampler":
        return _Unknown(data)
    if order == "weighted":
        return WeightedRandomSampler([1.0] * len(data), drawn)
    return RandomSampler(data, replacement=order == "with replacement", num_samples=None)


class _Unknown(RandomSampler):
    """Draws like PyTorch's sampler, but is another class: the trace cannot know how it draws."""


def _endless(loader: DataLoader[Any]) -> Iterator[Any]:
    while True:
        yield from loader


def _clocks() -> tuple[float, float, float]:
    return time.perf_counter(), time.thread_time(), time.process_time()


if __name__ == "__main__":
    answer_request(measure)
