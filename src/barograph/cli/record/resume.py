"""`barograph resume`: restart a training from its last checkpoint."""

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

    The script starts with its original command, unchanged. It skips what it had done before the checkpoint. Barograph
    then restores models, optimizers, schedulers, random states, the position in the data and the script's variables.
    The training continues bit for bit, unless it depends on anything else. The run gets another attempt, and its series
    continue. If anything cannot be restored, the command lists it and stops; --inexact continues anyway.

    Examples:

      barograph resume runs/first

      barograph resume runs/first train.py --epochs 20
    """
    # Loaded here, because --help needs none of it.
    from barograph.cli.record.resume_page import resume

    resume(run, command or [], inexact=inexact, own=own, trusts=trust, live=live, as_json=as_json)
