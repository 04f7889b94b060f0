"""What an update is in JAX: what the weights have changed by; and how gradients are read as they lie in memory."""

from __future__ import annotations

import itertools
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
from barograph.capture.jax import foreign  # noqa: E402
from jax_training import X, Y  # noqa: E402

pytestmark = pytest.mark.usefixtures("unoptimized")

_RUNS = itertools.count()

Seen = list[tuple[Any, Any]]


def recorded(train: Callable[[], Any], preset: str = "everything", **settings: Any) -> tuple[Any, Any]:
    url = f"memory://jax-changes/{next(_RUNS)}"
    with barograph.attach(to=url, watch=False, strict=True, budget=None, preset=preset, **settings):
        found = train()
    return found, barograph.open(url)


@pytest.fixture(params=["by the native loop", "by the compiler"], autouse=True)
def _by(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if request.param == "by the compiler":
        monkeypatch.setattr(foreign, "is_there", lambda: False)
    elif not foreign.is_on_host():
        pytest.skip("programs for a GPU call no native loop")


def _norm(after: Any, before: Any) -> float:
    return float(np.linalg.norm((np.asarray(after, np.float64) - np.asarray(before, np.float64)).ravel()))


def _train(step: Any, tx: Any, params: Any, times: int) -> None:
    state, observed = tx.init(params), barograph.jax.observe(step)
    for _ in range(times):
        params, state, _ = observed(params, state, jnp.ones((4, 8)))


@pytest.mark.parametrize("together", [True, False])
@pytest.mark.parametrize("donate", [(), (0, 1)], ids=["kept", "given away"])
def test_an_update_is_what_the_weights_change_by(donate: tuple[int, ...], together: bool) -> None:
    tx = optax.adam(1e-2)

    def train() -> list[Any]:
        params = trainings.weights()
        state = tx.init(params)
        step = barograph.jax.observe(jax.jit(trainings.step_with(tx), donate_argnums=donate), together=together)
        kernels = [np.array(params["hidden"]["kernel"])]
        for _ in range(5):
            params, state, _ = step(params, state, X, Y)
            kernels.append(np.array(params["hidden"]["kernel"]))
        return kernels

    kernels, run = recorded(train)
    updates = run.series("update:hidden.kernel", "l2")
    assert updates.steps.tolist() == list(range(5))
    assert updates.values == pytest.approx([_norm(*pair) for pair in itertools.pairwise(kernels)], rel=1e-6)
    assert run.series("update:hidden.kernel", "count").values.tolist() == [128] * 5
    assert run.series("weight:hidden.kernel", "l2").values == pytest.approx(
        [float(np.linalg.norm(kernel)) for kernel in kernels[1:]], rel=1e-6)


def test_what_is_rounded_away_is_no_update() -> None:
    """In bfloat16 neighbours of 1 are 1/256 and 1/128 away: a smaller step leaves a weight where it is."""
    tx = optax.sgd(1e-4)

    @jax.jit
    def step(params: Any, state: Any, x: Any) -> Any:
        gradients = jax.grad(lambda w: (x @ w).astype(jnp.float32).sum())(params)
        updates, state = tx.update(gradients, state, params)
        return optax.apply_updates(updates=updates, params=params), state, jnp.float32(0)

    def train() -> Any:
        params, observed = jnp.ones(8, jnp.bfloat16), barograph.jax.observe(step, together=False)
        state = tx.init(params)
        for _ in range(3):
            params, state, _ = observed(params, state, jnp.ones((4, 8), jnp.bfloat16))
        return params

    params, run = recorded(train)
    assert np.asarray(params, np.float32).tolist() == [1] * 8
    assert run.series("gradient:parameter", "l2").values.tolist() == pytest.approx([4 * 8**0.5] * 3)
    assert run.series("update:parameter", "zeros").values.tolist() == [8] * 3


def test_without_weights_to_see_an_update_is_what_optax_returns() -> None:
    tx = optax.sgd(0.5)

    @jax.jit
    def step(params: Any, state: Any, x: Any) -> Any:
        loss, gradients = jax.value_and_grad(lambda w: (x @ w).sum())(params)
        updates, state = tx.update(gradients, state, params)
        return params + 2 * updates, state, loss

    _, run = recorded(lambda: _train(step, tx, jnp.ones(8), 2))
    assert run.series("update:parameter", "min").values.tolist() == [-2, -2]
    assert not list(run.keys(kind="weight"))


@pytest.mark.parametrize("named", [True, False])
def test_updates_are_counted_once_where_only_a_part_of_the_weights_is_updated(named: bool) -> None:
    tx = optax.sgd(0.5)

    @jax.jit
    def step(params: Any, state: Any, x: Any) -> Any:
        loss, gradients = jax.value_and_grad(lambda tree: (x @ (tree["a"] + tree["b"])).sum())(params)
        updates, state = tx.update(gradients, state, params)
        if named:
            changed = optax.apply_updates({"a": params["a"]}, {"a": updates["a"]})["a"]
        else:
            changed = optax.apply_updates(params["a"], updates["a"])
        return {**params, "a": changed}, state, loss

    _, run = recorded(lambda: _train(step, tx, {"a": jnp.ones(8), "b": jnp.ones(8)}, 2))
    assert {key.path for key in run.keys(kind="update")} == {"a", "b"}
    assert {key.path for key in run.keys(kind="weight")} == {"a" if named else "parameter"}
    assert run.series("update:a", "count").values.tolist() == [8, 8]
    assert run.series("update:b", "min").values.tolist() == [-2, -2]


def test_each_turn_of_a_scan_has_its_update() -> None:
    tx = optax.adam(1e-2)
    one = trainings.step_with(tx)

    def turn(carry: Any, batch: Any) -> tuple[Any, Any]:
        params, state, loss = one(*carry, *batch)
        return (params, state), (loss, params["out"]["kernel"])

    def train() -> list[Any]:
        step = barograph.jax.observe(jax.jit(lambda carry, batches: jax.lax.scan(turn, carry, batches)))
        params = trainings.weights()
        carry, kernels = (params, tx.init(params)), [np.asarray(params["out"]["kernel"])]
        for _ in range(2):
            carry, (_, found) = step(carry, (np.stack([X] * 4), np.stack([Y] * 4)))
            kernels += list(np.asarray(found))
        return kernels

    kernels, run = recorded(train)
    found = run.series("update:out.kernel", "l2")
    assert found.steps.tolist() == list(range(8))
    assert found.values == pytest.approx([_norm(*pair) for pair in itertools.pairwise(kernels)], rel=1e-4)


def _averaging(update: Any, params: Any, average: Any, x: Any) -> tuple[Any, Any]:
    params = optax.apply_updates(params, update(params, x))
    return params, optax.apply_updates(average, jax.tree.map(lambda a, b: 0.1 * (a - b), params, average))


def _trying(update: Any, params: Any, average: Any, x: Any) -> tuple[Any, Any]:
    tried = optax.apply_updates(params, jax.tree.map(lambda w: 100 * w, params))
    return optax.apply_updates(params, update(tried, x)), average


def _two_of_one_name(update: Any, params: Any, average: Any, x: Any) -> tuple[Any, Any]:
    return optax.apply_updates(params, update(params, x)), jax.tree.map(jnp.add, average, update(average, x))


def _in_a_branch(update: Any, params: Any, average: Any, x: Any) -> tuple[Any, Any]:
    updates = update(params, x)
    return jax.lax.cond(x.sum() > 1e9, lambda: optax.apply_updates(params, updates), lambda: params), average


def _in_a_loop(update: Any, params: Any, average: Any, x: Any) -> tuple[Any, Any]:
    updates = update(params, x)
    return jax.lax.fori_loop(0, jnp.int32(x.sum() > 0), lambda _, w: optax.apply_updates(w, updates),
                             params), average


@pytest.mark.parametrize(("way", "times"), [(_averaging, 1), (_trying, 1), (_two_of_one_name, 2), (_in_a_branch, 1),
                                            (_in_a_loop, 1)])
def test_where_it_is_not_known_which_weights_are_an_updates_it_is_what_optax_returned(
    way: Callable[..., tuple[Any, Any]], times: int
) -> None:  # fmt: skip
    tx = optax.sgd(0.5)

    def update(params: Any, x: Any) -> Any:
        return tx.update(jax.grad(lambda w: (x @ w).sum())(params), tx.init(params), params)[0]

    @jax.jit
    def step(params: Any, average: Any, x: Any) -> tuple[Any, Any, Any]:
        return *way(update, params, average, x), x.sum()

    def train() -> None:
        params, average, observed = jnp.ones(8), jnp.ones(8) * 5, barograph.jax.observe(step)
        for _ in range(2):
            params, average, _ = observed(params, average, jnp.ones((4, 8)))

    _, run = recorded(train)
    assert run.series("update:parameter", "count").values.tolist() == [8 * times] * 2
    for figure in ("min", "max"):
        assert run.series("update:parameter", figure).values.tolist() == [-2, -2]


def test_between_steps_that_gather_gradients_weights_have_no_update() -> None:
    tx = optax.MultiSteps(optax.sgd(0.5), 2)

    @jax.jit
    def step(params: Any, state: Any, x: Any) -> tuple[Any, Any, Any]:
        loss, gradients = jax.value_and_grad(lambda w: (x @ w).sum())(params)
        updates, state = tx.update(gradients, state, params)
        return optax.apply_updates(params, updates), state, loss

    _, run = recorded(lambda: _train(step, tx, jnp.ones(8), 4))
    assert run.series("update:parameter", "min").values.tolist() == [0, -2, 0, -2]


@pytest.mark.parametrize("axis", [0, 1, None])
def test_models_side_by_side_under_vmap_have_their_updates(axis: int | None) -> None:
    tx = optax.sgd(1.0)

    def one(params: Any, x: Any) -> tuple[Any, Any]:
        loss, gradients = jax.value_and_grad(lambda w: (x @ w).sum())(params)
        updates, _ = tx.update(gradients, tx.init(params), params)
        return optax.apply_updates(params, updates), loss

    @jax.jit
    def step(params: Any, xs: Any) -> tuple[Any, Any]:
        many, losses = jax.vmap(one, in_axes=(axis, 0))(params, xs)
        return many, losses.mean()

    params = {0: np.ones((3, 8)), 1: np.ones((8, 3)), None: np.ones(8)}[axis].astype(np.float32)
    _, run = recorded(lambda: barograph.jax.observe(step)(params, np.ones((3, 4, 8), np.float32)))
    assert run.series("update:parameter", "count").values.tolist() == [24]
    assert run.series("update:parameter", "max").values.tolist() == [-4]


_IMAGES = np.random.default_rng(1).normal(size=(4, 6, 6, 3)).astype(np.float32)
_KERNELS = {"conv": np.random.default_rng(2).normal(size=(3, 3, 3, 5)).astype(np.float32),
            "heads": np.random.default_rng(3).normal(size=(5, 2, 4)).astype(np.float32),
            "out": np.random.default_rng(4).normal(size=(4, 6)).astype(np.float32)}


def _convolving(params: Any, x: Any) -> Any:
    h = jax.lax.conv_general_dilated(x, params["conv"], (1, 1), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC"))
    heads = jnp.einsum("bijc,chd->bijhd", jax.nn.relu(h), params["heads"])
    return ((heads @ params["out"]) ** 2).mean()


@jax.jit
def _step(params: Any, x: Any) -> tuple[Any, Any]:
    loss, gradients = jax.value_and_grad(_convolving)(params, x)
    gradients = barograph.jax.gradients(gradients)
    return jax.tree.map(lambda w, g: w - 0.01 * g, params, gradients), loss


@pytest.mark.parametrize("settings", [{}, {"collections": (
    barograph.Selection("raw", kinds=frozenset({barograph.Kind.GRADIENT}), raw=True),)}], ids=["told", "whole"])
def test_gradients_of_kernels_have_their_figures_however_they_lie_in_memory(settings: Any) -> None:
    _, run = recorded(lambda: barograph.jax.observe(_step)(_KERNELS, _IMAGES), **settings)
    for name, gradient in jax.grad(_convolving)(_KERNELS, _IMAGES).items():
        values = np.asarray(gradient, np.float64)
        expected = {"count": values.size, "min": values.min(), "max": values.max(), "zeros": 0,
                    "l2": np.linalg.norm(values.ravel()), "mean": values.mean()}
        found = {figure: run.series(f"gradient:{name}", figure).values[0] for figure in expected}
        assert found == pytest.approx(expected, rel=1e-4, abs=1e-6)
        if settings:
            assert run.tensor(f"gradient:{name}", step=0) == pytest.approx(values, rel=1e-4, abs=1e-6)


def test_gradients_of_kernels_are_read_as_they_lie(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: dict[int, tuple[tuple[int, ...], tuple[int, ...]]] = {}
    summarize = foreign.summarize

    def noted(array: Any, *args: Any, order: tuple[int, ...] = (), **kwargs: Any) -> Any:
        asked[array.size] = array.shape, order
        return summarize(array, *args, order=order, **kwargs)

    monkeypatch.setattr(foreign, "summarize", noted)
    only = barograph.Selection("mine", kinds=frozenset({barograph.Kind.GRADIENT}))
    recorded(lambda: barograph.jax.observe(_step)(_KERNELS, _IMAGES), preset="free", collections=(only,))
    if not foreign.is_there():
        assert not asked
        return
    of_images = (2, 0, 1, 3)  # in place of samples, the channels that come in
    assert asked[135] == ((3, 3, 3, 5), of_images)
    assert sorted(asked[40][0]) == [2, 4, 5]
    assert asked[40] != ((5, 2, 4), ())
    assert asked[24] == ((4, 6), ())
