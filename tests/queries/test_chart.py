"""Lines of charts keep every spike and every NaN."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from barograph.errors import SettingsError, UnknownKey
from barograph.model.key import Kind
from barograph.model.step import Mode
from barograph.queries.chart import Axis, chart_line, chart_lines
from barograph.queries.chart_names import chart_list, chart_names, name_tree
from barograph.runs.reading.bundle import SeriesName
from barograph.runs.reading.curves import curves


def spiked(diary: Any, count: int = 3000) -> Any:
    for number in range(count):
        loss = 100.0 if number == 1777 else math.nan if number == 555 else 1.0 + number / 3000
        diary.step(number, {"loss:total": loss, "scalar:epoch": number // 100, "scalar:acc": number / 10})
    return diary.ended()


def test_few_points_keep_the_spike_and_the_nan(diary: Any) -> None:
    line = chart_line(spiked(diary), "loss", points=100)

    assert len(line.steps) <= 100
    assert line.steps[line.values.index(100.0)] == 1777
    assert (line.greatest, line.least, line.count, line.nonfinite) == (100.0, 1.0, 3000, 1)
    ((first, last),) = line.nonfinite_steps
    assert first <= 555 <= last


@pytest.mark.parametrize("axis", [
    Axis("time"), Axis("acc"), Axis("epoch"), Axis(log=True), Axis("time", log=True), Axis("time", 100.0, 2000.0),
])
def test_every_axis_keeps_the_spike_and_the_nan(diary: Any, axis: Axis) -> None:
    (line,) = chart_lines(spiked(diary), ["loss"], points=100, axis=axis)

    assert len(line.steps) <= 100
    assert line.steps[line.values.index(100.0)] == 1777
    assert (line.greatest, line.nonfinite) == (100.0, 1)
    positions = line.positions or line.steps
    assert list(positions) == sorted(positions)
    whole = {"time": (0.0, 2999.0), "acc": (0.0, 299.9), "epoch": (0.0, 29.0), "step": (0.0, 2999.0)}[axis.of]
    assert line.span == (whole if axis.low is None else (100.0, 2000.0))
    ((first, last),) = line.nonfinite_at or line.nonfinite_steps
    at_nan = {"time": 555.0, "acc": 55.5, "epoch": 5.0, "step": 555.0}[axis.of]
    assert first <= at_nan <= last


def test_a_part_of_the_steps_is_exact(diary: Any) -> None:
    for number in range(3000):
        diary.step(number, {"loss:total": float(number)})

    line = chart_line(diary.ended(), "loss", points=100, start=500, stop=503)

    assert (line.steps, line.values) == ((500, 501, 502), (500.0, 501.0, 502.0))


def test_a_part_of_the_time_is_exact(diary: Any) -> None:
    (line,) = chart_lines(spiked(diary), ["acc"], points=100, axis=Axis("time", 500.0, 502.0))

    assert (line.positions, line.values) == ((500.0, 501.0, 502.0), (50.0, 50.1, 50.2))


def test_on_a_log_axis_the_first_steps_keep_their_points(diary: Any) -> None:
    (line,) = chart_lines(spiked(diary), ["acc"], points=100, axis=Axis(log=True))

    assert line.steps[:5] == (0, 1, 2, 3, 4)


def test_a_metric_on_the_x_axis_has_its_last_value_before_a_step(diary: Any) -> None:
    diary.step(0, {"loss:total": 1.0})
    diary.step(1, {"loss:total": 2.0, "scalar:epoch": 10.0})
    diary.step(2, {"loss:total": 3.0})

    (line,) = chart_lines(diary.ended(), ["loss"], points=100, axis=Axis("epoch"))

    assert (line.steps, line.positions, line.values) == ((1, 2), (10.0, 10.0), (2.0, 3.0))


def test_the_means_for_smoothing_are_of_all_points(diary: Any) -> None:
    (line,) = chart_lines(spiked(diary), ["acc"], points=100, smooth=True)

    assert sum(line.mean_counts) == 3000
    assert np.average(line.means, weights=line.mean_counts) == pytest.approx(149.95)


def test_lines_are_read_together_and_the_missing_are_left_out(diary: Any) -> None:
    run = spiked(diary, 10)

    lines = chart_lines(run, ["acc", "lss", "loss"], points=100)

    assert [line.name for line in lines] == ["acc", "loss"]
    assert [line.values for line in lines] == [chart_line(run, name, points=100).values for name in ("acc", "loss")]


def test_curves_of_one_pass_are_those_of_a_key_each(diary: Any) -> None:
    run = spiked(diary)

    found = curves(run, Kind.SCALAR, ["acc", "epoch", "none"], points=80)

    assert {name.key.path for name in found} == {"acc", "epoch"}
    for name, envelope in found.items():
        assert np.array_equal(envelope.buckets, run.curve(name.key, points=80).buckets)
    assert all(isinstance(name, SeriesName) for name in found)


def test_the_total_of_one_loss_is_one_chart(diary: Any) -> None:
    diary.step(0, {"loss:total": 2.0, "loss:cross_entropy": 2.0, "learning_rate:group0": 0.1, "scalar:acc": 0.5})
    diary.step(1, {"loss:total": 1.0}, mode=Mode.EVAL)

    assert sorted(chart_names(diary.ended())) == ["acc", "eval_loss", "learning_rate:group0", "loss"]


def test_the_norm_of_a_tensor_is_a_line_too(diary: Any) -> None:
    diary.step(0, {}, {"gradient:fc.weight": [3.0, 4.0]})
    run = diary.ended()

    line = chart_line(run, "gradient:fc.weight", points=10)
    (largest,) = chart_lines(run, ["gradient:fc.weight"], points=10, statistic="max_abs")

    assert (line.statistic, line.values) == ("l2", (5.0,))
    assert (largest.statistic, largest.values) == ("max_abs", (4.0,))


def test_an_unknown_name_names_the_nearest(diary: Any) -> None:
    diary.step(0, {"loss:total": 2.0})
    run = diary.ended()

    with pytest.raises(UnknownKey, match=r'"lss".*"loss"'):
        chart_line(run, "lss", points=10)
    with pytest.raises(UnknownKey, match=r'"epch".*'):
        chart_lines(run, ["loss"], points=10, axis=Axis("epch"))


def test_charts_are_searched_grouped_and_pinned(diary: Any) -> None:
    diary.step(0, {"loss:total": 2.0, "scalar:acc": 0.5, "scalar:val/acc": 0.4, "scalar:val/auc": 0.2,
                   "scalar:f1": 0.3})
    run = diary.ended()

    every = chart_list(run, pinned=["f1", "gone"])
    some = chart_list(run, "^VAL")

    assert [(chart.title, chart.names) for chart in every.charts] == [
        ("f1", ("f1",)), ("loss", ("loss",)), ("acc", ("acc", "val/acc")), ("auc", ("val/auc",))]
    assert (every.count, every.pinned) == (4, 1)
    assert [chart.title for chart in some.charts] == ["acc", "auc"]
    assert [chart.title for chart in chart_list(run, "^auc").charts] == ["auc"], "the title is searched, too"
    with pytest.raises(SettingsError, match="Not a regular expression"):
        chart_list(run, "(")


def test_the_tree_of_names_has_counts_and_few_rows(diary: Any) -> None:
    diary.step(0, {"loss:total": 1.0, **{f"scalar:deep/m{number:04d}": 1.0 for number in range(1000)}},
               {"gradient:fc1.weight": [1.0], "gradient:fc2.weight": [1.0]})
    run = diary.ended()

    root, deep, found = name_tree(run), name_tree(run, "deep/"), name_tree(run, search="m0[12]00$")

    assert [(row.name, row.count) for row in root.rows] == [("deep/", 1000), ("gradient:", 2), ("loss", 0)]
    assert (deep.count, len(deep.rows), deep.left_out) == (1000, 200, 800)
    assert [row.name for row in found.rows] == ["deep/m0100", "deep/m0200"]
    assert [row.name for row in name_tree(run, "gradient:").rows] == ["gradient:fc1.weight", "gradient:fc2.weight"]


def test_names_recorded_meanwhile_are_known_after_a_refresh(diary: Any) -> None:
    diary.step(0, {"loss:total": 1.0})
    run = diary.run()
    before = chart_names(run)
    diary.step(1, {"scalar:late": 1.0})
    diary.publish()
    run.refresh()

    assert (before, chart_names(run)) == (["loss"], ["loss", "late"])
