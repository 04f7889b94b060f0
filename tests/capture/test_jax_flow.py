"""A step that tells of its tensors comes to the same bits: what is read leaves its own where the compiler puts them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

jax = pytest.importorskip("jax", reason="JAX is not installed")

import jax.numpy as jnp  # noqa: E402

from barograph.capture.jax import foreign  # noqa: E402
from barograph.capture.jax import harvest as harvesting  # noqa: E402
from barograph.capture.jax.flow import Flow  # noqa: E402
from barograph.capture.jax.harvest import Basket, harvest  # noqa: E402
from barograph.capture.jax.marks import Mark, mark  # noqa: E402
from barograph.capture.plan import Taking  # noqa: E402
from barograph.model.key import Kind  # noqa: E402

WHAT = Mark(Kind.OUTPUT, "layer")
GRADIENT = Mark(Kind.GRADIENT, "kernel")

_numbers = np.random.default_rng(0)
X = _numbers.normal(size=(8, 15, 64)).astype(np.float32)
W = _numbers.normal(size=(64, 64)).astype(np.float32)
SMALL, HEADS = (_numbers.normal(size=shape).astype(np.float32) for shape in ((4, 3, 2, 4), (2, 4, 2)))
IMAGES, KERNEL = (_numbers.normal(size=shape).astype(np.float32) for shape in ((8, 9, 9, 3), (3, 3, 3, 16)))


def _normalised(h: Any) -> Any:
    return (h - h.mean(-1, keepdims=True)) * jax.lax.rsqrt(h.var(-1, keepdims=True) + 1e-3)


def mean_of_a_normalisation(x: Any, w: Any) -> Any:
    return mark(_normalised(x @ w), WHAT).mean(1)


def mean_of_a_sum(x: Any, w: Any) -> Any:
    h = mark(jax.nn.silu(x @ w), Mark(Kind.OUTPUT, "within"))
    return mark(mark(h + x, WHAT), Mark(Kind.INPUT, "next")).mean(1)


def mean_of_what_is_masked(x: Any, w: Any) -> Any:
    mask = (x[..., :1] > 0).astype(x.dtype)
    return (mark(_normalised(x @ w), WHAT) * mask).sum(1) / mask.sum(1)


def mean_of_what_is_turned_round(x: Any, w: Any) -> Any:
    return jnp.swapaxes(mark(_normalised(x @ w), WHAT), 1, 2).mean(2)


def sum_of_squares(x: Any, w: Any) -> Any:
    return jnp.square(mark(x @ w * 1.7 + x, WHAT)).sum(1)


def mean_of_what_is_called(x: Any, w: Any) -> Any:
    return mark(jax.jit(lambda h, by: jax.nn.silu(h) * by)(x @ w, 2.0), WHAT).mean(1)


def marked_in_a_call(x: Any, w: Any) -> Any:
    return jax.jit(lambda h, by: mark(h * by, WHAT).mean(1))(x @ w, 2.0)


def block(x: Any, w: Any) -> Any:
    """A layer whose matrices have two axes, and its tensors three: the compiler lays them out for what uses them."""
    h = _normalised(x)
    return (h + mark(jax.nn.gelu(h @ w, approximate=False), WHAT)).mean(1)


def learnt_block(x: Any, w: Any) -> Any:
    return jax.grad(lambda w: jnp.square(block(x, w)).mean())(w)


def _clipped(gradient: Any) -> Any:
    marked = mark(gradient, GRADIENT)
    return marked / jnp.maximum(jnp.sqrt(jnp.square(marked).sum()), 1e-6)


def clipped_heads(x: Any, w: Any) -> Any:
    return _clipped(jax.grad(lambda w: jnp.square(jnp.einsum("abcd,cde->abe", x, w)).mean())(w))


def _of_kernel(images: Any, kernel: Any) -> Any:
    def loss(kernel: Any) -> Any:
        found = jax.lax.conv_general_dilated(images, kernel, (1, 1), "SAME",
                                             dimension_numbers=("NHWC", "HWIO", "NHWC"))
        return jnp.square(jax.nn.relu(found)).mean()

    return jax.grad(loss)(kernel)


def clipped_convolution(images: Any, kernel: Any) -> Any:
    return _clipped(_of_kernel(images, kernel))


def clipped_scales_of_groups(x: Any, scales: Any) -> Any:
    groups = x.reshape(*x.shape[:-1], 2, -1)
    return _clipped(jax.grad(lambda scales: jnp.square(groups * scales.reshape(2, -1)).mean())(scales))


def clipped_outside_of_a_call(images: Any, kernel: Any) -> Any:
    gradient = jax.jit(lambda images, kernel: mark(_of_kernel(images, kernel), GRADIENT))(images, kernel)
    return gradient / jnp.maximum(jnp.sqrt(jnp.square(gradient).sum()), 1e-6)


GIVEN: dict[Callable[..., Any], tuple[Any, ...]] = {
    mean_of_a_normalisation: (X, W), mean_of_a_sum: (X, W), block: (X, W), learnt_block: (X, W),
    mean_of_what_is_masked: (X, W), mean_of_what_is_turned_round: (X, W), sum_of_squares: (X, W),
    mean_of_what_is_called: (X, W), marked_in_a_call: (X, W),
    clipped_heads: (SMALL, HEADS), clipped_convolution: (IMAGES, KERNEL),
    clipped_outside_of_a_call: (IMAGES, KERNEL), clipped_scales_of_groups: (X[..., :16], W[0, :16]),
}


def harvested(function: Callable[..., Any], *args: Any, taking: Taking) -> tuple[Any, list[Any]]:
    """Return what a function returns that is made anew, and what was gathered."""
    assert foreign.is_there()  # registers the native loop
    closed = jax.make_jaxpr(function)(*args)

    def run(*args: Any) -> tuple[Any, list[Any]]:
        basket = Basket(lambda mark: taking, True, True)
        found = harvest(closed.jaxpr, closed.consts, args, basket)
        return found[0], basket.values

    made: tuple[Any, list[Any]] = jax.jit(run)(*args)
    return made


@pytest.fixture
def _on_host() -> None:
    if not foreign.is_on_host():
        pytest.skip("where a compiler puts its tensors is known of that for a CPU alone")


@pytest.mark.usefixtures("_on_host")
@pytest.mark.parametrize("units", [False, True], ids=["whole", "units"])
@pytest.mark.parametrize("function", GIVEN, ids=lambda function: function.__name__)
def test_what_is_computed_comes_to_the_same_bits(function: Callable[..., Any], units: bool) -> None:
    if not foreign.is_there():
        pytest.skip("the native loop is not built")
    if function in (mean_of_a_sum, mean_of_what_is_called) and jax.__version_info__ >= (0, 11):
        pytest.skip("the compiler of JAX 0.11 sums these in another way: docs/reference/jax.md says so")
    found, told = harvested(function, *GIVEN[function], taking=Taking(units=units))
    assert told
    assert np.asarray(found).tobytes() == np.asarray(jax.jit(function)(*GIVEN[function])).tobytes()


@pytest.mark.parametrize(("used", "feels"), [
    (lambda kernel, gradient: kernel - gradient * 0.1, False),
    (lambda kernel, gradient: kernel + (gradient - kernel) * 0.1, False),
    (lambda kernel, gradient: kernel * 0.9 + gradient * 0.1, True),
    (lambda kernel, gradient: kernel * 0.9 + mark(gradient, GRADIENT) * 0.1, True),
    (lambda kernel, gradient: kernel / jnp.square(gradient).sum(), True),
    (lambda kernel, gradient: jax.jit(jnp.sin)(gradient), True),
], ids=["descent", "an average", "two products", "a product of what is marked", "a norm", "a call"])
def test_the_order_of_a_gradient_is_felt_by_sums_and_by_products_added(used: Callable[..., Any], feels: bool) -> None:
    jaxpr = jax.make_jaxpr(lambda images, kernel: used(kernel, _of_kernel(images, kernel)))(IMAGES, KERNEL).jaxpr
    *_, convolved = (eqn for eqn in jaxpr.eqns if eqn.primitive.name == "conv_general_dilated")
    assert Flow(jaxpr).feels_order(convolved.outvars[0]) is feels


@pytest.mark.parametrize("function", [mean_of_a_normalisation, mean_of_a_sum])
def test_what_is_read_before_a_sum_is_the_tensor(function: Callable[..., Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(foreign, "summarize", lambda array, *_, **__: {"moments": array})
    monkeypatch.setattr(harvesting, "joined", lambda told: {})
    _, (*_, read) = harvested(function, X, W, taking=Taking())
    whole = _normalised(X @ W) if function is mean_of_a_normalisation else jax.nn.silu(X @ W) + X
    np.testing.assert_allclose(read["moments"], whole, rtol=2e-5, atol=2e-5)


def test_what_lies_on_an_explicit_mesh_is_read_where_it_is() -> None:
    mesh = jax.make_mesh((1,), ("d",))
    with jax.sharding.set_mesh(mesh):
        given = jax.device_put(X[0], jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec(None, "d")))
        found, _ = harvested(lambda x: mark(jnp.tanh(x) * 2, WHAT).mean(0), given, taking=Taking())
    np.testing.assert_allclose(found, (np.tanh(X[0]) * 2).mean(0), rtol=1e-5, atol=1e-6)


def test_only_what_a_sum_alone_uses_is_made_once_more() -> None:
    def count(function: Callable[..., Any], taking: Taking | None = Taking()) -> int:  # noqa: B008 - it is frozen
        closed = jax.make_jaxpr(function)(X)
        basket = Basket(lambda mark: taking, True, True)
        made = jax.make_jaxpr(lambda *args: (harvest(closed.jaxpr, closed.consts, args, basket), basket.values))(X)
        return sum(eqn.primitive.name == "tanh" for eqn in made.jaxpr.eqns)

    assert count(lambda x: mark(jnp.tanh(x), WHAT).sum(1)) == 2
    assert count(lambda x: mark(jnp.tanh(x), WHAT).max(1)) == 2
    assert count(lambda x: mark(jnp.tanh(x), WHAT) + 1.0) == 1
    assert count(lambda x: mark(jnp.tanh(x), WHAT)) == 1
    assert count(lambda x: mark(jnp.tanh(x), WHAT).sum(1), None) == 1
    assert count(lambda x: mark(jnp.tanh(x), WHAT).sum(1), Taking(raw=True)) == 1

    def twice(x: Any) -> Any:
        h = mark(jnp.tanh(x), WHAT)
        return h.sum(1), h * 2.0

    assert count(twice) == 1


@pytest.mark.usefixtures("_on_host")
def test_a_deep_chain_before_a_sum_is_not_made_once_more_to_its_beginning() -> None:
    def deep(x: Any) -> Any:
        for _ in range(3000):
            x = x * 1.01
        return mark(x, WHAT).sum(1)

    found, _ = harvested(deep, X[:2, :2, :2], taking=Taking())
    np.testing.assert_array_equal(found, jax.jit(deep)(X[:2, :2, :2]))


def test_what_is_used_twice_on_the_way_to_a_sum_is_made_once_more_once() -> None:
    def shared(x: Any) -> Any:
        for _ in range(40):
            x = x * x
        return mark(x, WHAT).sum(1)

    closed = jax.make_jaxpr(shared)(X)
    basket = Basket(lambda mark: Taking(), True, True)
    made = jax.make_jaxpr(lambda *args: (harvest(closed.jaxpr, closed.consts, args, basket), basket.values))(X)
    assert len(made.jaxpr.eqns) < 100
