"""What a run or a component has to show, in a terminal."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from barograph.tracking import Component, Run

Call = Callable[..., Any]


@pytest.fixture
def shown(tmp_path: Path) -> str:
    """The place of a run that has one of each."""
    with Run("mine", root=tmp_path) as run:
        run.log_confusion_matrix(["cat", "dog", "dog"], ["cat", "dog", "cat"])
        run.log_roc_curve([0, 0, 1, 1], [0.1, 0.4, 0.35, 0.8])
        run.log_precision_recall([0, 1], [0.1, 0.9])
        run.log_table("answers", {"x": list(range(20))})
        run.log_figure(b"\x89PNG\r\n\x1a\n", "picture")
    return run.url


def test_show_tells_of_each(call: Call, shown: str) -> None:
    said = call("show", shown, "--all")
    assert said.code == 0
    for line in ("confusion matrix  rows: targets, columns: predictions, accuracy 66.7%", "dog\t1\t1",
                 "ROC curve  ROC: area under the curve", "1\t2\t2\t0.75",
                 "precision and recall  precision-recall", "answers  the first 8 of 20 rows",
                 "picture  image/png, 8 B; shown by barograph report"):
        assert line in said.out
    kinds = [item["kind"] for item in call("show", shown, "--json").json["exhibits"]]
    assert kinds == ["roc", "table", "confusion-matrix", "picture", "precision-recall"]


def test_mark_tells_of_those_of_a_component(call: Call, tmp_path: Path) -> None:
    Component.create("data", root=tmp_path).log_table("head", {"x": [1]})
    said = call("mark", "data", "--root", tmp_path)
    assert "head  1 row" in said.out


def test_the_report_draws_them(call: Call, shown: str, tmp_path: Path) -> None:
    assert call("report", shown, "--out", tmp_path / "page.html").code == 0
    page = (tmp_path / "page.html").read_text()
    assert "Tables, curves and figures" in page
    assert "<img" in page
