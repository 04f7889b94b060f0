"""The page: whole, by itself, and safe whatever a run is called."""

from __future__ import annotations

import re
from collections.abc import Callable
from html.parser import HTMLParser
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest

from barograph.model.clock import ManualClock
from barograph.model.key import Key, Kind
from barograph.model.step import Mode, Step
from barograph.report.page import page_of
from barograph.report.reading import report_of
from barograph.report.savings import Price
from barograph.runs.state.findings import write_event

EVIL = '"><script>alert(1)</script><img src=x onerror=alert(2)>'
VOID = {"meta", "br"}


class Reader(HTMLParser):
    """Reads a page as a browser does, and fails where an element is not closed."""

    def __init__(self, page: str) -> None:
        super().__init__(convert_charrefs=True)
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.texts: list[str] = []
        self._open: list[str] = []
        self.feed(page)
        self.close()
        assert self._open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag not in VOID:
            self._open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self._open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.texts.append(data)

    @property
    def text(self) -> str:
        return "".join(self.texts)

    def titles(self) -> list[str]:
        return [attributes["href"] or "" for tag, attributes in self.tags if tag == "a"]


def full(diary: Any, name: str = "fc") -> Any:
    """Write a run in which there is something for every section."""
    for number in range(12):
        diary.step(number, {
            f"loss:{name}": 1.0 / (number + 1), f"scalar:{name}": float("nan") if number == 3 else 2.0,
            f"learning_rate:{name}": 0.1, "time:step": 0.2, "time:data": 0.1, "time:steps": 5.0, "machine:cpu": 50.0,
            "machine:memory": 1e9, f"importance:{name}": 2.0, "importance:b": 1.0, "tree:depth": 4.0,
            f"label:{name}[0]": 3.0, f"confusion:{name}[0,1]": 1.0, f"confusion:{name}[0,0]": 2.0,
            f"confusion:{name}[1,1]": 2.0,
        }, {f"weight:{name}.weight": [1.0, -2.0], f"gradient:{name}.weight": [0.1, 0.2],
            f"gradient:{name}2.weight": [0.1, float("inf")], f"output:{name}": [0.0, 1.0]})
    diary.step(12, saved={f"{name}targets": np.array([0, 1, 1]), f"{name}predictions": np.array([0.1, 0.2, 0.9])})
    diary.step(13, saved={"targets": np.array([0.5, 1.5]), "predictions": np.array([0.1, 2.0])})
    return diary.ended()


@pytest.fixture
def page(diary: Any) -> Callable[..., Reader]:
    def made(run: Any, **more: Any) -> Reader:
        return Reader(page_of(report_of(run, clock=ManualClock(), **more)))

    return made


def test_every_section_for_which_there_is_something_is_there(diary: Any, page: Callable[..., Reader]) -> None:
    assert page(full(diary)).titles() == [f"#{name}" for name in (
        "findings", "savings", "losses", "numbers", "layers", "distributions", "importance", "trees", "classes", "roc",
        "residuals", "time", "machine", "missing", "run")]


def test_sections_without_data_are_not_there_and_are_named(diary: Any, page: Callable[..., Reader]) -> None:
    diary.step(0, {"loss:total": 1.0})

    seen = page(diary.ended())

    assert seen.titles() == ["#findings", "#savings", "#losses", "#missing", "#run"]
    assert "Labels and confusion: no labels recorded. Use a PyTorch loss" in seen.text


def test_nothing_in_a_run_gets_out_of_its_text(
    new_diary: Any, page: Callable[..., Reader], finding: Callable[..., Any]
) -> None:
    diary = new_diary(name=EVIL)
    run = full(diary, name=EVIL)
    write_event(diary.store, finding(message=EVIL, why=EVIL, remedy=EVIL, rule=EVIL, worker=EVIL, subject=EVIL,
                                     key=Key(Kind.OUTPUT, EVIL)))

    seen = page(run, price=Price(1.0, "<b>"))

    assert {tag for tag, _ in seen.tags} & {"script", "img", "iframe", "object", "b>"} == set()
    assert [name for _, attributes in seen.tags for name in attributes if name.startswith("on")] == []
    assert seen.text.count(EVIL) > 20


