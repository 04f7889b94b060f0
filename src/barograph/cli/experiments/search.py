"""`barograph search`: find components and runs, as a table."""

from __future__ import annotations

from typing import Annotated

import typer

from barograph.cli.experiments.catalog_options import Root


def command(
    question: Annotated[
        str, typer.Argument(metavar="[SEARCH]", help="Conditions, order and limit. Default: everything, newest first.")
    ] = "",
    root: Root = None,
    columns: Annotated[
        str | None, typer.Option(metavar="NAME,...", help="Columns to show: name, state, params, params.lr, "
                                                          "metrics.loss.min, tags.team … Default: those that differ.")
    ] = None,
    output: Annotated[
        str | None, typer.Option("--output", "-o", metavar="FILE", help="Write the whole table to this file: .csv, "
                                                                        ".parquet, .md or .json.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Find runs and components by parameters, metrics and tags.

    A search consists of conditions joined by and, or, not and parentheses, then "order by" and "limit".
    Fields: name, state, created, started, ended, duration (seconds), steps, command, host, user, place, starred,
    archived, experiment, trial, notes, code.commit, code.branch, code.dirty, params.NAME, metrics.NAME.STATISTIC (last,
    min, max, mean, std, count, first_step, last_step), tags.NAME, inputs.NAME, outputs.NAME; finding('RULE'),
    derived_from('RUN'). Operators: = != < <= > >=, in (…), contains, like, ~ (regular expression), exists. Put a name
    that is not a plain word in quotation marks: metrics."val/acc".max.

    Examples:

      barograph search

      barograph search "params.lr < 0.01 order by metrics.loss.last limit 20"

      barograph search "created > '3 days ago' and not finding()" -o table.csv

      barograph search "tags.team = 'vision'" --columns name,metrics.acc.max
    """
    # Loaded here, because --help needs none of it.
    from barograph.cli.experiments.search_page import print_search

    print_search(question, root, columns=columns, output=output, as_json=as_json)
