"""`barograph curves`: one metric of several runs, side by side."""

from __future__ import annotations

from typing import Annotated

import typer

from barograph.cli.catalog_options import Root


def command(
    metric: Annotated[
        str, typer.Argument(metavar="METRIC", help="Name of the metric, as searches call it: loss, eval_acc.")
    ],
    names: Annotated[
        list[str] | None, typer.Argument(metavar="[RUN...]", help="Names, identities or places of runs.")
    ] = None,
    search: Annotated[
        str | None, typer.Option(metavar="SEARCH", help="Take the runs that this finds, as of barograph search.")
    ] = None,
    by: Annotated[
        str, typer.Option(help="Lay them side by side by step, time (seconds since the first number) or epoch (a "
                               "number that the script logs under that name).")
    ] = "step",
    as_csv: Annotated[bool, typer.Option("--csv", help="Print all points as CSV, a column for each run.")] = False,
    root: Root = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print all points as JSON.")] = False,
) -> None:
    """Show a metric of several runs side by side.

    Each run has a line: where the metric began, ended and was best.

    With --csv and --json all points are printed, on one axis: every place that any of the runs has is a row, and where
    a run has no value the cell is empty, or null.

    Examples:

      barograph curves loss runs/first runs/second

      barograph curves eval_acc --search "experiment = 'digits'" --by epoch

      barograph curves loss runs/first runs/second --by time --csv > loss.csv
    """
    # Loaded here, because --help needs none of it.
    from barograph.cli.curves_page import print_curves

    if not names and search is None:
        raise typer.BadParameter("name a run at least, or choose some by --search")
    if as_csv and as_json:
        raise typer.BadParameter("--csv and --json exclude each other")
    print_curves(metric, names or [], root, search=search, by=by, as_csv=as_csv, as_json=as_json)
