"""What a traced step of JAX tells beside its tensors: losses and their labels, rates, what cannot move, what failed."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

jax = pytest.importorskip("jax", reason="JAX is not installed")
optax = pytest.importorskip("optax", reason="Optax is not installed")

import jax.numpy as jnp  # noqa: E402

import barograph  # noqa: E402
import barograph.jax  # noqa: E402
import jax_training as trainings  # noqa: E402
from barograph.capture.jax.culprit import bad_operation  # noqa: E402
from barograph.capture.jax.rates import hyperparameters  # noqa: E402

pytestmark = pytest.mark.usefixtures("unoptimized")

_RUNS = itertools.count()

X, Y = trainings.X, trainings.Y


def recorded(loss_of: Callable[..., Any], params: Any, tx: Any, steps: int = 3, y: Any = Y, **options: Any) -> Any:
    """Return the run of a training of plain functions."""

    @jax.jit
    def step(params: Any, state: Any, x: Any, y: Any) -> tuple[Any, Any, Any]:
        loss, gradients = jax.value_and_grad(loss_of)(params, x, y)
        updates, state = tx.update(gradients, state, params)
        return optax.apply_updates(params, updates), state, loss

    url, state = f"memory://jax-facts/{next(_RUNS)}", tx.init(params)
    with barograph.attach(to=url, watch=False, strict=True, budget=None):
        observed = barograph.jax.observe(step, **options)
        for _ in range(steps):
            params, state, _loss = observed(params, state, X, y)
    return barograph.open(url)


def values(run: Any, key: str) -> list[float]:
    return [float(value) for value in run.series(key).values]


def linear(width: int = 3) -> dict[str, Any]:
    drawn = np.random.default_rng(1).normal(size=(8, width)).astype(np.float32)
    return {"out": {"kernel": jnp.asarray(drawn) * 0.1, "bias": jnp.zeros(width)}}


def scores(params: Any, x: Any) -> Any:
    return x @ params["out"]["kernel"] + params["out"]["bias"]


def mean_of_integers(params: Any, x: Any, y: Any) -> Any:
    return optax.softmax_cross_entropy_with_integer_labels(scores(params, x), y).mean()


def test_the_loss_stands_under_the_name_of_its_function_where_that_is_all() -> None:
    run = recorded(mean_of_integers, linear(), optax.sgd(0.1))
    assert values(run, "loss:softmax_cross_entropy_with_integer_labels") == values(run, "loss:total")


@pytest.mark.parametrize("loss_of", [
    lambda params, x, y: mean_of_integers(params, x, y) + 0.1 * jnp.sum(params["out"]["kernel"] ** 2),
    lambda params, x, y: optax.softmax_cross_entropy_with_integer_labels(scores(params, x), y).sum(),
    lambda params, x, y: (optax.softmax_cross_entropy_with_integer_labels(scores(params, x), y) * (y + 1)).mean(),
    lambda params, x, y: jnp.sqrt(mean_of_integers(params, x, y)),
])  # fmt: skip
def test_a_loss_that_something_is_done_to_stands_under_no_name(loss_of: Any) -> None:
    run = recorded(loss_of, linear(), optax.sgd(0.1), steps=1)
    assert [key.path for key in run.keys(kind="loss")] == ["total"]


def test_in_a_loop_of_steps_the_loss_of_each_turn_stands_under_its_name() -> None:
    url = f"memory://jax-facts/{next(_RUNS)}"
    with barograph.attach(to=url, watch=False, strict=True, budget=None):
        _, losses = trainings.train_scan(barograph.jax.observe)
    told = values(barograph.open(url), "loss:softmax_cross_entropy_with_integer_labels")
    assert told == pytest.approx(np.asarray(losses).reshape(-1).tolist())


def test_labels_and_answers_are_counted_of_what_a_loss_is_handed() -> None:
    run = recorded(mean_of_integers, linear(), optax.sgd(0.1), steps=1, y=Y)
    name = "softmax_cross_entropy_with_integer_labels"
    assert values(run, f"label:{name}[0]") == [float((Y == 0).sum())]
    assert values(run, f"label:{name}[1]") == [float((Y == 1).sum())]
    assert values(run, "fact:classes") == [3.0]


def test_one_hot_rows_and_yes_or_no_are_counted_too() -> None:
    one_hot = recorded(lambda params, x, y: optax.losses.softmax_cross_entropy(scores(params, x), y).mean(), linear(),
                       optax.sgd(0.1), steps=1, y=np.eye(3, dtype=np.float32)[Y])  # fmt: skip
    assert values(one_hot, "label:softmax_cross_entropy[1]") == [float((Y == 1).sum())]
    either = recorded(lambda params, x, y: optax.sigmoid_binary_cross_entropy(scores(params, x)[:, 0], y).mean(),
                      linear(1), optax.sgd(0.1), steps=1, y=Y.astype(np.float32))  # fmt: skip
    assert values(either, "label:sigmoid_binary_cross_entropy[1]") == [float((Y == 1).sum())]


def test_labels_to_be_ignored_and_soft_ones_count_for_nothing() -> None:
    ignored = np.where(np.arange(32) < 30, -1, Y)
    run = recorded(mean_of_integers, linear(), optax.sgd(0.1), steps=1, y=ignored)
    assert sum(values(run, str(key))[0] for key in run.keys(kind="label")) == 2.0
    soft = recorded(lambda params, x, y: optax.sigmoid_binary_cross_entropy(scores(params, x)[:, 0], y).mean(),
                    linear(1), optax.sgd(0.1), steps=1, y=np.full(32, 0.3, np.float32))  # fmt: skip
    assert not list(soft.keys(kind="label"))


def test_the_targets_of_a_loss_of_distances_are_recorded() -> None:
    targets = np.linspace(0, 1, 32, dtype=np.float32)
    run = recorded(lambda params, x, y: optax.l2_loss(scores(params, x)[:, 0], y).mean(), linear(1), optax.sgd(0.1),
                   steps=1, y=targets)  # fmt: skip
    assert float(run.series("target:l2_loss", "mean").values[0]) == pytest.approx(0.5)
    assert [key.path for key in run.keys(kind="loss")] == ["l2_loss", "total"]


_WARMED = optax.warmup_cosine_decay_schedule(0.0, 1e-2, 10, 100)


@pytest.mark.parametrize(("tx", "rate", "momentum"), [
    (optax.sgd(0.1), 0.1, 0.0),
    (optax.sgd(0.1, momentum=0.9), 0.1, 0.9),
    (optax.adam(1e-3), 1e-3, 0.9),
    (optax.adamw(2e-3, b1=0.8), 2e-3, 0.8),
    (optax.chain(optax.clip_by_global_norm(1.0), optax.lion(1e-4)), 1e-4, 0.9),
    (optax.rmsprop(1e-4, momentum=0.5), 1e-4, 0.5),
    (optax.chain(optax.scale(1 / 16), optax.scale_by_adam(), optax.scale(-3e-4)), 3e-4, 0.9),
    (optax.chain(optax.scale_by_adam(), optax.scale_by_schedule(_WARMED), optax.scale(-1.0)), 0.0, 0.9),
    (optax.adafactor(1e-3), None, None),
    (optax.multi_transform({"a": optax.adam(1e-3), "b": optax.sgd(0.5)}, {"w": "a"}), None, 0.9),
    (optax.set_to_zero(), None, None),
])  # fmt: skip
def test_the_learning_rate_is_read_as_the_optimizer_was_made(tx: Any, rate: float | None, momentum: Any) -> None:
    known = hyperparameters(tx.update, tx.init({"w": jnp.ones(3)}))
    assert known.rate is None if rate is None else float(known.rate) == pytest.approx(rate)
    assert known.momentum == momentum


def test_a_schedule_within_the_optimizer_is_told_step_by_step() -> None:
    run = recorded(mean_of_integers, linear(), optax.adam(optax.linear_schedule(0.1, 0.0, 10)))
    assert values(run, "learning_rate:group0") == pytest.approx([0.1, 0.09, 0.08])
    assert values(run, "fact:momentum[group0]") == pytest.approx([0.9] * 3)


def cut(params: Any, x: Any, y: Any) -> Any:
    hidden = jax.nn.relu(x @ params["hidden"]["kernel"] + params["hidden"]["bias"])
    answers = jax.lax.stop_gradient(hidden) @ params["out"]["kernel"]
    return optax.softmax_cross_entropy_with_integer_labels(answers, y).mean()


def test_parameters_that_the_loss_does_not_depend_on_are_told() -> None:
    run = recorded(cut, trainings.weights(), optax.adam(1e-3), steps=2)
    assert values(run, "fact:parameters") == [3.0, 3.0]
    assert values(run, "fact:unreached") == [2.0, 2.0]
    assert values(run, "fact:unreached[hidden.kernel]") == [1.0, 1.0]
    assert values(run, "fact:frozen") == [0.0, 0.0]


def test_parameters_that_the_optimizer_holds_are_frozen_and_have_no_gradient() -> None:
    groups = {"hidden": {"kernel": "held", "bias": "held"}, "out": {"kernel": "learns"}}
    tx = optax.multi_transform({"held": optax.set_to_zero(), "learns": optax.adam(1e-3)}, groups)
    run = recorded(trainings.loss_of, trainings.weights(), tx, steps=2)
    assert values(run, "fact:frozen") == [2.0, 2.0]
    assert values(run, "fact:unreached") == [0.0, 0.0]
    assert [key.path for key in run.keys(kind="gradient")] == ["out.kernel"]


def test_plain_functions_have_the_outputs_of_their_layers() -> None:
    def loss_of(params: Any, x: Any, y: Any) -> Any:
        hidden = jnp.tanh(x @ params["hidden"]["kernel"] + params["hidden"]["bias"])
        return optax.softmax_cross_entropy_with_integer_labels(hidden @ params["out"]["kernel"], y).mean()

    run = recorded(loss_of, trainings.weights(), optax.sgd(0.1), steps=1)
    assert [key.path for key in run.keys(kind="output")] == ["hidden", "out"]
    hidden = X @ np.asarray(trainings.weights()["hidden"]["kernel"])
    assert float(run.series("output:hidden", "l2").values[0]) == pytest.approx(float(np.linalg.norm(hidden)), rel=1e-4)


def closed(function: Any, *args: Any) -> Any:
    return jax.jit(function).trace(*args).jaxpr


@pytest.mark.parametrize(("function", "given", "expected"), [
    (lambda x: jnp.mean(0.0 * jnp.log(1 - jax.nn.sigmoid(x))), 40.0, "log"),
    (lambda x: jnp.mean(jnp.exp(x) - jnp.exp(x)), 1000.0, "exp"),
    (lambda x: jnp.mean(x / jnp.sum(x - x)), 1.0, "div"),
    (lambda x: jnp.mean(jnp.where(x > 50, 0.0, jnp.log(x - 40.0))), 60.0, ""),
    (lambda x: jnp.mean(jax.nn.softmax(jnp.where(jnp.arange(4) < 2, x, -jnp.inf))), 1.0, ""),
    (lambda x: jnp.mean(jnp.log(x)), math.nan, ""),
    (lambda x: jnp.mean(jnp.log(x)), -1.0, "log_of_negative"),
    (lambda x: jnp.mean(jnp.sqrt(x)), -1.0, "sqrt_of_negative"),
    (lambda x: jnp.mean(jnp.log(x)), 0.0, "log"),
])  # fmt: skip
def test_the_operation_that_made_the_loss_not_finite_is_named(function: Any, given: float, expected: str) -> None:
    x = jnp.full(4, given)
    assert bad_operation(closed(function, x), [x]) == expected


def test_a_loss_that_a_logarithm_made_not_finite_says_so() -> None:
    def likelihood(params: Any, x: Any, y: Any) -> Any:
        chance = jax.nn.sigmoid(1000 * scores(params, x)[:, 0])
        return -jnp.mean(y * jnp.log(chance) + (1 - y) * jnp.log(1 - chance))

    run = recorded(likelihood, linear(1), optax.sgd(0.1), steps=2, loss=lambda found: float(found[2]))
    assert values(run, "fact:bad_operation[log]") == [1.0]


def slowly(loss: Any) -> Any:
    """Return a loss that is long in coming, by what adds nothing to it."""
    long = jnp.full((500, 500), 1e-3)
    for _ in range(10):
        long = jnp.tanh(long @ long)
    return loss + 0 * jax.lax.stop_gradient(long.sum())


def bad_likelihood(params: Any, x: Any, y: Any) -> Any:
    chance = jax.nn.sigmoid(1000 * scores(params, x)[:, 0])
    return slowly(-jnp.mean(y * jnp.log(chance) + (1 - y) * jnp.log(1 - chance)))


def test_the_operation_is_named_where_the_loss_comes_after_the_call_returns() -> None:
    run = recorded(bad_likelihood, linear(1), optax.sgd(0.1), steps=3)

    assert run.series("fact:bad_operation[log]").steps.tolist() == [0]


@pytest.mark.parametrize(("change", "expected"), [("nothing", True), ("memory given away", False),
                                                    ("too large", False)])
def test_what_a_step_was_given_is_kept_until_its_loss_is_there_where_that_may_be(
    change: str, expected: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if change == "too large":
        monkeypatch.setattr("barograph.capture.jax.blame._MOST_KEPT_BYTES", 10)
    kept: list[int] = []
    monkeypatch.setattr("barograph.capture.jax.blame.Blame._look_late", lambda *args: kept.append(1))
    params = linear(1)

    def step(params: Any, x: Any, y: Any) -> Any:
        return params, bad_likelihood(params, x, y)

    compiled = jax.jit(step, donate_argnums=(0,) if change == "memory given away" else ())
    with barograph.attach(to=f"memory://jax-facts/{next(_RUNS)}", watch=False, strict=True, budget=None):
        # Steps that are made twice, to be compared, are waited for.
        observed = barograph.jax.observe(compiled, steps=1, together=False)
        for _ in range(3):
            params, _loss = observed(params, X, Y)
    assert bool(kept) is expected


def test_after_a_run_the_losses_of_optax_are_its_own_again() -> None:
    before = optax.l2_loss, optax.losses.softmax_cross_entropy
    recorded(mean_of_integers, linear(), optax.sgd(0.1), steps=1)
    assert before == (optax.l2_loss, optax.losses.softmax_cross_entropy)
