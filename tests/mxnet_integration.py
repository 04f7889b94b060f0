"""The integration of MXNet Gluon: run by pytest in an environment of its own, by `capture/test_mxnet.py`."""

from __future__ import annotations

import os
import subprocess
import sys
import warnings
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import barograph
from barograph.attached import AttachedRun
from barograph.model.step import Mode
from barograph.runs.reading.reader import RunReader
from barograph.testing.frameworks import FrameworkConformance, Task
from pages import ROOT, blocks

with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)  # of NumPy, of names that MXNet 1.9 still uses
    import mxnet as mx
    from mxnet import autograd, gluon, nd
    from mxnet.gluon import nn


# Where SciPy is installed, MXNet takes a class of it from where that no longer lives.
pytestmark = pytest.mark.filterwarnings("ignore:Please use `csr_matrix`:DeprecationWarning")

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
    many_steps = 100
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


# What is recorded


def recorded(name: str, train: Callable[[], Any], **settings: Any) -> RunReader:
    url = f"memory://mxnet/{name}"
    with barograph.attach(to=url, watch=False, **{"strict": True, "budget": None, "preset": "everything", **settings}):
        train()
    return barograph.open(url)


def fit(net: Any, trainer: Any, steps: int = 3, *, contexts: Sequence[Any] = (), clip_at: float = 0.0) -> None:
    loss = gluon.loss.SoftmaxCrossEntropyLoss()
    contexts = contexts or [mx.cpu()]
    for step in range(steps):
        xs, ys = (gluon.utils.split_and_load(part, contexts) for part in batch(step))
        with autograd.record():
            lost = [loss(net(x), y) for x, y in zip(xs, ys, strict=True)]
        autograd.backward(lost)
        if clip_at:
            gluon.utils.clip_global_norm(
                [grad for item in trainer._params if item.grad_req != "null" for grad in item.list_grad()], clip_at)
        trainer.step(16)


def plain(seed: int = 0, **settings: Any) -> Any:
    """A net without anything random or in two modes."""
    mx.random.seed(seed)
    net = nn.Sequential(**settings)
    net.add(nn.Dense(8, activation="tanh"), nn.Dense(2))
    return net


def initialized(net: Any, contexts: Any = None) -> Any:
    net.initialize(mx.init.Xavier(), ctx=contexts)
    return net


def sgd(net: Any, **settings: Any) -> Any:
    return gluon.Trainer(net.collect_params(), "sgd", {"learning_rate": 0.1, "momentum": 0.9}, **settings)


@pytest.fixture(scope="module")
def run() -> RunReader:
    def train() -> None:
        net = small()
        trainer, loss = sgd(net), gluon.loss.SoftmaxCrossEntropyLoss()
        fit(net, trainer, 3, clip_at=0.5)
        for seed in (7, 8):
            x, y = batch(seed)
            loss(net(x), y)

    return recorded("everything", train)


def test_the_loss_is_that_of_the_backward_pass_and_has_the_name_of_its_function(run: RunReader) -> None:
    assert run.series("loss:total").steps.tolist() == [0, 1, 2]
    assert run.series("loss:total").values.tolist() == run.series("loss:SoftmaxCrossEntropyLoss").values.tolist()


def test_an_evaluation_is_what_is_called_without_gradients(run: RunReader) -> None:
    evaluated = run.series("loss:total", mode=Mode.EVAL)
    assert evaluated.steps.tolist() == [3]
    assert sum(run.series(f"label:SoftmaxCrossEntropyLoss[{number}]", mode=Mode.EVAL).values[0]
               for number in (0, 1)) == 32


def test_modes_and_frozen_parameters_are_facts_for_the_rules(run: RunReader) -> None:
    for name in ("model_in_eval", "layers_in_eval", "frozen"):
        assert run.series(f"fact:{name}").values.tolist() == [0, 0, 0], name
    assert run.series("fact:parameters").values.tolist() == [6, 6, 6]
    assert run.series("fact:layers_in_train", mode=Mode.EVAL).values.tolist() == [0]


