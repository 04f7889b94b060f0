"""The door of MXNet Gluon: run by pytest in an environment of its own, by `capture/test_mxnet.py`."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import Any

import numpy as np

from barograph.attached import AttachedRun
from barograph.testing.frameworks import FrameworkConformance, Task

with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)  # of NumPy, of names that MXNet 1.9 still uses
    import mxnet as mx
    from mxnet import autograd, gluon, nd
    from mxnet.gluon import nn


def small(seed: int = 0, *, hybrid: bool = False, ctx: Any = None) -> Any:
    """A net with everything that minds a mode: dropout and batch normalisation."""
    mx.random.seed(seed)
    np.random.seed(seed)
    net = nn.HybridSequential()
    net.add(nn.Dense(8, activation="tanh"), nn.BatchNorm(), nn.Dropout(0.2), nn.Dense(2))
    net.initialize(mx.init.Xavier(), ctx=ctx)
    if hybrid:
        net.hybridize()
    return net


def batch(seed: int, rows: int = 16) -> tuple[Any, Any]:
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(rows, 4)).astype(np.float32)
    return nd.array(x), nd.array((x[:, 0] > 0).astype(np.float32))


def weights(net: Any) -> dict[str, Any]:
    return {name: item.data(item.list_ctx()[0]).asnumpy()
            for name, item in net._collect_params_with_prefix().items() if item.grad_req != "null"}


class TestGluon(FrameworkConformance):
    framework = "mxnet"
    hybrid = False

    def train(self, task: Task, run: AttachedRun | None) -> Mapping[str, Any]:
        net, loss = small(task.seed, hybrid=self.hybrid), gluon.loss.SoftmaxCrossEntropyLoss()
        parameters = net.collect_params()
        if task.accumulate > 1:
            parameters.setattr("grad_req", "add")
            net.collect_params(".*running.*").setattr("grad_req", "null")
        trainer = gluon.Trainer(parameters, "adam", {"learning_rate": 0.01})
        for step in range(task.steps):
            for part in range(task.accumulate):
                x, y = batch(1000 * task.seed + 10 * step + part)
                if step == task.nan_at:
                    x[0, 0] = float("nan")
                with autograd.record():
                    loss_now = loss(net(x), y)
                loss_now.backward()
            trainer.step(16 * task.accumulate)
            if task.accumulate > 1:
                parameters.zero_grad()
            if task.evaluate_every and (step + 1) % task.evaluate_every == 0:
                x, y = batch(77)
                loss(net(x), y).wait_to_read()
        return weights(net)


class TestHybridGluon(TestGluon):
    hybrid = True
