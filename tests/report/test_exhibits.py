"""What a run was given to show, on its page: drawn, escaped, and within its bounds."""

from __future__ import annotations

import math
from typing import Any

import pytest

from barograph.model.clock import ManualClock
from barograph.model.exhibits import (
    ConfusionMatrix,
    NotShown,
    Picture,
    PrecisionRecallCurves,
    PrecisionRecallOfClass,
    RocCurves,
    RocOfClass,
    Sheet,
)
from barograph.report.page import page_of
from barograph.report.page_exhibits import MOST_PICTURE_BYTES, exhibit
from barograph.report.reading import report_of

EVIL = '"><script>alert(1)</script>'


def all_sorts(name: str) -> tuple[Any, ...]:
    """One of each, called so."""
    return (
        ConfusionMatrix(name, (name, "b"), ((3.0, 1.0), (0.0, 2.0))),
        RocCurves(name, (RocOfClass(name, 1.0, 1.0, 1.0, (0.0, 0.0, 1.0), (0.0, 1.0, 1.0), (math.inf, 1.0, 0.0)),)),
        PrecisionRecallCurves(
            name, (PrecisionRecallOfClass(name, 1.0, 1.0, 0.5, (0.5, 1.0), (1.0, 0.0), (0.1,)),), 0.5),
        Sheet(name, (name,), ((name,),), 1), Picture(name, "image/png", b"png"), NotShown(name, name),
    )


def test_the_page_has_them_and_no_name_breaks_out(diary: Any) -> None:
    diary.step(0)
    report = report_of(diary.ended(), exhibits=all_sorts(EVIL), clock=ManualClock())
    page = page_of(report)
    assert "Tables, curves and figures" in page
    assert "<script" not in page
    assert page.count("&lt;script&gt;") >= 6
    assert '<img src="data:image/png;base64,cG5n"' in page
    assert "img-src data:" in page
    assert [item["kind"] for item in report.to_json()["exhibits"]] == [
        "confusion-matrix", "roc", "precision-recall", "table", "picture", "not-shown"]


def test_a_page_without_pictures_allows_none(diary: Any) -> None:
    diary.step(0)
    page = page_of(report_of(diary.ended(), exhibits=all_sorts("x")[:1], clock=ManualClock()))
    assert "img-src" not in page


def test_a_matrix_says_how_many_answers_are_right_and_what_stands_in_its_cells() -> None:
    html = exhibit(ConfusionMatrix("m", ("cat", "dog"), ((3.0, 1.0), (0.0, 2.0))))
    assert "Accuracy: 83.3%." in html
    assert "cat predicted as dog: 1 (25.0%)" in html
    shares = exhibit(ConfusionMatrix("m", ("cat", "dog"), ((0.75, 0.25), (0.0, 1.0)), "true"))
    assert "shares of the row" in shares
    assert "are right" not in shares


def test_of_very_many_classes_the_most_frequent_are_drawn() -> None:
    counts = tuple(tuple(float(row + 1) if row == column else 0.0 for column in range(30)) for row in range(30))
    html = exhibit(ConfusionMatrix("m", tuple(f"class {number}" for number in range(30)), counts))
    assert "6 rarer classes not shown." in html
    assert "class 29" in html
    assert "class 5 " not in html


def test_curves_say_their_areas_and_nan_is_no_number_of_them() -> None:
    curve = RocOfClass("b", 0.0, 2.0, math.nan, (0.0, 1.0), (math.nan, math.nan), (math.inf, 0.5))
    assert "b: nan" in exhibit(RocCurves("r", (curve,)))
    assert "no skill: 0.5" in exhibit(all_sorts("x")[2])


@pytest.mark.parametrize("picture", [
    Picture("p", "image/tiff", b"x"), Picture("p", "image/png", bytes(MOST_PICTURE_BYTES + 1)),
], ids=["kind", "size"])
def test_a_picture_that_no_page_shows_is_named(picture: Picture) -> None:
    html = exhibit(picture)
    assert "<img" not in html
    assert "Image of" in html


def test_a_large_table_says_how_much_more_there_is() -> None:
    html = exhibit(Sheet("t", tuple(f"c{number}" for number in range(50)), (tuple("x" * 50),) * 2, 1000))
    assert "998 more rows and 10 more columns not shown." in html
