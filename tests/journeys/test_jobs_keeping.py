"""A controller that is killed while it keeps instances leaves nothing behind."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from typing import Any

from barograph.machine.marked import marked_processes


def until(is_so: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 120
    while not is_so():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def test_kept_instances_are_taken_over_and_nothing_outlives_a_killed_controller(desk: Any) -> None:
    home = desk.folder / "home"
    desk.environment["BAROGRAPH_HOME"] = str(home)
    (desk.folder / "train.py").write_text("print('trained')\n")

    def run(name: str, *options: str) -> None:
        ended = desk.end(desk.start("barograph", "submit", "--name", name, *options, "--wait", "train.py"))
        assert (ended.code, ended.text) == (0, "trained\n"), ended.err

    def kept() -> list[str]:
        return sorted(file.stem for file in (home / "kept").iterdir() if not file.name.startswith("."))

    run("first", "--keep-alive", "10m")
    assert "The instances of first are kept until " in desk.end(desk.start("barograph", "jobs")).text
    [controller] = marked_processes("BAROGRAPH_HOME", str(home))
    run("second", "--keep-alive", "10m")
    until(lambda: (kept(), marked_processes("BAROGRAPH_HOME", str(home))) == (["second"], [controller]))
    os.kill(controller, signal.SIGKILL)
    desk.end(desk.start("barograph", "jobs"))
    until(lambda: (kept(), marked_processes("BAROGRAPH_HOME", str(home))) == ([], []))
