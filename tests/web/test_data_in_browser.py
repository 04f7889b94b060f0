"""The data of a run in a real browser: the confusion matrix follows the step, and samples lead to their steps."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pytest

from barograph.model.step import Mode
from barograph.model.trace import BatchFed
from barograph.store.urls import store_from_url
from barograph.web.app import application
from chromium import Tab, needs_chromium, playwright, served
from chromium import browser as browser
from chromium import silent_tab as silent_tab
from diary import Diary

pytestmark = needs_chromium
DATA = "#/run/0/digits?tab=data"


def batch(step: int, samples: list[int]) -> BatchFed:
    """Samples that a step used, the fifth of them with a name."""
    names = tuple((sample, "cats/five.png") for sample in samples if sample == 5)
    return BatchFed(step, step, "", 0, "Images", 100, 2 * step, 2, np.array(samples, np.int64).tobytes(), names=names)


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    root = tmp_path_factory.mktemp("data") / "runs"
    diary = Diary("digits", store_from_url(str(root / "digits")))
    diary.begin()
    diary.writers["p0"].put_batches([batch(0, [5, 1]), batch(1, [2, 3]), batch(2, [5, 4])])
    for step in range(4):
        diary.step(step, {"loss:total": 1.0})
        diary.step(step, {"confusion:ce[0,0]": 40 + step, "confusion:ce[1,0]": 2, "label:ce[0]": 40,
                           "label:ce[1]": 2}, mode=Mode.EVAL)
    diary.ended()
    ten = Diary("ten", store_from_url(str(root / "ten")))
    ten.manifest = replace(ten.manifest, run_id="20260101T000000Z-ten")
    for step in range(2):
        ten.step(step, {f"confusion:ce[{label},{label}]": 3 for label in range(10)}, mode=Mode.EVAL)
    ten.step(5, {"loss:total": 1.0}, mode=Mode.EVAL)
    ten.ended()
    with served(application([str(root)], hosts=[])) as url:
        yield url


def test_a_later_evaluation_without_predictions_is_named(tab: Tab, url: str) -> None:
    page = tab.settled(f"{url}{DATA.replace('digits', 'ten')}")

    said = "Predictions were last recorded at step 1; the last evaluation is at step 5."
    playwright.expect(page.get_by_text(said)).to_be_visible()
    assert tab.settled(f"{url}{DATA}").get_by_text("Predictions were last recorded").count() == 0


def test_the_confusion_matrix_follows_the_step_of_all_panels(tab: Tab, url: str) -> None:
    page = tab.settled(f"{url}{DATA}")
    right = page.get_by_title("0 predicted as 0")
    playwright.expect(right).to_have_text("43")  # the last evaluation

    page.keyboard.press("ArrowRight")
    playwright.expect(right).to_have_text("40")
    page.keyboard.press("ArrowRight")
    playwright.expect(right).to_have_text("41")
    page.get_by_role("slider", name="Time").fill("2")
    playwright.expect(right).to_have_text("42")
    playwright.expect(page.get_by_role("figure", name="Accuracy over the steps").get_by_text("step 2")).to_be_visible()

    page.get_by_role("slider", name="Time").fill("3")
    page.get_by_role("button", name="Play").click()
    playwright.expect(right).to_have_text("40")  # from the beginning


def test_the_classes_are_those_of_the_evaluation_at_the_step(tab: Tab, url: str) -> None:
    page = tab.settled(f"{url}{DATA}")
    row = page.get_by_role("row").filter(has=page.get_by_role("rowheader", name="0", exact=True)).first
    playwright.expect(row.get_by_role("cell").first).to_have_text("43")  # not the 160 of all evaluations
    playwright.expect(page.get_by_role("heading", name="Classes step 3, accuracy 95.6%")).to_be_visible()

    page.get_by_role("slider", name="Time").fill("1")

    playwright.expect(row.get_by_role("cell").first).to_have_text("41")
    playwright.expect(page.get_by_text("1 predicted as 0: 2 (100% of class 1)")).to_be_visible()
    playwright.expect(page.get_by_role("heading", name="Most confused step 1")).to_be_visible()


def test_each_class_has_a_line_of_its_own(tab: Tab, url: str) -> None:
    page = tab.settled(f"{url}#/run/0/ten?tab=data")
    figure = page.get_by_role("figure", name="Accuracy over the steps")
    look = "all => all.map(one => one.getAttribute('stroke') + one.getAttribute('stroke-dasharray'))"

    for lines in (figure.locator("path"), figure.get_by_role("listitem").locator("line")):
        playwright.expect(lines).to_have_count(11)
        assert len(set(lines.evaluate_all(look))) == 11


def test_another_run_begins_at_its_last_step(tab: Tab, url: str) -> None:
    page = tab.settled(f"{url}{DATA}")
    page.keyboard.press("ArrowRight")
    playwright.expect(page.get_by_title("0 predicted as 0")).to_have_text("40")

    page.evaluate("location.hash = '#/now'")
    page.get_by_role("link", name="digits").click()
    page.get_by_role("tab", name="Data").click()
    playwright.expect(page.get_by_title("0 predicted as 0")).to_have_text("43")


@pytest.mark.parametrize(("sample", "says", "steps"), [
    ("5", "2 batches contained 5:", ["step 0", "step 2"]),
    ("five.png", "2 batches contained five.png:", ["step 0", "step 2"]),
    ("99", "No batch contained 99.", []),
    ("99999999999999999999999", "No batch contained", []),
])
def test_a_sample_leads_to_the_steps_that_used_it(tab: Tab, url: str, sample: str, says: str, steps: list[str]) -> None:
    page = tab.settled(f"{url}{DATA}")
    field = page.get_by_label("Which steps used a sample?")
    field.fill(sample)
    field.press("Enter")

    playwright.expect(page.get_by_text(says)).to_be_visible()
    uses = page.get_by_role("region", name="Data used in training").get_by_role("link")
    playwright.expect(uses).to_have_text(steps)
    if steps:
        assert f"used={sample}" in page.url, "the view is in the address"
        uses.last.click()
        playwright.expect(page.get_by_role("spinbutton", name="Step")).to_have_value("2")
