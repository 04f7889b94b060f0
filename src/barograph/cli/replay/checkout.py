"""`barograph checkout`: the code of a run, as it was, in a folder of its own."""

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

    The folder is a worktree of the repository that the run was made in, or of the one here, or else a clone of its
    remote. barograph.toml is as it was, and barograph-environment.txt says how the environment was.

    Examples:

      barograph checkout runs/first

      barograph checkout runs/first -o first
    """
    # Loaded here, because --help needs none of it.
    from barograph.cli.replay.checkout_page import checkout

    checkout(run, out, as_json=as_json)