def test_it_needs_nothing_from_elsewhere(diary: Any, page: Callable[..., Reader]) -> None:
    seen = page(full(diary))

    assert {tag for tag, _ in seen.tags} & {"script", "link", "img", "iframe"} == set()
    assert [value for _, attributes in seen.tags for name, value in attributes.items()
            if name in ("src", "href") and not (value or "").startswith("#")] == []
    policy = [attributes["content"] for tag, attributes in seen.tags if attributes.get("http-equiv")]
    assert policy == ["default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'"]


def test_every_drawing_is_sound_and_says_what_it_shows(diary: Any) -> None:
    html = page_of(report_of(full(diary), clock=ManualClock()))

    drawings = [ElementTree.fromstring(text) for text in re.findall(r"<svg.*?</svg>", html, re.DOTALL)]

    assert len(drawings) >= 15
    for drawing in drawings:
        assert [child.tag for child in drawing[:2]] == ["title", "desc"]
        assert all(child.text for child in drawing[:2])
        placed = [value for item in drawing.iter() for name, value in item.attrib.items() if name != "aria-label"]
        assert [value for value in placed if "nan" in value or "inf" in value] == []


def test_a_finding_is_told_with_what_to_do_and_marked_in_the_loss(
    diary: Any, page: Callable[..., Reader], finding: Callable[..., Any]
) -> None:
    run = full(diary)
    write_event(diary.store, finding(step=5, why="It spreads."))

    seen = page(run)

    assert "breaking N101 non-finite" in seen.text
    assert "Why it matters: It spreads." in seen.text
    assert "Fix: Do this." in seen.text
    assert ("line", "mark breaking") in [(tag, attributes.get("class")) for tag, attributes in seen.tags]
    assert "N101 non-finite opened at step 5" in seen.text


def test_numbers_stand_behind_the_charts(diary: Any, page: Callable[..., Reader]) -> None:
    seen = page(full(diary))

    assert sum(tag == "details" for tag, _ in seen.tags) >= 10
    assert "0: 1; 1: 0.5" in seen.text


def test_what_was_told_once_takes_no_chart_from_what_has_a_course(diary: Any, page: Callable[..., Reader]) -> None:
    settings = {f"scalar:hyperparameter[{number}]": float(number) for number in range(30)}
    diary.step(0, {"loss:total": 1.0, "scalar:train.auc": 0.5, **settings})
    diary.step(1, {"loss:total": 0.5, "scalar:train.auc": 0.75})
    shown = page(diary.ended())
    drawn = [attributes["aria-label"] or "" for tag, attributes in shown.tags if tag == "svg"]

    assert [label for label in drawn if label.startswith("scalar:")] == [
        "scalar:train.auc. train: 0.5 first, 0.75 last."]
    assert "scalar:hyperparameter[29]" in shown.text


def test_what_is_not_so_yet_is_said_at_the_top(diary: Any, page: Callable[..., Reader]) -> None:
    diary.step(0, {"loss:total": 1.0})

    text = page(diary.run()).text

    assert "The run is still in progress" in text
    assert "No rules have been evaluated. Run barograph watch" in text


def test_a_loss_that_was_never_finite_is_drawn_all_the_same(diary: Any, page: Callable[..., Reader]) -> None:
    for number in range(3):
        diary.step(number, {"loss:total": float("nan")}, {"gradient:fc.weight": [float("nan")]})

    text = page(diary.ended()).text

    assert "no finite values" in text
    assert "never finite" in text


def test_the_page_of_a_hundred_thousand_steps_stays_small(new_diary: Any, page: Callable[..., Reader]) -> None:
    diary = new_diary()
    diary.begin()
    writer = diary.writers["p0"]
    loss, rate = Key(Kind.LOSS, "total"), Key(Kind.LEARNING_RATE, "group0")
    noise = np.random.default_rng(0).normal(size=100_000) + 5.0
    noise[77_777] = 1e4
    for number, value in enumerate(noise.tolist()):
        assert writer.put_numbers(Step(number, number, mode=Mode.TRAIN, time_unix=1.8e9 + number),
                                  {loss: value, rate: 0.1})
        if number % 20_000 == 0:
            diary.publish()
    report = report_of(diary.ended(), clock=ManualClock())

    html = page_of(report)

    assert len(html) < 400_000
    assert report.losses[0].count == 100_000
    assert 77_777 in report.losses[0].steps
    assert len(report.losses[0].steps) < 1000
