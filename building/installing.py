"""Installs packages with uv, as pip would: pip takes four times as much processor time."""

from __future__ import annotations

import os
import shlex
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

_OPTIONS = {"index-url": "--default-index", "extra-index-url": "--index", "find-links": "--find-links",
            "constraint": "--constraint", "trusted-host": "--allow-insecure-host", "no-index": "--no-index"}
"""pip's settings, and what uv calls them."""
_SECTIONS = (":env:", "install", "global")
"""Sections of pip's settings; the first with a setting wins."""


def installed(pip: Sequence[str], uv: str | Path, python: str | Path, words: Sequence[str],
              **options: Any) -> subprocess.CompletedProcess[str]:
    """Install packages; return how uv ended, or pip if uv fails.

    Args:
        pip: The command of pip, from which the settings of this machine are taken, too.
        uv: The program; "" if it is not installed.
        python: The interpreter to install for.
        words: Packages and options that both know.
        options: Further ones of `subprocess.run`.
    """
    settings = subprocess.run([*pip, "config", "list"], capture_output=True, text=True, check=False).stdout
    if uv:
        done = subprocess.run(
            [uv, "pip", "install", "--quiet", "--python", python, "--index-strategy", "unsafe-best-match",
             *_options_of(settings), *words], check=False, env={"UV_SYSTEM_CERTS": "1", **os.environ}, **options)
        if not done.returncode:
            return done
    return subprocess.run([*pip, "--python", str(python), "install", "--quiet", "--no-compile", *words], check=False,
                          **options)


def _options_of(settings: str) -> list[str]:
    r"""Return uv's options for what `pip config list` prints.

    Example:
        >>> _options_of(":env:.find-links='/opt'\nglobal.find-links='/other'\nglobal.constraint='a.txt b.txt'\n")
        ['--find-links', '/opt', '--constraint', 'a.txt', '--constraint', 'b.txt']
    """
    found: dict[str, list[str]] = {}
    lines = [line.partition("=") for line in settings.splitlines() if line.partition(".")[0] in _SECTIONS]
    for name, _, value in sorted(lines, key=lambda line: _SECTIONS.index(line[0].partition(".")[0])):
        option = _OPTIONS.get(name.rpartition(".")[2])
        if option is not None and option not in found:
            found[option] = [word for item in shlex.split(value) for word in item.split()]
    is_alone = [word.lower() for word in found.pop("--no-index", [])] in (["1"], ["true"], ["yes"], ["on"])
    return [*(["--no-index"] if is_alone else []),
            *(word for option, values in found.items() for value in values for word in (option, value))]
