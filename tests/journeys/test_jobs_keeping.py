"""A controller that is killed while it keeps instances leaves nothing behind."""

from __future__ import annotations

import os
import signal
from typing import Any

from barograph.machine.marked import marked_processes


def test_kept_instances_are_taken_over_and_nothing_outlives_a_killed_controller(desk: Any) -> None:
    home = desk.folder / "home"
    desk.environment["BAROGRAPH_HOME"] = str(home)
    (desk.folder / "train.py").write_text("print('trained')\n")

    def run(name: str, *options: str) -> None:
        ended = desk.end(desk.start("barograph", "submit", "--name", name, *options, "--wait", "train.py"))
        assert (ended.code, ended.text) == (0, "trained\n"), ended.err

    def kept() -> list[str]:
        return sorted(file.stem for file in (home / "kept").iterdir() if not file.name.startswith("."))

    def processes() -> list[int]:
        return marked_processes("BAROGRAPH_HOME", str(home))

    run("first", "--keep-alive", "10m")
    assert "The instances of first are kept until " in desk.end(desk.start("barograph", "jobs")).text
    # What gathers the provenance of the run may take a while.
    (controller,) = desk.wait_until(lambda: found if len(found := processes()) == 1 else (), "the controller is left")
    run("second", "--keep-alive", "10m")
    desk.wait_until(lambda: (kept(), processes()) == (["second"], [controller]), "the instances were taken over")
    os.kill(controller, signal.SIGKILL)
    desk.end(desk.start("barograph", "jobs"))
    desk.wait_until(lambda: (kept(), processes()) == ([], []), "nothing is left")
