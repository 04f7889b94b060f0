"""`barograph show`: show the state of a run."""

from __future__ import annotations

from typing import Annotated

import typer


def command(
    run: Annotated[str, typer.Argument(metavar="RUN", help="Directory, URL or name of the run.")],
    around: Annotated[
        int | None,
        typer.Option(metavar="STEP", help="Show this step, the steps around it, and what changed most."),
    ] = None,
    worker: Annotated[
        str | None,
        typer.Option(help="Show what this worker recorded. Default: all ranks merged; for independent processes, the "
                          "first."),
    ] = None,
    rules: Annotated[
        bool, typer.Option("--rules", help="Print every finding, and why rules were not evaluated."),
    ] = False,
    layers: Annotated[bool, typer.Option("--layers", help="Print the layers and their health.")] = False,
    everything: Annotated[bool, typer.Option("--all", help="Print everything.")] = False,
    output: Annotated[bool, typer.Option("--output", help="Print the output of the script.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Show the problems of a run, its losses and its layers.

    One screen: its state, its problems and their fixes. --rules, --layers and --all print more, --json everything.

    The symbol before a layer has the color of its worst open finding. Green: evaluated, no finding. Hollow: not
    evaluated. The numbers are from the last step that recorded them: norm and standard deviation, the share of zeros,
    and NaN or infinite elements, if any.

    With --around: losses, gradient norms and update sizes of the steps around it, the tensors whose norm changed most,
    and the findings near it.

    Examples:

      barograph show runs/first

      barograph show runs/first --rules

      barograph show runs/first --around 1200

      barograph show s3://bucket/runs/first --json | jq '.problems[].remedy.text'
    """
    # Loaded here, because --help needs none of it.
    if output:
        from barograph.cli.inspect.output_page import print_output

        print_output(run, worker, as_json=as_json)
    elif around is None:
        from barograph.cli.inspect.show_page import Part, print_run

        part = (Part.ALL if everything or (rules and layers) else Part.RULES if rules else
                Part.LAYERS if layers else Part.BRIEF)
        print_run(run, worker, as_json=as_json, part=part)
    else:
        from barograph.cli.inspect.around_page import print_around

        print_around(run, around, worker, as_json=as_json)
