"""`barograph compare`: show how runs differ, and whether the difference exceeds noise."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from barograph.cli.experiments.catalog_options import Root


def command(
    names: Annotated[
        list[str] | None, typer.Argument(metavar="[RUN...]", help="Names, IDs or paths of runs or components. With "
                                                                  "--by, a search can select them instead.")
    ] = None,
    metric: Annotated[
        str | None, typer.Option(metavar="NAME.STATISTIC", help="Metrics to compare: acc.max, loss.min. Default: all.")
    ] = None,
    by: Annotated[
        str | None, typer.Option(metavar="FIELD", help="Compare groups instead of single runs: params.NAME, tags.NAME, "
                                                       "trial or experiment. Runs of a group differ only in their "
                                                       "seeds.")
    ] = None,
    search: Annotated[
        str | None, typer.Option(metavar="SEARCH", help="Search that selects the runs of the groups (syntax: barograph "
                                                        "search).")
    ] = None,
    less: Annotated[
        bool | None, typer.Option("--less-is-better/--greater-is-better", help="Whether a higher or a lower value is "
                                                                               "better. Default: lower for losses and "
                                                                               "errors.")
    ] = None,
    at: Annotated[
        str | None, typer.Option(metavar="N,...", help="Also show the best value of --metric reached by each of these "
                                                       "points: 30,60,90. With --by: the mean of each group.")
    ] = None,
    along: Annotated[str, typer.Option(help="Axis of --at and of the curves in --html: step, time (seconds) or "
                                            "epoch.")] = "step",
    level: Annotated[float, typer.Option(help="Confidence level of the intervals.")] = 0.95,
    method: Annotated[str, typer.Option(help="Test for differences between groups: t or bootstrap.")] = "t",
    html: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Also write a self-contained HTML page with overlaid curves.")
    ] = None,
    root: Root = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Show how runs differ, or which group of runs is better.

    Runs differ in parameters, code, data, findings and metrics.

    With --by, runs with the same value form a group, and the two best groups are compared. The best group wins only if
    the confidence interval of the difference excludes zero. Reruns, repeats of another run and runs with the same seed
    count once. A group with a single result cannot be judged, because the noise is unknown.

    Examples:

      barograph compare runs/first runs/second

      barograph compare --by params.lr --metric acc.max --search "steps > 99"

      barograph compare runs/first runs/second --html compared.html

      barograph compare runs/first runs/second --metric val_acc --at 30,60
    """
    # Loaded here, because --help needs none of it.
    from barograph.cli.experiments import compare_page

    if by is not None:
        if metric is None:
            raise typer.BadParameter("--by needs --metric: name the metric to compare")
        compare_page.print_groups(names or [], by, metric, root, search=search or "", at=at, less=less, level=level,
                                  method=method, along=along, html=html, as_json=as_json)
        return
    if search is not None:
        raise typer.BadParameter("--search selects the runs of groups; add --by to define the groups")
    if len(names or []) < 2:
        raise typer.BadParameter("name at least two runs, or group runs with --by")
    if at is not None and metric is None:
        raise typer.BadParameter("--at needs --metric: name the metric to compare")
    compare_page.print_differences(names or [], root, metric=metric, at=at, along=along, less=less, html=html,
                                   as_json=as_json)
