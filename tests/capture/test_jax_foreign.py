"""Statistics that compiled programs have the native loop make, against those that it makes when it is called."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

jax = pytest.importorskip("jax", reason="JAX is not installed")

from barograph.capture.jax import foreign  # noqa: E402
from barograph.measures import native  # noqa: E402
from barograph.measures.summary import identity_rows  # noqa: E402
from barograph.model.selection import Histogram  # noqa: E402
from barograph.model.summary import EXPONENT_BINS, UNIT_FIELDS  # noqa: E402

pytestmark = pytest.mark.skipif(not native.available(), reason="the native loop is not built")

RNG = np.random.default_rng(0)
ODD = np.array([1.5, -2.0, 0.0, -0.0, np.nan, np.inf, -np.inf, 3e-39, -1e-45, 3.4e38, -3e38, 0.25], np.float32)
LARGE = RNG.normal(size=(300, 41)).astype(np.float32)
ARRAYS = [
    ODD, LARGE, LARGE * 1e30, LARGE.astype(ml_dtypes.bfloat16), (LARGE * 1e4).astype(np.float16),
    LARGE[:3].astype(ml_dtypes.float8_e5m2), np.zeros((0, 4), np.float32), np.array(3.0, np.float32),
    np.array([True, False]), np.array([-(2**31), 2**31 - 1, 5], np.int32), np.full(3, np.nan, np.float32),
    np.array([3 + 4j], np.complex64),
]


def _told(array: Any, histogram: Histogram, **asked: Any) -> Any:
    return jax.jit(lambda array: foreign.summarize(array, histogram, **asked))(array)


@pytest.fixture(autouse=True)
def _there() -> None:
    if not foreign.is_on_host():
        pytest.skip("programs for a GPU call no native loop")
    assert foreign.is_there()


@pytest.mark.parametrize("histogram", list(Histogram))
@pytest.mark.parametrize("array", ARRAYS, ids=lambda array: f"{array.dtype}{array.shape}")
def test_the_figures_are_those_of_the_loop_to_the_last_bit(array: Any, histogram: Histogram) -> None:
    moments, bins = identity_rows(1), np.zeros((1, EXPONENT_BINS), np.int64)
    native.summarize_into(array.ctypes.data, array.size, native.dtype_code(array.dtype.name), moments, 0, bins,
                          int(histogram))
    told = _told(array, histogram)
    assert foreign.takes(jax.numpy.asarray(array))
    assert set(told) == ({"moments", "bins"} if histogram else {"moments"})
    assert foreign.moments_of(told["moments"]).tobytes() == moments[0].tobytes()
    if histogram:
        assert foreign.bins_of(told["bins"]).tolist() == bins[0].tolist()


@pytest.mark.parametrize("of_change", list(Histogram))
@pytest.mark.parametrize("of_itself", [None, *Histogram])
@pytest.mark.parametrize("array", ARRAYS, ids=lambda array: f"{array.dtype}{array.shape}")
def test_what_changes_is_told_with_what_it_became(
    array: Any, of_itself: Histogram | None, of_change: Histogram
) -> None:  # fmt: skip
    before = np.asarray(array * 0.75).astype(array.dtype)
    moments, bins = identity_rows(1), np.zeros((1, EXPONENT_BINS), np.int64)
    native.difference_into(array.ctypes.data, before.ctypes.data, array.size, native.dtype_code(array.dtype.name),
                           moments, 0, bins, int(of_change), False)
    itself, change = jax.jit(
        lambda one, other: foreign.summarize_change(one, other, of_itself, of_change))(array, before)
    assert foreign.moments_of(change["moments"]).tobytes() == moments[0].tobytes()
    assert ("bins" in change) == bool(of_change)
    if of_change:
        assert foreign.bins_of(change["bins"]).tolist() == bins[0].tolist()
    if of_itself is None:
        assert itself is None
    else:
        alone = _told(array, of_itself)
        assert {name: part.tolist() for name, part in itself.items()} == {
            name: part.tolist() for name, part in alone.items()}


def test_elements_are_read_in_the_order_that_is_said() -> None:
    array = (LARGE * 1e3).reshape(10, 30, 41).copy()
    turned, plain = np.ascontiguousarray(array.transpose(1, 2, 0)), _told(array, Histogram.SAMPLED)
    found, wanted = _told(array, Histogram.SAMPLED, order=(1, 2, 0)), _told(turned, Histogram.SAMPLED)
    assert found["moments"].tolist() == wanted["moments"].tolist() != plain["moments"].tolist()
    assert found["bins"].tolist() == wanted["bins"].tolist() != plain["bins"].tolist()


@pytest.mark.parametrize("histogram", list(Histogram))
def test_units_are_those_of_the_last_axis(histogram: Histogram) -> None:
    array = LARGE.reshape(10, 30, 41).copy()
    array[0, 0, 0], array[..., 3] = np.nan, 0
    wanted = np.zeros((41, len(UNIT_FIELDS)))
    wanted[:, 3], wanted[:, 4] = np.inf, -np.inf
    native.units_into(array.ctypes.data, 300, 41, 1, native.dtype_code("float32"), 1.0, wanted)
    told = _told(array, histogram, units=True, bound=1.0)
    assert foreign.columns_of(told["columns"]).tobytes() == wanted.tobytes()


def test_a_vector_has_no_units() -> None:
    assert set(_told(ODD, Histogram.NONE, units=True)) == {"moments"}


def test_turns_of_a_loop_stand_one_below_another() -> None:
    told = jax.jit(lambda rows: jax.lax.scan(
        lambda carry, row: (carry, foreign.summarize(row, Histogram.EXACT)), 0, rows)[1])(LARGE)
    assert foreign.moments_of(told["moments"]).shape == (300, 10)
    assert foreign.moments_of(told["moments"])[:, 6].tolist() == LARGE.max(1).tolist()
    assert foreign.bins_of(told["bins"]).sum(-1).tolist() == [41] * 300


def test_a_branch_that_is_not_taken_has_seen_nothing() -> None:
    assert foreign.moments_of(np.zeros((3, 20), np.uint32)).tolist() == identity_rows(3).tolist()


@pytest.mark.parametrize(("words", "setting"), [
    ([18], {}), ([20, 1024], {"mode": 7}), ([20], {"mode": 1}), ([20], {"units": 1}), ([20], {"dtype": 99}),
    ([20], {"dtype": -1}), ([20], {"mode": -1}), ([20, 20], {"change": 0}),
])
def test_what_does_not_fit_is_refused(words: list[int], setting: dict[str, int]) -> None:
    _refused([ODD], words, "none that is known", **setting)


@pytest.mark.parametrize(("words", "setting"), [
    ([20], {"change": 0}), ([20, 20], {"change": -1}), ([20, 20], {"change": 3}), ([20, 20], {"change": 1}),
    ([20, 20, 3 * 14], {"change": 0, "units": 1}),
])
def test_what_does_not_fit_two_is_refused(words: list[int], setting: dict[str, int]) -> None:
    _refused([ODD.reshape(4, 3), ODD.reshape(4, 3)], words, "none that is known", **setting)


@pytest.mark.parametrize("arrays", [[ODD, ODD[1:]], [LARGE, LARGE.astype(np.float16)], [ODD, ODD, ODD], []])
def test_tensors_that_are_not_alike_are_refused(arrays: list[Any]) -> None:
    _refused(arrays, [20, 20], "two that are alike", change=0)


def _refused(arrays: list[Any], words: list[int], why: str, **setting: int) -> None:
    call = jax.ffi.ffi_call("barograph_summarize", [jax.ShapeDtypeStruct((count,), np.uint32) for count in words])
    asked = {"dtype": 0, "mode": 0, "change": -1, "units": 0, **setting}
    settings = {name: np.int64(value) for name, value in asked.items()}
    with pytest.raises(Exception, match=why):
        jax.block_until_ready(jax.jit(lambda *given: call(*given, bound=np.float64(0), **settings))(*arrays))


def test_without_the_loop_no_program_calls_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(native, "xla_handler", lambda: None)
    assert not foreign.is_there.__wrapped__()


def test_an_xla_that_does_not_take_it_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuses(*_: Any, **__: Any) -> None:
        raise RuntimeError("of another version")

    monkeypatch.setattr(jax.ffi, "register_ffi_target", refuses)
    assert not foreign.is_there.__wrapped__()
