"""`barograph rerun`: make a run again from what it kept, and compare the two."""

from __future__ import annotations

from typing import Annotated

import typer

from barograph.cli.options import Live, Trust


def command(
    run: Annotated[str, typer.Argument(metavar="RUN", help="Directory, URL or name of the run.")],
    changes: Annotated[
        list[str] | None,
        typer.Argument(metavar="NAME=VALUE...", help="Options of the script that are to be others: lr=0.1."),
    ] = None,
    to: Annotated[
        str | None, typer.Option(help="Where the new run is kept. Default: a new place beside the run.")
    ] = None,
    out: Annotated[
        str | None,
        typer.Option("--out", "-o", metavar="DIR", help="Lay the code out there, and leave it. Default: in a temporary "
                                                        "folder."),
    ] = None,
    environment: Annotated[
        bool, typer.Option("--environment/--no-environment", help="Have the packages be as they were, or take the "
                                                                  "present ones.")
    ] = True,
    data_changed: Annotated[
        bool, typer.Option("--data-changed", help="Go on also where files that the run opened are not the same.")
    ] = False,
    trust: Trust = False,
    live: Live = True,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print the verdict as JSON; what the script prints is not shown.")
    ] = False,
) -> None:
    """Run the training of a past run again and compare both.

    The code is laid out as it was, an environment with the same packages taken or built, the data compared with what
    they were, and the command run under barograph run. Then the two runs are compared: identical, within noise, or
    different, and where first. Exit code 1: different.

    Examples:

      barograph rerun runs/first

      barograph rerun runs/first lr=0.1 --to runs/second
    """
    # Loaded here, because --help needs none of it.
    from barograph.cli.rerun_page import rerun

    rerun(run, changes or [], to=to, out=out, environment=environment, data_changed=data_changed, trusts=trust,
          live=live, as_json=as_json)