def test_a_pass_that_is_recorded_in_predict_mode_is_training_in_the_wrong_mode() -> None:
    def train() -> None:
        net = small()
        trainer = sgd(net)
        x, y = batch(0)
        with autograd.record(train_mode=False):
            lost = gluon.loss.SoftmaxCrossEntropyLoss()(net(x), y)
        lost.backward(train_mode=False)
        trainer.step(16)
        with autograd.train_mode():
            net(x)

    run = recorded("predict-mode", train)
    assert run.series("fact:layers_in_eval").values.tolist() == [1]
    assert run.series("fact:layers_in_train", mode=Mode.EVAL).values.tolist() == [1]


def test_blocks_without_others_are_recorded_and_known_by_their_activation(run: RunReader) -> None:
    assert {str(key) for key in run.keys(kind="output")} == {"output:0.act", "output:1", "output:2", "output:3"}
    layers = {str(subject.key): subject.layer for view in run.views() for rows in view.rows.values()
              for subject in rows.table.subjects}
    assert [layers[f"output:{name}"] for name in ("0.act", "1", "3")] == ["Tanh", "BatchNorm", "Linear"]
    assert layers["weight:0.weight"] == "Linear"


def test_what_the_optimizer_keeps_has_the_names_that_rules_know(run: RunReader) -> None:
    kept = {key.path for key in run.keys(kind="optimizer_state")}
    assert "0.weight[momentum_buffer]" in kept
    assert run.series("learning_rate:group0").values.tolist() == pytest.approx([0.1] * 3)


def test_everything_is_covered(run: RunReader) -> None:
    coverage = run.workers[0].last.coverage
    assert (coverage.parameters, coverage.parameters_seen, coverage.gradients_seen) == (6, 6, 6)
    assert (coverage.modules, coverage.modules_seen, coverage.evaluations) == (4, 4, 1)
    assert coverage.reasons == ()


def test_gradients_are_those_of_the_mean_loss_before_they_are_clipped(run: RunReader) -> None:
    net, (x, y) = small(), batch(0)
    with autograd.record():
        loss = gluon.loss.SoftmaxCrossEntropyLoss()(net(x), y).mean()
    loss.backward()
    wanted = np.linalg.norm(net[0].weight.grad().asnumpy())
    assert run.series("gradient:0.weight", "l2").values[0] == pytest.approx(wanted, rel=1e-5)
    clipped = [run.series(f"gradient_clipped:{key.path}", "l2").values[0] for key in run.keys(kind="gradient")]
    # The script clips the sum over sixteen samples to a norm of a half.
    assert np.linalg.norm(clipped) == pytest.approx(0.5 / 16, rel=1e-5)


@pytest.mark.parametrize("on_store", [True, False])
def test_two_contexts_are_one_training_whose_gradients_are_added_up(on_store: bool) -> None:
    def train(contexts: Any, **settings: Any) -> None:
        net = initialized(plain(), contexts)
        fit(net, sgd(net, **settings), contexts=contexts)

    one = recorded(f"one-{on_store}", lambda: train([mx.cpu(0)]))
    two = recorded(f"two-{on_store}", lambda: train([mx.cpu(0), mx.cpu(1)], update_on_kvstore=on_store))
    for key in ("gradient:0.weight", "weight:1.bias", "update:0.bias", "optimizer_state:0.weight[momentum_buffer]",
                "output:0.act"):
        assert two.series(key, "l2").values == pytest.approx(one.series(key, "l2").values, rel=1e-4), key
    assert two.series("loss:total").values == pytest.approx(one.series("loss:total").values, rel=1e-5)
    assert two.series("fact:batch_size").values.tolist() == [16] * 3


