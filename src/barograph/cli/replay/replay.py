"""`barograph replay`: replay a saved step."""

from __future__ import annotations

from typing import Annotated

import typer

from barograph.cli.replay.after_place import command_class
from barograph.cli.replay.replay_files import NAMED_BY_STEP

CONTEXT = {"allow_interspersed_args": False, "ignore_unknown_options": False}
CLASS = command_class({"--to-script": NAMED_BY_STEP, "--notebook": NAMED_BY_STEP})


def command(
    capsule: Annotated[
        str, typer.Argument(metavar="CAPSULE", help="Folder of the capsule, wherever it was copied to (list: barograph "
                                                    "capsules RUN). Or a run that has exactly one capsule.")
    ],
    command: Annotated[
        list[str] | None,
        typer.Argument(metavar="COMMAND...", help="The script, with its arguments. Default: the original command, in "
                                                  "this directory.")
    ] = None,
    open_pickle: Annotated[
        bool, typer.Option("--open-pickle", help="Load values that only pickle can store. Pickle can run any code: "
                                                 "only for capsules you trust.")
    ] = False,
    samples: Annotated[
        bool, typer.Option("--samples/--no-samples", help="Look for single samples that cause the failure. Repeats the "
                                                          "step with parts of its batch.")
    ] = True,
    when: Annotated[
        str, typer.Option("--when", metavar="MODULE:FUNCTION",
                          help="Your own function that decides whether the step fails, for each part of the batch. "
                               "Default: the one that triggered the capsule, if it is in a file of yours.")
    ] = "",
    try_: Annotated[
        list[str] | None,
        typer.Option("--try", metavar="REMEDY",
                     help="Repeat the step and the steps after it with one change: lr=1e-4, clip=1.0, dtype=bf16 (or "
                          "fp16, fp32), without-sample (the guilty ones, or =3,7). Repeatable; each is tried "
                          "separately.")
    ] = None,
    steps: Annotated[int, typer.Option(min=0, help="Number of steps to run after the failing one with --try.")] = 3,
    pdb: Annotated[
        bool, typer.Option("--pdb", help="Open the debugger at the first bad operation, in your code, with its tensors "
                                         "as bad_inputs and bad_outputs.")
    ] = False,
    to_script: Annotated[
        str | None, typer.Option(metavar="FILE", help="Write the bad operation as a small script for a bug report; it "
                                                      "needs only torch. FILE defaults to step-N.py.")
    ] = None,
    notebook: Annotated[
        str | None, typer.Option(metavar="FILE", help="Write a notebook that opens the capsule and runs the bad "
                                                      "operation. FILE defaults to step-N.ipynb.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the result as JSON.")] = False,
) -> None:
    """Replay a saved step in your own script.

    Reports how closely the replayed step matches the original.

    The script builds its model, optimizer and loader as usual. Before its first step, Barograph restores weights,
    buffers, optimizer and random states, feeds the saved batches, runs that one step, and exits before the update.
    Steps of Keras and JAX work the same way; --try, --pdb, --to-script and --notebook need PyTorch. Exit code 0: the
    loss and every gradient match exactly, or the failure happened again. Exit code 1: neither.

    Examples:

      barograph replay runs/first

      barograph replay runs/first --try clip=1.0 --try without-sample

      barograph replay runs/first --pdb

      barograph replay runs/first --to-script

      barograph replay runs/first/capsules/0000-00000412-p0 train.py --lr 0.1
    """
    # Loaded here, because --help needs none of it.
    from barograph.cli.replay.replay_page import replay
    from barograph.cli.replay.replay_stops import Afterwards

    afterwards = Afterwards(debugger=pdb, script=to_script, notebook=notebook)
    if not replay(capsule, command or [], opens_pickle=open_pickle, samples=samples, tries=try_ or [], steps=steps,
                  afterwards=afterwards, as_json=as_json, when=when):
        raise typer.Exit(1)
