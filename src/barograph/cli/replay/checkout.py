"""`barograph checkout`: restore the code of a run into a directory."""

from __future__ import annotations

from typing import Annotated

import typer


def command(
    run: Annotated[str, typer.Argument(metavar="RUN", help="Directory, URL or name of the run.")],
    out: Annotated[
        str | None,
        typer.Option("--out", "-o", metavar="DIR", help="Target folder; must not exist. Default: the run's name, in "
                                                        "the current directory."),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Restore the code of a run into a directory.

    Restores the commit with its uncommitted changes and untracked files.

    The directory is a worktree of the run's original repository or of the one here, or else a clone of its remote. It
    has the run's barograph.toml, and barograph-environment.txt describes the environment.

    Examples:

      barograph checkout runs/first

      barograph checkout runs/first -o first
    """
    # Loaded here, because --help needs none of it.
    from barograph.cli.replay.checkout_page import checkout

    checkout(run, out, as_json=as_json)
