"""Numbers as a person writes them."""

from __future__ import annotations

import math

import pytest

from barograph.model.significant import significant


@pytest.mark.parametrize(("value", "text"), [
    (1e-5, "1e-5"), (-1.5e-7, "-1.5e-7"), (5e-10, "5e-10"), (1e-100, "1e-100"),
    (1234.5, "1,230"), (999_499, "999,000"), (999_500, "1e6"), (-2e20, "-2e20"), (1e100, "1e100"),
    (0.0, "0"), (0.00012345, "0.000123"), (0.1, "0.1"), (999.0, "999"),
    (math.nan, "nan"), (math.inf, "inf"), (-math.inf, "-inf"),
])
def test_an_exponent_has_neither_zeros_nor_a_plus(value: float, text: str) -> None:
    assert significant(value) == text
