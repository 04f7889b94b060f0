"""What the shell offers, and what `barograph --help` lists, without loading a command."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import typer

from barograph.cli.command_list import COMMANDS, GROUPS, SUMMARIES
from barograph.cli.completing import experiments_beginning, rules_beginning, runs_beginning
from barograph.cli.main import application
from barograph.experiments.catalog import Catalog
from barograph.experiments.run import Run
from barograph.rules.registry import installed

Call = Callable[..., Any]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with two runs of an experiment in the usual root."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("BAROGRAPH_ROOT", raising=False)
    for name in ("first", "other"):
        with Run(name, experiment="digits", to=f"barograph-runs/{name}"):
            pass
    with Catalog() as catalog:
        catalog.feed()
    return tmp_path


def test_help_shows_every_command_with_its_whole_sentence(call: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    lines = call("--help").lines
    for title, commands in GROUPS.items():
        assert f"{title}:" in lines
        for name, sentence in commands.items():
            assert f"  {name:<11}  {sentence}" in lines
    assert max(map(len, lines)) <= 80


@pytest.mark.parametrize("name", COMMANDS)
def test_the_help_of_a_command_begins_with_its_sentence(name: str) -> None:
    command: Any = typer.main.get_command(application([name]))
    assert command.commands[name].help.partition("\n\n")[0] == SUMMARIES[name]


_PYTHON = sys.executable
"""A new interpreter, that has imported nothing."""


def completed(folder: Path, words: str, shell: str = "bash") -> list[str]:
    typed = {"COMP_WORDS": f"barograph {words}", "COMP_CWORD": str(len(f"barograph {words}".split(" ")) - 1),
             "_TYPER_COMPLETE_ARGS": f"barograph {words}", "_TYPER_COMPLETE_FISH_ACTION": "get-args",
             "_BAROGRAPH_COMPLETE": f"complete_{shell}"}
    code = ("import sys; from barograph.cli.main import main\n"
            "try: main()\n"
            "finally: print(*sorted({'torch', 'numpy', 'sqlalchemy', 'pyarrow'} & set(sys.modules)), file=sys.stderr)")
    done = subprocess.run([_PYTHON, "-c", code], cwd=folder, env={**os.environ, **typed}, capture_output=True,
                          text=True, check=False)
    assert done.stderr.strip() == ""
    return done.stdout.split("\n")


@pytest.mark.parametrize(("words", "expected"), [
    ("exp", ["experiments", "export"]), ("show fir", ["first"]),
    ("show barograph-runs/", ["barograph-runs/other", "barograph-runs/first"]),
    ("run --rules dead-r", ["dead-relu"]), ("rules explain G10", ["G101", "G102", "G103"]),
    ("experiments d", ["digits"]), ("run --experiment d", ["digits"]), ("mark --del", ["--delete"]),
])
def test_words_are_completed_and_no_library_is_loaded(folder: Path, words: str, expected: list[str]) -> None:
    found = [word for word in completed(folder, words) if word]
    assert [word for word in found if word in expected] == expected
    assert all(word.startswith(words.rpartition(" ")[2]) for word in found)


@pytest.mark.parametrize("shell", ["zsh", "fish"])
def test_other_shells_get_the_same(folder: Path, shell: str) -> None:
    assert any("experiments" in line for line in completed(folder, "exp", shell))


def test_every_rule_of_the_catalog_is_offered() -> None:
    known = {word for rule in installed().classes for word in (rule.code, rule.name)}
    assert set(rules_beginning("")) == known
    assert rules_beginning("overfit,dead-r") == ["overfit,dead-relu"]


def test_a_folder_that_may_not_be_read_is_no_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "private").mkdir()
    stat = os.stat

    def refused(path: Any, *more: Any, **others: Any) -> os.stat_result:
        if str(path).startswith(f"{tmp_path}/private/"):
            raise PermissionError(errno.EACCES, "Permission denied", path)
        return stat(path, *more, **others)

    monkeypatch.setattr(os, "stat", refused)
    monkeypatch.setattr(Path, "stat", lambda path, **more: refused(path))

    assert runs_beginning(f"{tmp_path}/pri") == [f"{tmp_path}/private/"]


def test_where_nothing_is_nothing_is_offered(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert (runs_beginning("x"), runs_beginning("/no/such/"), experiments_beginning("d")) == ([], [], [])
    (tmp_path / "barograph-runs" / ".catalog").mkdir(parents=True)
    (tmp_path / "barograph-runs" / ".catalog" / "catalog.sqlite").write_text("damaged")
    assert experiments_beginning("d") == []
