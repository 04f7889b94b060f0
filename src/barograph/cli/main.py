"""The command `barograph`: finds the subcommand, loads it alone, and prints errors of ours as one line."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Mapping
from typing import Any

import click
import typer
from typer.core import TyperGroup

from barograph import __version__
from barograph.errors import BarographError

EXIT_ERROR = 2
"""Exit code after an error of ours: a wrong path, name or setting, a store that cannot be reached."""

_COMMANDS: Mapping[str, str] = {
    "run": "Run a training script, record it, watch it, and say what goes wrong.",
    "watch": "Watch a run, live or long after: the same findings either way.",
    "runs": "List the runs in a directory or bucket.",
    "show": "Show one run: state, findings, layers and their health.",
    "keys": "List what a run has recorded.",
    "rules": "List the rules, or explain one.",
    "doctor": "Examine a run: is it whole, what is damaged, what was dropped?",
}


class _Lazy(TyperGroup):
    """Loads the module of a subcommand when it is called, so that `barograph run` starts fast."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(_COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in _COMMANDS:
            return None
        module = importlib.import_module(f"barograph.cli.{cmd_name}")
        command: click.Command = typer.main.get_command(module.app)
        command.name = cmd_name
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl(list(_COMMANDS.items()))


app = typer.Typer(
    cls=_Lazy,
    name="barograph",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _print_version(wanted: bool) -> None:
    if wanted:
        print(f"barograph {__version__}")
        raise typer.Exit


@app.callback()
def _root(
    version: bool = typer.Option(False, "--version", callback=_print_version, is_eager=True, help="Print the version."),
) -> None:
    """Barograph watches models while they train, and says what is going wrong and what to do.

    Start with:   barograph run train.py
    """


def main(arguments: list[str] | None = None) -> Any:
    """Run the command line; exits with the code of what was called.

    Args:
        arguments: What follows the program's name; None: those of this process.
    """
    try:
        app(arguments)
    except BarographError as error:
        print(f"barograph: {error}", file=sys.stderr)
        sys.exit(EXIT_ERROR)
    except KeyboardInterrupt:
        sys.exit(130)
    except BrokenPipeError:
        # Whoever read our output (head, say) has seen enough.
        sys.stderr.close()
        sys.exit(141)
