"""Output of `barograph lineage`."""

from __future__ import annotations

from collections.abc import Sequence

from barograph.cli.experiments.catalog_options import catalog_with
from barograph.cli.printing import Column, Printer
from barograph.errors import SettingsError, UnknownItem, UnknownName, nearest
from barograph.experiments.catalog import Catalog
from barograph.experiments.lineage import Lineage, artifacts_called, lineage_of
from barograph.experiments.search.moments import unix_from_text
from barograph.model.clock import SystemClock
from barograph.model.items import ItemKind

_COLUMNS = (Column("distance", right=True), Column("item"), Column("relation"), Column("other"))


def print_lineage(
    target: str, root: str | None, *, direction: str, depth: int | None, kinds: Sequence[str], since: str | None,
    as_json: bool,
) -> None:
    """Print the steps, the nearest first; arguments as in the command.

    Raises:
        UnknownItem: No item has that name.
        SettingsError: The direction, the kind or `since` is invalid.
    """
    for kind in kinds:
        if kind not in tuple(ItemKind):
            raise UnknownName(f'"{kind}" is not a kind of item. {nearest(kind, tuple(ItemKind))}')
    since_unix = unix_from_text(since, SystemClock().unix()) if since is not None else None
    if since is not None and since_unix is None:
        raise SettingsError(f'--since is "{since}"; it must be a time such as 2026-11-22, 2026-11-22T10:30 or "3 days '
                            'ago".')
    catalog = catalog_with([target], root)
    uid = _uid(catalog, target)
    steps = Lineage(catalog, lineage_of(catalog, uid, direction, depth=depth, kinds=kinds, since_unix=since_unix))
    printer = Printer()
    if as_json:
        printer.json(steps.to_json())
        return
    if not steps:
        printer.line(f"{target}: no recorded origins or "
                     f"results{', within these limits' if depth or kinds or since or direction != 'both' else ''}.")
        return
    names = steps.names()
    printer.table(_COLUMNS, [(str(edge.depth), names.get(edge.source, edge.source), edge.relation.replace("_", " "),
                              names.get(edge.target, edge.target)) for edge in steps])


def _uid(catalog: Catalog, target: str) -> str:
    try:
        return catalog.item(target).uid
    except UnknownItem:
        # A logged file is known by its logged name, and becomes an item when it gets metadata.
        found = artifacts_called(catalog, target)
        if len(found) > 1:
            raise SettingsError(f'There are {len(found)} artifacts named "{target}", with different content or '
                                f"locations. Give one of their IDs: {', '.join(found[:5])}.") from None
        if not found:
            raise
        return found[0]
