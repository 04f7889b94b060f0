"""trainscope: its default profile, or `debug`, which "records everything every step".

Its `step` is called between backward and update, as in its guide.
"""

from __future__ import annotations

from torch import Tensor, nn
from torch.optim import Optimizer
from trainscope import TrainScope
from trainscope.core.config import load_config

from benchmarks.tools.observer import Facts, Observer, Silent


def attach(
    model: nn.Module, optimizer: Optimizer, loss_fn: nn.Module, *, directory: str, profile: str = "default"
) -> Observer:
    """Return trainscope attached with one of its own profiles."""
    config = load_config({"profile": profile, "run_dir": directory, "run_name": "run"})
    return _Scoped(TrainScope(model, optimizer, config).attach())


class _Scoped(Silent):
    def __init__(self, scope: TrainScope) -> None:
        self._scope = scope
        self._steps = 0

    def before_update(self, loss: Tensor) -> None:
        self._scope.step(loss.item(), batch_index=self._steps)
        self._steps += 1

    def close(self) -> Facts:
        self._scope.detach()
        return {"steps_recorded": self._steps}
