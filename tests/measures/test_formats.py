"""The ranges of number formats are those of the types that have them."""

from __future__ import annotations

import math

import ml_dtypes
import numpy as np
import pytest

from barograph.errors import UnknownName
from barograph.measures.formats import FORMATS, format_from_name

KINDS = {"fp16": np.float16, "bf16": ml_dtypes.bfloat16, "fp8_e4m3": ml_dtypes.float8_e4m3fn,
         "fp8_e5m2": ml_dtypes.float8_e5m2}


@pytest.fixture(params=list(KINDS))
def name(request):
    return request.param


def rounded(value: float, name: str) -> float:
    with np.errstate(over="ignore"):
        return float(np.float64(value).astype(KINDS[name]))


def test_the_limits_are_those_the_type_declares(name):
    fmt, declared = FORMATS[name], ml_dtypes.finfo(KINDS[name])
    assert fmt.largest == float(declared.max)
    assert fmt.smallest_normal == float(declared.smallest_normal)
    assert fmt.smallest_subnormal == float(declared.smallest_subnormal)


def test_overflow_begins_where_rounding_leaves_the_range(name):
    # In steps of float32, which is what the types round from: a float64 would be rounded twice.
    limit = np.float32(FORMATS[name].overflow_from)
    below, above = np.nextafter(limit, np.float32(0)), np.nextafter(limit, np.float32(math.inf))
    assert abs(rounded(below, name)) == FORMATS[name].largest
    assert math.isfinite(rounded(limit, name)) == (FORMATS[name].overflow_from > float(limit))  # the tie of fp8_e4m3
    assert not math.isfinite(rounded(above, name))


def test_half_of_the_smallest_becomes_zero_and_what_is_above_does_not(name):
    half = FORMATS[name].smallest_subnormal / 2
    assert rounded(half, name) == 0
    assert rounded(half * 1.01, name) == FORMATS[name].smallest_subnormal


def test_an_unknown_format_is_named_with_the_nearest():
    with pytest.raises(UnknownName, match='Did you mean "fp16"'):
        format_from_name("fp61")
