"""`barograph trace`: show the samples and files that each step received."""

from __future__ import annotations

from typing import Annotated

import typer


def command(
    run: Annotated[str, typer.Argument(metavar="RUN", help="Directory, URL or name of the run.")],
    other: Annotated[
        str | None, typer.Argument(metavar="[OTHER]", help="Another run: show where their data first differs.")
    ] = None,
    step: Annotated[
        int | None, typer.Option("--step", help="Show the samples of this step and of the steps before it.")
    ] = None,
    before: Annotated[int, typer.Option("--before", min=0, help="How many steps before it to show.")] = 10,
    sample: Annotated[
        str | None, typer.Option("--sample", metavar="ID", help="Show the steps that received this sample: its index "
                                                                "in the data set, or WORKER:POSITION in a stream.")
    ] = None,
    file: Annotated[
        str | None, typer.Option("--file", metavar="NAME", help="Show the steps that received samples with this name, "
                                                                "suffix or glob.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Show which samples and files each step received.

    Without an option, prints a summary. With two runs, shows where their data first differs, with exit code 1.

    Examples:

      barograph trace runs/first --step 1200

      barograph trace runs/first --sample 4711

      barograph trace runs/first --file cat_17.png

      barograph trace runs/first runs/second
    """
    # Loaded here, because --help needs none of it.
    from barograph.cli.inspect import trace_page

    asked = [name for name, given in (("OTHER", other), ("--step", step), ("--sample", sample), ("--file", file))
             if given is not None]
    if len(asked) > 1:
        raise typer.BadParameter(f"choose one of {', '.join(asked)}")
    if other is not None:
        if trace_page.print_parting(run, other, as_json=as_json):
            raise typer.Exit(1)
    elif step is not None:
        trace_page.print_step(run, step, before, as_json=as_json)
    elif sample is not None:
        trace_page.print_sample(run, sample, as_json=as_json)
    elif file is not None:
        trace_page.print_file(run, file, as_json=as_json)
    else:
        trace_page.print_known(run, as_json=as_json)
