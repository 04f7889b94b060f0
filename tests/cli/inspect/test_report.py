"""`barograph report`: a run as one page, or as JSON."""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from barograph.errors import StoreFull
from barograph.store import whole_file
from barograph.store.whole_file import write_whole
from barograph.tune.study import Study

Call = Callable[..., Any]


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "desk").mkdir()
    monkeypatch.chdir(tmp_path / "desk")


def test_the_page_lies_here_under_the_runs_name(call: Call, healthy: Path) -> None:
    said = call("report", healthy)

    assert said.code == 0
    (page,) = Path().iterdir()
    assert page.name == "ein-lauf-ü.html"
    assert said.lines[0] == "This run has not been watched."
    assert re.fullmatch(r"Wrote ein-lauf-ü\.html \(.* KiB\)\. Open it in a browser\.", said.lines[1])
    assert page.read_text(encoding="utf-8").startswith("<!DOCTYPE html>")


def test_a_page_that_is_there_is_replaced_and_keeps_its_mode(call: Call, healthy: Path) -> None:
    page = Path("old.html")
    page.write_text("old")
    page.chmod(0o640)

    assert call("report", healthy, "--out", page).code == 0

    assert "ein lauf ü" in page.read_text(encoding="utf-8")
    assert stat.S_IMODE(page.stat().st_mode) == 0o640
    assert [entry.name for entry in Path().iterdir()] == ["old.html"]


def test_the_interactive_page_has_the_run_inside(call: Call, healthy: Path) -> None:
    said = call("report", healthy, "--interactive", "--out", "page.html")

    assert re.fullmatch(r"Wrote page\.html \(.* KiB\)\. Open it in a browser\.", said.lines[0])
    page = Path("page.html").read_text(encoding="utf-8")
    assert "<title>ein lauf ü</title>" in page
    assert 'id="answers">H4sI' in page


def test_a_link_stays_a_link(call: Call, healthy: Path) -> None:
    Path("real.html").write_text("old")
    Path("link.html").symlink_to("real.html")

    call("report", healthy, "--out", "link.html")

    assert Path("link.html").is_symlink()
    assert Path("real.html").read_text(encoding="utf-8").startswith("<!DOCTYPE")


def test_a_finding_is_told_with_what_stopping_would_have_saved(call: Call, sick: Path) -> None:
    call("watch", sick)

    said = call("report", sick, "--price-per-hour", "3600", "--currency", "EUR")

    assert re.search(r"Stopping when \w\d+ [\w-]+ opened at step 7 would have saved [\d.]+ m?s, [\d.]+ EUR: 4 steps "
                     r"came after it", said.out)
    text = Path("sick.html").read_text(encoding="utf-8")
    assert "could have been saved" in text
    assert "non-finite" in text


def test_json_is_printed_and_nothing_is_written(call: Call, healthy: Path) -> None:
    report = call("report", healthy, "--json").json

    assert list(Path().iterdir()) == []
    assert (report["run"]["name"], report["run"]["steps"]) == ("ein lauf ü", 40)
    assert report["savings"]["cost"] is None
    assert {item["key"] for item in report["losses"]} >= {"loss:total"}
    assert len(report["layers"]) == 3
    assert report["distributions"]
    assert [item["mode"] for item in report["classes"]] == ["eval", "train"]


def test_with_both_the_page_is_written_and_standard_output_is_json_alone(call: Call, healthy: Path) -> None:
    said = call("report", healthy, "--json", "--out", "page.html")

    assert said.json["judgement"]["watched"] is False
    assert Path("page.html").stat().st_size > 10_000


@pytest.mark.parametrize(("words", "why"), [
    (("--price-per-hour=-1",), "--price-per-hour is -1; it must be finite and at least 0"),
    (("--price-per-hour", "nan"), "--price-per-hour is nan"), (("--price-per-hour", "inf"), "--price-per-hour is inf"),
    (("--currency", "EUR"), "no price was given"), (("--price-per-hour", "1", "--currency", ""), "short word"),
])
def test_a_price_that_is_none_is_refused(call: Call, healthy: Path, words: tuple[str, ...], why: str) -> None:
    said = call("report", healthy, *words)

    assert (said.code, said.out) == (2, "")
    assert why in said.err
    assert list(Path().iterdir()) == []


def test_a_place_that_cannot_be_written_is_named_before_the_run_is_read(call: Call, healthy: Path) -> None:
    Path("folder").mkdir()
    Path("file").touch()

    for out, why in (("folder", "folder is a directory"), ("none/page.html", "there is no directory none"),
                     ("file/page.html", "there is no directory file")):
        said = call("report", healthy, "--out", out)
        assert (said.code, said.out) == (2, "")
        assert why in said.err


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_folder_that_may_not_be_written_is_named(call: Call, healthy: Path) -> None:
    Path("closed").mkdir(mode=0o500)

    assert "is not writable" in call("report", healthy, "--out", "closed/page.html").err


def test_where_writing_fails_the_old_page_is_still_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    page = tmp_path / "page.html"
    page.write_text("old")

    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(whole_file.os, "fsync", full)

    with pytest.raises(StoreFull, match=r"page\.html cannot be written: No space left on device"):
        write_whole(page, b"new")

    assert page.read_text() == "old"
    assert [entry.name for entry in tmp_path.iterdir() if entry.is_file()] == ["page.html"]


def test_a_pipe_can_be_written_to(tmp_path: Path) -> None:
    reading, writing = os.pipe()
    write_whole(Path(f"/dev/fd/{writing}"), b"page")
    os.close(writing)

    with os.fdopen(reading, "rb") as pipe:
        assert pipe.read() == b"page"


def test_where_there_is_no_run_the_nearest_is_named(call: Call, healthy: Path) -> None:
    said = call("report", healthy.with_name("ein lauf"))

    assert said.code == 2
    assert "Did you mean" in said.err
    assert list(Path().iterdir()) == []


def test_what_is_damaged_is_named_on_the_page_and_on_standard_error(
    call: Call, copy: Path, flip: Callable[[Path], Path]
) -> None:
    victim = flip(copy)

    said = call("report", copy)

    assert said.code == 0
    assert f"barograph doctor {copy}" in said.err
    assert victim.name in Path("copy.html").read_text(encoding="utf-8")


def test_a_run_that_goes_on_is_told_as_it_stands(
    call: Call, tmp_path: Path, going_on: Callable[..., Any]
) -> None:
    with going_on(tmp_path / "run"):
        assert call("report", tmp_path / "run").code == 0

    assert "The run is still in progress" in Path("run.html").read_text(encoding="utf-8")


def test_a_study_has_a_report_too(call: Call, tmp_path: Path) -> None:
    study = Study.create(tmp_path / "digits", {"lr": (0.0, 1.0)}, strategy="random", seed=1, minimize="loss")
    for value in (3.0, 1.0, 2.0, 2.5):
        study.tell(study.ask(), value)

    said = call("report", tmp_path / "digits")

    assert said.lines[0].startswith("Trial 1 is the best of 4: loss 1 with lr=")
    assert re.fullmatch(r"Wrote digits\.html \(.* KiB\)\. Open it in a browser\.", said.lines[1])
    assert "<h2 id=\"slices-title\">Slices</h2>" in Path("digits.html").read_text(encoding="utf-8")
    assert call("report", tmp_path / "digits", "--json").json["best"]["trial"] == 1
    assert call("report", tmp_path / "digits", "--interactive", "--out", "page.html").code == 0
    assert "<title>digits</title>" in Path("page.html").read_text(encoding="utf-8")
