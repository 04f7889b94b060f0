"""smdebug 1.0.34, the library of SageMaker Debugger: weights, biases, gradients and losses, every step.

Five reductions (min, max, mean, std, l2), or the raw tensors. The hook is used as in its guide: on the model and on the
loss function; it ends a step when the next forward pass starts, so it is not called here.
"""

from __future__ import annotations

import smdebug.pytorch as smd
from smdebug.trials import create_trial
from torch import nn
from torch.optim import Optimizer

from benchmarks.tools.observer import Facts, Observer, Silent

COLLECTIONS = ["weights", "biases", "gradients", "losses"]


def attach(
    model: nn.Module, optimizer: Optimizer, loss_fn: nn.Module, *, directory: str, raw: bool = False
) -> Observer:
    """Return the hook, on model and loss function."""
    reductions = None if raw else smd.ReductionConfig(reductions=["min", "max", "mean", "std"], norms=["l2"])
    out_dir = f"{directory}/run"
    hook = smd.Hook(
        out_dir=out_dir,
        save_config=smd.SaveConfig(save_interval=1),
        reduction_config=reductions,
        include_collections=COLLECTIONS,
    )
    hook.register_module(model)
    hook.register_loss(loss_fn)
    return _Hooked(hook, out_dir)


class _Hooked(Silent):
    def __init__(self, hook: smd.Hook, out_dir: str) -> None:
        self._hook = hook
        self._out_dir = out_dir

    def close(self) -> Facts:
        self._hook.close()
        trial = create_trial(self._out_dir)
        names = {name: len(trial.tensor_names(collection=name)) for name in COLLECTIONS}
        return {"steps_recorded": len(trial.steps()), "tensors": names}
