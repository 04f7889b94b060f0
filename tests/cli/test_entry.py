"""The installed program `barograph`, interrupted while it loads."""

from __future__ import annotations

import os
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

_PROJECT = Path(__file__).parents[2] / "pyproject.toml"
_PYTHON = sys.executable  # before `forked_writers` replaces it: a fork has loaded all modules

INTERRUPTED_AT = """
import importlib, signal, sys

class Interrupts:
    def find_spec(self, name, path=None, target=None):
        if name == {module!r}:
            sys.meta_path.remove(self)
            signal.raise_signal(signal.SIGINT)

sys.meta_path.insert(0, Interrupts())
sys.argv = ["barograph", *{words!r}]
module, _, function = {entry!r}.partition(":")
sys.exit(getattr(importlib.import_module(module), function)())
"""


@pytest.mark.parametrize(("words", "module"), [
    (["jobs"], "typer"),
    (["jobs"], "barograph.cli.jobs.jobs"),
    (["jobs"], "barograph.cli.jobs.jobs_page"),
    (["submit", "train.py"], "barograph.jobs.controller_process"),
    (["submit", "train.py"], "barograph.jobs.submitting"),
])
def test_ctrl_c_while_a_command_is_loaded_ends_it_silently(tmp_path: Path, words: list[str], module: str) -> None:
    entry = tomllib.loads(_PROJECT.read_text("utf-8"))["project"]["scripts"]["barograph"]
    code = INTERRUPTED_AT.format(module=module, words=words, entry=entry)
    done = subprocess.run([_PYTHON, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=False,
                          env={**os.environ, "BAROGRAPH_HOME": str(tmp_path / "jobs")})
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "")
