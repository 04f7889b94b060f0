"""The web page in a real browser: what is wrong, where, and what to do."""

from __future__ import annotations

import os
import re
import selectors
import signal
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from barograph.store.urls import store_from_url
from chromium import HOSTILE, LONGEST_SECS, Tab, needs_chromium, playwright
from chromium import browser as browser
from chromium import tab as tab
from diary import Diary
from forking import TORCH

FORKED = TORCH

pytestmark = needs_chromium

BODY = '''
with torch.no_grad():
    for parameter in model.parameters():
        if parameter.ndim == 1 and len(parameter) > 4:
            parameter.fill_(-10.0)
for number in range(80):
    train_step()
'''
HEALTHY = '''
truth = torch.randn(8, 3)
for number in range(120):
    inputs = torch.randn(32, 8)
    labels = (inputs @ truth).argmax(1)
    train_step()
'''
RULES = "A101,A103,G101,G103,L101,L105,N101,W104"
"""Those that judge neither times nor machines, which depend on how busy this one is."""
ENDLESS = '''
import os, time
for number in range(10**9):
    train_step()
    time.sleep(0.02)
    if number == 20:
        with open("new", "w") as file:
            print(os.getpid(), file=file)
        os.replace("new", "pid")
'''
KILLED_SECS = 60.0
"""Within which an open page shows that its training was killed; it takes two seconds on an idle machine."""


@pytest.fixture(scope="module")
def desk(make_desk: Callable[[str], Any]) -> Any:
    desk = make_desk("studio")
    desk.script(BODY)
    assert desk.run("--budget", "off", "--tag", "team=vision", "train.py", to="runs/dead").code == 0
    desk.script(HEALTHY)
    assert desk.run("--budget", "off", "--rules", RULES, "train.py", to="runs/healthy").code == 0
    diary = Diary(HOSTILE, store_from_url(str(desk.folder / "runs" / "hostile")))
    for number, loss in enumerate([3.0, float("nan"), 1.0]):
        diary.step(number, {"loss:total": loss, f"scalar:{HOSTILE}": 1.0})
    diary.ended()
    return desk


def serve(desk: Any, *words: str, place: str = "runs") -> tuple[Any, str]:
    process = desk.start("barograph", "studio", place, "--no-open", *words)
    with selectors.DefaultSelector() as selector:
        selector.register(process.stdout, selectors.EVENT_READ)
        text, deadline = b"", time.monotonic() + LONGEST_SECS
        while b"Ctrl-C" not in text:
            assert selector.select(max(0.0, deadline - time.monotonic())), "the server did not start in time"
            data = os.read(process.stdout.fileno(), 4096)
            assert data, process.stderr.read()
            text += data
    found = re.search(rb"http://\S+", text)
    assert found is not None
    return process, found[0].decode()


@pytest.fixture(scope="module")
def url(desk: Any) -> Iterator[str]:
    process, url = serve(desk, "--port", "0")
    yield url
    process.terminate()
    process.wait()


def test_the_first_page_leads_to_the_verdict_its_cause_and_its_fix(tab: Tab, url: str) -> None:
    page = tab.open(url)
    page.get_by_role("link").filter(has_text="dead, since step 0").click()

    verdict = page.locator(".verdict")
    playwright.expect(verdict).to_contain_text("dead")
    playwright.expect(verdict).to_contain_text("since step 0")
    playwright.expect(verdict).to_contain_text("Initialize biases to 0")
    playwright.expect(page.get_by_role("figure", name="Loss").locator("canvas")).to_be_visible()
    assert tab.complaints == []
    assert tab.hosts == {url.split("/")[2]}, "nothing comes from other hosts"


