"""What is told of the arrays of a step."""

from __future__ import annotations

import numpy as np

from barograph.capsule.arrays import bad_rows, handed_in, is_finite, tensor_seen


def test_whole_numbers_are_always_finite() -> None:
    assert is_finite(np.array([1, 2]))
    assert not is_finite(np.array([1.0, np.inf], np.float16))


def test_rows_are_samples_only_where_there_is_one_for_each() -> None:
    array = np.array([[1.0, np.nan], [2.0, 3.0]])
    assert bad_rows(array, 2) == (0,)
    assert bad_rows(array, 4) == ()


def test_the_first_that_was_handed_in_is_named_with_its_rows() -> None:
    batch = {"x": np.ones((2, 3)), "y": np.array([0.0, np.inf])}
    found = handed_in((("batch", batch), ("weight", {"out.kernel": np.array([np.nan])})), 2)
    assert found is not None
    assert (found.module, found.handed_in, found.rows) == ("batch y", True, (1,))
    assert handed_in((("batch", {"x": np.ones(2)}),), 2) is None


def test_elements_are_counted_apart() -> None:
    seen = tensor_seen(np.array([0.0, -3.0, np.nan, np.inf], np.float32))
    assert (seen.low, seen.high, seen.zeros, seen.nan, seen.infinite) == (-3.0, 0.0, 1, 1, 1)
    assert np.isnan(tensor_seen(np.array([np.nan])).low)
