"""`barograph gc`: artifacts that nobody has any more."""

from __future__ import annotations

from typing import Annotated

import typer

from barograph.cli.catalog_options import Root


def command(
    yes: Annotated[bool, typer.Option("--yes", help="Delete them; without, it is only said what would be.")] = False,
    grace: Annotated[
        str, typer.Option(metavar="TIME", help="Leave what was put later than so long ago: 12h, 7d. A run may have put "
                                               "it and not said so yet.")
    ] = "1d",
    gone: Annotated[
        bool, typer.Option("--gone", help="Also those that only runs have whose folders are no longer there.")
    ] = False,
    root: Root = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """List artifacts that nothing uses; delete them with --yes.

    Files that were logged with log_artifact are kept beside the runs, each once. They stay when a run is deleted: for
    30 days it can be restored, and only after that nobody has them. Whatever cannot be read below the root ends the
    command, since then nobody knows what is wanted. No run's folder is touched.

    Examples:

      barograph gc

      barograph gc --yes --root s3://bucket/runs

      barograph gc --gone --grace 7d --json | jq .bytes
    """
    # Loaded here, because --help needs none of it.
    from barograph.cli.gc_page import sweep

    sweep(root, grace, yes=yes, gone=gone, as_json=as_json)
