"""Trains one workload for a few steps, with or without a tool, compiled or not, and returns a digest of every bit."""

from __future__ import annotations

import hashlib
import importlib
import random
from dataclasses import replace

import torch
from torch import nn

from benchmarks.models import Workload, build_workload
from benchmarks.processes import Request, Result, answer_request
from benchmarks.tools.observer import Observer

STEPS_BEFORE_ATTACHING = 2


def measure(request: Result) -> Request:
    """Return the digest after the steps; see `weights.Case` for the request."""
    torch.set_num_threads(1)
    random.seed(0)
    workload = build_workload(request["workload"])
    trained, attached_to = workload, workload.model
    if request["compiled"] == "before":
        attached_to = _compiled(workload.model, request["backend"])
        trained = replace(workload, model=attached_to)
    for _ in range(STEPS_BEFORE_ATTACHING):
        trained.forward_backward()
        trained.optimizer.step()
    tool = importlib.import_module(f"benchmarks.tools.{request['tool']}")
    observer: Observer = tool.attach(
        attached_to, workload.optimizer, workload.loss_fn, directory=request["directory"], **request["options"]
    )
    if request["compiled"] == "after":
        trained = replace(workload, model=_compiled(workload.model, request["backend"]))
    for _ in range(request["steps"]):
        loss = trained.forward_backward()
        observer.before_update(loss)
        trained.optimizer.step()
        observer.after_update(loss)
    observer.close()
    return {"digest": digest_of(workload)}


def _compiled(model: nn.Module, backend: str) -> nn.Module:
    compiled = torch.compile(model, backend=backend)
    assert isinstance(compiled, nn.Module)
    return compiled


def digest_of(workload: Workload) -> str:
    """Return a digest of every bit of the model's state, and of the states of the random generators."""
    digest = hashlib.sha256()
    for name, tensor in workload.model.state_dict().items():
        digest.update(name.encode())
        digest.update(tensor.detach().cpu().contiguous().flatten().view(torch.uint8).numpy().tobytes())
    digest.update(torch.get_rng_state().numpy().tobytes())
    digest.update(repr(random.getstate()).encode())
    return digest.hexdigest()


if __name__ == "__main__":
    answer_request(measure)
