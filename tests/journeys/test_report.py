"""A training with a fault, and the report of what it cost."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from forking import TORCH

FORKED = TORCH

BODY = '''
import sys
for number in range(40):
    if number == 20 and "--poison" in sys.argv:
        inputs[3, 2] = float("nan")
    train_step()
    if number % 10 == 9:
        model.eval()
        with torch.no_grad():
            F.cross_entropy(model(inputs), labels)
        model.train()
'''


@pytest.fixture(scope="module")
def desk(make_desk: Callable[[str], Any]) -> Any:
    desk = make_desk("report")
    desk.script(BODY)
    for name, words in (("sound", ()), ("poisoned", ("--poison",))):
        assert desk.run("--budget", "off", "train.py", *words, to=name).code == 0
    return desk


def report(desk: Any, *words: str) -> Any:
    ended = desk.end(desk.start("barograph", "report", *words))
    assert ended.code == 0, ended.err
    return ended


def test_the_page_says_what_went_wrong_and_what_it_cost(desk: Any) -> None:
    told = report(desk, "poisoned", "--price-per-hour", "7200")

    assert "at step 20 would have saved" in told.text
    page = (desk.folder / "poisoned.html").read_text(encoding="utf-8")
    assert "1 NaN of 256 values in the batch" in page
    assert "since step 20, N104" in page
    assert "could have been saved" in page
    assert "Confusion over time" in page


def test_the_json_report_has_the_same_data(desk: Any) -> None:
    data = json.loads(report(desk, "poisoned", "--price-per-hour", "7200", "--json").out)

    savings = data["savings"]
    assert (savings["step"], savings["steps"]) == (20, 19)
    assert savings["saved"] == pytest.approx(savings["secs"] * 2)
    assert savings["cost"] >= savings["saved"] > 0
    loss = next(item for item in data["losses"] if item["key"] == "loss:total")
    assert (loss["count"], loss["nonfinite"]) == (40, 20)
    assert {layer["health"] for layer in data["layers"]} <= {"breaking", "costly", "doubtful", "note", "not finite"}


def test_a_healthy_training_has_no_savings(desk: Any) -> None:
    told = report(desk, "sound", "--out", "page.html")

    assert "Nothing: no breaking finding opened." in (desk.folder / "page.html").read_text()
    assert "Stopping when" not in told.text
