"""Studies in a real browser: what is drawn is what the study found, for everyone, live, and by keyboard."""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from barograph.jobs.home import JobRecord, JobsHome
from barograph.jobs.job_log import EVENTS as SUBMITTED
from barograph.jobs.job_log import EventLog
from barograph.jobs.spec import JobSpec
from barograph.jobs.submission import Submission, write_submission
from barograph.model.clock import ManualClock
from barograph.store.urls import store_from_url
from barograph.tune.confirmation import judged
from barograph.tune.study import Study
from barograph.tune.study_events import EVENTS
from barograph.tune.study_home import StudyHome
from barograph.tune.trial import Cause
from barograph.tune.trial_plan import TrialPlan
from barograph.web.app import application
from barograph.web.tokens import Role, Token
from chromium import AXE, HOSTILE, Tab, fits, needs_chromium, playwright, served, violations
from chromium import browser as browser
from chromium import tab as tab
from web_client import recorded

pytestmark = needs_chromium
LRS = (1e-4, 1e-3, 3e-3, 1e-2, 3e-2, 0.1, 0.3, 0.5, 0.8)


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("studies") / "runs"
    recorded(root / "digits-003", [3.0, 2.0])
    digits(root / "studies" / "digits")
    front = Study.create(root / "studies" / "front", {"x": (1, 40), "y": (0.0, 1.0)}, strategy="random", seed=1,
                         maximize="accuracy", minimize="latency", trials=12)
    while trial := front.ask():
        width = float(trial.parameters["x"])
        front.tell(trial, {"accuracy": 1 - 1 / width, "latency": width / 10})
    hostile = Study.create(root / "studies" / "hostile", {"kind": [HOSTILE, "b" * 300], "lr": "1e-4..1:log"},
                           strategy="random", seed=1, minimize=HOSTILE, trials=6)
    while trial := hostile.ask():
        hostile.tell(trial, failed=f"{HOSTILE} {'long ' * 60}") if trial.number == 1 else hostile.tell(trial, 1.0)
    Study.create(root / "studies" / "empty", {"lr": (0.0, 1.0)}, minimize="loss")
    Study.create(root / "studies" / "broken", {"lr": (0.0, 1.0)}, minimize="loss")
    (root / "studies" / "broken" / EVENTS / "00000000.json").write_text("{")
    return root


def digits(place: Path) -> Study:
    """Learning rates from 0.3 diverge; 0.01 is the best; trial 1 fails."""
    clock = ManualClock(unix=1_795_000_000.0)
    plan = TrialPlan("digits", JobSpec(("train.py",)), f"file://{place.parent.parent}")
    space = {"lr": "1e-5..1:log", "width": (8, 64), "optimizer": ["adam", "sgd"]}
    study = Study.create(place, space, strategy="random", seed=1, minimize="loss", trials=40, details=plan.to_json(),
                         clock=clock)
    for number, lr in enumerate(LRS):
        study.give({"lr": lr, "width": 10 + number, "optimizer": "adam" if number % 2 else "sgd"})
        trial = study.ask(job=plan.job_names)
        clock.advance(10)
        if lr >= 0.3:
            study.stop(trial, f"diverged: loss {lr}", cause=Cause.FINDING)
            study.tell(trial)
        elif number == 1:
            study.tell(trial, failed="CUDA out of memory")
        else:
            study.tell(trial, abs(math.log10(lr) + 2) + 0.1)
    study.confirm(judged(study.objective, {3: [0.1, 0.11, 0.12], 4: [0.5, 0.51, 0.52]}))
    return study


