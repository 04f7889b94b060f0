"""Data of any kind becomes strict JSON."""

from __future__ import annotations

import json
from typing import Any

import pytest

from barograph.web.answers import encoded


@pytest.mark.parametrize(("data", "read"), [
    ({"é": [1, 0.1, True, None]}, {"é": [1, 0.1, True, None]}),
    ((float("nan"), 1.0), [None, 1.0]),
    ({"file": "a\udcff", "loss": float("nan")}, {"file": "a?", "loss": None}),
    ({"file": "a\udcff"}, {"file": "a?"}),
    ([2**64], [2**64]),
    ({1: "step"}, {"1": "step"}),
])
def test_it_is_read_as_it_was(data: Any, read: Any) -> None:
    text = encoded(data).decode()
    assert json.loads(text, parse_constant=pytest.fail) == read
