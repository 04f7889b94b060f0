"""Lines of charts keep every spike and every NaN."""

from __future__ import annotations

import math
from typing import Any

import pytest

from barograph.errors import UnknownKey
from barograph.model.step import Mode
from barograph.queries.chart import chart_line, chart_names


def test_few_points_keep_the_spike_and_the_nan(diary: Any) -> None:
    for number in range(3000):
        loss = 100.0 if number == 1777 else math.nan if number == 555 else 1.0 + number / 3000
        diary.step(number, {"loss:total": loss})

    line = chart_line(diary.ended(), "loss", points=100)

    assert len(line.steps) <= 100
    assert line.steps[line.values.index(100.0)] == 1777
    assert (line.greatest, line.least, line.count, line.nonfinite) == (100.0, 1.0, 3000, 1)
    ((first, last),) = line.nonfinite_steps
    assert first <= 555 <= last


def test_a_part_of_the_steps_is_exact(diary: Any) -> None:
    for number in range(3000):
        diary.step(number, {"loss:total": float(number)})

    line = chart_line(diary.ended(), "loss", points=100, start=500, stop=503)

    assert (line.steps, line.values) == ((500, 501, 502), (500.0, 501.0, 502.0))


def test_the_total_of_one_loss_is_one_chart(diary: Any) -> None:
    diary.step(0, {"loss:total": 2.0, "loss:cross_entropy": 2.0, "learning_rate:group0": 0.1, "scalar:acc": 0.5})
    diary.step(1, {"loss:total": 1.0}, mode=Mode.EVAL)

    assert sorted(chart_names(diary.ended())) == ["acc", "eval_loss", "learning_rate:group0", "loss"]


def test_the_norm_of_a_tensor_is_a_line_too(diary: Any) -> None:
    diary.step(0, {}, {"gradient:fc.weight": [3.0, 4.0]})

    line = chart_line(diary.ended(), "gradient:fc.weight", points=10)

    assert (line.statistic, line.values) == ("l2", (5.0,))


def test_an_unknown_name_names_the_nearest(diary: Any) -> None:
    diary.step(0, {"loss:total": 2.0})

    with pytest.raises(UnknownKey, match=r'"lss".*"loss"'):
        chart_line(diary.ended(), "lss", points=10)
