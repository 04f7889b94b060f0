"""Completion, installed as users do, in real shells: a word is typed, then Tab and Enter."""

from __future__ import annotations

import os
import pty
import select
import shutil
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from barograph.experiments.run import Run
from journeys.conftest import BIN, PATIENCE_SECS

TYPED = {
    "experim": "experiments", "show fir": "show first", "mark --del": "mark --delete",
    "show barograph-runs/oth": "show barograph-runs/other",
    "run --rules overfit,dead-re": "run --rules overfit,dead-relu", "run tra": "run train.py",
}
_SHOW_WORDS = f"""#!/bin/sh
if [ -n "$_BAROGRAPH_COMPLETE" ]; then exec {BIN / "barograph"} "$@"; fi
echo "<$*>"
"""
"""Completes as `barograph` does; where that is run, prints its words instead."""


class Shell:
    """An interactive shell in a terminal."""

    def __init__(self, words: list[str], folder: Path, environment: dict[str, str]) -> None:
        self.process, self._terminal = pty.fork()
        if not self.process:
            os.chdir(folder)
            os.execvpe(words[0], words, environment)
        self.type("echo RE''ADY\r")
        self.seen_until(b"READY\r\n")

    def type(self, text: str) -> None:
        """Press these keys."""
        os.write(self._terminal, text.encode())

    def seen_until(self, text: bytes) -> bytes:
        """Return what the terminal shows up to `text`."""
        seen, deadline = b"", time.monotonic() + PATIENCE_SECS
        while text not in seen:
            ready, _, _ = select.select([self._terminal], [], [], deadline - time.monotonic())
            assert ready, seen
            seen += os.read(self._terminal, 4096)
        return seen.partition(text)[0]

    def close(self) -> None:
        """Hang up."""
        os.close(self._terminal)
        os.waitpid(self.process, 0)


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a script and two runs, and `bin` with what completes instead of `barograph`."""
    folder = tmp_path_factory.mktemp("shells")
    (folder / "bin").mkdir()
    program = folder / "bin" / "barograph"
    program.write_text(_SHOW_WORDS)
    program.chmod(0o755)
    (folder / "train.py").touch()
    for name in ("first", "other"):
        with Run(name, to=folder / "barograph-runs" / name):
            pass
    return folder


@pytest.fixture(params=["bash", "zsh", "fish"])
def shell(request: pytest.FixtureRequest, place: Path) -> Iterator[Shell]:
    """A new shell of a user who has installed completion."""
    program = shutil.which(request.param)
    if program is None:
        pytest.skip(f"{request.param} is not installed")
    home = place / request.param
    # Without this folder fish parses all manual pages first.
    (home / ".local" / "fish" / "generated_completions").mkdir(parents=True)
    variables = {**os.environ, "HOME": str(home), "SHELL": program, "TERM": "dumb", "LANG": "C.UTF-8",
                 "PATH": f"{place / 'bin'}{os.pathsep}{os.environ['PATH']}", "XDG_CONFIG_HOME": str(home / ".config"),
                 "XDG_DATA_HOME": str(home / ".local")}
    subprocess.run([program, "-c", f"{BIN / 'barograph'} --install-completion; true"], env=variables, check=True,
                   stdout=subprocess.DEVNULL)
    found = Shell([program, "-i"], place, variables)
    yield found
    found.close()


def test_every_tab_completes_from_the_first_on(shell: Shell) -> None:
    completed = {}
    for words in TYPED:
        shell.type(f"barograph {words}\t\r")
        completed[words] = shell.seen_until(b">\r\n").rpartition(b"<")[2].decode()

    assert completed == TYPED
