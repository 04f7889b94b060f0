"""Statistics that are reduced inside a compiled step, against the reference in float64."""

from __future__ import annotations

import math
from typing import Any

import ml_dtypes
import numpy as np
import pytest

jax = pytest.importorskip("jax", reason="JAX is not installed")

from barograph.capture.jax.reduce import columns_of, moments_of, reduce  # noqa: E402
from barograph.measures.elements import values_as_float64  # noqa: E402
from barograph.measures.native import dtype_code  # noqa: E402
from barograph.measures.plain import units_into  # noqa: E402
from barograph.measures.summary import exponents_of_values, moments_of_values, summarize  # noqa: E402
from barograph.model.selection import Histogram  # noqa: E402
from barograph.model.summary import UNIT_FIELDS  # noqa: E402

RNG = np.random.default_rng(0)
ODD = np.array([1.5, -2.0, 0.0, -0.0, np.nan, np.inf, -np.inf, 3e-39, -1e-45, 3.4e38, -3e38, 0.25], np.float32)
LARGE = RNG.normal(size=(300, 41)).astype(np.float32)


@pytest.mark.parametrize("array", [
    ODD, LARGE, LARGE * 1e30, LARGE * 1e-30, LARGE.astype(ml_dtypes.bfloat16), (LARGE * 1e4).astype(np.float16),
    LARGE[:3].astype(ml_dtypes.float8_e5m2), np.full(100_000, 0.1, np.float32), np.zeros((0, 4), np.float32),
    np.array(3.0, np.float32), np.array([True, False]), np.array([-(2**31), 2**31 - 1, 5], np.int32),
    np.array([2**32 - 1, 0], np.uint32), RNG.integers(0, 200, 5000).astype(np.uint8), np.full(3, np.nan, np.float32),
    np.array([3 + 4j], np.complex64),
], ids=lambda array: f"{array.dtype}{array.shape}")
def test_agrees_with_the_reference(array: Any) -> None:
    found = jax.jit(lambda array: reduce(array, Histogram.EXACT))(array)
    wanted = moments_of_values(values_as_float64(array))
    moments = moments_of(found, array.dtype.name)
    assert moments[:7].tolist() == wanted[:7].tolist()
    bound = 2.0**-17 * np.array([wanted[9], wanted[8], wanted[9]])
    assert (np.abs(moments[7:] - wanted[7:]) <= bound + 1e-37).all()
    values = values_as_float64(array)
    if array.dtype.itemsize < 4 or array.dtype == np.float32:
        assert np.asarray(found["counts"]).tolist() == exponents_of_values(values).tolist()


def test_a_sampled_histogram_looks_at_the_same_elements() -> None:
    found = jax.jit(lambda array: reduce(array, Histogram.SAMPLED))(LARGE)
    wanted = summarize(LARGE, histogram=Histogram.SAMPLED).exponents
    assert {number: int(count) for number, count in enumerate(found["counts"]) if count} == dict(wanted)


@pytest.mark.parametrize("scale", [1.0, 1e25, 1e-30], ids=["plain", "large", "small"])
def test_units_are_those_of_the_last_axis(scale: float) -> None:
    array = LARGE.reshape(-1, 41)[:, :8] * np.float32(scale)
    array[0, 0], array[:, 3] = np.nan, 0
    wanted = np.zeros((8, len(UNIT_FIELDS)))
    wanted[:, 3], wanted[:, 4] = np.inf, -np.inf
    units_into(array.ctypes.data, len(array), 8, 1, dtype_code("float32"), scale, wanted)
    found = columns_of(jax.jit(lambda array: reduce(array, units=True, bound=scale))(array)["units"])
    assert found[:, :5].tolist() == wanted[:, :5].tolist()
    assert found[:, 5:] / [scale, scale**2] == pytest.approx(wanted[:, 5:] / [scale, scale**2], rel=1e-5, abs=1e-4)


def test_units_of_very_different_size_stand_beside_one_another() -> None:
    array = LARGE.reshape(-1, 41)[:, :3] * np.array([1e25, 1.0, 1e-30], np.float32)
    found = columns_of(jax.jit(lambda array: reduce(array, units=True))(array)["units"])
    wanted = (array.astype(np.float64) ** 2).sum(0)
    assert found[:, UNIT_FIELDS.index("sum_sq")] / wanted == pytest.approx(1, rel=1e-5)


def test_units_of_64_bits_are_those_of_the_last_axis() -> None:
    array = LARGE.reshape(-1, 41)[:, :3].astype(np.float64) * 1e100
    with jax.enable_x64(True):
        found = columns_of(jax.jit(lambda array: reduce(array, units=True))(array)["units"])
    assert found[:, UNIT_FIELDS.index("sum_sq")] == pytest.approx((array**2).sum(0), rel=1e-12)
    assert found[:, UNIT_FIELDS.index("max")].tolist() == array.max(0).tolist()


def test_elements_of_64_bits_are_summed_as_such() -> None:
    array = np.array([1e300, -1e-300, 5e-324, 0.0, np.nan, 2.0**60])
    with jax.enable_x64(True):
        found = jax.jit(lambda array: reduce(array, Histogram.EXACT))(array)
        moments = moments_of(found, "float64")
    wanted = moments_of_values(array)
    assert moments[:7].tolist() == wanted[:7].tolist()
    assert moments[7] == wanted[7]
    assert math.isinf(moments[8])
    assert np.asarray(found["counts"]).tolist() == exponents_of_values(array).tolist()


def test_rows_of_several_types_are_each_told_by_its_own() -> None:
    types = ["float32", "int32", "uint32", "bfloat16", "int8"]
    arrays = [jax.numpy.asarray([3, 70, 5]).astype(name) for name in types]
    parts = [jax.jit(reduce)(array) for array in arrays]
    stacked = {name: np.stack([np.asarray(part[name]) for part in parts]) for name in ("exact", "sums")}
    rows = moments_of(stacked, np.array(types))
    assert rows.tolist() == [moments_of(part, name).tolist() for part, name in zip(parts, types, strict=True)]
    assert rows[:, 5:7].tolist() == [[3, 70]] * 5
