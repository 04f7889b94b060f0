"""Charts as drawings."""

from __future__ import annotations

import math
import re
from xml.etree import ElementTree

import pytest

from barograph.model.step import Mode
from barograph.queries.curves import Curve
from barograph.report.charts import WIDTH, Line, Mark, line_chart
from barograph.report.small_charts import bars, heat_rows, histogram, matrix, scatter, sparkline


def curve(*values: float, first: int = 0) -> Curve:
    steps = tuple(range(first, first + len(values)))
    return Curve("x", Mode.TRAIN.value, "", len(values), values[0], values[-1], 0.0, 1.0, 0, 0, 0, steps, values)


def drawn(markup: str) -> ElementTree.Element:
    found = re.search(r"<svg.*?</svg>", markup, re.DOTALL)
    assert found is not None
    return ElementTree.fromstring(found[0])


def test_a_line_is_broken_where_it_is_not_finite_and_marked_there() -> None:
    svg = drawn(line_chart("loss", "It falls.", [Line("train", (0, 1, 2, 3), (1.0, math.nan, 2.0, 3.0))]))

    (line,) = [item for item in svg.iter("path") if item.get("class") == "line s0"]
    (bad,) = [item for item in svg.iter("path") if item.get("class") == "bad"]
    assert (line.get("d") or "").count("M") == 2
    assert (bad.get("d") or "").count("M") == 1
    assert bad[0].text == "train: NaN or infinite"


@pytest.mark.parametrize("values", [
    (1e308, -1e308), (5e-324, 1e308), (0.0, 0.0), (math.nan, math.inf), (1e-320,), (-5.0, 0.0, 1e9),
])
def test_every_number_is_drawn_within_the_picture(values: tuple[float, ...]) -> None:
    svg = drawn(line_chart("x", "y", [Line("a", range(len(values)), values)]))

    numbers = [float(text) for item in svg.iter("path") for text in re.findall(r"[ML](-?[\d.]+) ", item.get("d") or "")]
    assert all(0 <= number <= WIDTH for number in numbers)
    assert "nan" not in ElementTree.tostring(svg).decode().replace("NaN", "")


def test_more_lines_than_colours_are_told_apart_by_dashes() -> None:
    svg = line_chart("x", "y", [Line(f"l{number}", (0, 1), (0, number)) for number in range(9)])

    assert 'class="line s0 dashed"' in svg
    assert '<li><i class="s0 dashed"></i>l8</li>' in svg


def test_a_mark_says_what_it_stands_for() -> None:
    svg = drawn(line_chart("x", "y", [Line("a", (0, 10), (0, 1))], marks=[Mark(5, "N101 opened", "breaking")]))

    (mark,) = [item for item in svg.iter("line") if item.get("class") == "mark breaking"]
    assert mark[0].text == "N101 opened"
    assert mark.get("x1") == mark.get("x2") == "232"


def test_wide_numbers_have_room_beside_the_axis() -> None:
    svg = drawn(line_chart("x", "y", [Line("a", (0, 1), (0.0, 1.0))], y_text=lambda value: "953.7 MiB"))

    assert min(float(item.get("x1") or 0) for item in svg.iter("line") if item.get("class") == "grid") == 71


def test_colours_of_a_heat_map_hold_until_the_next_figure() -> None:
    svg = drawn(heat_rows("x", "y", [("a", curve(1.0, math.nan, 100.0)), ("b", curve(1.0, 1.0, 1.0))]))

    cells = [(item.get("class"), item.get("opacity"), float(item.get("width") or 0)) for item in svg.iter("rect")][:3]
    assert [(kind, shade) for kind, shade, _ in cells] == [("cell", "0.08"), ("cell bad-cell", None), ("cell", "1.00")]
    assert sum(width for _, _, width in cells) > 200


def test_of_a_long_name_beside_a_heat_map_its_end_is_shown_and_its_title_has_it_whole() -> None:
    svg = drawn(heat_rows("x", "y", [("encoder.layers.11.output.dense", curve(1.0, 2.0))]))
    (label,) = [item for item in svg.iter() if item.get("text-anchor") == "end" and "dense" in "".join(item.itertext())]

    assert label[0].text == "encoder.layers.11.output.dense"
    assert label[0].tail == "…11.output.dense"


def test_a_cell_of_a_matrix_says_what_was_taken_for_what() -> None:
    svg = drawn(matrix("x", "y", ["3", "5"], [[8, 2], [0, 4]], numbers=True))

    assert [item[0].text for item in svg.iter("rect") if len(item)] == [
        "3 predicted as 3: 8 (80.0%)", "3 predicted as 5: 2 (20.0%)", "5 predicted as 5: 4 (100%)"]


def test_bars_are_as_long_as_their_numbers_and_never_negative() -> None:
    table = bars(("a", "", "b"), [("x", 4.0, "4"), ("y", 1.0, "1"), ("z", -3.0, "-3")], "T")

    assert re.findall(r"width:([\d.]+)%", table) == ["100.0", "25.0", "0.0"]
    assert re.findall(r"<th scope=\"col\">(.*?)</th>", table) == ["a", "b"]


def test_small_drawings_of_nothing_are_sound() -> None:
    for markup in (histogram("x", "y", (), ()), scatter("x", "y", (), (), "z"), sparkline(curve(math.nan), "n"),
                   heat_rows("x", "y", [("a", curve(math.nan))]), matrix("x", "y", [], [], numbers=True)):
        assert drawn(markup)[0].tag == "title"
