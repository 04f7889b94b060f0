"""Charts, layers and steps in a real browser: what is drawn is what was recorded."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

from barograph.model.capsule import CapsuleHead, Held
from barograph.model.origin import Origin, Package
from barograph.model.step import Mode
from barograph.provenance.gathering import Gathered
from barograph.runs.state.capsules import keep_replay, read_capsule, write_capsule
from barograph.runs.state.origins import write_origin
from barograph.store.urls import store_from_url
from chromium import CHROMIUM, LONGEST_SECS, served
from diary import Diary

playwright = pytest.importorskip("playwright.sync_api")
uvicorn = pytest.importorskip("uvicorn")
pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="there is no Chromium on this machine")

REPLAY = {
    "grade": "bitwise", "text": "The loss and every gradient are bit-identical.", "losses": [[None, None]],
    "bad_operation": {"name": "log", "phase": "forward", "module": "fc", "line": "train.py:7", "of": "",
                      "handed_in": False, "inputs": [], "outputs": []},
    "guilty": {"batch": 0, "rows": [3], "without_them": True, "failure": "", "any_fails": False,
               "samples": [{"row": 3, "loader": "Digits", "index": "77", "name": "seven.png"}]},
    "weighed": None, "samples_not_asked": "", "elsewhere": False, "notes": [], "changed": [], "finite": False,
    "trials": [{"remedy": "lr=1e-4", "finite": False, "good_steps": 0, "norm": None, "losses": [None]}],
}


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("browser") / "runs"


@pytest.fixture(scope="module")
def live(place: Path) -> Diary:
    diary = _diary(place / "live")
    for number in range(20):
        diary.step(number, {"loss:total": 1.0 + number})
    diary.publish()
    return diary


@pytest.fixture(scope="module")
def url(place: Path, live: Diary) -> Iterator[str]:
    from barograph.web.app import application

    _write(place / "spiky")
    with served(application([str(place)], hosts=["127.0.0.1"])) as url:
        yield url


def _write(place: Path) -> None:
    place.parent.mkdir(parents=True, exist_ok=True)
    diary = _diary(place)
    for number in range(4000):
        loss = 100.0 if number == 3777 else math.nan if number == 1000 else 1.0
        tensors: dict[str, Any] = {}
        if number < 40:
            tensors = {"output:dead": [0.0, 0.0], "output:live": [1.5, 0.5]}
            tensors |= {"output:late": [1.0, 2.0]} if number >= 20 else {}
        diary.step(number, {"loss:total": loss, "scalar:acc": number / 4000,
                            "scalar:half": 1.5 if number < 2000 else math.nan}, tensors)
        if number % 500 == 0:
            diary.step(number, {"scalar:half": 1.0 if number < 3500 else 2.0}, mode=Mode.EVAL)
    diary.ended()
    head = CapsuleHead(0, "p0", 5, 5, "", Held.NOT_FINITE, "The loss is NaN.", 0.0)
    write_capsule(diary.store, head, {}, {})
    keep_replay(diary.store, read_capsule(diary.store, head.name), REPLAY)


def _diary(place: Path) -> Diary:
    diary = Diary(place.name, store_from_url(str(place)))
    diary.manifest = replace(diary.manifest, run_id=f"{diary.manifest.run_id}-{place.name}")
    return diary


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with playwright.sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox", "--disable-gpu"])
        yield browser
        browser.close()


@pytest.fixture
def page(browser: Any) -> Iterator[Any]:
    context = browser.new_context(viewport={"width": 1280, "height": 900})
    page = context.new_page()
    page.set_default_timeout(LONGEST_SECS * 1000)
    complaints: list[str] = []
    page.on("console", lambda message: complaints.append(message.text) if "Canvas2D" not in message.text else None)
    page.on("response", lambda answer: complaints.append(answer.url) if answer.status >= 400 else None)
    page.on("pageerror", lambda error: complaints.append(str(error)))
    yield page
    assert complaints == []
    context.close()


def _wait_for(page: Any, url: str, name: str) -> None:
    """Wait until the catalog has a new run, which takes seconds."""
    page.goto(f"{url}#/runs")
    playwright.expect(page.get_by_role("link", name=name).first).to_be_visible()


def test_the_spike_is_drawn_and_the_nan_is_marked_and_a_drag_zooms_to_them(page: Any, url: str) -> None:
    page.goto(f"{url}#/run/0/spiky?tab=charts")
    chart = page.get_by_role("figure", name="loss", exact=True)
    canvas = chart.locator("canvas")
    playwright.expect(canvas).to_be_visible()
    playwright.expect(chart.get_by_text("1 NaN or infinite value")).to_be_visible()
    page.wait_for_function(f"({_HIGHEST_INK})().length > 0")
    highest, red = page.evaluate(f"({_HIGHEST_INK})()")
    # The axis ends 5% above the maximum, 100, at 3777 of 4000 steps; the mark of the NaN is at 1000.
    assert 0.0 <= highest["y"] <= 0.07
    assert abs(highest["x"] - 3777 / 3999) < 0.01
    assert abs(red - 1000 / 3999) < 0.01

    over = chart.locator(".u-over")
    wide = over.bounding_box()["width"]
    over.hover(position={"x": wide * 0.935, "y": 60})
    page.mouse.down()
    over.hover(position={"x": wide * 0.965, "y": 60})
    page.mouse.up()
    page.mouse.move(5, 5)
    playwright.expect(chart.get_by_role("button", name="All steps")).to_be_visible()
    assert "from=37" in page.url
    chart.get_by_role("group").focus()
    page.keyboard.press("Home")
    while "step 3,777" not in chart.inner_text():
        page.keyboard.press("ArrowRight")
        assert "step 3,8" not in chart.inner_text(), "each step of the part has its own point"
    assert "100" in chart.get_by_role("listitem").first.inner_text()
    chart.get_by_role("button", name="All steps").click()
    playwright.expect(chart.get_by_role("button", name="All steps")).to_have_count(0)


def test_a_smoothed_line_has_gaps_and_that_of_few_points_is_not_smoothed_away(page: Any, url: str) -> None:
    page.goto(f"{url}#/run/0/spiky?tab=charts&smooth=50")
    chart = page.get_by_role("figure", name="half", exact=True)
    chart.scroll_into_view_if_needed()
    playwright.expect(chart.get_by_text("smoothed over about 32 points")).to_be_visible()
    deadline = time.monotonic() + LONGEST_SECS
    while not (ink := page.evaluate(f"({_SMOOTHED_INK})()")):
        assert time.monotonic() < deadline, "no line is drawn"
        page.wait_for_timeout(50)

    colors_before, colors_in_nan, evaluation_top = ink

    assert (colors_before > 1, colors_in_nan) == (True, 1), "no line where all values are NaN"
    assert evaluation_top < 0.1, "the last of eight evaluations is reached"


def test_axis_labels_have_the_digits_that_the_distance_of_the_ticks_has(page: Any, url: str, place: Path) -> None:
    diary = _diary(place / "quarters")
    for step, loss in ((0, 0.0), (6000, 1.25), (12000, 0.5)):
        diary.step(step, {"loss:total": loss})
    diary.ended()
    page.add_init_script(_NOTE_DRAWING)
    _wait_for(page, url, "quarters")
    page.goto(f"{url}#/run/0/quarters?tab=charts")
    page.wait_for_function("() => drawn.some(({ text }) => text?.endsWith('k'))")

    labels = page.evaluate("() => [...new Set(drawn.map(({ text }) => text).filter(Boolean))]")

    assert labels == ["0", "2.5k", "5.0k", "7.5k", "10.0k", "0.25", "0.50", "0.75", "1.00", "1.25"]


def test_a_smoothed_line_keeps_its_dashes(page: Any, url: str) -> None:
    page.add_init_script(_NOTE_DRAWING)
    page.goto(f"{url}#/compare?run=0/spiky&run=0/live&smooth=50")
    page.get_by_role("figure", name="half", exact=True).scroll_into_view_if_needed()

    # Train is solid, evaluation dashed; smoothed lines are the widest.
    page.wait_for_function("() => new Set(drawn.filter(({ width }) => width === 2).map(({ dash }) => dash)).size > 1")


def test_packages_are_listed_in_columns(page: Any, url: str, place: Path) -> None:
    diary = _diary(place / "packaged")
    diary.step(0, {"loss:total": 1.0})
    diary.ended()
    packages = {f"package-{number}": Package("1.0") for number in range(30)}
    write_origin(diary.store, 0, Gathered(Origin(("train.py",), packages=packages)))
    _wait_for(page, url, "packaged")
    page.goto(f"{url}#/run/0/packaged?tab=environment")
    page.get_by_text("Packages").click()

    rows = page.get_by_role("row").filter(has_text="package-")
    playwright.expect(rows.last).to_be_visible()

    assert len(set(rows.evaluate_all("all => all.map((row) => row.getBoundingClientRect().left)"))) > 1


def test_the_layout_of_charts_is_in_the_address(page: Any, url: str, browser: Any) -> None:
    page.goto(f"{url}#/run/0/spiky?tab=charts")
    page.get_by_label("x axis").select_option("acc")
    page.get_by_role("button", name="Log y").click()
    page.get_by_role("button", name="Ignore outliers").click()
    page.get_by_role("button", name="Pin acc").click()
    chart = page.get_by_role("figure", name="loss", exact=True)
    playwright.expect(chart.get_by_text("outlier beyond the axis")).to_be_visible()
    playwright.expect(page.get_by_role("heading", name="Pinned")).to_be_visible()

    other = browser.new_context().new_page()
    other.goto(page.url)
    playwright.expect(other.get_by_role("heading", name="Pinned")).to_be_visible()
    playwright.expect(other.get_by_role("button", name="Log y")).to_have_attribute("aria-pressed", "true")
    assert other.get_by_label("x axis").input_value() == "acc"
    other.context.close()


def test_another_x_axis_shows_all_of_it(page: Any, url: str) -> None:
    page.goto(f"{url}#/run/0/spiky?tab=charts&from=5&to=15")
    page.get_by_label("x axis").select_option("acc")
    playwright.expect(page.get_by_role("button", name="All values")).to_have_count(0)
    assert "x=acc" in page.url
    assert "from=" not in page.url


def test_nothing_moves_under_the_pointer_when_the_marks_arrive(page: Any, url: str) -> None:
    held: list[Any] = []
    page.route("**/api/marks*", lambda route: route.continue_() if held else held.append(route))
    with page.expect_request("**/api/marks*"):
        page.goto(f"{url}#/run/0/spiky?tab=charts")
    button = page.get_by_role("button", name="Ignore outliers")
    playwright.expect(page.get_by_role("figure", name="loss", exact=True).locator("canvas")).to_be_visible()
    before = button.bounding_box()
    assert page.get_by_role("button", name="Edit", exact=True).count() == 0
    held[0].continue_()
    playwright.expect(page.get_by_role("button", name="Edit", exact=True)).to_be_visible()
    assert button.bounding_box() == before


def test_new_steps_are_drawn_and_the_zoom_stays(page: Any, url: str, live: Diary) -> None:
    page.goto(f"{url}#/run/0/live?tab=charts&from=5&to=15")
    chart = page.get_by_role("figure", name="loss", exact=True)
    playwright.expect(chart.get_by_role("listitem").first).to_contain_text("16")
    for number in range(20, 30):
        live.step(number, {"loss:total": 1.0 + number})
    live.publish()
    for _ in range(2):
        with page.expect_response(lambda answer: "/api/lines" in answer.url):
            pass
    playwright.expect(chart.get_by_role("listitem").first).to_contain_text("16")
    assert "from=5&to=15" in page.url

    page.get_by_role("button", name="All steps").click()
    playwright.expect(chart.get_by_role("listitem").first).to_contain_text("30")
    page.go_back()
    playwright.expect(chart.get_by_role("listitem").first).to_contain_text("16")
    assert "from=5&to=15" in page.url


def test_a_dead_layer_differs_from_one_that_was_not_recorded(page: Any, url: str) -> None:
    page.goto(f"{url}#/run/0/spiky?tab=layers&statistic=norm")
    canvas = page.get_by_role("img", name="norm of the output")
    playwright.expect(canvas).to_be_visible()
    page.wait_for_function(f"({_CELLS})().length === 3")
    dead, live, late = page.evaluate(f"({_CELLS})()")
    # Rows are in the order in which the layers ran; the last was recorded from step 20 on.
    assert len(set(dead)) == 1, "one color over all steps"
    assert set(dead).isdisjoint({*live, *late[:2]}), "zero is neither a small value nor what was not recorded"
    assert "255,255,255" not in {*dead, *live}, "nor the background"
    assert late[-1] not in late[:2]

    canvas.click(position={"x": 30, "y": 30})
    layer = page.get_by_role("region", name="Layer")
    playwright.expect(layer.get_by_role("heading", name="live")).to_be_visible()
    playwright.expect(layer.get_by_role("img", name="Magnitudes of output:live")).to_be_visible()
    layer.get_by_role("button", name="fp8 E4M3").click()
    playwright.expect(layer.get_by_text("fp8_e4m3 smallest normal").first).to_be_visible()


def test_a_saved_step_says_what_its_replay_found(page: Any, url: str) -> None:
    page.goto(f"{url}#/run/0/spiky?tab=step&step=5")
    saved = page.get_by_role("region", name="Saved step")

    for text in ("bitwise", "log, forward in fc, train.py:7", "Row 3 of the batch fails alone",
                 "77 of Digits, seven.png", "lr=1e-4", "not finite", "barograph replay "):
        playwright.expect(saved).to_contain_text(text)
    playwright.expect(page.get_by_role("region", name="Tensors")).to_contain_text("output:dead")
    page.keyboard.press("ArrowRight")
    playwright.expect(saved).to_have_count(0)
    assert "step=6" in page.url


def test_steps_that_nobody_saw_are_hatched_and_said(page: Any, url: str) -> None:
    page.goto(f"{url}#/run/0/spiky")

    ruler = page.get_by_role("img", name="Tensors recorded at 40 of 4,000 steps")
    playwright.expect(ruler).to_be_visible()
    filled = ruler.locator("i")
    assert filled.count() == 1
    # 40 of 4000 steps, in columns of 13 or 14.
    assert 9 <= filled.bounding_box()["width"] / ruler.bounding_box()["width"] * 1000 <= 15
    assert "repeating-linear-gradient" in ruler.evaluate("(ruler) => getComputedStyle(ruler).backgroundImage")
    playwright.expect(page.get_by_text("Not evaluated to the end")).to_be_visible()


_HIGHEST_INK = """() => {
  const canvas = document.querySelector('figure[aria-label="loss"] canvas');
  const over = document.querySelector('figure[aria-label="loss"] .u-over');
  if (!canvas || !over) return [];
  const box = canvas.getBoundingClientRect(), plot = over.getBoundingClientRect(), ratio = canvas.width / box.width;
  const left = Math.round((plot.left - box.left) * ratio), top = Math.round((plot.top - box.top) * ratio);
  const wide = Math.round(plot.width * ratio), tall = Math.round(plot.height * ratio);
  const data = canvas.getContext('2d').getImageData(left, top, wide, tall).data;
  let highest = null, reds = [];
  for (let y = 0; y < tall; y += 1) for (let x = 0; x < wide; x += 1) {
    const [r, g, b, a] = data.slice((y * wide + x) * 4, (y * wide + x) * 4 + 4);
    if (a > 200 && r > 150 && g < 60 && b < 60) reds.push(x);
    if (!highest && a > 200 && r < 60 && g > 60 && g < 140) highest = { x: x / wide, y: y / tall };
  }
  return highest && reds.length ? [highest, reds.reduce((sum, x) => sum + x, 0) / reds.length / wide] : [];
}"""
_SMOOTHED_INK = """() => {
  const canvas = document.querySelector('figure[aria-label="half"] canvas');
  const over = document.querySelector('figure[aria-label="half"] .u-over');
  if (!canvas || !over) return [];
  const box = canvas.getBoundingClientRect(), plot = over.getBoundingClientRect(), ratio = canvas.width / box.width;
  const left = Math.round((plot.left - box.left) * ratio), top = Math.round((plot.top - box.top) * ratio);
  const wide = Math.round(plot.width * ratio), tall = Math.round(plot.height * ratio);
  const data = canvas.getContext('2d').getImageData(left, top, wide, tall).data;
  const at = (x, y) => data.slice((y * wide + x) * 4, (y * wide + x) * 4 + 4);
  const across = (share) => new Set(Array.from({ length: Math.round(tall / 10) }, (_, row) =>
    at(Math.round(share * wide), Math.round(0.45 * tall) + row).join())).size;
  let highest = 1;
  for (let y = 0; y < tall; y += 1) for (let x = 0; x < wide; x += 1) {
    const [r, g, b, a] = at(x, y);
    if (a > 200 && r > 150 && g > 60 && g < 120 && b < 60) highest = Math.min(highest, y / tall);
  }
  return highest < 1 ? [across(0.3), across(0.7), highest] : [];
}"""
_CELLS = """() => {
  const canvas = document.querySelector('.cells canvas');
  if (!canvas) return [];
  const over = ([r, g, b, a]) => [r, g, b].map((value) => Math.round(255 + (value - 255) * a / 255)).join();
  const pen = canvas.getContext('2d'), ratio = devicePixelRatio, rows = Math.round(canvas.height / ratio / 22);
  return Array.from({ length: rows }, (_, row) => [0.02, 0.3, 0.55, 0.98].map((part) =>
    over(pen.getImageData(part * canvas.width, (row * 22 + 11) * ratio, 1, 1).data)));
}"""

_NOTE_DRAWING = """(() => {
  window.drawn = [];
  const { fillText, stroke } = CanvasRenderingContext2D.prototype;
  CanvasRenderingContext2D.prototype.fillText = function (text, ...rest) {
    drawn.push({ text });
    return fillText.call(this, text, ...rest);
  };
  CanvasRenderingContext2D.prototype.stroke = function (...rest) {
    drawn.push({ width: this.lineWidth, dash: this.getLineDash().join() });
    return stroke.apply(this, rest);
  };
})()"""


def test_runs_of_a_group_become_one_line_whose_band_and_gaps_are_named(page: Any, url: str, place: Path) -> None:
    for number, (lr, losses) in enumerate(((0.1, [1.0, 1.0, 1.0]), (0.1, [3.0, 3.0]), (0.2, [5.0, math.nan, 5.0]))):
        diary = _diary(place / f"grouped{number}")
        for step, loss in enumerate(losses):
            diary.step(step, {"loss:total": loss})
        diary.ended()
        write_origin(diary.store, 0, Gathered(Origin(("train.py",), parameters={"lr": lr})))
    _wait_for(page, url, "grouped2")
    page.goto(f"{url}#/compare?run=0/grouped0&run=0/grouped1&run=0/grouped2")

    page.get_by_label("Group by").select_option("lr")

    chart = page.get_by_role("figure", name="loss", exact=True)
    playwright.expect(chart).to_contain_text("lr = 0.1")
    playwright.expect(chart).to_contain_text("dashed: only 1 of 2 runs")
    playwright.expect(chart).to_contain_text("NaN in 1 run")
    chart.locator(".plot").press("Home")
    playwright.expect(chart).to_contain_text("± 1, n = 2")
    page.get_by_label("Band").select_option("min to max")
    playwright.expect(chart).to_contain_text("1 to 3, n = 2")
    assert "group=params.lr" in page.url


def test_a_chart_of_groups_has_as_many_columns_as_one_of_few_runs(page: Any, url: str, place: Path) -> None:
    names = [f"many{number}" for number in range(20)]
    for number, name in enumerate(names):
        diary = _diary(place / name)
        diary.step(0, {"loss:total": 1.0})
        diary.ended()
        write_origin(diary.store, 0, Gathered(Origin(("train.py",), parameters={"lr": 0.1 * (number % 2)})))
    _wait_for(page, url, names[-1])

    with page.expect_request("**/api/bands?*") as asked:
        page.goto(f"{url}#/compare?{'&'.join(f'run=0/{name}' for name in names)}&group=params.lr")

    width = page.get_by_role("figure", name="loss", exact=True).locator(".plot").bounding_box()["width"]
    assert int(parse_qs(urlsplit(asked.value.url).query)["points"][0]) >= 2 * width, "two for each column of pixels"
