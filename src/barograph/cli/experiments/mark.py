"""`barograph mark`: tag, star, describe, rename, archive, delete and restore."""

from __future__ import annotations

from typing import Annotated

import typer

from barograph.cli.experiments.catalog_options import Root


def command(
    target: Annotated[
        str, typer.Argument(metavar="NAME", help="Name or ID of an experiment, a trial, a component or a run; or path "
                                                 "of a run.")
    ],
    tag: Annotated[
        list[str] | None, typer.Option(metavar="NAME=TEXT", help="Add this tag. Repeatable.")
    ] = None,
    untag: Annotated[list[str] | None, typer.Option(metavar="NAME", help="Remove this tag.")] = None,
    star: Annotated[bool | None, typer.Option("--star/--unstar", help="Add to favorites.")] = None,
    archive: Annotated[
        bool | None, typer.Option("--archive/--unarchive", help="Archive it: lists and searches omit it.")
    ] = None,
    description: Annotated[str | None, typer.Option(help="Set the description (Markdown).")] = None,
    note: Annotated[
        str | None, typer.Option(help="Add a note (Markdown). Earlier notes stay.")
    ] = None,
    rename: Annotated[
        str | None, typer.Option("--rename", metavar="NEW", help="Rename a run or a component.")
    ] = None,
    delete: Annotated[
        bool, typer.Option("--delete", help="Delete it from the catalog. --restore undoes this for 30 days. The run's "
                                            "folder stays.")
    ] = False,
    cascade: Annotated[bool, typer.Option("--cascade", help="With --delete: also delete what came from it.")] = False,
    restore: Annotated[
        bool, typer.Option("--restore", help="Restore what was deleted, with everything that --cascade deleted.")
    ] = False,
    root: Root = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Tag, describe, rename, archive or delete a run or experiment.

    Without an option, prints what is recorded about NAME.

    Marks are stored next to the runs, so they outlive the catalog and are copied with the folder.

    Examples:

      barograph mark digits --note "the wide nets overfit"

      barograph mark runs/first --tag team=vision --star

      barograph mark 20261122-101500-train-1f3a --rename wide-3

      barograph mark digits --delete --cascade
    """
    # Loaded here, because --help needs none of it.
    from barograph.cli.experiments.mark_page import mark

    if delete and restore:
        raise typer.BadParameter("--delete and --restore cannot be combined")
    if cascade and not delete:
        raise typer.BadParameter("--cascade needs --delete")
    mark(target, root, tag=tag, untag=untag, star=star, archive=archive, description=description, note=note,
         rename=rename, delete=delete, cascade=cascade, restore=restore, as_json=as_json)
