"""Pages saved as files, opened without a network."""

from __future__ import annotations

import base64
import math
from collections.abc import Iterator
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from barograph.errors import SettingsError
from barograph.experiments.artifacts import artifact_from_bytes
from barograph.experiments.editing import edit_from_json, edit_item
from barograph.experiments.handle import catalog_at
from barograph.model.exhibits import Picture
from barograph.model.items import Entry, Verb
from barograph.store.urls import store_from_url
from barograph.tune.study import Study
from barograph.web import charting, saved
from barograph.web.app import application
from barograph.web.embedding import MOST_BYTES
from barograph.web.in_process import get_inside
from barograph.web.one_file import run_as_file, study_as_file
from chromium import HOSTILE, Tab, needs_chromium, playwright, served
from chromium import browser as browser
from diary import Diary
from web_client import recorded

pytestmark = needs_chromium
PNG = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==")
LOSSES = [math.sin(step / 9) + 2 for step in range(300)]


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("saved") / "runs"
    for place, name in (("first", "first"), ("hostile", HOSTILE)):
        diary = Diary(name, store_from_url(str(root / place)))
        diary.manifest = replace(diary.manifest, run_id=place)
        for step, loss in enumerate(LOSSES):
            diary.step(step, {"loss:total": loss if step != 77 else math.nan, f"scalar:{HOSTILE}</script>": 1.0},
                       {"gradient:fc.weight": [loss, 0.0], "output:fc": [0.0, 0.0]})
        diary.ended()
    return root


@pytest.fixture
def offline(browser: Any) -> Iterator[Tab]:
    tab = Tab(browser, offline=True, accept_downloads=True)
    yield tab
    tab.context.close()


def see_run(offline: Tab, file: Path) -> None:
    """All tabs of a saved run open, and a chart zooms."""
    page = offline.open(file.as_uri())
    playwright.expect(page.get_by_text("This file does not update")).to_be_visible()
    playwright.expect(page.get_by_role("figure", name="Loss").locator("canvas")).to_be_visible()
    for tab, shows in (("Charts", page.get_by_role("figure", name=f"{HOSTILE}</script>")),
                       ("Layers", page.get_by_role("img", name="zeros of the output of 1 layers")),
                       ("Steps", page.get_by_role("rowheader", name="299")),
                       ("Data", page.get_by_text("No classes were recorded")),
                       ("Time", page.get_by_role("heading", name="Time of steps"))):
        page.get_by_role("tab", name=tab).click()
        playwright.expect(shows).to_be_visible()
    page.evaluate("location.hash = `${location.hash.split('?')[0]}?from=70&to=80`")
    playwright.expect(page.get_by_text("1 NaN or infinite value").first).to_be_visible()
    assert page.evaluate("window.hacked") is None
    assert offline.complaints == []


def test_a_run_is_saved_without_a_server_and_opens_offline(offline: Tab, runs: Path, tmp_path: Path) -> None:
    file = tmp_path / "hostile.html"
    file.write_text(run_as_file(str(runs / "hostile"), title=HOSTILE, saved_unix=1.8e9), encoding="utf-8")

    assert file.stat().st_size < 600_000
    assert HOSTILE not in file.read_text(encoding="utf-8")
    see_run(offline, file)


def test_a_page_saves_itself(browser: Any, offline: Tab, runs: Path, tmp_path: Path) -> None:
    tab = Tab(browser, accept_downloads=True)
    with served(application([str(runs)], hosts=[])) as url:
        for at, (address, ready) in enumerate([
            ("#/run/0/hostile", "Loss"), ("#/runs", None), ("#/compare?run=0%2Ffirst&run=0%2Fhostile", "loss"),
        ]):
            page = tab.open(f"{url}{address}")
            if ready:
                playwright.expect(page.get_by_role("figure", name=ready, exact=True).locator("canvas")).to_be_visible()
            else:
                playwright.expect(page.get_by_role("link", name="first", exact=True)).to_be_visible()
            with page.expect_download() as download:
                page.get_by_role("button", name="Save this page as a file").click()
            download.value.save_as(tmp_path / f"{at}.html")
    tab.context.close()

    see_run(offline, tmp_path / "0.html")
    page = offline.open((tmp_path / "1.html").as_uri())
    playwright.expect(page.get_by_role("link", name="first", exact=True)).to_be_visible()
    page.get_by_role("link", name="first", exact=True).click()
    playwright.expect(page.get_by_role("alert")).to_contain_text("This file does not contain this part")
    page = offline.open((tmp_path / "2.html").as_uri())
    playwright.expect(page.get_by_role("columnheader", name=HOSTILE)).to_be_visible()
    playwright.expect(page.get_by_role("figure", name="loss", exact=True).locator("canvas")).to_be_visible()
    assert tab.complaints + offline.complaints == []
    assert page.evaluate("window.hacked") is None