@pytest.mark.parametrize("together", [True, False])
def test_gradients_clipped_in_two_contexts_are_told_as_they_were(together: bool) -> None:
    """Clipped in each context, or once they were brought together."""
    contexts = [mx.cpu(0), mx.cpu(1)]

    def train() -> None:
        net = initialized(plain(), contexts)
        trainer = sgd(net, update_on_kvstore=False)
        loss = gluon.loss.SoftmaxCrossEntropyLoss()
        xs, ys = (gluon.utils.split_and_load(part, contexts) for part in batch(0))
        with autograd.record():
            losses = [loss(net(x), y) for x, y in zip(xs, ys, strict=True)]
        for item in losses:
            item.backward()
        if together:
            trainer.allreduce_grads()
        for context in contexts:
            gluon.utils.clip_global_norm([item.grad(context) for item in trainer._params], 0.1)
        if not together:
            trainer.allreduce_grads()
        trainer.update(16)

    net = initialized(plain(), contexts)
    whole = recorded(f"unclipped-{together}", lambda: fit(net, sgd(net), 1, contexts=contexts))
    clipped = recorded(f"clipped-{together}", train)
    assert clipped.series("gradient:0.weight", "l2").values == pytest.approx(
        whole.series("gradient:0.weight", "l2").values, rel=1e-4)
    assert clipped.series("gradient_clipped:0.weight", "l2").values[0] < 0.2 / 16


def test_of_a_hybridized_net_its_own_output_is_recorded_and_the_run_says_so() -> None:
    def train() -> None:
        net = small(hybrid=True)
        fit(net, sgd(net))

    run = recorded("hybrid", train)
    assert {str(key) for key in run.keys(kind="output")} == {"output:model"}
    assert "hybridize" in " ".join(run.workers[0].last.coverage.reasons)
    assert len(run.keys(kind="gradient")) == 6


def test_adversaries_have_a_series_each() -> None:
    def train() -> None:
        maker, judge = initialized(plain(prefix="maker_")), initialized(plain(seed=1, prefix="judge_"))
        of_maker, of_judge = sgd(maker), sgd(judge)
        loss = gluon.loss.SoftmaxCrossEntropyLoss()
        for step in range(3):
            x, y = batch(step)
            with autograd.record():
                made = maker(x)
                lost = loss(judge(made.detach()), y)
            lost.backward()
            of_judge.step(16)
            with autograd.record():
                lost = loss(judge(maker(x)), 1 - y)
            lost.backward()
            of_maker.step(16)
            maker(x)  # without gradients, and no evaluation

    run = recorded("adversaries", train)
    assert run.workers[0].last.coverage.evaluations == 0
    assert {view.step.mode for view in run.views()} == {Mode.TRAIN}
    assert run.series("gradient:maker.0.weight", "l2").steps.tolist() == [0, 1, 2]
    losses = [run.series("loss:total", optimizer=name).values for name in ("maker", "judge")]
    assert [len(values) for values in losses] == [3, 3]
    assert losses[0].tolist() != losses[1].tolist()


def test_a_trainer_made_anew_goes_on_with_the_series() -> None:
    def train() -> None:
        net = initialized(plain())
        for _ in range(2):
            fit(net, sgd(net), 2)

    run = recorded("anew", train)
    assert run.series("loss:total").steps.tolist() == [0, 1, 2, 3]


def test_a_second_training_is_a_series_of_its_own_under_the_same_names() -> None:
    nets = []

    def train() -> None:
        for seed in range(2):
            nets.append(initialized(plain(seed)))
            fit(nets[-1], sgd(nets[-1]), 2)

    run = recorded("second", train)
    assert run.series("gradient:0.weight", "l2", optimizer="#2").steps.tolist() == [0, 1]
    assert {key.path for key in run.keys(kind="weight")} == {"0.weight", "0.bias", "1.weight", "1.bias"}


