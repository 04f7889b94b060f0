"""The automatic probe of JAX: samples of the evaluation functions that a script observes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

jax = pytest.importorskip("jax", reason="jax is not installed")
optax = pytest.importorskip("optax", reason="Optax is not installed")

import barograph  # noqa: E402
import barograph.jax  # noqa: E402
from barograph.inside import frames, saliency, saliency_samples  # noqa: E402

jnp = jax.numpy
X, Y = np.random.default_rng(0).normal(size=(20, 4)).astype("float32"), np.arange(20) % 3
W = {"kernel": np.random.default_rng(1).normal(size=(4, 3)).astype("float32"), "bias": np.zeros(3, "float32")}


def loss_of(weights: Any, x: Any, y: Any) -> Any:
    scores = x @ weights["kernel"] + weights["bias"]
    return optax.softmax_cross_entropy_with_integer_labels(scores, y).mean()


@jax.jit  # type: ignore[untyped-decorator]
def step(weights: Any, x: Any, y: Any) -> Any:
    value, gradient = jax.value_and_grad(loss_of)(weights, x, y)
    return jax.tree.map(lambda weight, change: weight - 0.1 * change, weights, gradient), value


def trained(
    place: str, evaluate: Callable[..., Any], *, batch: int = 8, shuffled: bool = False, **settings: Any
) -> Any:
    """Make two steps, with an evaluation after each; the second one visits other samples first if `shuffled`."""
    weights = jax.tree.map(jnp.asarray, W)
    observed, evaluated = barograph.jax.observe(step), barograph.jax.observe(evaluate, evaluation=True)
    with barograph.attach(to=place, watch=False, **settings):
        for number in range(2):
            weights, _ = observed(weights, X, Y)
            order = np.random.default_rng(2).permutation(20) if number and shuffled else np.arange(20)
            for start in range(0, 20, batch):
                rows = order[start:start + batch]
                evaluated(weights, X[rows], Y[rows])
    return jax.tree.map(np.asarray, weights)


def reasons(place: str) -> str:
    last = barograph.open(place).workers[0].last
    assert last is not None
    return " ".join(last.coverage.reasons)


def numbers(values: Any) -> list[Any]:
    return np.asarray(values).tolist()  # type: ignore[no-any-return]


def test_the_samples_of_an_evaluation_are_found_and_found_again_in_another_order() -> None:
    place = "memory://probe-jax-auto"
    weights = trained(place, jax.jit(loss_of), shuffled=True, probe=10)

    first, last = frames(place)
    scores = X[:10] @ weights["kernel"] + weights["bias"]
    assert numbers(first.samples) == numbers(last.samples)
    assert numbers(first.targets) == numbers(last.targets) == Y[:10].tolist()
    assert numbers(last.predictions) == scores.argmax(1).tolist()
    np.testing.assert_allclose(np.asarray(last.outputs), scores, rtol=2e-3, atol=2e-3)
    logs = scores - np.log(np.exp(scores).sum(1, keepdims=True))
    np.testing.assert_allclose(np.asarray(last.losses), -logs[np.arange(10), Y[:10]], rtol=1e-3)


def test_maps_are_those_of_the_formula() -> None:
    place = "memory://probe-jax-auto-maps"
    weights = trained(place, jax.jit(loss_of), probe={"samples": 6, "saliency": 2})

    scores = X[1] @ weights["kernel"] + weights["bias"]
    found = saliency(place, saliency_samples(place)[1], method="gradient-input").maps[-1]
    np.testing.assert_allclose(np.asarray(found.values).reshape(-1), X[1] * weights["kernel"][:, scores.argmax()],
                               rtol=1e-2)


def test_inputs_of_half_precision_have_maps_without_a_warning() -> None:
    place = "memory://probe-jax-auto-half"

    @jax.jit  # type: ignore[untyped-decorator]
    def of_half(weights: Any, x: Any, y: Any) -> Any:
        return loss_of(weights, x.astype(jnp.float32), y)

    weights = jax.tree.map(jnp.asarray, W)
    observed, evaluated = barograph.jax.observe(step), barograph.jax.observe(of_half, evaluation=True)
    with barograph.attach(to=place, watch=False, probe={"samples": 6, "saliency": 2}):
        weights, _ = observed(weights, X, Y)
        evaluated(weights, jnp.asarray(X[:8], jnp.bfloat16), Y[:8])

    assert len(saliency(place, saliency_samples(place)[1], method="gradient-input").maps) == 1


def test_the_training_is_the_same_to_the_last_bit() -> None:
    place, bare = "memory://probe-jax-auto-bits", jax.tree.map(jnp.asarray, W)
    for _ in range(2):
        bare, _ = step(bare, X, Y)
    weights = trained(place, jax.jit(loss_of), probe=10)

    assert len(frames(place)) == 2
    assert all(np.asarray(bare[name]).tobytes() == weights[name].tobytes() for name in W)


def test_a_batch_as_a_dictionary_and_a_loss_for_each_sample_are_understood() -> None:
    place = "memory://probe-jax-auto-batch"

    @jax.jit  # type: ignore[untyped-decorator]
    def evaluate(weights: Any, x: Any, y: Any) -> Any:
        def one(sample: Any) -> Any:
            scores = sample["x"] @ weights["kernel"]
            return optax.softmax_cross_entropy(scores, jax.nn.one_hot(sample["y"], 3))
        return jax.vmap(one)({"x": x, "y": y}).mean()

    trained(place, evaluate, batch=4, probe=20)  # the batch is as long as the samples are

    assert [numbers(frame.targets) for frame in frames(place)] == [Y.tolist()] * 2
    assert reasons(place).count("probe") == 0


def test_layers_of_flax_are_stored_by_name() -> None:
    linen = pytest.importorskip("flax.linen", reason="Flax is not installed")

    class Net(linen.Module):  # type: ignore[misc, name-defined]
        @linen.compact  # type: ignore[untyped-decorator]
        def __call__(self, x: Any) -> Any:
            return linen.Dense(3, name="last")(linen.relu(linen.Dense(5, name="first")(x)))

    net = Net()
    variables = net.init(jax.random.key(0), X)
    evaluate = barograph.jax.observe(jax.jit(lambda params, x, y: optax.softmax_cross_entropy_with_integer_labels(
        net.apply(params, x), y).mean()), evaluation=True)
    for layer, shown, width in (("", "first", 5), ("last", "last", 3)):
        place = f"memory://probe-jax-flax{layer}"
        with barograph.attach(to=place, watch=False, probe={"samples": 6, "layer": layer}):
            evaluate(variables, X, Y)
        [frame] = frames(place)
        assert (frame.layer, np.asarray(frame.outputs).shape) == (f"output of {shown}", (6, width))


def test_a_call_of_probe_replaces_the_automatic_one() -> None:
    place = "memory://probe-jax-both"
    evaluate = barograph.jax.observe(jax.jit(loss_of), evaluation=True)
    with barograph.attach(to=place, watch=False, probe=10):
        evaluate(W, X, Y)
        barograph.jax.probe(lambda x: (x @ W["kernel"], x), X[:5], Y[:5])

    assert [(frame.layer, len(frame.samples)) for frame in frames(place)] == [("features", 5)]


@pytest.mark.parametrize(("evaluate", "reason"), [
    (lambda weights, x, y: (x @ weights["kernel"]).sum(), "calls no Optax loss"),
    (lambda weights, x, y: jax.lax.map(lambda row: optax.l2_loss(row, row), x).sum(), "in a loop"),
])
def test_a_function_without_scores_of_its_samples_is_named(evaluate: Any, reason: str) -> None:
    place = f"memory://probe-jax-none-{reason[:2]}"
    trained(place, jax.jit(evaluate), probe=10)

    assert frames(place) == []
    assert reason in reasons(place)