@pytest.fixture(scope="module")
def url(root: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("BAROGRAPH_HOME", str(tmp_path_factory.mktemp("home")))
        with served(application([str(root)], hosts=[])) as url:
            yield url


def test_a_study_says_what_it_found_and_links_its_trials(tab: Tab, url: str) -> None:
    page = tab.settled(f"{url}#/studies")
    playwright.expect(page.get_by_role("row", name="broken")).to_contain_text("is damaged")
    page.get_by_role("link", name="digits").click()

    found = page.get_by_role("region", name="What the study found")
    playwright.expect(found).to_contain_text("Trial 3 is the best of 9: loss 0.1 with lr=0.01")
    playwright.expect(found).to_contain_text("lr ≥ 0.3: 3 of 3: diverged")
    playwright.expect(found).to_contain_text("trial 3 is better than trial 4")
    playwright.expect(found.locator("code").first).to_contain_text("train.py --lr 0.01 --width 13 --optimizer adam")
    row = page.get_by_role("row", name="Trial 3, the best")
    playwright.expect(row).to_contain_text("0.01")
    row.get_by_role("link", name="Run of trial 3").click()
    link = page.get_by_role("link", name="Trial 3 of the study digits")
    playwright.expect(link).to_be_visible()
    link.click()
    playwright.expect(page.get_by_role("region", name="Trial 3", exact=True)).to_contain_text("Given by the user")
    assert tab.complaints == []


def test_the_trials_of_a_study_are_one_card_of_what_is_new(tab: Tab, url: str) -> None:
    page = tab.settled(f"{url}#/now")
    card = page.get_by_role("listitem").filter(has_text="digits")

    playwright.expect(card).to_have_count(1)
    playwright.expect(card).to_contain_text("0.1 best, trial 3")
    playwright.expect(card).to_contain_text("9 of 40: 5 finished, 4 stopped or failed")
    assert violations(page) == []
    card.click()
    playwright.expect(page.get_by_role("region", name="What the study found")).to_be_visible()


def test_the_jobs_of_a_study_are_one_row_that_opens(
    tab: Tab, url: str, root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("barograph.web.jobs._MOST_JOBS", 1)
    StudyHome(JobsHome()).add("digits", f"file://{root}/studies/digits")
    logs = {}
    for number, name in enumerate(("digits-003", "digits-003-s2", "digits-004-s2"), 1):
        store = store_from_url(str(tmp_path / name))
        write_submission(store, Submission(name, JobSpec(("train.py",))))
        logs[name] = EventLog(store, SUBMITTED)
        logs[name].append("submitted")
        JobsHome().add(JobRecord(name, store.url, number, "local"), {})

    page = tab.settled(f"{url}#/jobs?job=digits-003")
    row = page.get_by_role("listitem").filter(has_text="Open the study")
    playwright.expect(row.get_by_role("link", name="digits-003", exact=True)).to_have_attribute("aria-expanded", "true")
    playwright.expect(row).to_contain_text("1 older job is not shown.")
    assert violations(page) == []
    logs["digits-004-s2"].append("over", phase="failed", reason="Out of memory.", exit_code=1)
    playwright.expect(row).to_contain_text("Out of memory.")
    row.get_by_role("link", name="digits", exact=True).click()
    playwright.expect(row.get_by_role("link", name="digits-003", exact=True)).to_have_count(0)


def test_trials_are_sorted_and_the_order_is_in_the_address(tab: Tab, url: str, browser: Any) -> None:
    page = tab.settled(f"{url}#/study/0/studies/digits")
    table = page.get_by_role("region", name="9 trials")
    names = table.get_by_role("rowheader")

    table.get_by_role("button", name="loss").click()
    playwright.expect(names.first).to_have_text("★ 3")
    playwright.expect(names.nth(4)).to_have_text("0")  # the last with a value
    table.get_by_role("button", name="loss").click()
    playwright.expect(names.first).to_have_text("0")
    page.get_by_role("group", name="x axis").get_by_role("button", name="Time").click()
    page.get_by_role("button", name="Log scale of width").click()
    page.get_by_label("Parameter of the x axis").select_option("width")
    page.get_by_role("link", name="Trial 8", exact=True).click()
    playwright.expect(page.get_by_role("region", name="Trial 8", exact=True)).to_contain_text("diverged: loss 0.8")

    other = Tab(browser)
    other.settled(page.url)
    assert other.page.locator("main").inner_text() == tab.settled(page.url).locator("main").inner_text()
    over_time = other.page.get_by_role("group", name="x axis").get_by_role("button", name="Time")
    playwright.expect(over_time).to_have_attribute("aria-pressed", "true")
    playwright.expect(other.page.get_by_label("Parameter of the x axis")).to_have_value("width")
    other.context.close()


def test_the_charts_are_drawn_where_the_values_are(tab: Tab, url: str) -> None:
    page = tab.settled(f"{url}#/study/0/studies/digits")
    chart = page.get_by_role("img", name="Best loss so far over 9 trials")
    playwright.expect(chart).to_be_visible()
    # The line of the best goes down to the lowest value, 3% above the lower edge of the plot; its dot to 0.6%.
    assert 0.96 < page.evaluate(_LOWEST_ACCENT) < 1.0
    playwright.expect(page.get_by_role("img", name="loss by lr of 9 trials")).to_be_visible()
    playwright.expect(page.get_by_role("img", name="Predicted rank over")).to_be_visible()
    playwright.expect(page.get_by_role("img", name="5 trials across")).to_be_visible()
    page.goto(f"{url}#/study/0/studies/front")
    playwright.expect(page.get_by_role("img", name="latency by accuracy of 12 trials")).to_be_visible()
    assert tab.complaints == []


_LOWEST_ACCENT = """() => {
  const canvas = document.querySelector('canvas[aria-label^="Best loss"]'), ratio = devicePixelRatio;
  const {data, width, height} = canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height);
  let lowest = 0;
  for (let at = 0; at < data.length; at += 4)
    if (data[at] < 40 && data[at + 1] > 80 && data[at + 2] > 70 && data[at + 3] > 200) lowest = Math.max(lowest, Math.floor(at / 4 / width));
  return (lowest / ratio - 10) / (height / ratio - 50);
}"""  # noqa: E501


def test_a_trial_appears_when_it_ends_and_nothing_else_changes(tab: Tab, url: str, root: Path) -> None:
    study = Study.create(root / "studies" / "live", {"lr": (0.0, 1.0), "x": (0.0, 1.0)}, strategy="random", seed=1,
                         minimize="loss", trials=20)
    for value in (3.0, 2.0, 2.5, 2.7, 2.9):
        study.tell(study.ask(), value)
    page = tab.settled(f"{url}#/study/0/studies/live?trial=1&sort=trial")
    playwright.expect(page.get_by_text("Trial 1 is the best of 5")).to_be_visible()

    trial = study.ask()
    playwright.expect(page.get_by_role("row", name="Trial 5")).to_contain_text("running")
    study.tell(trial, 0.5)

    playwright.expect(page.get_by_text("Trial 5 is the best of 6: loss 0.5")).to_be_visible()
    playwright.expect(page.get_by_role("region", name="Trial 1", exact=True)).to_be_visible()
    assert page.url.endswith("?trial=1&sort=trial")


def test_hostile_names_and_reasons_are_only_text(tab: Tab, url: str) -> None:
    page = tab.settled(f"{url}#/study/0/studies/hostile?trial=1")
    playwright.expect(page.get_by_role("region", name="Trial 1", exact=True)).to_contain_text(HOSTILE)
    page.set_viewport_size({"width": 390, "height": 800})
    tab.until(partial(fits, page), "it fits into 390 pixels:")
    assert page.evaluate("window.hacked") is None
    assert tab.complaints == []


def test_studies_are_for_everyone_in_every_state(tab: Tab, browser: Any, url: str) -> None:
    if not AXE.is_file():
        pytest.skip("the page was built elsewhere: there is no axe-core")
    dark = Tab(browser, color_scheme="dark")
    for state in ("#/studies", "#/study/0/studies/digits?trial=8", "#/study/0/studies/front", "#/study/0/studies/empty",
                  "#/study/0/studies/broken", "#/study/0/nothing", "#/study/9/nothing"):
        page = tab.settled(f"{url}{state}")
        assert violations(page) == [], state
        for width in (640, 390, 1280):
            page.set_viewport_size({"width": width, "height": 800})
            tab.until(partial(fits, page), f"{state} fits into {width} pixels:")
        assert violations(dark.settled(f"{url}{state}"), "color-contrast") == [], state
    dark.context.close()


def test_states_without_trials_say_so(tab: Tab, url: str) -> None:
    page = tab.settled(f"{url}#/study/0/studies/empty")
    playwright.expect(page.get_by_text("No trial has started yet.")).to_be_visible()
    page = tab.settled(f"{url}#/study/0/studies/broken")
    playwright.expect(page.get_by_role("alert")).to_contain_text("is damaged")
    page = tab.settled(f"{url}#/study/0/nothing")
    playwright.expect(page.get_by_role("alert")).to_contain_text("There is no study")


def test_a_trial_is_found_by_keyboard_alone(tab: Tab, url: str) -> None:
    page = tab.settled(f"{url}#/now")
    page.keyboard.press("Control+k")
    page.keyboard.type("digits studies")
    playwright.expect(page.get_by_role("option")).to_have_count(1)
    page.keyboard.press("Enter")
    playwright.expect(page.get_by_role("heading", name="digits")).to_be_visible()
    page.keyboard.press("g")
    page.keyboard.press("s")
    playwright.expect(page.get_by_role("heading", name="Studies")).to_be_visible()
    playwright.expect(page.get_by_role("link", name="front")).to_be_visible()
    page.get_by_role("link", name="digits").focus()
    page.keyboard.press("Enter")
    playwright.expect(page.get_by_role("row", name="Trial 8")).to_be_visible()
    page.get_by_role("link", name="Trial 8", exact=True).focus()
    page.keyboard.press("j")
    page.keyboard.press("Enter")
    playwright.expect(page.get_by_role("region", name="Trial 7", exact=True)).to_be_visible()


def test_a_reader_sees_everything(browser: Any, root: Path) -> None:
    app = application([str(root)], hosts=[], tokens=[Token("w" * 20, Role.WRITER), Token("r" * 20, Role.READER)])
    with served(app) as url:
        tab = Tab(browser)
        page = tab.open(f"{url}?token={'r' * 20}#/study/0/studies/digits")
        playwright.expect(page.get_by_text("Trial 3 is the best of 9")).to_be_visible()
        tab.context.close()


def test_many_trials_are_few_rows(tab: Tab, url: str, root: Path) -> None:
    study = Study.create(root / "studies" / "many", {"x": (0.0, 1.0)}, strategy="random", seed=1, minimize="loss")
    for number in range(400):
        study.add({"x": number / 400}, number / 400)
    page = tab.settled(f"{url}#/study/0/studies/many?sort=trial")
    table = page.get_by_role("region", name="400 trials")
    playwright.expect(table.get_by_role("rowheader").first).to_have_text("★ 0")
    assert table.get_by_role("rowheader").count() < 60
    table.focus()
    page.keyboard.press("End")
    playwright.expect(table.get_by_role("rowheader").last).to_have_text("399")
