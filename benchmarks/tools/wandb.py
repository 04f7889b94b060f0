"""Weights & Biases, offline: `watch` with everything at every step, and the loss."""

from __future__ import annotations

from typing import Any

import wandb
from torch import Tensor, nn
from torch.optim import Optimizer

from benchmarks.tools.observer import Facts, Observer, Silent


def attach(model: nn.Module, optimizer: Optimizer, loss_fn: nn.Module, *, directory: str) -> Observer:
    """Return an offline run that watches the model."""
    run = wandb.init(project="bench", mode="offline", dir=directory)
    run.watch(model, log="all", log_freq=1)
    return _Watched(run)


class _Watched(Silent):
    def __init__(self, run: Any) -> None:
        self._run = run

    def after_update(self, loss: Tensor) -> None:
        # What `watch` has collected is sent with the next log.
        self._run.log({"loss": loss.item()})

    def close(self) -> Facts:
        histograms = sum(name.startswith(("gradients/", "parameters/")) for name in self._run.summary.keys())  # noqa: SIM118
        self._run.finish()
        return {"histograms_a_step": histograms}
