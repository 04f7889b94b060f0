"""What components have to show, found among their artifacts."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from barograph.errors import BarographError
from barograph.experiments.artifacts import SCHEME, bytes_in, root_of
from barograph.experiments.table_artifact import PARQUET, sheet_from_parquet
from barograph.model.exhibit_json import exhibit_from_bytes, is_exhibit_json
from barograph.model.exhibits import Exhibit, NotShown, Picture
from barograph.model.items import ArtifactLink, Verb
from barograph.runs.state.journal import JOURNAL_OF_ROOT, JOURNAL_OF_RUN, Journal
from barograph.store.base import Store

MOST_EXHIBITS = 60
"""Most that a component shows; others are among its artifacts."""

_MOST_BYTES = 64 * 2**20


def exhibits_of(roots: Sequence[Store], links: Iterable[ArtifactLink]) -> tuple[Exhibit, ...]:
    """Return those artifacts that can be looked at, in the order of their names.

    What cannot be read is a `NotShown` that says why. Files that were left where they are are not read.

    Args:
        roots: Where artifacts are kept; the first that has one.
        links: Of the component; of several with one name the last one counts.
    """
    named = {link.name: link for link in links if _is_shown(link)}
    in_order = [named[name] for name in sorted(named)]
    found = tuple(_exhibit(roots, link) for link in in_order[:MOST_EXHIBITS])
    left_out = len(in_order) - MOST_EXHIBITS
    return (*found, NotShown("{left_out:,} not shown.", f"{left_out:,} are left out here.")) if left_out > 0 else found


def links_in_journal(run: Store, uid: str) -> list[ArtifactLink]:
    """Return the artifacts that a run says it read or made, in the order in which it said so.

    Raises:
        DamagedChunk, NewerFormat, StoreError: Its journal cannot be read.
    """
    journal = Journal(run, JOURNAL_OF_RUN)
    return [ArtifactLink(**entry.data) for name in journal.names() for entry in journal.read(name).entries
            if entry.uid == uid and entry.verb in (Verb.INPUT, Verb.OUTPUT)]


def exhibits_of_run(run: Store, uid: str) -> tuple[Exhibit, ...]:
    """Return what a run has to show: what it said itself, and what was said of it where a catalog is kept.

    No catalog is made for it: where there is none, nobody has said anything of the run from outside.
    """
    root = root_of(run)
    try:
        links = [*links_in_journal(run, uid), *_links_from_outside(root, uid)]
    except BarographError as error:
        return (NotShown("What it shows", str(error)),)
    return exhibits_of((root,), links)


def _links_from_outside(root: Store, uid: str) -> Sequence[ArtifactLink]:
    if next(iter(root.list(JOURNAL_OF_ROOT)), None) is None:
        return ()
    # Loaded here, since of most runs nobody has said anything from outside, and a database takes its time.
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
