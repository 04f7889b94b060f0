"""`barograph mark`: tags, a star, a description; put away, deleted and restored."""

from __future__ import annotations

from typing import Annotated

import typer

from barograph.cli.catalog_options import Root


def command(
    target: Annotated[
        str, typer.Argument(metavar="NAME", help="Name or identity of an experiment, a trial, a component or a run; or "
                                                 "the place of a run.")
    ],
    tag: Annotated[
        list[str] | None, typer.Option(metavar="NAME=TEXT", help="Give it this tag. May be given several times.")
    ] = None,
    untag: Annotated[list[str] | None, typer.Option(metavar="NAME", help="Take this tag away.")] = None,
    star: Annotated[bool | None, typer.Option("--star/--unstar", help="Mark it as worth coming back to.")] = None,
    archive: Annotated[
        bool | None, typer.Option("--archive/--unarchive", help="Put it away: lists and searches leave it out.")
    ] = None,
    description: Annotated[str | None, typer.Option(help="Say what it is, in Markdown.")] = None,
    note: Annotated[
        str | None, typer.Option(help="Say something of it, in Markdown. What was said before stays.")
    ] = None,
    rename: Annotated[
        str | None, typer.Option("--rename", metavar="NEW", help="Give a run or a component another name.")
    ] = None,
    delete: Annotated[
        bool, typer.Option("--delete", help="Forget it; for 30 days --restore brings it back. A run's folder stays.")
    ] = False,
    cascade: Annotated[bool, typer.Option("--cascade", help="With --delete: also what came of it.")] = False,
    restore: Annotated[
        bool, typer.Option("--restore", help="Bring back what was deleted, with what --cascade took along.")
    ] = False,
    root: Root = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Tag, describe, rename, archive or delete a run or experiment.

    Without an option, it prints what is known of NAME.

    What is said is kept beside the runs, so it outlives the catalog, and whoever copies the folder has it, too.

    Examples:

      barograph mark digits --note "the wide nets overfit"

      barograph mark barograph-runs/20261122-101500-train-1f3a --tag team=vision --star

      barograph mark 20261122-101500-train-1f3a --rename wide-3

      barograph mark digits --delete --cascade
    """
    # Loaded here, because --help needs none of it.
    from barograph.cli.mark_page import mark

    if delete and restore:
        raise typer.BadParameter("--delete and --restore exclude each other")
    if cascade and not delete:
        raise typer.BadParameter("--cascade is said with --delete")
    mark(target, root, tag=tag, untag=untag, star=star, archive=archive, description=description, note=note,
         rename=rename, delete=delete, cascade=cascade, restore=restore, as_json=as_json)
