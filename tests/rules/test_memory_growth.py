"""GPUMemoryIncrease and HostMemoryLeak."""

from __future__ import annotations

import math
from typing import Any

import pytest

from barograph.rules.memory_growth import GPUMemoryIncrease, HostMemoryLeak
from rules.machine_views import GIB, gpus, said, samples

SMALL: dict[str, Any] = {"window": 10, "skip": 5}


def process(used: float) -> dict[str, float]:
    return {"process_memory": used * GIB, "memory": (used + 4) * GIB, "memory_total": 64 * GIB}


def test_a_gpu_whose_memory_grows_all_the_time_will_be_full() -> None:
    predictions = said(GPUMemoryIncrease(**SMALL), samples(85, lambda number: gpus(90, full=20 + 0.25 * number)))
    assert [prediction is not None for prediction in predictions] == [True, True, True]
    assert predictions[0] is not None
    assert predictions[0].causes[0].cause == "memory-leak"
    # 0.5 % a second from 34.9 % on, the middle of the sixth window of ten.
    assert "full in about 2 minutes" in predictions[0].message


def test_a_cache_that_fills_in_jumps_and_rests_is_no_leak() -> None:
    def jumps(number: int) -> dict[str, float]:
        return gpus(90, full=20.0 + 15 * (number // 100))

    assert set(said(GPUMemoryIncrease(**SMALL), samples(400, jumps))) == {None}


def test_a_leak_too_slow_for_short_windows_is_seen_in_longer_ones() -> None:
    def leaks(number: int) -> dict[str, float]:
        # A tooth of a saw in each 40 samples, higher by 0.5 % each time.
        return gpus(90, full=20.0 + number / 80 + 2 * math.sin(number * math.pi / 20))

    predictions = said(GPUMemoryIncrease(**SMALL, increase=2.0), samples(3000, leaks))
    assert predictions[:10] == [None] * 10
    assert predictions[-1] is not None


def test_a_process_that_keeps_what_it_should_not_is_named_before_memory_is_full() -> None:
    predictions = said(HostMemoryLeak(**SMALL), samples(85, lambda number: process(2 + 0.1 * number)))
    assert predictions[0] is not None
    assert predictions[0].subject == "p0"
    assert "will be full" in predictions[0].message


@pytest.mark.parametrize("gibibytes_a_sample", [0.0, 1e-4, 1e-3])
def test_growth_that_leads_nowhere_soon_is_no_leak(gibibytes_a_sample: float) -> None:
    views = samples(3000, lambda number: process(2 + gibibytes_a_sample * number))
    assert set(said(HostMemoryLeak(**SMALL, increase=1.0, horizon_minutes=60.0), views)) == {None}


def test_a_data_set_that_is_read_once_is_no_leak_when_it_is_read() -> None:
    rule = HostMemoryLeak(**SMALL)
    predictions = said(rule, samples(400, lambda number: process(2 + 0.02 * min(number, 60))))
    assert set(predictions) == {None}


def test_at_the_defaults_nothing_is_said_in_the_first_minutes() -> None:
    assert said(HostMemoryLeak(), samples(959, lambda number: process(2 + 0.05 * number))) == []
