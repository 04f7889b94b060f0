"""The command `barograph`: loads the subcommand that was asked for, and prints errors of ours as one line."""

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
"""Exit code after an error of ours: a wrong path, name or setting, a store that cannot be reached."""

_SHOWS = frozenset({"-h", "--help", "--dry-run"})
"""Options with which `barograph submit` starts nothing."""

_HELP = {"help_option_names": ["-h", "--help"]}


def application(names: Sequence[str] = COMMANDS) -> typer.Typer:
    """Return the command line with the named subcommands; others are neither loaded nor known."""
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
    """Return what words mean to a subcommand, by the names of its parameters; nothing of it is done.

    Where they ask for help that is printed, and None returned.

    Args:
        name: Of the subcommand.
        words: What follows it.

    Raises:
        SettingsError: They are not understood.
    """
    try:
        with _subcommand(name).make_context(f"barograph {name}", list(words)) as context:
            return dict(context.params)
    except typer.Exit:
        return None
    except _UsageError as error:
        raise SettingsError(f"barograph {name}: {error.format_message()}") from None


def options_of(name: str) -> list[str]:
    """Return the options of a subcommand, sorted."""
    return sorted(word for item in _subcommand(name).params for word in (*item.opts, *item.secondary_opts)
                  if word.startswith("--"))


def _subcommand(name: str) -> Any:
    commands: Any = typer.main.get_command(application([name]))
    return commands.commands[name]


# What typer's own errors are made of, wherever it has that from.
_UsageError: Any = typer.BadParameter.__mro__[1]


def _print_version(wanted: bool) -> None:
    if wanted:
        print(f"barograph {__version__}")
        raise typer.Exit


def _root(
    version: bool = typer.Option(False, "--version", callback=_print_version, is_eager=True, help="Print the version "
                                                                                                  "and exit."),
) -> None:
    """Record a training, explain what goes wrong in it, and keep track of experiments.

    Start with:  barograph run train.py
    """


def _loaded_for(arguments: Sequence[str]) -> Sequence[str]:
    """Return the commands that must be loaded: only what is asked for, so that the script of `barograph run` starts
    soon, and a shell that completes a word need not wait."""
    completing = os.environ.get("_BAROGRAPH_COMPLETE", "").startswith("complete_")
    words = list(arguments)
    if completing:
        typed = os.environ.get("COMP_WORDS") or os.environ.get("_TYPER_COMPLETE_ARGS", "")
        words = typed.split()[1:]
    named = [name for name in words[:1] if name in COMMANDS]
    if named or completing or not words or words[0] in ("-h", "--help"):
        return named  # RootGroup itself knows what the others do
    return COMMANDS


def _announce_job() -> None:
    """Start the controller before the command is loaded and the job is prepared: both take as long."""
    from barograph.jobs.controller_process import announce
    from barograph.jobs.home import JobsHome

    announce(JobsHome())


def main(arguments: list[str] | None = None) -> None:
    """Run the command line; exits with the code of what was called.

    Args:
        arguments: What follows the program's name; None: those of this process.
    """
    arguments = sys.argv[1:] if arguments is None else arguments
    if arguments[:1] == ["submit"] and not _SHOWS.intersection(arguments):
        _announce_job()
    try:
        application(_loaded_for(arguments))(arguments, prog_name="barograph")
    except BarographError as error:
        print(f"barograph: {shown_lines(str(error))}", file=sys.stderr)
        sys.exit(EXIT_ERROR)
    except OSError as error:
        # What is written elsewhere is said by name where it is written; what is left is what we print.
        if error.errno not in _NO_ROOM:
            raise
        silence(sys.stdout)
        print(f"barograph: Cannot write output: {error.strerror}.", file=sys.stderr)
        sys.exit(EXIT_ERROR)
