"""The command `barograph`: loads the subcommand that was asked for, and prints errors of ours as one line."""

from __future__ import annotations

import errno
import importlib
import sys
from collections.abc import Sequence
from typing import Any

import typer

from barograph.errors import BarographError, SettingsError
from barograph.model.one_line import shown_lines
from barograph.version import __version__
from barograph.watch.lasting_stream import silence

_NO_ROOM = (errno.ENOSPC, errno.EDQUOT)

EXIT_ERROR = 2
"""Exit code after an error of ours: a wrong path, name or setting, a store that cannot be reached."""

COMMANDS = ("run", "watch", "runs", "show", "report", "keys", "rules", "doctor", "export", "import", "capsules",
            "replay", "checkpoints", "resume", "trace", "checkout", "rerun", "search", "experiments", "compare",
            "curves", "mark", "lineage", "reindex", "gc")
"""Each is a module beside this one, with a function `command` and, where needed, `CONTEXT` settings and a `CLASS`; or
with `GROUP`, where it has subcommands. That of `import`, which Python keeps for itself, is `importing`."""

_MODULES = {"import": "importing"}

_HELP = {"help_option_names": ["-h", "--help"]}


def application(names: Sequence[str] = COMMANDS) -> typer.Typer:
    """Return the command line with the named subcommands; others are neither loaded nor known."""
    app = typer.Typer(
        name="barograph", no_args_is_help=True, add_completion=False, rich_markup_mode=None, context_settings=_HELP
    )
    app.callback()(_root)
    for name in names:
        module = importlib.import_module(f"barograph.cli.{_MODULES.get(name, name)}")
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
    version: bool = typer.Option(False, "--version", callback=_print_version, is_eager=True, help="Print the version."),
) -> None:
    """Watch models while they train: what goes wrong, where, since when, and what to do.

    Start with:  barograph run train.py
    """


def main(arguments: list[str] | None = None) -> None:
    """Run the command line; exits with the code of what was called.

    Args:
        arguments: What follows the program's name; None: those of this process.
    """
    arguments = sys.argv[1:] if arguments is None else arguments
    # Only what is asked for is loaded, so that the script under `barograph run` starts soon.
    named = [name for name in arguments[:1] if name in COMMANDS]
    try:
        application(named or COMMANDS)(arguments, prog_name="barograph")
    except BarographError as error:
        print(f"barograph: {shown_lines(str(error))}", file=sys.stderr)
        sys.exit(EXIT_ERROR)
    except OSError as error:
        # What is written elsewhere is said by name where it is written; what is left is what we print.
        if error.errno not in _NO_ROOM:
            raise
        silence(sys.stdout)
        print(f"barograph: What there is to print cannot be written: {error.strerror}.", file=sys.stderr)
        sys.exit(EXIT_ERROR)
