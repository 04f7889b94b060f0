"""Per-unit statistics: what they count, and that the native loop agrees with the plain one."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from barograph.measures import plain
from barograph.measures.elements import DTYPE_CODES

SHAPES = [(1, 1, 1), (3, 5, 1), (64, 16, 1), (65, 17, 1), (130, 1030, 1), (2, 3, 7), (5, 33, 16), (4, 2, 511),
          (3, 4, 512), (2, 2, 2048), (2, 3, 2500), (0, 4, 2), (3, 0, 2), (3, 4, 0)]
MIXES = ("normal", "any bits", "many zeros", "tiny", "huge")
BOUND = 2.0**-17


def empty_columns(units: int) -> NDArray[np.float64]:
    columns = np.zeros((units, 7))
    columns[:, 3:5] = np.inf, -np.inf
    return columns


def columns_of(loops, values, shape, dtype="float32", bound=1.0) -> NDArray[np.float64]:
    columns = empty_columns(shape[1])
    loops.units_into(values.ctypes.data, *shape, DTYPE_CODES[dtype], bound, columns)
    return columns


@pytest.mark.parametrize("mix", MIXES)
def test_agree_on_every_type_and_shape(loops, numbers, dtype, mix):
    for shape in SHAPES:
        values = numbers(dtype, shape[0] * shape[1] * shape[2], mix)
        fast, slow = columns_of(loops, values, shape, dtype), columns_of(plain, values, shape, dtype)
        assert fast[:, :5].tolist() == slow[:, :5].tolist(), shape
        fast, slow = fast[:, 5:], slow[:, 5:]
        within = np.isfinite(slow[:, 1])  # where squares leave float64 there is nothing to compare
        sums, squares = np.abs(fast[within] - slow[within]).T
        square = slow[within, 1]
        magnitude = np.sqrt(square) * np.sqrt(shape[0] * shape[2])  # not less than the sum of magnitudes
        assert (squares <= BOUND * square).all(), shape
        assert (sums <= BOUND * magnitude).all(), shape


def test_counts_what_it_says(either):
    batch = np.float32([[[0, -3, np.nan], [0, 0, 0]], [[1, 2, np.inf], [0, 0, 3]]])  # 2 samples, 2 units, 3 places
    assert columns_of(either, batch, (2, 2, 3), bound=2.0).tolist() == [
        [1, 3, 2, -3, 2, 0, 14],  # inf lies beyond any bound; it is in no sum
        [5, 1, 0, 0, 3, 3, 9],
    ]


def test_a_second_batch_is_merged_into_the_first(either):
    columns = empty_columns(1)
    for values in (np.float32([1, 0]), np.float32([-5, 2])):
        either.units_into(values.ctypes.data, 2, 1, 1, 0, 2.0, columns)
    assert columns.tolist() == [[1, 2, 0, -5, 2, -2, 30]]


@pytest.mark.parametrize("bound", [0.1, 0.7, 1.0, 1e300, 1e-300, np.inf])
@pytest.mark.parametrize("inner", [1, 600])
def test_a_bound_between_two_float32_is_kept_exactly(either, bound, inner):
    near = np.float32([bound if bound < 3e38 else 3e38])[0]
    around = np.array([np.nextafter(near, np.float32(0)), near, np.nextafter(near, np.float32(np.inf)), 0], np.float32)
    values = np.tile(around, inner)
    expected = inner * np.count_nonzero(around.astype(np.float64) >= bound)
    assert columns_of(either, values, (4, 1, inner), bound=bound)[0, 1] == expected


def test_without_a_bound_nothing_lies_beyond(either):
    assert columns_of(either, np.float32([1, np.inf]), (2, 1, 1), bound=np.nan)[0, 1] == 0


@pytest.mark.parametrize(("shape", "size"), [((-1, 2, 1), 2), ((2, -2, 1), 2), ((1, 2, -1), 2), ((1, 3, 1), 2)])
def test_a_shape_that_cannot_be_is_refused(either, shape, size):
    values, columns = np.zeros(16, np.float32), empty_columns(size)
    with pytest.raises(ValueError, match=r"must"):
        either.units_into(values.ctypes.data, *shape, 0, 1.0, columns)
    assert columns.tolist() == empty_columns(size).tolist()


def test_a_shape_too_large_for_memory_is_refused(loops):
    with pytest.raises(ValueError, match="more elements than memory"):
        loops.units_into(1, 2**40, 1, 2**40, 0, 1.0, empty_columns(1))
