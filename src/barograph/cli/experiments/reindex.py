"""`barograph reindex`: rebuild the catalog of a root of runs."""

from __future__ import annotations

from typing import Annotated

import typer

from barograph.cli.experiments.catalog_options import Root


def command(
    root: Root = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Rebuild the catalog from the runs and their journals.

    Restores tags, notes and experiments too.

    The catalog is only an index, stored as SQLite in ROOT/.catalog, or in the database that BAROGRAPH_CATALOG names.
    Every command that queries it updates it. Use this if it was damaged, deleted or moved, or for runs that were
    evaluated
    again long after their end. Exit code 1: something could not be read.

    Examples:

      barograph reindex

      barograph reindex --root s3://bucket/runs
    """
    # Loaded here, because --help needs none of it.
    from barograph.cli.experiments.catalog_options import progress_on_terminal, refuse_missing
    from barograph.cli.printing import Printer
    from barograph.experiments.database import catalog_url, set_aside_if_damaged
    from barograph.experiments.handle import catalog_at
    from barograph.runs.state.places import root_place
    from barograph.store.urls import store_from_url

    refuse_missing(root)
    aside = set_aside_if_damaged(catalog_url(store_from_url(root_place(root))))
    catalog, printer = catalog_at(root), Printer()
    fed = catalog.rebuild(progress=progress_on_terminal)
    if as_json:
        printer.json({"root": catalog.store.url, "catalog": catalog.shown, "why": catalog.why_elsewhere,
                      "runs": fed.runs, "batches": fed.batches, "set_aside": aside, "damage": fed.damage})
    else:
        why = f"  ({catalog.why_elsewhere})" if catalog.why_elsewhere else ""
        printer.entries([("root", catalog.store.url), ("catalog", f"{catalog.shown}{why}"), ("runs", f"{fed.runs}"),
                         ("journal batches", f"{fed.batches}"),
                         *([("damaged journal", f"moved to {aside}")] if aside else [])])
        for problem in fed.damage:
            printer.line(problem)
    if fed.damage:
        raise typer.Exit(1)
