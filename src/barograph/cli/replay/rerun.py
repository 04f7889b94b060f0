"""`barograph rerun`: rerun a recorded run and compare the two."""

from __future__ import annotations

from typing import Annotated

import typer

from barograph.cli.options import Live, Trust


def command(
    run: Annotated[str, typer.Argument(metavar="RUN", help="Directory, URL or name of the run.")],
    changes: Annotated[
        list[str] | None,
        typer.Argument(metavar="NAME=VALUE...", help="Change options of the script: lr=0.1."),
    ] = None,
    to: Annotated[
        str | None, typer.Option(help="Where to store the new run. Default: a new directory next to the run.")
    ] = None,
    out: Annotated[
        str | None,
        typer.Option("--out", "-o", metavar="DIR", help="Check the code out here and keep it. Default: a temporary "
                                                        "folder."),
    ] = None,
    environment: Annotated[
        bool, typer.Option("--environment/--no-environment", help="Rebuild the original environment, or use the "
                                                                  "current one.")
    ] = True,
    data_changed: Annotated[
        bool, typer.Option("--data-changed", help="Continue even if input files have changed.")
    ] = False,
    trust: Trust = False,
    live: Live = True,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print the verdict as JSON, and hide the script's output.")
    ] = False,
) -> None:
    """Rerun a past run and compare the two.

    Checks out the original code, reuses or builds an environment with the same packages, checks the data, and starts
    the command under barograph run. Then compares the two runs: identical, within noise, or different, and where they
    first differ. Exit code 1: different.

    Examples:

      barograph rerun runs/first

      barograph rerun runs/first lr=0.1 --to runs/second
    """
    # Loaded here, because --help needs none of it.
    from barograph.cli.replay.rerun_page import rerun

    rerun(run, changes or [], to=to, out=out, environment=environment, data_changed=data_changed, trusts=trust,
          live=live, as_json=as_json)
