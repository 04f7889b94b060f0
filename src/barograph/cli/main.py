"""The `barograph` command: loads the requested subcommand, and prints our errors in one line."""

from __future__ import annotations

import errno
import importlib
import os
import sys
from collections.abc import Sequence
from typing import Any

import typer

from barograph.cli.command_list import COMMANDS, module_of
from barograph.cli.root_group import RootGroup
from barograph.errors import BarographError, SettingsError
from barograph.model.one_line import shown_lines
from barograph.version import __version__
from barograph.watch.lasting_stream import silence

_NO_ROOM = (errno.ENOSPC, errno.EDQUOT)

EXIT_ERROR = 2
"""Exit code after one of our errors: an invalid path, name or setting, or an unreachable store."""

_SHOWS = frozenset({"-h", "--help", "--dry-run"})
"""Options with which `barograph submit` does not start a job."""

_HELP = {"help_option_names": ["-h", "--help"]}


def application(names: Sequence[str] = COMMANDS) -> typer.Typer:
    """Return the command line with only the named subcommands loaded."""
    app = typer.Typer(
        name="barograph", cls=RootGroup, no_args_is_help=True, rich_markup_mode=None, context_settings=_HELP
    )
    app.callback()(_root)
    for name in names:
        module = importlib.import_module(module_of(name))
        if hasattr(module, "GROUP"):
            app.add_typer(module.GROUP, name=name)
            continue
        app.command(name, cls=getattr(module, "CLASS", None),
                    context_settings={**_HELP, **getattr(module, "CONTEXT", {})})(module.command)
    return app


def parsed(name: str, words: Sequence[str]) -> dict[str, Any] | None:
    """Return the parsed arguments of a subcommand by parameter name, without running it.

    If they ask for help, the help is printed and None returned.

    Args:
        name: Name of the subcommand.
        words: Its arguments.

    Raises:
        SettingsError: The arguments are invalid.
    """
    try:
        with _subcommand(name).make_context(f"barograph {name}", list(words)) as context:
            return dict(context.params)
    except typer.Exit:
        return None
    except _UsageError as error:
        raise SettingsError(f"barograph {name}: {error.format_message()}") from None


def options_of(name: str) -> list[str]:
    """Return the sorted options of a subcommand."""
    return sorted(word for item in _subcommand(name).params for word in (*item.opts, *item.secondary_opts)
                  if word.startswith("--"))


def _subcommand(name: str) -> Any:
    commands: Any = typer.main.get_command(application([name]))
    return commands.commands[name]


# Base class of typer's errors: either the click package's or typer's own copy.
_UsageError: Any = typer.BadParameter.__mro__[1]


def _print_version(wanted: bool) -> None:
    if wanted:
        print(f"barograph {__version__}")
        raise typer.Exit


def _root(
    version: bool = typer.Option(False, "--version", callback=_print_version, is_eager=True, help="Print the version "
                                                                                                  "and exit."),
) -> None:
    """Record trainings, find what goes wrong in them, run and tune them as jobs, and track experiments.

    Start with:  barograph run train.py
    """


def _loaded_for(arguments: Sequence[str]) -> Sequence[str]:
    """Return the commands to load: only the requested one, so that the script of `barograph run` starts soon and shell
    completion is fast."""
    completing = os.environ.get("_BAROGRAPH_COMPLETE", "").startswith("complete_")
    words = list(arguments)
    if completing:
        typed = os.environ.get("COMP_WORDS") or os.environ.get("_TYPER_COMPLETE_ARGS", "")
        words = typed.split()[1:]
    named = [name for name in words[:1] if name in COMMANDS]
    if named or completing or not words or words[0] in ("-h", "--help"):
        return named  # RootGroup knows the summaries of the others
    return COMMANDS


def _announce_job() -> None:
    """Start the controller while the command loads and prepares the job."""
    from barograph.jobs.controller_process import announce
    from barograph.jobs.home import JobsHome

    announce(JobsHome())


def main(arguments: list[str] | None = None) -> None:
    """Run the command line; exits with the command's code.

    Args:
        arguments: Arguments after the program's name; None: those of this process.
    """
    arguments = sys.argv[1:] if arguments is None else arguments
    try:
        if arguments[:1] == ["submit"] and not _SHOWS.intersection(arguments):
            _announce_job()
        application(_loaded_for(arguments))(arguments, prog_name="barograph")
    except BarographError as error:
        print(f"barograph: {shown_lines(str(error))}", file=sys.stderr)
        sys.exit(EXIT_ERROR)
    except OSError as error:
        # Errors of writing files are handled, with the file's name, by the writing code; this one is about standard
        # output.
        if error.errno not in _NO_ROOM:
            raise
        silence(sys.stdout)
        print(f"barograph: Cannot write output: {error.strerror}.", file=sys.stderr)
        sys.exit(EXIT_ERROR)
