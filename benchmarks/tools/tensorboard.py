"""TensorBoard: a histogram of every weight and every gradient, and the loss, per step.

Its writer queues its input, which a separate thread writes; the histogram itself is computed in the training thread.
"""

from __future__ import annotations

from torch import Tensor, nn
from torch.optim import Optimizer
from torch.utils.tensorboard import SummaryWriter

from benchmarks.tools.observer import Facts, Observer, Silent


def attach(model: nn.Module, optimizer: Optimizer, loss_fn: nn.Module, *, directory: str) -> Observer:
    """Return a summary writer for every parameter."""
    return _Histograms(model, SummaryWriter(directory))


class _Histograms(Silent):
    def __init__(self, model: nn.Module, writer: SummaryWriter) -> None:
        self._parameters = list(model.named_parameters())
        self._writer = writer
        self._step = 0

    def after_update(self, loss: Tensor) -> None:
        for name, parameter in self._parameters:
            self._writer.add_histogram(f"weight/{name}", parameter, self._step)
            if parameter.grad is not None:
                self._writer.add_histogram(f"gradient/{name}", parameter.grad, self._step)
        self._writer.add_scalar("loss", loss.item(), self._step)
        self._step += 1

    def close(self) -> Facts:
        self._writer.close()
        return {"histograms": 2 * len(self._parameters) * self._step}