def test_a_healthy_run_has_no_finding_anywhere(tab: Tab, url: str) -> None:
    words = re.compile("breaking|costly|doubtful|Fix|Find the cause")
    page = tab.settled(f"{url}#/now")
    card = page.get_by_role("listitem").filter(has=page.get_by_role("link", name="healthy"))
    playwright.expect(card).to_contain_text("No problems found.")
    playwright.expect(card).to_have_attribute("data-severity", "none")
    playwright.expect(card).not_to_contain_text(words)
    page = tab.settled(f"{url}#/runs")
    row = page.get_by_role("row").filter(has=page.get_by_role("link", name="healthy"))
    playwright.expect(row).not_to_contain_text(words)

    row.get_by_role("link", name="healthy").click()
    playwright.expect(page.locator(".verdict")).to_have_text("No problems found in 120 steps.")
    playwright.expect(page.locator(".verdict")).to_have_attribute("data-severity", "good")
    playwright.expect(page.get_by_role("img", name="No problems found", exact=True)).to_be_visible()
    playwright.expect(page.get_by_text("Tensors recorded at all 120 steps")).to_be_visible()
    playwright.expect(page.get_by_role("heading", name="Problems")).to_have_count(0)
    playwright.expect(page.get_by_role("main")).not_to_contain_text(words)
    assert tab.complaints == []


def test_a_group_says_what_is_wrong_in_the_words_of_its_run(tab: Tab, url: str) -> None:
    page = tab.settled(f"{url}#/run/0/dead")
    title = page.locator(".verdict .sentence").inner_text().partition(" since")[0]
    page = tab.settled(f"{url}#/runs?by=tags.team&metric=metrics.loss.last")

    group = page.get_by_role("region", name="Groups").get_by_role("row").filter(has_text="team = vision")
    playwright.expect(group).to_contain_text(title)
    playwright.expect(group.get_by_role("link", name="dead")).to_have_attribute("href", "#/run/0/dead")


def test_a_layer_is_opened_and_the_address_shows_the_same_to_others(tab: Tab, browser: Any, url: str) -> None:
    page = tab.settled(f"{url}#/run/0/dead?tab=layers")
    page.locator("canvas").focus()
    page.keyboard.press("ArrowRight")
    page.keyboard.press("Enter")
    layer = page.get_by_role("region", name="Layer")
    playwright.expect(layer.get_by_role("table")).to_be_visible()
    playwright.expect(layer.get_by_role("figure").first).to_be_visible()

    other = Tab(browser, color_scheme="dark")
    again = other.open(page.url).get_by_role("region", name="Layer")
    playwright.expect(again.get_by_role("figure").first).to_be_visible()
    tab.until(lambda: again.inner_text() == layer.inner_text(), "the other shows the same:")
    page.go_back()
    playwright.expect(layer).to_be_hidden()
    assert tab.complaints + other.complaints == []
    other.context.close()


def test_names_that_are_code_are_shown_and_not_run(tab: Tab, url: str) -> None:
    page = tab.open(f"{url}#/run/0/hostile")

    playwright.expect(page.get_by_role("heading", name=HOSTILE)).to_be_visible()
    page.get_by_role("tab", name="Charts").click()
    playwright.expect(page.get_by_role("figure", name=HOSTILE)).to_be_visible()
    playwright.expect(page.get_by_text("1 NaN or infinite value")).to_be_visible()
    assert page.evaluate("window.hacked") is None
    assert tab.complaints == []


def test_on_a_phone_nothing_is_wider_than_the_screen(browser: Any, url: str) -> None:
    tab = Tab(browser)
    tab.page.set_viewport_size({"width": 390, "height": 800})
    for address in ("#/now", "#/runs", "#/jobs", "#/run/0/dead", "#/run/0/dead?tab=layers", "#/run/0/dead?tab=time"):
        page = tab.settled(f"{url}{address}")
        playwright.expect(page.get_by_text("Reading")).to_have_count(0)
        assert page.evaluate("document.documentElement.scrollWidth") <= 390, address
    tab.context.close()


def test_two_runs_are_chosen_and_compared(tab: Tab, url: str) -> None:
    page = tab.open(f"{url}#/runs")
    page.get_by_label("Compare dead").check()
    page.get_by_label(f"Compare {HOSTILE}").check()
    page.get_by_role("link", name="Compare 2 runs").click()

    results = page.get_by_role("group", name="Results")
    playwright.expect(results.get_by_role("columnheader", name="dead")).to_be_visible()
    playwright.expect(page.get_by_role("region", name="First difference")).to_contain_text("step 0")
    chart = page.get_by_role("figure", name="loss", exact=True)
    chart.scroll_into_view_if_needed()
    playwright.expect(chart.locator("canvas")).to_be_visible()
    assert tab.complaints == []


