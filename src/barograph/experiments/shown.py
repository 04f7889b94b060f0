"""Tables, figures, matrices and curves among the artifacts of components."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from barograph.errors import BarographError
from barograph.experiments.artifacts import SCHEME, bytes_in, root_of
from barograph.experiments.table_artifact import PARQUET, sheet_from_parquet
from barograph.model.exhibit_json import exhibit_from_bytes, is_exhibit_json
from barograph.model.exhibits import Exhibit, NotShown, Picture
from barograph.model.items import ArtifactLink
from barograph.runs.state.journal import JOURNAL_OF_ROOT, links_in_journal
from barograph.store.base import Store

MOST_EXHIBITS = 60
"""Maximum number shown per component; all are among its artifacts."""

_MOST_BYTES = 64 * 2**20


def exhibits_of(roots: Sequence[Store], links: Iterable[ArtifactLink]) -> tuple[Exhibit, ...]:
    """Return the artifacts that can be shown, by name.

    An unreadable one is a `NotShown` with the reason. Files that were not copied are not read.

    Args:
        roots: Roots that may contain the artifacts, in order of preference.
        links: Artifacts of the component; if two share a name, the last one wins.
    """
    named = {link.name: link for link in links if _is_shown(link)}
    in_order = [named[name] for name in sorted(named)]
    found = tuple(_exhibit(roots, link) for link in in_order[:MOST_EXHIBITS])
    left_out = len(in_order) - MOST_EXHIBITS
    return (*found, NotShown("More tables and figures", f"{left_out:,} are not shown.")) if left_out > 0 else found


def exhibits_of_run(run: Store, uid: str) -> tuple[Exhibit, ...]:
    """Return the exhibits of a run: those it logged and those others logged to the catalog.

    If there is no catalog, none is created.
    """
    root = root_of(run)
    try:
        links = [*links_in_journal(run, uid), *_links_from_outside(root, uid)]
    except BarographError as error:
        return (NotShown("Tables and figures", str(error)),)
    return exhibits_of((root,), links)


def _links_from_outside(root: Store, uid: str) -> Sequence[ArtifactLink]:
    if next(iter(root.list(JOURNAL_OF_ROOT)), None) is None:
        return ()
    # Imported here, because few runs have artifacts from others, and opening a database takes time.
    from barograph.experiments.outside import links_in_catalog

    return links_in_catalog(root, uid)


def _is_shown(link: ArtifactLink) -> bool:
    known = link.media_type == PARQUET or is_exhibit_json(link.media_type) or link.media_type.startswith("image/")
    return known and link.uri.startswith(SCHEME)


def _exhibit(roots: Sequence[Store], link: ArtifactLink) -> Exhibit:
    if link.size_bytes > _MOST_BYTES:
        return NotShown(link.name, f"Too large to draw: {link.size_bytes:,} bytes ({link.uri}).")
    try:
        data = bytes_in(roots, link)
        if link.media_type == PARQUET:
            return sheet_from_parquet(link.name, data)
        if is_exhibit_json(link.media_type):
            return exhibit_from_bytes(data)
        return Picture(link.name, link.media_type, data)
    except BarographError as error:
        return NotShown(link.name, f"Cannot show it. {error}")
