"""Statistics of many tensors in few arrays, and where each lies in them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

jax = pytest.importorskip("jax", reason="JAX is not installed")

import jax.numpy as jnp  # noqa: E402

from barograph.capture.jax.joining import Places, joined  # noqa: E402

TOLD: dict[int, dict[str, Any]] = {
    2: {"exact": jnp.arange(7), "units": jnp.ones((3, 7))},
    5: {"exact": jnp.arange(7) + 10},
    7: {"exact": jnp.arange(7) + 20, "counts": jnp.arange(512), "units": jnp.full((2, 7), 2.0)},
}


def test_each_is_found_again_in_what_is_put_together() -> None:
    places = Places({number: {name: part.shape for name, part in told.items()} for number, told in TOLD.items()})
    found = {name: np.asarray(part) for name, part in jax.jit(lambda told: joined(list(told.values())))(TOLD).items()}
    assert {name: part.shape for name, part in found.items()} == {"exact": (3, 7), "units": (5, 7), "counts": (1, 512)}
    assert places.numbers == (2, 5, 7)
    for name in found:
        assert set(places.rows(name)) == {number for number, told in TOLD.items() if name in told}
        for number, row in places.rows(name).items():
            assert found[name][row].tolist() == np.asarray(TOLD[number][name]).tolist()


def test_of_nothing_nothing_is_put_together() -> None:
    assert joined([]) == {}
    assert Places({}).numbers == ()
    assert Places({}).rows("exact") == {}