def test_the_list_of_runs_says_what_is_wrong_although_the_first_question_failed(tab: Tab, url: str) -> None:
    tab.page.route("**/api/problems*", lambda route: route.abort(), times=1)
    page = tab.open(f"{url}#/runs")
    row = page.get_by_role("row").filter(has=page.get_by_role("link", name="dead"))
    tab.until(lambda: any("ERR_FAILED" in text for text in tab.complaints), "the question fails")
    playwright.expect(row).to_contain_text("costly:")  # the finding by name
    page.get_by_role("link", name="Now").click()
    page.get_by_role("link", name="Runs", exact=True).click()

    playwright.expect(row).to_contain_text("dead, since step 0")


def test_a_chart_of_a_run_that_has_ended_is_asked_for_again(tab: Tab, url: str) -> None:
    tab.page.route("**/api/lines*", lambda route: route.fulfill(status=502, body="The gateway has no answer."), times=1)
    page = tab.open(f"{url}#/run/0/dead?tab=charts&search=^loss$")

    playwright.expect(page.get_by_role("figure", name="loss", exact=True).locator("canvas")).to_be_visible()
    assert any("502" in text for text in tab.complaints), "the first question failed"


def test_a_trainer_that_is_killed_is_named_as_killed_and_nothing_says_that_it_runs(desk: Any, tab: Tab) -> None:
    desk.script(ENDLESS, "endless.py")
    trainer = desk.start("barograph", "run", "--no-live", "--budget", "off", "--to", "others/victim", "endless.py")
    desk.wait_until(lambda: (desk.folder / "pid").exists(), "the training has begun")
    studio, url = serve(desk, "--port", "0", place="others")
    page = tab.open(f"{url}#/run/0/victim")
    playwright.expect(page.locator(".head")).to_contain_text("running")
    now = tab.context.new_page()
    now.goto(f"{url}#/now")
    playwright.expect(now.get_by_role("heading", level=1)).to_contain_text("1 training")

    os.kill(int((desk.folder / "pid").read_text()), signal.SIGKILL)
    assert desk.end(trainer).code == -signal.SIGKILL

    at_once = KILLED_SECS * 1000
    playwright.expect(page.locator(".head")).to_contain_text("killed", timeout=at_once)
    playwright.expect(page.locator("main")).not_to_contain_text(re.compile("running|live", re.IGNORECASE))
    playwright.expect(now.get_by_role("heading", level=1)).to_have_text("No training is running", timeout=at_once)
    playwright.expect(now.get_by_role("listitem")).to_contain_text("killed")
    assert tab.complaints == []
    studio.terminate()
    studio.wait()


def test_a_server_that_was_killed_and_started_again_is_asked_again(tab: Tab, desk: Any) -> None:
    process, url = serve(desk, "--port", "0")
    page = tab.open(f"{url}#/now")
    playwright.expect(page.get_by_text("Recent")).to_be_visible()
    process.kill()
    process.wait()
    page.get_by_role("link", name="Jobs").click()
    playwright.expect(page.get_by_role("alert")).to_contain_text("does not respond")

    process, _ = serve(desk, "--port", url.rstrip("/").rpartition(":")[2])
    playwright.expect(page.get_by_role("alert")).to_have_count(0)
    process.terminate()


def test_the_address_of_another_program_is_refused_in_a_sentence(desk: Any, url: str) -> None:
    port = url.rstrip("/").rpartition(":")[2]
    taken = desk.end(desk.start("barograph", "studio", "runs", "--no-open", "--port", port))
    missing = desk.end(desk.start("barograph", "studio", "nowhere", "--no-open"))

    assert (taken.code, missing.code) == (2, 2)
    assert "Address already in use. Choose another: --port 0" in taken.err
    assert missing.err.startswith("barograph: There is no directory nowhere.")
    assert "Traceback" not in taken.err + missing.err
