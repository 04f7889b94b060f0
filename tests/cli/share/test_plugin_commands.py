"""Importers and exporters of other packages are subcommands; a broken one is reported and disturbs no other."""

from __future__ import annotations

from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

import barograph
from barograph.cli.share.archive_group import group_of_plugins
from packages import install

EXPORTER = '''
from pathlib import Path
from typing import Annotated

import barograph
import typer


def losses(run: str, out: Annotated[Path, typer.Option("--out", help="File to write.")]):
    """Write the losses of a run, one per line."""
    series = barograph.open(run).series("loss:total")
    out.write_text("".join(f"{value}\\n" for value in series.values))


def archive(run: str):
    """Hide our command."""


def strange(run: int | dict[str, int]):
    """Take something that no command line can give."""
'''

CLI = CliRunner()


def command() -> None:
    """Export runs."""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.syspath_prepend(str(tmp_path))
    (tmp_path / "loss_exporter.py").write_text(EXPORTER, encoding="utf-8")
    return tmp_path


def exporters(folder: Path, **functions: str) -> typer.Typer:
    lines = "".join(f"{name} = {value}\n" for name, value in functions.items())
    install(folder, "theirs", f"[barograph.exporters]\n{lines}")
    return group_of_plugins("barograph.exporters", command)


def test_an_exporter_of_another_package_is_a_subcommand(folder: Path) -> None:
    with barograph.attach(to=folder / "run", watch=False, explicit_steps=True) as run:
        run.step(loss=2.0)
        run.step(loss=1.0)
    done = CLI.invoke(exporters(folder, losses="loss_exporter:losses"),
                      ["losses", str(folder / "run"), "--out", str(folder / "losses.txt")])
    assert done.exception is None, repr(done.exception)
    assert done.output == ""
    assert (folder / "losses.txt").read_text(encoding="utf-8") == "2.0\n1.0\n"


def test_the_docstring_of_an_exporter_is_its_help(folder: Path) -> None:
    done = CLI.invoke(exporters(folder, losses="loss_exporter:losses"), ["--help"])
    assert "Write the losses of a run, one per line." in done.stdout
    assert "Write a trace for Perfetto" in done.stdout


@pytest.mark.parametrize(("value", "why"), [
    ("no_such_module:losses", "cannot be loaded: ModuleNotFoundError"),
    ("loss_exporter:strange", "cannot be loaded: "),
])
def test_an_exporter_that_cannot_be_used_is_reported_with_its_package_and_ours_work(
    folder: Path, value: str, why: str
) -> None:
    done = CLI.invoke(exporters(folder, losses=value), ["chrome", "--help"])
    assert done.exit_code == 0
    assert done.stderr.count("\n") == 1
    assert done.stderr.startswith(f"barograph: losses of the package theirs {why}")


def test_an_exporter_cannot_replace_ours(folder: Path) -> None:
    done = CLI.invoke(exporters(folder, archive="loss_exporter:archive"), ["archive", "--help"])
    assert "Hide our command" not in done.stdout
    assert done.stderr == "barograph: archive of the package theirs is ignored: there is another with this name\n"


def test_a_group_without_any_plugin_says_that_our_metadata_is_older_than_the_code() -> None:
    done = CLI.invoke(group_of_plugins("barograph.no_such_group", command), ["digits"])
    assert done.exit_code == 2
    assert "older than the code" in done.stderr
