"""A training prints the link to its run, in the studio that serves its place or in a new one."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from barograph.model.clock import ManualClock
from barograph.web.beside import serve_beside
from barograph.web.idle import IDLE_SECS, Idle, is_any_running
from barograph.web.places import Places
from barograph.web.registry import Registry, Studio
from barograph.web.server import Links
from diary import Diary

URL = "http://127.0.0.1:9/"


class Stage:
    """A registry, and what was said and started."""

    def __init__(self, folder: Path) -> None:
        self.alive: set[str] = set()
        self.registry = Registry(folder, answers=lambda url: url in self.alive)
        self.said: list[str] = []
        self.started: list[list[str]] = []

    def serve(self, roots: list[str], *, on_ready: Callable[[Links], object], **_: Any) -> None:
        self.started.append(roots)
        on_ready(Links(URL, URL))

    def beside(self, place: Path, wait: Callable[[float], object] = lambda _: None) -> None:
        serve_beside(str(place), self.said.append, registry=self.registry, start=self.serve, wait=wait)


@pytest.fixture
def stage(tmp_path: Path, root: Path, monkeypatch: pytest.MonkeyPatch) -> Stage:
    monkeypatch.setenv("BAROGRAPH_ROOT", str(root))
    return Stage(tmp_path / "studios")


def test_without_a_studio_one_is_started_for_the_root_of_the_run(stage: Stage, root: Path) -> None:
    stage.beside(root / "group" / "second")

    assert stage.started == [[str(root)]]
    assert stage.said == [f"studio at {URL}#/run/0/group/second"]


def test_a_studio_that_serves_the_place_is_linked_to(stage: Stage, root: Path) -> None:
    with stage.registry.entered(Studio(URL, ("/elsewhere", str(root)))):
        stage.alive = {URL}
        stage.beside(root / "first")

    assert (stage.started, stage.said) == ([], [f"studio at {URL}#/run/1/first"])


def test_a_studio_of_another_place_is_no_help(stage: Stage, root: Path) -> None:
    with stage.registry.entered(Studio(URL, (f"{root}-other",))):
        stage.alive = {URL}
        stage.beside(root / "first")

    assert len(stage.started) == 1


def test_notes_of_killed_studios_are_removed(stage: Stage, root: Path) -> None:
    stage.registry.folder.mkdir()
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    notes = {f"{os.getpid()}": [str(root)], f"{ended.pid}": ["/elsewhere"]}
    for name, roots in notes.items():
        (stage.registry.folder / f"{name}.json").write_text(json.dumps({"url": URL, "roots": roots}))
    (stage.registry.folder / "odd.json").write_text("{")
    stage.beside(root / "first")

    assert len(stage.started) == 1
    assert list(stage.registry.folder.glob("*.json")) == []


def test_of_two_trainings_that_begin_together_one_starts_a_studio(stage: Stage, root: Path) -> None:
    other = Stage(stage.registry.folder)

    def while_starting(roots: list[str], **options: Any) -> None:
        # The other process looks while this one does not answer yet, and waits.
        with ExitStack() as answering:
            def wait(_: float) -> None:
                answering.enter_context(stage.registry.entered(Studio(URL, (str(root),))))
                other.alive.add(URL)

            other.beside(root / "group" / "second", wait)

    serve_beside(str(root / "first"), stage.said.append, registry=stage.registry, start=while_starting)

    assert (other.started, other.said) == ([], [f"studio at {URL}#/run/0/group/second"])


def test_a_studio_ends_after_half_an_hour_without_a_request_and_without_a_training() -> None:
    clock, busy = ManualClock(), [True]
    idle = Idle(lambda: busy[0], clock=clock)

    clock.advance(IDLE_SECS - 1)
    assert not idle.is_over()
    idle.asked()
    clock.advance(IDLE_SECS - 1)
    assert not idle.is_over()
    clock.advance(1)
    assert not idle.is_over(), "a training runs"
    busy[0] = False
    clock.advance(IDLE_SECS - 1)
    assert not idle.is_over(), "it looks again half an hour later"
    clock.advance(1)
    assert idle.is_over()


def test_a_run_that_is_recorded_keeps_the_studio(root: Path, tmp_path: Path) -> None:
    assert not is_any_running(Places([str(root)]))
    live = recorded_now(root / "live")

    assert is_any_running(Places([str(tmp_path / "nowhere"), str(root)]))
    live.ended()
    assert not is_any_running(Places([str(root)]))


def recorded_now(place: Path) -> Diary:
    from barograph.store.urls import store_from_url

    diary = Diary("live", store_from_url(str(place)))
    diary.step(0, {"loss:total": 4.0})
    diary.publish()
    return diary


def test_recording_loads_no_web_server() -> None:
    code = ("import sys; import barograph.companions, barograph.cli.record.run, barograph.cli.record.launching, "
            "barograph.cli.record.supervision; print([name for name in sys.modules if name.split('.')[0] in "
            "('starlette', 'uvicorn') or name.startswith('barograph.web')])")
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=600, check=True)

    assert done.stdout.strip() == "[]"
