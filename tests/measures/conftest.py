"""What the tests of the statistics share: numbers of every kind and type, and every loop that there is."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from barograph.measures import native, plain
from barograph.measures.elements import DTYPE_CODES, element_type

LEVELS = importlib.import_module("barograph._native").instructions() if native.available() else ["not built"]
MIXES = ("normal", "any bits", "many zeros", "tiny", "huge")

MakeNumbers = Callable[[str, int, str], NDArray[Any]]


@pytest.fixture(params=LEVELS)
def loops(request: pytest.FixtureRequest) -> Iterator[Any]:
    """The native loop, once with each set of instructions that this processor has."""
    if not native.available():
        pytest.skip("the native loop is not built here")
    module = importlib.import_module("barograph._native")
    before = module.use_instructions(request.param)
    yield module
    module.use_instructions(before)


@pytest.fixture(params=["plain", "native"])
def either(request: pytest.FixtureRequest) -> Any:
    """The plain twin, then the native loop."""
    if request.param == "plain":
        return plain
    if not native.available():
        pytest.skip("the native loop is not built here")
    return importlib.import_module("barograph._native")


@pytest.fixture(params=list(DTYPE_CODES))
def dtype(request: pytest.FixtureRequest) -> str:
    """The name of each element type."""
    return str(request.param)


@pytest.fixture
def numbers() -> MakeNumbers:
    """Make `n` numbers of a type: numbers(dtype, n, mix), where mix is one of MIXES."""
    return make_numbers


def make_numbers(dtype: str, n: int, mix: str) -> NDArray[Any]:
    kind = element_type(DTYPE_CODES[dtype])
    random = np.random.default_rng([n, MIXES.index(mix), DTYPE_CODES[dtype]])
    if dtype == "bool":
        return random.random(n) < 0.5
    if mix == "any bits" or kind.kind in "iu":  # NaN with every payload, infinities and denormals among them
        return random.integers(0, 256, n * kind.itemsize, dtype=np.uint8).view(kind)
    values = random.standard_normal(n) * {"tiny": 1e-30, "huge": 1e30}.get(mix, 1.0)
    if mix == "many zeros":
        values[random.random(n) < 0.5] = 0
    if kind.kind == "c":
        return (values + 1j * np.roll(values, 1)).astype(kind)
    with np.errstate(all="ignore"):
        return values.astype(np.float32).astype(kind)