def test_a_scheduler_that_counts_is_not_asked_once_more_for_us() -> None:
    def rates(name: str, *, watched: bool) -> list[int]:
        asked: list[int] = []

        class Counting(mx.lr_scheduler.LRScheduler):
            def __call__(self, update: int) -> float:
                asked.append(update)
                return 0.1 / len(asked)

        net = initialized(plain())
        trainer = gluon.Trainer(net.collect_params(), "adam", {"learning_rate": 0.1, "lr_scheduler": Counting(0.1)})
        if watched:
            run = recorded(name, lambda: fit(net, trainer))
            assert run.series("learning_rate:group0").steps.tolist() == [0, 1, 2]
        else:
            fit(net, trainer)
        return asked

    assert rates("scheduler", watched=True) == rates("scheduler", watched=False)


def test_a_frozen_parameter_and_one_that_no_gradient_reached_are_not_told_as_trained() -> None:
    def train() -> None:
        net = initialized(plain())
        net.add(nn.Dense(3, in_units=2))
        net[2].initialize()
        net[0].collect_params().setattr("grad_req", "null")
        trainer = sgd(net)
        x, y = batch(0)
        with autograd.record():
            lost = gluon.loss.SoftmaxCrossEntropyLoss()(net[1](net[0](x)), y)
        lost.backward()
        trainer.step(16, ignore_stale_grad=True)

    run = recorded("frozen", train)
    assert {key.path for key in run.keys(kind="gradient")} == {"1.weight", "1.bias"}
    assert {key.path for key in run.keys(kind="weight")} == {"1.weight", "1.bias", "2.weight", "2.bias"}


def test_a_step_that_mixed_precision_skips_is_a_skipped_step_with_an_unscaled_loss() -> None:
    from mxnet.contrib import amp
    from mxnet.contrib.amp.loss_scaler import LossScaler

    def train() -> None:
        net = initialized(plain())
        trainer = sgd(net)
        trainer._amp_loss_scaler, trainer._amp_original_scale = LossScaler(), trainer._scale
        for step in range(3):
            x, y = batch(step)
            with autograd.record():
                lost = gluon.loss.SoftmaxCrossEntropyLoss()(net(x), y)
                with amp.scale_loss(lost, trainer) as scaled:
                    autograd.backward(scaled)
            if step == 1:
                net[0].weight.grad()[:] = float("inf")
            trainer.step(16)

    run = recorded("scaled", train)
    assert [view.step.number for view in run.views() if view.step.skipped] == [1]
    assert run.series("loss:total").values == pytest.approx(run.series("loss:SoftmaxCrossEntropyLoss").values)
    assert run.series("fact:loss_scale").values[0] == 65536
    assert run.series("gradient:1.bias", "max_abs").values[0] < 1


def test_an_operation_that_fails_in_the_engine_is_raised_in_the_script_and_not_swallowed() -> None:
    """MXNet computes beside the script, and raises an error once, at whoever waits for it first."""
    def train() -> None:
        net = initialized(plain())
        trainer = sgd(net)
        x, y = batch(0)
        with autograd.record():
            lost = gluon.loss.SoftmaxCrossEntropyLoss()(net(x + nd.random.normal(0, -1, (16, 4))), y)
        lost.backward()
        trainer.step(16)
        lost.asnumpy()

    with pytest.raises(mx.base.MXNetError, match="has to be positive"):
        recorded("fails", train, strict=False)



