"""`barograph replay`: make a held step again."""

from __future__ import annotations

from typing import Annotated

import typer

from barograph.cli.after_place import command_class
from barograph.cli.replay_files import NAMED_BY_STEP

CONTEXT = {"allow_interspersed_args": False, "ignore_unknown_options": False}
CLASS = command_class({"--to-script": NAMED_BY_STEP, "--notebook": NAMED_BY_STEP})


def command(
    capsule: Annotated[
        str, typer.Argument(metavar="CAPSULE", help="The capsule's folder (see: barograph capsules RUN), wherever it "
                                                    "was copied to; or its run, where that has one capsule only.")
    ],
    command: Annotated[
        list[str] | None,
        typer.Argument(metavar="COMMAND...", help="The script, with its arguments. Default: as it was called then, in "
                                                  "this directory.")
    ] = None,
    open_pickle: Annotated[
        bool, typer.Option("--open-pickle", help="Open what only pickle could hold. That can run anything: only for a "
                                                 "capsule that you trust as you would a program.")
    ] = False,
    samples: Annotated[
        bool, typer.Option("--samples/--no-samples", help="Look for the samples that alone make it fail: the step is "
                                                          "made some more times, with parts of its batch.")
    ] = True,
    when: Annotated[
        str, typer.Option("--when", metavar="MODULE:FUNCTION",
                          help="Your own function that is asked whether it holds the step, and each part of its batch. "
                               "Default: that which held it, where it is in a file of yours.")
    ] = "",
    try_: Annotated[
        list[str] | None,
        typer.Option("--try", metavar="REMEDY",
                     help="Make the update, and some steps more, with one thing done otherwise: lr=1e-4, clip=1.0, "
                          "dtype=bf16 (or fp16, fp32), without-sample (the guilty, or =3,7). May be given several "
                          "times: each by itself.")
    ] = None,
    steps: Annotated[int, typer.Option(min=0, help="Steps after the held one that are made with --try.")] = 3,
    pdb: Annotated[
        bool, typer.Option("--pdb", help="Open the debugger at the operation that is to blame, in your own line, with "
                                         "the tensors bad_inputs and bad_outputs at hand.")
    ] = False,
    to_script: Annotated[
        str | None, typer.Option(metavar="FILE", help="Write that operation as a small script of its own, for a bug "
                                                      "report: it needs torch and nothing else. FILE may be left "
                                                      "out after the capsule: step-N.py.")
    ] = None,
    notebook: Annotated[
        str | None, typer.Option(metavar="FILE", help="Write a notebook that opens the capsule and calls that "
                                                      "operation. FILE may be left out after the capsule: "
                                                      "step-N.ipynb.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the result as JSON.")] = False,
) -> None:
    """Replay a saved step in your own script.

    It says how far the replayed step is the same.

    The script builds its model, optimizer and loader as always. Where its first step would begin, weights, buffers,
    optimizer and random states are put back, the captured batches come out of its loader, and that one step is made;
    before the update the script is ended. Steps of Keras and JAX are made likewise, by the program that made them;
    --try, --pdb, --to-script and --notebook are for those of PyTorch. Exit code 0: the loss and every gradient are the
    same to the last bit, or what the step was held for happened again. Exit code 1: it did not.

    Examples:

      barograph replay runs/first

      barograph replay runs/first --try lr=1e-4 --try clip=1.0 --try without-sample

      barograph replay runs/first --pdb

      barograph replay runs/first --to-script

      barograph replay runs/first/capsules/0000-00000412-p0 train.py --lr 0.1
    """
    # Loaded here, because --help needs none of it.
    from barograph.cli.replay_page import replay
    from barograph.cli.replay_stops import Afterwards

    afterwards = Afterwards(debugger=pdb, script=to_script, notebook=notebook)
    if not replay(capsule, command or [], opens_pickle=open_pickle, samples=samples, tries=try_ or [], steps=steps,
                  afterwards=afterwards, as_json=as_json, when=when):
        raise typer.Exit(1)