def test_images_and_files_are_in_a_saved_run_unless_they_are_large(
    offline: Tab, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = tmp_path / "runs"
    recorded(root / "shown", [3.0, 2.0])
    catalog, store = catalog_at(str(root)), store_from_url(str(root))
    catalog.feed()
    uid = catalog.item("shown").uid
    for name, data in {"small.png": PNG, "large.png": PNG + bytes(MOST_BYTES), "notes.txt": b"epoch 1: ok"}.items():
        catalog.tell([Entry(uid, Verb.OUTPUT, asdict(artifact_from_bytes(store, data, name, "")))])
    monkeypatch.setattr(charting, "exhibits_of_run", lambda store, uid: (Picture("digits", "image/png", PNG),))
    file = tmp_path / "shown.html"
    answers = saved.saved_answers(partial(get_inside, application([str(root)], hosts=[])), ["0/shown"])
    file.write_text(saved.page_with(saved.packed(answers, start="#/run/0/shown?tab=files", saved_unix=1.8e9)), "utf-8")

    page = offline.open(file.as_uri())
    for name, shows in (("notes.txt", page.get_by_text("epoch 1: ok")),
                        ("large.png", page.get_by_text("larger than 200 kB")),
                        ("small.png", page.get_by_role("img", name="small.png"))):
        page.get_by_role("button", name=name).click()
        playwright.expect(shows).to_be_visible()
    page.get_by_role("tab", name="Data").click()
    logged = page.get_by_role("img", name="digits")
    playwright.expect(logged).to_be_visible()
    offline.until(lambda: bool(logged.evaluate("(image) => image.naturalWidth === 1")), "the image is drawn")
    assert page.get_by_role("link", name="Download").count() == 0
    assert offline.complaints == []


def test_a_run_saved_by_the_command_line_has_its_files_and_what_people_changed(
    offline: Tab, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = tmp_path / "runs"
    recorded(root / HOSTILE.replace("/", "") / "100% done", [3.0, 2.0])
    catalog, store = catalog_at(str(root)), store_from_url(str(root))
    catalog.feed()
    item = catalog.item("100% done")
    link = artifact_from_bytes(store, b"epoch 1: ok", "notes.txt", "")
    catalog.tell([Entry(item.uid, Verb.OUTPUT, asdict(link))])
    edit_item(catalog, item, edit_from_json({"name": "the best one"}), version="", by="")
    monkeypatch.setattr(charting, "exhibits_of_run", lambda store, uid: (Picture("digits", "image/png", PNG),))
    file, run = tmp_path / "shown.html", root / HOSTILE.replace("/", "") / "100% done"

    file.write_text(run_as_file(str(run), title="shown", saved_unix=1.8e9), "utf-8")

    page = offline.open(file.as_uri())
    playwright.expect(page.get_by_role("heading", name="the best one")).to_be_visible()
    page.get_by_role("tab", name="Files").click()
    page.get_by_role("button", name="notes.txt").click()
    playwright.expect(page.get_by_text("epoch 1: ok")).to_be_visible()
    page.get_by_role("tab", name="Data").click()
    playwright.expect(page.get_by_role("img", name="digits")).to_be_visible()
    assert not (run / ".catalog").exists()
    assert offline.complaints == []


def test_images_beyond_the_bound_of_a_run_are_left_out_with_a_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    recorded(tmp_path / "runs" / "shown", [3.0, 2.0])
    monkeypatch.setattr(saved, "_MOST_EMBEDDED_CHARS", 200)
    monkeypatch.setattr(charting, "exhibits_of_run",
                        lambda store, uid: tuple(Picture(name, "image/png", PNG) for name in "abc"))

    answers = saved.saved_answers(partial(get_inside, application([str(tmp_path / "runs")], hosts=[])), ["0/shown"])

    found = [answers[f"api/picture?run=0%2Fshown&title={name}&view=embedded"] for name in "abc"]
    assert [one["url"] is not None for one in found] == [True, False, False]
    assert "too large together" in found[1]["note"]


def test_a_page_that_was_not_built_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(saved, "BUILT", tmp_path)

    with pytest.raises(SettingsError, match="The page was not built"):
        saved.page_with()


def test_the_end_of_a_script_inside_the_script_does_not_end_it(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "assets").mkdir()
    (tmp_path / "index.html").write_text('<script src="./early.js"></script><script src="./assets/page-1.js"></script>')
    (tmp_path / "assets" / "page-1.js").write_text("a = '</SCRIPT><!--<script>'")
    (tmp_path / "licenses.md").write_text("Library -- MIT -->")
    monkeypatch.setattr(saved, "BUILT", tmp_path)

    assert r"a = '\x3C/SCRIPT>\x3C!--\x3Cscript>'" in saved.page_with()
    assert "<!--\nLibrary - - MIT - ->\n-->" in saved.page_with()


def test_the_licenses_of_the_libraries_are_in_a_saved_page() -> None:
    page = saved.page_with()

    for library in ("svelte", "uplot"):
        assert f"## {library} - " in page
    assert "Permission is hereby granted, free of charge" in page


def test_a_study_is_saved_with_its_contours(offline: Tab, tmp_path: Path) -> None:
    study = Study.create(None, {"lr": "1e-4..1:log", "width": (8, 64)}, strategy="random", seed=1, minimize=HOSTILE)
    for number in range(8):
        study.tell(study.ask(), float(number))
    file = tmp_path / "study.html"
    file.write_text(study_as_file(study, title=HOSTILE, saved_unix=1.8e9), encoding="utf-8")

    page = offline.open(file.as_uri())

    playwright.expect(page.get_by_text("Trial 0 is the best of 8")).to_be_visible()
    playwright.expect(page.get_by_role("img", name="Predicted rank over")).to_be_visible()
    other = page.get_by_label("Parameter of the y axis").input_value()
    page.get_by_label("Parameter of the x axis").select_option(other)
    playwright.expect(page.get_by_role("img", name="Predicted rank over")).to_be_visible()
    playwright.expect(page.get_by_role("link", name="Studies")).to_have_count(0)
    assert page.evaluate("window.hacked") is None
    assert offline.complaints == []
