"""The first equation of a JAX step that made what is not finite of what was, and the line that it comes from."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

jax = pytest.importorskip("jax", reason="JAX is not installed")

import jax.numpy as jnp  # noqa: E402
from jax import lax  # noqa: E402

from barograph.capsule.jax.equations import Culprit, culprit  # noqa: E402


def blamed(function: Callable[..., Any], *args: Any, carried: frozenset[int] = frozenset()) -> Culprit | None:
    closed = jax.make_jaxpr(function)(*args)
    found = jax.tree.leaves(function(*args))
    bad = [number for number, value in enumerate(found) if not np.isfinite(value).all()]
    assert bad
    return culprit(closed.jaxpr, closed.consts, args, bad, carried=carried)


def line_with(text: str) -> str:
    lines = Path(__file__).read_text(encoding="utf-8").splitlines()
    return f"{__file__}:{lines.index(text) + 1}"


ONES = jnp.ones(4)
ZERO_AT_2 = ONES.at[2].set(0.0)


def takes_a_logarithm(x: Any) -> Any:
    doubled = x * 2
    logarithm = jnp.log(doubled)
    return jnp.sum(logarithm - 1)


def test_the_operation_is_named_with_its_line_and_its_tensors() -> None:
    found = blamed(takes_a_logarithm, ZERO_AT_2)
    assert found is not None
    assert (found.name, found.backward) == ("log", False)
    assert found.line == line_with("    logarithm = jnp.log(doubled)")
    assert np.array_equal(found.inputs[0], [2, 2, 0, 2])
    assert np.isneginf(found.outputs[0]).tolist() == [False, False, True, False]


def roots(x: Any) -> Any:
    return jnp.sum(x ** 0.5 * 0)


def test_what_a_derivative_makes_is_found_where_the_forward_pass_is_sound() -> None:
    found = blamed(jax.grad(roots), ZERO_AT_2)
    assert found is not None
    assert found.line == line_with("    return jnp.sum(x ** 0.5 * 0)")


def inner(x: Any) -> Any:
    shifted = x - 1
    return 1 / shifted


def test_what_is_compiled_apart_is_looked_into() -> None:
    found = blamed(lambda x: jax.jit(inner)(x).sum(), ZERO_AT_2)
    assert found is not None
    assert (found.name, found.line) == ("div", line_with("    return 1 / shifted"))


def turn(carry: Any, each: Any) -> tuple[Any, Any]:
    carry = carry + jnp.log(each)
    return carry, carry


@pytest.mark.parametrize("reverse", [False, True])
def test_the_turn_of_a_scan_that_fails_is_found(reverse: bool) -> None:
    found = blamed(lambda xs: lax.scan(turn, 0.0, xs, reverse=reverse)[0], ZERO_AT_2)
    assert found is not None
    assert (found.name, found.line) == ("log", line_with("    carry = carry + jnp.log(each)"))
    assert float(found.inputs[0]) == 0.0


def test_loops_and_branches_are_looked_into() -> None:
    def divides_again(x: Any) -> Any:
        return lax.while_loop(lambda s: s[0] < 2, lambda s: (s[0] + 1, 1 / (s[1] - s[0])), (0.0, x))[1]

    found = blamed(divides_again, jnp.float32(1.0))
    assert found is not None
    assert (found.name, [float(item) for item in found.inputs]) == ("div", [1.0, 0.0])
    found = blamed(lambda x: lax.cond(x > 0, jnp.exp, jnp.log, x), jnp.float32(0.0))
    assert found is not None
    assert found.name == "log"


def test_an_infinity_that_comes_to_nothing_is_blamed_on_nobody() -> None:
    def masked(x: Any) -> Any:
        weights = jax.nn.softmax(jnp.where(jnp.arange(4) < 2, x, -jnp.inf))
        return jnp.log(weights[0] - weights[1])

    found = blamed(masked, ONES)
    assert found is not None
    assert found.name == "log"


def test_a_mask_over_everything_is_blamed_where_it_makes_nan() -> None:
    def masked(x: Any) -> Any:
        scores = jnp.where(jnp.arange(4) < 0, x, -jnp.inf)
        return jnp.exp(scores - scores.max()).sum()

    found = blamed(masked, ONES)
    assert found is not None
    assert found.name == "sub"


def test_what_was_handed_in_is_told_by_its_place() -> None:
    found = blamed(lambda w, x: (w * x).sum(), ONES, ONES.at[0].set(jnp.nan))
    assert found is not None
    assert found.argument == 1


def test_an_infinity_below_zero_is_a_mask_but_not_among_weights() -> None:
    below = ONES.at[0].set(-jnp.inf)

    def attends(scores: Any, mask: Any) -> Any:
        shifted = scores + mask
        return jnp.exp(shifted - shifted).sum()

    found = blamed(attends, ONES, below)
    assert found is not None
    assert (found.argument, found.name) == (-1, "sub")
    found = blamed(attends, below, ONES, carried=frozenset({0}))
    assert found is not None
    assert found.argument == 0
