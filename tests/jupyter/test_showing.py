"""The page below a cell: in Chromium, with a model as anywidget gives it, answered by the widget in this process."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import barograph
from barograph.errors import SettingsError
from barograph.experiments.experiment import Experiment
from barograph.jupyter.showing import Picture
from barograph.notebook import show
from barograph.store.urls import store_from_url
from barograph.tracking import Run
from barograph.tune.study import Study
from chromium import Tab, needs_chromium, playwright
from chromium import browser as browser
from diary import Diary

pytest.importorskip("anywidget", reason="anywidget is not installed here")
MODEL = """async ([script, page]) => {
  const widget = await import(URL.createObjectURL(new Blob([script], { type: "text/javascript" })));
  const give = (answers) => answers.forEach((answer) => window.hear(answer));
  const model = {
    get: (name) => ({ page })[name], off: () => {}, on: (_, hear) => (window.hear = hear),
    send: (asked) => window.kernel(asked).then(give),
  };
  window.give = give;
  widget.default.render({ model, el: document.getElementById("cell") });
}"""


@pytest.fixture
def notebook(browser: Any) -> Iterator[Tab]:
    tab = Tab(browser)
    tab.page.route("**/*", lambda route: route.fulfill(content_type="text/html", body="<div id=cell></div>"))
    tab.open("http://notebook.test/")
    yield tab
    tab.context.close()


class Cell:
    """A widget below a cell; what it sends is kept until the page takes it."""

    def __init__(self, tab: Tab, widget: Any, monkeypatch: pytest.MonkeyPatch) -> None:
        self.page, self.widget = tab.page, widget
        self.sent: list[Any] = []
        self.asleep = False
        monkeypatch.setattr(type(widget), "send", lambda _, content, buffers=None: self.sent.append(content))
        self.page.expose_function("kernel", self._asked)
        self.page.evaluate(MODEL, [widget._esm, widget.page])
        self.frame = self.page.frame_locator("iframe")

    def push(self) -> None:
        self.widget.send_changes()
        self.page.evaluate("(answers) => window.give(answers)", self._taken())

    def _asked(self, asked: Any) -> list[Any]:
        if not self.asleep:
            self.widget._handle_custom_msg(asked, [])
        return self._taken()

    def _taken(self) -> list[Any]:
        taken, self.sent = self.sent, []
        return taken


@needs_chromium
def test_a_run_is_shown_and_follows_its_training_while_the_kernel_is_busy(
    notebook: Tab, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    diary = Diary("live", store_from_url(str(tmp_path / "live")))
    for step in range(3):
        diary.step(step, {"loss:total": 3.0 - step})
    diary.publish()
    cell = Cell(notebook, barograph.open(tmp_path / "live").show(), monkeypatch)
    playwright.expect(cell.frame.get_by_role("heading", name="live")).to_be_visible()
    playwright.expect(cell.frame.get_by_role("figure", name="Loss").locator("canvas")).to_be_visible()
    playwright.expect(cell.frame.get_by_text("3 steps", exact=True)).to_be_visible()

    cell.asleep = True
    diary.step(3, {"loss:total": 0.5})
    diary.ended()
    cell.push()
    playwright.expect(cell.frame.get_by_text("4 steps", exact=True)).to_be_visible()
    assert notebook.complaints == []
    cell.widget.close()


@needs_chromium
def test_an_experiment_lists_its_runs(notebook: Tab, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for experiment, name in (("it's", "mine"), ("other", "another")):
        with Run(name, experiment=experiment, root=tmp_path) as run:
            run.log_metric("accuracy", 0.5)
    cell = Cell(notebook, Experiment.load("it's", root=tmp_path).show(), monkeypatch)

    playwright.expect(cell.frame.get_by_role("link", name="mine")).to_be_visible()
    playwright.expect(cell.frame.get_by_role("link", name="another")).to_have_count(0)
    assert notebook.complaints == []


def test_a_notebook_without_a_kernel_shows_a_picture(small_run: str) -> None:
    bundle, _ = show(small_run)._repr_mimebundle_()

    assert "application/vnd.jupyter.widget-view+json" in bundle
    assert "small" in bundle["text/html"]
    assert "<script>" not in bundle["text/html"]


def test_without_anywidget_the_picture_is_all(small_run: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "barograph.jupyter.page_widget", raising=False)
    monkeypatch.setitem(sys.modules, "anywidget", None)

    shown = show(small_run)
    assert isinstance(shown, Picture)
    assert "small" in shown._repr_html_()


def test_what_has_no_page_is_refused_in_a_sentence() -> None:
    with pytest.raises(SettingsError, match="Expected a run or its path, not int"):
        show(3)


@needs_chromium
def test_a_study_of_this_process_is_shown_and_goes_on(notebook: Tab, monkeypatch: pytest.MonkeyPatch) -> None:
    study = Study.create(None, {"lr": (0.0, 1.0), "width": (8, 64)}, strategy="random", seed=1, minimize="loss",
                         trials=9)
    for value in (3.0, 1.0, 2.0, 2.5):
        study.tell(study.ask(), value)
    cell = Cell(notebook, study.show(), monkeypatch)
    playwright.expect(cell.frame.get_by_text("Trial 1 is the best of 4")).to_be_visible()
    playwright.expect(cell.frame.get_by_role("img", name="Predicted rank over")).to_be_visible()

    study.tell(study.ask(), 0.5)
    cell.push()

    playwright.expect(cell.frame.get_by_text("Trial 4 is the best of 5")).to_be_visible()
    assert "Trial 1 is the best of 4" in cell.widget._repr_mimebundle_()[0]["text/html"]
    cell.widget.close()
