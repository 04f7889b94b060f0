"""Options mean the same whether Pydantic converts them or not; it is not loaded for strings."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import typer

from barograph.cli.main import application


def parsed(name: str, words: Sequence[str], *, plain: bool) -> Any:
    """Return what words mean to a command, or what is wrong with them."""
    group: Any = typer.main.get_command(application([name]))
    command = group.commands[name]
    try:
        with group.make_context("barograph", [name, *words]) as context:
            if plain:
                command = group.get_command(context, name)
            with command.make_context(name, list(words), parent=context) as within:
                return dict(within.params)
    except Exception as error:  # noqa: BLE001 - both ways must fail alike
        return repr(error), str(error)


@pytest.mark.parametrize(("name", "words"), [
    ("submit", ["--data", "a=b", "--data", "c=d", "--cpus", "2", "--spot", "--name", "x", "train.py", "--lr", "1"]),
    ("submit", ["--instances", "2.5", "train.py"]), ("submit", ["--cpus", "many"]), ("submit", ["--no-such"]),
    ("submit", []), ("run", ["--notify", "a", "--no-live", "--strict", "train.py"]), ("run", []),
    ("show", ["somewhere", "--json"]), ("jobs", []), ("wait", []), ("wait", ["x", "y"]),
])
def test_options_mean_what_typer_makes_of_them(name: str, words: list[str]) -> None:
    assert parsed(name, words, plain=True) == parsed(name, words, plain=False)


def test_strings_do_not_load_pydantic(tmp_path: Path) -> None:
    code = ("import sys\nfrom barograph.cli.main import main\ntry:\n    main(['submit', '--dry-run', '--name', 'x', "
            "'true'])\nexcept SystemExit as end:\n    print(end.code, 'pydantic' in sys.modules)")
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "0 False", done.stdout + done.stderr
