"""`barograph resume`: start a training again that was ended, from its last checkpoint."""

from __future__ import annotations

from typing import Annotated

import typer

from barograph.cli.options import Live, SummaryAsJson, Trust
from barograph.cli.replay.after_place import command_class

CONTEXT = {"allow_interspersed_args": False, "ignore_unknown_options": False}
CLASS = command_class()


def command(
    run: Annotated[str, typer.Argument(metavar="RUN", help="Directory, URL or name of the run.")],
    command: Annotated[
        list[str] | None,
        typer.Argument(metavar="COMMAND...", help="The script, with its arguments. Default: the original command, in "
                                                  "this directory.")
    ] = None,
    inexact: Annotated[
        bool, typer.Option("--inexact", help="Resume even if some state cannot be restored, and report what differs.")
    ] = False,
    own: Annotated[
        bool, typer.Option("--own", help="Only restart the script; it resumes from a checkpoint of its own.")
    ] = False,
    trust: Trust = False,
    live: Live = True,
    as_json: SummaryAsJson = False,
) -> None:
    """Restart an ended training from its last good checkpoint.

    Training continues as if it had never stopped.

    The script is started as it was, unchanged. What it had done before the checkpoint is passed over; then models,
    optimizers, schedulers, random states, its place in the data and its own variables are put back, and it goes on,
    bit for bit where nothing else decides what comes out. The run gets another attempt, and its series go on. What
    cannot be put back is said, and nothing goes on then, but with --inexact.

    Examples:

      barograph resume runs/first

      barograph resume runs/first train.py --epochs 20
    """
    # Loaded here, because --help needs none of it.
    from barograph.cli.record.resume_page import resume

    resume(run, command or [], inexact=inexact, own=own, trusts=trust, live=live, as_json=as_json)
