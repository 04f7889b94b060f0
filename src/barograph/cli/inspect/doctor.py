"""`barograph doctor`: check the files of a run."""

from __future__ import annotations

from typing import Annotated

import typer


def command(
    run: Annotated[str, typer.Argument(metavar="RUN", help="Directory, URL or name of the run.")],
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Check the files of a run for damage and missing parts.

    Verifies every checksum, and also lists foreign files and dropped steps. Changes nothing. Exit code 1: something is
    damaged, missing or was dropped.

    Examples:

      barograph doctor runs/first

      barograph doctor s3://bucket/runs/first --json | jq .missing
    """
    # Loaded here, because --help needs none of it.
    from barograph.cli.inspect.doctor_page import print_diagnosis

    if not print_diagnosis(run, as_json=as_json):
        raise typer.Exit(1)
