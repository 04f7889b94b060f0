"""`barograph spot`: simulate the cost of interruptions."""

from __future__ import annotations

from typing import Annotated

import typer

GROUP = typer.Typer(no_args_is_help=True, rich_markup_mode=None, help="""\
Predict duration and cost of a job on spot instances.

    Runs the decisions of the real controller in virtual time, over traces of prices and interruptions.

    Examples:

      barograph spot simulate job.toml --work 8h --mtbf 2h

      barograph spot simulate job.toml --work 8h --trace prices.csv
    """)


@GROUP.command("simulate")
def simulate(
    job: Annotated[str, typer.Argument(metavar="JOB", help="A job file (job.toml), or the name of a job.")],
    work: Annotated[str, typer.Option(help="Training time without interruptions: 8h.")],
    trace: Annotated[
        str | None, typer.Option(metavar="FILE", help="Trace to replay: CSV with time,price or time,event, or the JSON "
                                                      "of aws ec2 describe-spot-price-history.")
    ] = None,
    mtbf: Annotated[str | None, typer.Option(help="Without a trace: mean time between interruptions. Default: 2h.")]
    = None,
    start: Annotated[str, typer.Option(help="Time from the start of an instance to the first step.")] = "120s",
    checkpoint_cost: Annotated[str, typer.Option(help="Training time that a checkpoint costs.")] = "5s",
    notice: Annotated[
        str, typer.Option(help="Time between the notice and the end of an instance; 0s: no notice.")
    ] = "0s",
    step: Annotated[str, typer.Option(help="Duration of a training step.")] = "1s",
    simulations: Annotated[int, typer.Option(help="Number of simulations.")] = 1000,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Simulate a job over many traces of prices and interruptions.

    Examples:

      barograph spot simulate job.toml --work 8h --mtbf 2h

      barograph spot simulate job.toml --work 8h --trace prices.csv
    """
    # Loaded here, because --help needs none of it.
    from barograph.cli.jobs.spot_page import print_forecast

    print_forecast(job, work=work, trace=trace, mtbf=mtbf, start=start, checkpoint_cost=checkpoint_cost, notice=notice,
                   step=step, simulations=simulations, as_json=as_json)
