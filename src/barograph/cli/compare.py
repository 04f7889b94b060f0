"""`barograph compare`: what differs between runs, and whether the difference is more than noise."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from barograph.cli.catalog_options import Root


def command(
    names: Annotated[
        list[str] | None, typer.Argument(metavar="[RUN...]", help="Names, identities or places of runs or components; "
                                                                  "with --by a search may choose them instead.")
    ] = None,
    metric: Annotated[
        str | None, typer.Option(metavar="NAME.STATISTIC", help="What counts: acc.max, loss.min. Default: all metrics.")
    ] = None,
    by: Annotated[
        str | None, typer.Option(metavar="FIELD", help="Compare groups, not single runs: params.NAME, tags.NAME, trial "
                                                       "or experiment. Runs of a group differ in their seeds.")
    ] = None,
    search: Annotated[
        str | None, typer.Option(metavar="SEARCH", help="Which runs are in the groups, as of barograph search.")
    ] = None,
    less: Annotated[
        bool | None, typer.Option("--less-is-better/--greater-is-better", help="Default: less for losses and errors.")
    ] = None,
    at: Annotated[
        str | None, typer.Option(metavar="N,...", help="Also the best value of --metric that each run (with --by: each "
                                                       "group on average) had reached there: 30,60,90.")
    ] = None,
    along: Annotated[str, typer.Option(help="What --at and the curves of --html go by: step, time "
                                                "(seconds) or epoch.")] = "step",
    level: Annotated[float, typer.Option(help="Confidence of the intervals.")] = 0.95,
    method: Annotated[str, typer.Option(help="How differences of groups are judged: t or bootstrap.")] = "t",
    html: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Also write it as one HTML page that needs nothing else, with "
                                                       "the curves over one another.")
    ] = None,
    root: Root = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Show how runs differ, or which group of runs is better.

    Runs differ in parameters, code, data, findings and metrics.

    With --by, runs that have the same value are one group, and the two best groups are compared: the best is accepted
    as better only where the confidence interval of the difference leaves out zero. Reruns, runs that repeat the values
    of another and runs with the same seed count once. A single result says nothing about noise, so nothing is decided
    then.

    Examples:

      barograph compare runs/first runs/second

      barograph compare --by params.model --metric acc.max --search "experiment = 'digits'"

      barograph compare runs/first runs/second --html compared.html

      barograph compare runs/first runs/second --metric val_acc --at 30,60,90 --along epoch
    """
    # Loaded here, because --help needs none of it.
    from barograph.cli import compare_page

    if by is not None:
        if metric is None:
            raise typer.BadParameter("--by needs --metric: what is to count")
        compare_page.print_groups(names or [], by, metric, root, search=search or "", at=at, less=less, level=level,
                                  method=method, along=along, html=html, as_json=as_json)
        return
    if search is not None:
        raise typer.BadParameter("--search chooses the runs of groups; say how they are grouped by --by")
    if len(names or []) < 2:
        raise typer.BadParameter("name two runs at least, or group them by --by")
    if at is not None and metric is None:
        raise typer.BadParameter("--at needs --metric: whose best value is asked")
    compare_page.print_differences(names or [], root, metric=metric, at=at, along=along, less=less, html=html,
                                   as_json=as_json)
