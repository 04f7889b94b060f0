"""`barograph gc`: list and delete unused artifacts."""

from __future__ import annotations

from typing import Annotated

import typer

from barograph.cli.experiments.catalog_options import Root


def command(
    yes: Annotated[bool, typer.Option("--yes", help="Delete them. Without it, they are only listed.")] = False,
    grace: Annotated[
        str, typer.Option(metavar="TIME", help="Keep artifacts stored less than this long ago: 12h, 7d. A running run "
                                               "may not have registered them yet.")
    ] = "1d",
    gone: Annotated[
        bool, typer.Option("--gone", help="Also delete artifacts used only by runs whose folders no longer exist.")
    ] = False,
    root: Root = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """List unused artifacts; delete them with --yes.

    Files logged with log_artifact are stored once, next to the runs. They stay when a run is deleted, because it can be
    restored for 30 days; after that they are unused. If anything below the root cannot be read, the command stops,
    because it cannot know which files are in use. It never changes a run's folder.

    Examples:

      barograph gc

      barograph gc --yes --root s3://bucket/runs

      barograph gc --gone --grace 7d --json | jq .bytes
    """
    # Loaded here, because --help needs none of it.
    from barograph.cli.experiments.gc_page import sweep

    sweep(root, grace, yes=yes, gone=gone, as_json=as_json)