def test_recurrent_layers_and_the_arrays_of_numpy_are_recorded() -> None:
    def train() -> None:
        class Reader(gluon.Block):
            def __init__(self) -> None:
                super().__init__()
                self.words = nn.Embedding(10, 4)
                self.lstm = gluon.rnn.LSTM(5, layout="NTC")
                self.out = nn.Dense(2)

            def forward(self, x: Any) -> Any:
                begin = self.lstm.begin_state(x.shape[0])
                read, _ = self.lstm(self.words(x), begin)
                return self.out(read[:, -1])

        net = initialized(Reader())
        trainer = gluon.Trainer(net.collect_params(), "adam")
        for step in range(2):
            rng = np.random.default_rng(step)
            x, y = nd.array(rng.integers(0, 10, (6, 3))), nd.array(rng.integers(0, 2, 6))
            with autograd.record():
                lost = gluon.loss.SoftmaxCrossEntropyLoss()(net(x), y).mean()
            lost.backward()
            trainer.step(1)

    run = recorded("recurrent", train)
    assert {"output:words", "output:lstm[0]", "output:lstm[1][0]", "output:out"} <= {
        str(key) for key in run.keys(kind="output")}
    assert {"gradient:words.weight", "gradient:lstm.l0_i2h_weight"} <= {str(key) for key in run.keys(kind="gradient")}


def test_a_net_under_the_interface_of_numpy_is_recorded() -> None:
    def train() -> None:
        net = initialized(plain())
        trainer = sgd(net)
        x, y = (mx.np.array(part.asnumpy()) for part in batch(0))
        with autograd.record():
            lost = gluon.loss.SoftmaxCrossEntropyLoss()(net(x), y)
        lost.backward()
        trainer.step(16)

    mx.npx.set_np()
    try:
        run = recorded("numpy", train)
    finally:
        mx.npx.reset_np()
    assert run.series("loss:total").steps.tolist() == [0]
    assert len(run.keys(kind="gradient")) == 4


def test_a_target_computed_without_gradients_within_a_step_is_no_evaluation() -> None:
    def train() -> None:
        net = initialized(plain())
        trainer = sgd(net)
        for step in range(2):
            x, _ = batch(step)
            with autograd.record():
                answers = net(x)
                with autograd.pause():
                    target = net(x) * 0.9
                lost = gluon.loss.L2Loss()(answers, target)
            lost.backward()
            trainer.step(16)

    run = recorded("target", train)
    assert run.series("loss:L2Loss").steps.tolist() == [0, 1]
    assert run.workers[0].last.coverage.evaluations == 0


# As people use it

SCRIPT = """
import mxnet as mx
import numpy as np
from mxnet import autograd, gluon, nd

mx.random.seed(0)
net = gluon.nn.HybridSequential()
net.add(gluon.nn.Dense(16, activation="tanh"), gluon.nn.Dense(2))
net.initialize(mx.init.Xavier())
trainer = gluon.Trainer(net.collect_params(), "adam")
loss = gluon.loss.SoftmaxCrossEntropyLoss()
rng = np.random.default_rng(0)
for step in range(40):
    x = rng.normal(size=(32, 8)).astype("float32")
    y = (x[:, 0] > 0).astype("float32")
    if step == 30:
        x[5, 3] = np.nan
    with autograd.record():
        lost = loss(net(nd.array(x)), nd.array(y))
    lost.backward()
    trainer.step(32)
"""


def test_a_script_that_knows_nothing_of_barograph_is_recorded_and_judged(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(SCRIPT, encoding="utf-8")
    done = subprocess.run(
        [sys.executable, "-m", "barograph", "run", "--to", "runs/one", "--budget", "off", "--strict", "train.py"],
        cwd=tmp_path, env={**os.environ, "PYTHONWARNINGS": "ignore"}, capture_output=True, text=True, check=False,
        timeout=600)
    assert done.returncode == 0, done.stderr
    assert "NaN" in done.stderr
    run = barograph.open(tmp_path / "runs" / "one")
    losses = run.series("loss:total")
    assert losses.steps[~np.isfinite(losses.values)][0] == 30
    assert run.workers[0].worker.versions["mxnet"].startswith("1.9")
    assert run.series("output:0.act", "l2").steps[0] == 0


def test_what_the_page_shows_runs(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    shown = [block.text for block in blocks(ROOT / "docs" / "reference/mxnet.md") if block.language == "python"]
    assert shown
    for text in shown:
        exec(compile(text, "docs/reference/mxnet.md", "exec"), {"__name__": "__main__"})
