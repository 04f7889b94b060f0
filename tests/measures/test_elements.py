"""The types of elements by number and name, and differences."""

from __future__ import annotations

import numpy as np
import pytest

from barograph.errors import UnsupportedDtype
from barograph.measures.elements import DTYPE_CODES, dtype_code, element_type, subtract


def test_every_number_leads_back_to_its_name():
    assert [element_type(code).name for code in DTYPE_CODES.values()] == list(DTYPE_CODES)
    assert sorted(DTYPE_CODES.values()) == list(range(len(DTYPE_CODES)))


def test_an_unknown_type_is_named_with_the_nearest_known():
    with pytest.raises(UnsupportedDtype, match=r'"bfloat17".*Did you mean "bfloat16"'):
        dtype_code("bfloat17")


def test_an_unknown_number_is_refused():
    with pytest.raises(ValueError, match="dtype is 17"):
        element_type(17)


@pytest.mark.parametrize(("name", "after", "before", "expected"), [
    ("uint8", 3, 5, np.float32(-2)),
    ("bool", False, True, np.float32(-1)),
    ("float16", 1.0, 2.0**-24, np.float32(1 - 2.0**-24)),
    ("float32", 3e38, -3e38, np.float32(np.inf)),
    ("int64", 2**40 + 1, 2**40, np.float64(1)),
    ("float64", 1.0, 2.0**-53, np.float64(1 - 2.0**-53)),
    ("complex64", 1 + 1j, 1j, np.complex64(1)),
])
def test_differences_are_taken_in_a_type_that_holds_them(name, after, before, expected):
    kind = np.dtype(name)
    difference = subtract(np.array([after], kind), np.array([before], kind))
    assert difference[0] == expected
    assert difference.dtype == expected.dtype
