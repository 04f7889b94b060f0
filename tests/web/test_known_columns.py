"""Columns of many runs are computed once for some seconds, and those of few are always as they are."""

from __future__ import annotations

from typing import Any

import pytest

from barograph.model.clock import ManualClock
from barograph.web import known_columns
from barograph.web.known_columns import FRESH_SECS, KnownColumns


@pytest.fixture
def computed(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Numbers of runs of which columns were computed; those of facts have a minus."""
    asked: list[int] = []

    def computing(sign: int) -> Any:
        def columns_in(connection: Any, ids: list[int]) -> list[Any]:
            asked.append(sign * len(ids))
            return [sign]
        return columns_in

    monkeypatch.setattr(known_columns, "fact_columns_in", computing(-1))
    monkeypatch.setattr(known_columns, "recorded_columns_in", computing(1))
    return asked


def test_many_runs_in_any_order_have_the_same_columns_for_some_seconds(computed: list[int]) -> None:
    clock, connection = ManualClock(), None
    columns = KnownColumns(clock)

    for ids in (range(2000), range(1999, -1, -1)):
        columns.recorded(0, connection, list(ids))
    assert computed == [2000]
    clock.advance(FRESH_SECS)
    columns.recorded(0, connection, list(range(2000)))

    assert computed == [2000, 2000]


def test_facts_are_computed_for_those_who_want_all_columns(computed: list[int]) -> None:
    columns = KnownColumns(ManualClock())

    assert [columns.recorded(0, None, list(range(2000))), *(columns.of(0, None, list(range(2000))) for _ in range(2))
            ] == [[1], [-1, 1], [-1, 1]]
    assert computed == [2000, -2000]


def test_other_runs_and_other_roots_have_their_own_and_few_are_computed_each_time(computed: list[int]) -> None:
    columns = KnownColumns(ManualClock())

    for root, count in ((0, 2000), (0, 2001), (1, 2000), (0, 3), (0, 3)):
        columns.recorded(root, None, list(range(count)))

    assert computed == [2000, 2001, 2000, 3, 3]
