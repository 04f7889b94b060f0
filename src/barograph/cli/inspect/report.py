"""`barograph report`: write a run or a study as one HTML page."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def command(
    run: Annotated[str, typer.Argument(metavar="RUN", help="Directory, URL or name of the run, or of a study.")],
    out: Annotated[
        Path | None,
        typer.Option("--out", "-o", metavar="FILE", help="Output file; overwritten if it exists. Default: "
                                                         "RUN-NAME.html in the current directory."),
    ] = None,
    interactive: Annotated[
        bool, typer.Option("--interactive", help="Write the page of barograph studio instead, with zoomable charts, "
                                                 "the map of layers, and steps.")
    ] = False,
    price_per_hour: Annotated[
        float | None, typer.Option(metavar="PRICE", help="Cost of one hour of the run, all machines together.")
    ] = None,
    currency: Annotated[str | None, typer.Option(help="Currency of the price. Default: USD.")] = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print the report as JSON. The page is written only with --out.")
    ] = False,
) -> None:
    """Write a report of a run or a study as one HTML file.

    The file is self-contained: open it in a browser or attach it to an e-mail.

    Shows findings, origin, notes, tags and artifacts, the health of each layer, distributions, losses, labels and
    confusion over time, the time per step by phase, machine utilization, and the cost of not stopping at the first
    breaking finding. Sections without data state what would provide it.

    The report of a study shows the best trial, its command and model, the best value so far, importance, slices and
    all trials.

    Examples:

      barograph report runs/first

      barograph report runs/first --out first.html --price-per-hour 2.5

      barograph report runs/first --interactive --out first.html

      barograph report barograph-runs/studies/train-ab12

      barograph report s3://bucket/runs/first --json | jq .savings
    """
    # Loaded here, because --help needs none of it.
    from barograph.cli.inspect.report_page import write_interactive, write_report

    if interactive:
        write_interactive(run, out)
        return
    write_report(run, out, price_per_hour, currency, as_json=as_json)
