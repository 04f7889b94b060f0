"""`barograph lineage`: show where runs and artifacts came from, and what was derived from them."""

from __future__ import annotations

from typing import Annotated

import typer

from barograph.cli.experiments.catalog_options import Root


def command(
    target: Annotated[
        str, typer.Argument(metavar="NAME", help="Name or ID of a run, a component, an artifact or any other item; or "
                                                 "path of a run.")
    ],
    direction: Annotated[
        str, typer.Option(metavar="up|down|both", help="up: what it came from. down: what it led to.")
    ] = "both",
    depth: Annotated[
        int | None, typer.Option(min=1, metavar="N", help="Maximum depth. Default: no limit.")
    ] = None,
    kind: Annotated[
        list[str] | None, typer.Option(metavar="KIND", help="Only these kinds: run, component, artifact, trial, "
                                                            "action, context. Repeatable.")
    ] = None,
    since: Annotated[
        str | None, typer.Option(metavar="TIME", help="Only items created since then: 2026-11-22, '3 days ago'.")
    ] = None,
    root: Root = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Show what runs and artifacts came from, and what they led to.

    Follows relations, artifacts read and written, reruns, and trials.

    Examples:

      barograph lineage w64-2

      barograph lineage digits.csv --direction down --kind run

      barograph lineage w64-2 --direction up --depth 1 --json
    """
    # Loaded here, because --help needs none of it.
    from barograph.cli.experiments.lineage_page import print_lineage

    print_lineage(target, root, direction=direction, depth=depth, kinds=kind or (), since=since, as_json=as_json)
