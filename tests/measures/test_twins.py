"""The native loop agrees with the plain one: for each type, at every size where a block begins or ends."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from barograph.measures import plain
from barograph.measures.elements import DTYPE_CODES, element_type
from barograph.measures.summary import identity_rows

SIZES = (0, 1, 7, 31, 32, 33, 64, 100, 2047, 2048, 2049, 4095, 4096, 4097, 6500, 10_007)
MIXES = ("normal", "any bits", "many zeros", "tiny", "huge")
BOUND = 2.0**-17


def outputs() -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    return identity_rows(2), np.zeros((2, 512), np.int64)


def assert_same(moments, exponents, expected, expected_exponents) -> None:
    """Counts, extremes and bins to the bit; sums within the bound, where they are finite."""
    assert moments[:, :7].tolist() == expected[:, :7].tolist()
    assert exponents.tolist() == expected_exponents.tolist()
    for column, magnitude in ((7, 9), (8, 8), (9, 9)):
        if np.isfinite(expected[1, magnitude]):
            assert abs(moments[1, column] - expected[1, column]) <= BOUND * expected[1, magnitude]
        elif column == magnitude:
            assert moments[1, column] == expected[1, column]
    assert moments[0].tolist() == identity_rows(1)[0].tolist()


@pytest.mark.parametrize("mode", [0, 1, 2])
@pytest.mark.parametrize("mix", MIXES)
def test_summaries_agree(loops, numbers, dtype, mix, mode):
    for size in SIZES:
        values, code = numbers(dtype, size, mix), DTYPE_CODES[dtype]
        fast, slow = outputs(), outputs()
        loops.summarize_into(values.ctypes.data, size, code, fast[0], 1, fast[1], mode)
        plain.summarize_into(values.ctypes.data, size, code, slow[0], 1, slow[1], mode)
        assert_same(*fast, *slow)


@pytest.mark.parametrize("mix", MIXES)
def test_differences_agree(loops, numbers, dtype, mix):
    for size in SIZES:
        after, code = numbers(dtype, size, mix), DTYPE_CODES[dtype]
        before = np.roll(after, 1)
        fast, slow = outputs(), outputs()
        loops.difference_into(after.ctypes.data, before.ctypes.data, size, code, fast[0], 1, fast[1], 2, False)
        plain.difference_into(after.ctypes.data, before.ctypes.data, size, code, slow[0], 1, slow[1], 2)
        assert_same(*fast, *slow)


def test_a_difference_can_leave_the_new_values_in_place_of_the_old(either, numbers, dtype):
    after, before = numbers(dtype, 5000, "any bits"), numbers(dtype, 5000, "normal").copy()
    moments, exponents = outputs()
    either.difference_into(after.ctypes.data, before.ctypes.data, 5000, DTYPE_CODES[dtype], moments, 1, exponents, 0,
                           True)
    assert before.tobytes() == after.tobytes()
    assert moments[1, 0] == 5000


def test_every_width_of_vector_gives_the_same_bits(loops, numbers, dtype):
    values = numbers(dtype, 10_007, "normal")
    first, now = outputs(), outputs()
    now_level = loops.use_instructions("baseline")
    loops.summarize_into(values.ctypes.data, values.size, DTYPE_CODES[dtype], first[0], 1, first[1], 2)
    loops.use_instructions(now_level)
    loops.summarize_into(values.ctypes.data, values.size, DTYPE_CODES[dtype], now[0], 1, now[1], 2)
    assert now[0].tobytes() == first[0].tobytes()
    assert now[1].tobytes() == first[1].tobytes()


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float8_e4m3fn", "float8_e5m2", "int8", "uint8", "int16",
                                   "uint16"])
def test_agree_on_every_element_that_a_narrow_type_has(loops, dtype):
    size = 2 ** (8 * element_type(DTYPE_CODES[dtype]).itemsize)
    patterns = np.arange(size).astype(np.uint8 if size == 256 else np.uint16)
    fast, slow = outputs(), outputs()
    loops.summarize_into(patterns.ctypes.data, size, DTYPE_CODES[dtype], fast[0], 1, fast[1], 2)
    plain.summarize_into(patterns.ctypes.data, size, DTYPE_CODES[dtype], slow[0], 1, slow[1], 2)
    assert_same(*fast, *slow)


def test_elements_need_not_lie_at_a_multiple_of_their_size(loops, numbers, dtype):
    values = numbers(dtype, 5000, "normal")
    shifted = np.zeros(values.nbytes + 1, np.uint8)
    shifted[1:] = values.view(np.uint8)
    fast, slow = outputs(), outputs()
    loops.summarize_into(shifted.ctypes.data + 1, 5000, DTYPE_CODES[dtype], fast[0], 1, fast[1], 2)
    plain.summarize_into(values.ctypes.data, 5000, DTYPE_CODES[dtype], slow[0], 1, slow[1], 2)
    assert_same(*fast, *slow)


@pytest.mark.parametrize("at", [0, 2047, 2048, 4999])
@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf, 1e-45, -3e38])
def test_one_strange_element_is_found_wherever_it_lies(loops, at, value):
    values = np.full(5000, 0.5, np.float32)
    values[at] = value
    fast, slow = outputs(), outputs()
    loops.summarize_into(values.ctypes.data, 5000, 0, fast[0], 1, fast[1], 2)
    plain.summarize_into(values.ctypes.data, 5000, 0, slow[0], 1, slow[1], 2)
    assert_same(*fast, *slow)


def wandering(kind: str) -> NDArray[np.float32]:
    random = np.random.default_rng(len(kind))
    values = random.standard_normal(150_001)
    match kind:
        case "steady":
            pass
        case "negative":
            values = -np.abs(values)
        case "many zeros":
            values[random.random(values.size) < 0.5] = 0
        case "zeros first":
            values[:9000] = 0
        case "small first":
            values[:9000] *= 1e-30
        case "large first":
            values[:9000] *= 1e30
        case "rising":
            values *= 2.0 ** np.linspace(-140, 120, values.size)
        case "leaping":
            values *= 2.0 ** random.integers(-140, 120, values.size)
        case "a few strange":
            values[::5000] = np.tile([np.nan, np.inf, -np.inf, 1e-44, -1e-44, 3e38], 6)[: values[::5000].size]
    return values.astype(np.float32)


@pytest.mark.parametrize("kind", ["steady", "negative", "many zeros", "zeros first", "small first", "large first",
                                  "rising", "leaping", "a few strange"])
def test_long_histograms_agree_however_the_exponents_wander(loops, kind):
    values = wandering(kind)
    for size in (8191, 8192, 8193, 65_536, values.size):
        fast, slow = outputs(), outputs()
        loops.summarize_into(values.ctypes.data, size, 0, fast[0], 1, fast[1], 2)
        plain.summarize_into(values.ctypes.data, size, 0, slow[0], 1, slow[1], 2)
        assert_same(*fast, *slow)


@pytest.mark.parametrize("dtype", ["complex64", "complex128"])
def test_a_complex_number_with_a_part_that_is_not_finite_is_counted_once(either, dtype):
    parts = [(np.inf, np.nan), (np.nan, -np.inf), (-np.inf, 1), (np.nan, 1), (0, np.nan), (3, -4), (0, 0)]
    values = np.array([complex(*each) for each in parts], dtype)
    moments, exponents = outputs()
    either.summarize_into(values.ctypes.data, values.size, DTYPE_CODES[dtype], moments, 1, exponents, 2)
    assert moments[1].tolist() == [7, 2, 3, 0, 1, 0, 5, 5, 25, 5]
    assert np.flatnonzero(exponents[1]).tolist() == [129]


def test_denormals_are_seen_where_training_flushes_them_to_zero(loops):
    torch = pytest.importorskip("torch")
    values = np.full(5000, 1e-40, np.float32)
    if not torch.set_flush_denormal(True):
        pytest.skip("this processor cannot flush denormals")
    try:
        moments, exponents = outputs()
        loops.summarize_into(values.ctypes.data, 5000, 0, moments, 1, exponents, 2)
        flushed_still = torch.tensor([1e-40]).mul(1.0).item() == 0
    finally:
        torch.set_flush_denormal(False)
    assert moments[1, 4] == 0
    assert moments[1, 9] == pytest.approx(5000 * 1e-40, rel=1e-4)
    assert exponents[1, 0] == 5000
    assert flushed_still


def test_many_tensors_in_one_call_are_as_one_call_each(either, numbers):
    names = ["float32", "bfloat16", "int64", "bool", "float32"]
    tensors = [numbers(name, size, "normal") for name, size in zip(names, (5000, 300, 0, 17, 2048), strict=True)]
    codes = [DTYPE_CODES[name] for name in names]
    rows, modes = [3, 0, 2, 1, 3], [2, 1, 2, 0, 1]
    together, alone = (identity_rows(4), np.zeros((4, 512), np.int64)), (identity_rows(4), np.zeros((4, 512), np.int64))
    either.summarize_many(
        np.array([tensor.ctypes.data for tensor in tensors]), np.array([tensor.size for tensor in tensors]),
        np.array(codes, np.int32), np.array(rows), *together, np.array(modes, np.uint8))
    for tensor, code, row, mode in zip(tensors, codes, rows, modes, strict=True):
        either.summarize_into(tensor.ctypes.data, tensor.size, code, alone[0], row, alone[1], mode)
    assert together[0].tobytes() == alone[0].tobytes()
    assert together[1].tobytes() == alone[1].tobytes()
    assert together[0][3, 0] == 7048


def test_copies_bytes(either):
    source, destination = np.arange(3_000_000, dtype=np.uint8), np.zeros(3_000_000, np.uint8)
    either.copy(destination.ctypes.data, source.ctypes.data, source.nbytes)
    either.copy(0, 0, 0)
    assert (destination == source).all()
