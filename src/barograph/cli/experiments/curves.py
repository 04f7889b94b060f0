"""`barograph curves`: one metric of several runs, side by side."""

from __future__ import annotations

from typing import Annotated

import typer

from barograph.cli.experiments.catalog_options import Root


def command(
    metric: Annotated[
        str, typer.Argument(metavar="METRIC", help="Name of the metric, as in searches (loss, eval_acc), or a key "
                                            "of barograph keys (loss:total; of a tensor, its norm).")
    ],
    names: Annotated[
        list[str] | None, typer.Argument(metavar="[RUN...]", help="Names, IDs or paths of runs.")
    ] = None,
    search: Annotated[
        str | None, typer.Option(metavar="SEARCH", help="Select runs with a search (syntax: barograph search).")
    ] = None,
    by: Annotated[
        str, typer.Option(help="Align the curves by step, time (seconds since the first value) or epoch (a metric with "
                               "that name that the script logs).")
    ] = "step",
    as_csv: Annotated[bool, typer.Option("--csv", help="Print all points as CSV, one column per run.")] = False,
    root: Root = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print all points as JSON.")] = False,
) -> None:
    """Show a metric of several runs side by side.

    One line per run: the first, last and best value.

    --csv and --json print all points on a common axis, one row for each position in any run. A run without a value
    there has an empty cell, or null.

    Examples:

      barograph curves loss runs/first runs/second

      barograph curves eval_acc --search "experiment = 'digits'" --by epoch

      barograph curves loss runs/first runs/second --by time --csv > loss.csv
    """
    # Loaded here, because --help needs none of it.
    from barograph.cli.experiments.curves_page import print_curves

    if not names and search is None:
        raise typer.BadParameter("name at least one run, or select runs with --search")
    if as_csv and as_json:
        raise typer.BadParameter("--csv and --json cannot be combined")
    print_curves(metric, names or [], root, search=search, by=by, as_csv=as_csv, as_json=as_json)
