"""The catalog of a root: an index of experiments, trials, components, runs and artifacts.

Changes are written to the journal beside the runs first, then to the tables. `rebuild` recreates the tables from
journal and runs.
"""

from __future__ import annotations

import getpass
import json
import os
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence, Set
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from sqlalchemy import Connection, func, or_, select, union

from barograph.errors import (
    AmbiguousName,
    CatalogUnavailable,
    NameTaken,
    ObjectExists,
    SettingsError,
    StillNeeded,
    UnknownItem,
    nearest,
)
from barograph.experiments.checking import refuse_senseless
from barograph.experiments.database import CATALOG_VARIABLE, Database, catalog_url, why_elsewhere
from barograph.experiments.feeding import Fed, Feeder
from barograph.experiments.item import Item, items_by_id
from barograph.experiments.recorded_entries import recorded_entries
from barograph.experiments.schema import FED, ITEMS, LINKS, MEMBERS, RELATIONS
from barograph.experiments.search.asking import COMPONENTS, found_ids
from barograph.experiments.search.parser import search_from_text
from barograph.experiments.search.syntax import Search
from barograph.experiments.writing import in_parts, storable
from barograph.model.clock import Clock, SystemClock
from barograph.model.items import Entry, ItemKind, Relation, Verb, checked_name, uid_of
from barograph.runs.state.journal import JOURNAL_OF_ROOT, Journal
from barograph.runs.state.places import DEFAULT_ROOT
from barograph.store.base import Store
from barograph.store.urls import store_from_url
from barograph.watch.figures import local_time

UNDO_DAYS = 30.0
"""Days within which a deleted item can be restored."""

_MOST_NEAR = 10_000
_ENTRIES_A_FILE = 10_000
_MOST_LISTED = 10


class Catalog:
    """Index of everything below a root.

    Args:
        root: Directory or URL of the runs.
        clock: Clock.
        url: URL of the database; None: see `catalog_url`.

    Raises:
        CatalogUnavailable, NewerCatalog, MissingExtra: The database cannot be used.
        SettingsError: `root` or the URL of the database is invalid.

    Example:
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as root, Catalog(root) as catalog:
        ...     catalog.tell([Entry("component-1", Verb.CREATE, {"kind": "component", "name": "data"})])
        ...     [item.name for item in catalog.find("kind = 'component'")]
        ['data']
    """

    def __init__(
        self, root: str | os.PathLike[str] | Store = DEFAULT_ROOT, *, clock: Clock | None = None, url: Any = None
    ) -> None:
        self.store = store_from_url(root) if isinstance(root, str | os.PathLike) else root
        self._clock = clock or SystemClock()
        self._database = Database(url or catalog_url(self.store), self.store.url)
        self._feeder = Feeder(self._database, self.store, self._clock)
        self._journal = Journal(self.store, JOURNAL_OF_ROOT)
        self._by = _user()

    @property
    def why_elsewhere(self) -> str:
        """Reason why the tables are not stored beside the runs; "" if they are, or if `BAROGRAPH_CATALOG` is set."""
        return "" if os.environ.get(CATALOG_VARIABLE, "").strip() else why_elsewhere(self.store)

    @property
    def shown(self) -> str:
        """Location of the tables, for messages."""
        return self._database.shown

    @property
    def indexed_runs(self) -> int:
        """Number of runs below the root that were indexed."""
        with self.reading() as connection:
            return connection.execute(select(func.count()).select_from(FED)).scalar_one()

    def feed(
        self, *, thorough: bool = False, again: Collection[str] = (),
        progress: Callable[[int, int], object] = lambda done, total: None,
        give_way: Callable[[], object] = lambda: None, before_records: Callable[[], object] = lambda: None,
    ) -> Fed:
        """Index new journal entries and runs; arguments and errors as in `Feeder.feed`."""
        return self._feeder.feed(thorough=thorough, again=again, progress=progress, give_way=give_way,
                                 before_records=before_records)

    def rebuild(self, *, progress: Callable[[int, int], object] = lambda done, total: None) -> Fed:
        """Recreate the tables from the journal and the runs.

        Raises:
            CatalogUnavailable: The tables cannot be written.
            StoreError: The root cannot be read.
        """
        self._database.forget()
        return self._feeder.feed(thorough=True, progress=progress)

    def take_over(self, entries: Sequence[Entry]) -> int:
        """Store entries from elsewhere with their times and authors; return how many are new.

        Raises:
            SettingsError: An entry is invalid; then none is stored.
            StoreError: The journal cannot be written.
            CatalogUnavailable: The tables cannot be written; the journal keeps the entries for the next `feed`.
        """
        refuse_senseless(entries)
        with self.reading() as connection:
            known = {_word(entry) for entry in recorded_entries(connection, {entry.uid for entry in entries})}
        new = [entry for entry in entries if _word(entry) not in known]
        for some in in_parts(new, _ENTRIES_A_FILE):
            self._feeder.feed_batch(self._journal.take_over(some))
        return len(new)

    def look_again(self, uids: Collection[str]) -> None:
        """Make the next `feed` read these runs, even if they seem unchanged."""
        self._feeder.look_again(uids)

    def tell(self, entries: Iterable[Entry]) -> None:
        """Store entries in the journal and the tables.

        Args:
            entries: In order. Missing times are set to now, missing authors to this user.

        Raises:
            SettingsError: An entry is invalid; then none is stored.
            StoreError: The journal cannot be written; then nothing is stored.
            CatalogUnavailable: The tables cannot be written; the journal keeps the entries for the next `feed`.
        """
        now = self._clock.unix()
        recorded = [Entry(entry.uid, entry.verb, entry.data, entry.time_unix or now, entry.by or self._by)
                    for entry in entries]
        refuse_senseless(recorded)
        if recorded:
            batch = self._journal.write(recorded)
            try:
                self._feeder.feed_batch(batch)
            except CatalogUnavailable as error:
                raise CatalogUnavailable(f"{error} The entries are saved and will be indexed once the catalog works "
                                         "again; no need to repeat them.") from error

    def create(
        self, kind: ItemKind, name: str, *, parent: str = "", fields: Mapping[str, Any] | None = None,
        or_load: bool = False,
    ) -> Item:
        """Create an item that is identified by its name.

        Args:
            kind: Kind of the item.
            name: Name of the item.
            parent: For a trial, the ID of its experiment.
            fields: See `folding.FIELDS`.
            or_load: If the item exists, return it unchanged.

        Raises:
            NameTaken: The item exists.
            SettingsError: The name is invalid.
            StoreError: The journal cannot be written.
        """
        entry = created(kind, checked_name(f"the {kind}", name), parent=parent, fields=fields)
        entry = replace(entry, time_unix=self._clock.unix(), by=self._by)
        with self.reading() as connection:
            known = connection.execute(select(ITEMS.c.deleted_unix).where(ITEMS.c.uid == entry.uid)).first()
        if known is None or known.deleted_unix is None:
            try:
                batch = self._journal.create(entry)
            except ObjectExists:
                if not or_load:
                    raise NameTaken(f'{_an(kind).capitalize()} "{name}" already exists ({self.store.url}).') from None
                batch = None
            if batch is not None and known is not None and not or_load:
                # An entry of a run referred to it first, which creates it, too.
                raise NameTaken(f'{_an(kind).capitalize()} "{name}" already exists ({self.store.url}).')
            if batch is not None:
                self._feeder.feed_batch(batch)
            elif known is None:
                self.feed()  # another process has just created it
        else:
            self.tell([entry])
        found = self.item_by_uid(entry.uid)
        assert found is not None
        return found

    def find(self, search: str = "", *, kinds: Sequence[ItemKind] = COMPONENTS) -> list[Item]:
        """Return the items that a search finds, in its order.

        Raises:
            SearchError: The search is invalid.
        """
        with self.reading() as connection:
            return items_by_id(connection, self.ids(search, connection, kinds=kinds))

    def ids(
        self, search: str, connection: Connection, *, kinds: Sequence[ItemKind] = COMPONENTS, experiment: str = ""
    ) -> list[int]:
        """Return the row numbers that a search finds, in its order; `experiment` (an ID) limits the search."""
        # Searched values are converted as the tables convert them.
        return self.ids_of(search_from_text(storable(search)), connection, kinds=kinds, experiment=experiment)

    def ids_of(
        self, search: Search, connection: Connection, *, kinds: Sequence[ItemKind] = COMPONENTS, experiment: str = ""
    ) -> list[int]:
        """Return the row numbers that a parsed search finds; arguments as in `ids`."""
        return found_ids(connection, search, now_unix=self._clock.unix(), kinds=kinds, experiment=experiment)

    def item(self, name: str, *kinds: ItemKind, parent: str | None = None) -> Item:
        """Return an item by name, ID or, for a run, place.

        Args:
            name: A name, an ID or a place.
            kinds: Accepted kinds; none given: all.
            parent: For a trial, the ID of its experiment; None: any.

        Raises:
            UnknownItem: No item has that name; the message suggests the nearest.
            AmbiguousName: Several items have the name; the message lists them.
        """
        return self._called(name, kinds, parent, deleted=False)

    def deleted(self, name: str) -> Item:
        """Return a deleted item by name, ID or place.

        Raises:
            UnknownItem: No deleted item has that name, or the time to restore it is over.
            AmbiguousName: Several items have the name; the message lists them.
        """
        return self._called(name, (), None, deleted=True)

    def item_by_uid(self, uid: str) -> Item | None:
        """Return the item of that ID, even if deleted; None if unknown."""
        with self.reading() as connection:
            found = connection.execute(select(ITEMS.c.id).where(ITEMS.c.uid == uid)).scalars().all()
            return items_by_id(connection, found)[0] if found else None

    def members_of(self, trial: str) -> list[Item]:
        """Return the components of a trial, oldest first."""
        return self._where(ITEMS.c.uid.in_(select(MEMBERS.c.component).where(MEMBERS.c.trial == trial)))

    def trials_of(self, experiment: str) -> list[Item]:
        """Return the trials of an experiment, oldest first."""
        return self._where(ITEMS.c.kind == ItemKind.TRIAL, ITEMS.c.parent == experiment)

    def of_kind(self, kind: ItemKind, *, archived: bool = False) -> list[Item]:
        """Return all items of a kind, oldest first; archived ones only if requested."""
        return self._where(ITEMS.c.kind == kind, *(() if archived else (ITEMS.c.archived.is_(False),)))

    def delete(self, item: Item, *, cascade: bool = False, by: str = "") -> list[Item]:
        """Delete an item. `restore` brings it back within `UNDO_DAYS`. Directories of runs stay.

        Args:
            item: Item to delete.
            cascade: Also delete what derives from it and what belongs only to it.
            by: Author; "": this user.

        Returns:
            The deleted items; the given one first.

        Raises:
            StillNeeded: Others derive from it or belong to it; the message names them.
        """
        others = self._dependents(item)
        if others and not cascade:
            named = ", ".join(f'{other.kind} "{other.name}"' for other in others[:5])
            more = f" and {len(others) - 5} more" if len(others) > 5 else ""
            raise StillNeeded(f'{item.kind.capitalize()} "{item.name}" cannot be deleted: {named}{more} derive from '
                              "it or belong to it. Delete those first, or delete all with --cascade.")
        gone = [item, *others]
        when = self.time_after(gone)
        self.tell(Entry(one.uid, Verb.DELETE, time_unix=when, by=by) for one in gone)
        return gone

    def rename(self, item: Item, name: str, *, by: str = "") -> None:
        """Rename a run or a component; its ID and place stay.

        Args:
            item: The run or component.
            name: Its new name.
            by: Author; "": this user.

        Raises:
            SettingsError: It is another kind of item, or the name is invalid.
            NameTaken: Another run or component in one of its experiments has the name.
        """
        if item.kind not in COMPONENTS:
            raise SettingsError(f'{item.kind.capitalize()} "{item.name}" cannot be renamed: its name is its '
                                "identity. Only runs and components can be renamed.")
        checked_name(f"the {item.kind}", name)
        self.check_is_free(name, item, {trial.experiment for trial in item.trials})
        self.tell([Entry(item.uid, Verb.SET, {"name": name}, self.time_after([item]), by)])

    def check_is_free(self, name: str, item: Item, experiments: Set[str]) -> None:
        """Raise `NameTaken` if another run or component in one of these experiments has the name."""
        for other in self._where(ITEMS.c.name == storable(name), ITEMS.c.kind.in_(COMPONENTS)):
            shared = experiments & {trial.experiment for trial in other.trials}
            if shared and other.uid != item.uid:
                raise NameTaken(f'Experiment "{min(shared)}" already has a {other.kind} "{name}".')

    def restore(self, uid: str, *, by: str = "") -> list[Item]:
        """Restore a deleted item and what was deleted with it; return them, the item first; `by` as in `delete`."""
        back = [item for one in self._gone_with(uid) if (item := self.item_by_uid(one)) is not None]
        when = self.time_after(back)
        self.tell(Entry(item.uid, Verb.RESTORE, time_unix=when, by=by) for item in back)
        return [item for one in back if (item := self.item_by_uid(one.uid)) is not None]

    def time_after(self, items: Iterable[Item]) -> float:
        """Return a time for entries that come after all others of some items, also after those of a faster clock."""
        return max(self._clock.unix(), *(float(item.facts["changed_unix"]) for item in items))

    @contextmanager
    def reading(self) -> Iterator[Connection]:
        """Yield a connection that reads one snapshot of the tables."""
        with self._database.reading() as connection:
            yield connection

    def close(self) -> None:
        """Close the database."""
        self._database.close()

    def __enter__(self) -> Catalog:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _called(self, name: str, kinds: Sequence[ItemKind], parent: str | None, *, deleted: bool) -> Item:
        called = [ITEMS.c.uid == storable(name), ITEMS.c.name == storable(name)]
        if ItemKind.RUN in (kinds or (ItemKind.RUN,)) and _may_be_place(name):
            called.append(ITEMS.c.place == store_from_url(name).url)
        since = self._clock.unix() - UNDO_DAYS * 86_400
        standing = ITEMS.c.deleted_unix >= since if deleted else ITEMS.c.deleted_unix.is_(None)
        statement = select(ITEMS.c.id).where(or_(*called), standing)
        if kinds:
            statement = statement.where(ITEMS.c.kind.in_(kinds))
        if parent is not None:
            statement = statement.where(ITEMS.c.parent == parent)
        with self.reading() as connection:
            newest_first = statement.order_by(ITEMS.c.created_unix.desc(), ITEMS.c.id.desc())
            rows = connection.execute(newest_first).scalars().all()
            if not rows:
                raise self._unknown(connection, name, kinds)
            return self._one_of(connection, items_by_id(connection, rows), name)

    def _one_of(self, connection: Connection, found: list[Item], name: str) -> Item:
        """Return the intended item among several of one name.

        An ID or a place is unique. A trial that was created for a run has the run's name; then the run is meant.

        Raises:
            AmbiguousName: Several may be intended; the message lists them.
        """
        url = store_from_url(name).url if _may_be_place(name) else ""
        exact = [item for item in found if item.uid == name or (url and item.facts["place"] == url)]
        if exact:
            return exact[0]
        trials = {trial.uid for item in found for trial in item.trials}
        meant = [item for item in found if item.uid not in trials]
        if len(meant) == 1:
            return meant[0]
        listed = "".join(f"\n  {_described(item)}" for item in meant[:_MOST_LISTED])
        more = f"\n  and {len(meant) - _MOST_LISTED} more" if len(meant) > _MOST_LISTED else ""
        raise AmbiguousName(f'{len(meant)} items are named "{name}". Use the ID of one of them:{listed}{more}')

    def _where(self, *conditions: Any) -> list[Item]:
        with self.reading() as connection:
            statement = select(ITEMS.c.id).where(ITEMS.c.deleted_unix.is_(None), *conditions)
            return items_by_id(connection, connection.execute(
                statement.order_by(ITEMS.c.created_unix, ITEMS.c.id)).scalars().all())

    def _dependents(self, item: Item) -> list[Item]:
        """Return what derives from an item, and what belongs to it alone."""
        found: dict[str, Item] = {}
        due = [item]
        while due:
            one = due.pop(0)
            uids = self._directly_after(one)
            new = [other for other in self._where(ITEMS.c.uid.in_(uids)) if other.uid not in found] if uids else []
            found.update({other.uid: other for other in new if other.uid != item.uid})
            due += [other for other in new if other.uid != item.uid]
        return list(found.values())

    def _gone_with(self, uid: str) -> list[str]:
        """Return an item and what was deleted together with it."""
        with self.reading() as connection:
            moment = connection.execute(select(ITEMS.c.deleted_unix).where(ITEMS.c.uid == uid)).scalar()
            found, due = [uid], [uid] if moment is not None else []
            while due:
                one = due.pop(0)
                after = union(
                    select(RELATIONS.c.source).where(RELATIONS.c.target == one),
                    select(MEMBERS.c.component).where(MEMBERS.c.trial == one),
                    select(ITEMS.c.uid).where(ITEMS.c.parent == one),
                    select(ITEMS.c.uid).join(LINKS, LINKS.c.item_id == ITEMS.c.id).where(LINKS.c.artifact == one))
                gone = connection.execute(select(ITEMS.c.uid).where(
                    ITEMS.c.deleted_unix == moment, ITEMS.c.uid.in_(after)).order_by(ITEMS.c.id)).scalars()
                new = [other for other in gone if other not in found]
                found, due = found + new, due + new
        return found

    def _directly_after(self, item: Item) -> set[str]:
        with self.reading() as connection:
            derived = connection.execute(select(RELATIONS.c.source).where(
                RELATIONS.c.target == item.uid, RELATIONS.c.relation == Relation.DERIVED_FROM)).scalars()
            found = set(derived)
            if item.kind is ItemKind.EXPERIMENT:
                found |= {trial.uid for trial in self.trials_of(item.uid)}
            elif item.kind is ItemKind.TRIAL:
                found |= {one.uid for one in self.members_of(item.uid) if len(one.trials) == 1}
            elif item.kind is ItemKind.ARTIFACT:
                linked = connection.execute(select(ITEMS.c.uid).join(LINKS, LINKS.c.item_id == ITEMS.c.id)
                                            .where(LINKS.c.artifact == item.uid)).scalars()
                found |= set(linked)
        return found

    def _unknown(self, connection: Connection, name: str, kinds: Sequence[ItemKind]) -> UnknownItem:
        statement = select(ITEMS.c.name).where(ITEMS.c.deleted_unix.is_(None)).order_by(ITEMS.c.id.desc())
        if kinds:
            statement = statement.where(ITEMS.c.kind.in_(kinds))
        known = connection.execute(statement.limit(_MOST_NEAR)).scalars().all()
        what = " or ".join(kinds) if kinds else "experiment, trial, component or run"
        names = sorted(set(known))
        hint = nearest(name, names) if len(names) <= 10 else nearest(name, names).partition("There are:")[0]
        return UnknownItem(f'No {what} "{name}" in {self.store.url}. {hint}'.rstrip())


def created(kind: ItemKind, name: str, *, parent: str = "", fields: Mapping[str, Any] | None = None) -> Entry:
    """Return the entry that creates an item that is identified by its name."""
    return Entry(uid_of(kind, name, parent=parent), Verb.CREATE,
                 {"kind": kind, "name": name, "parent": parent, "fields": dict(fields or {})})


def _described(item: Item) -> str:
    """Return a description that tells items of one name apart: ID, kind, state, time and place."""
    facts = item.facts
    said = (item.uid, str(item.kind), str(facts["state"] or ""), local_time(facts["created_unix"]),
            str(facts["place"] or ""))
    return "  ".join(text for text in said if text)


def _word(entry: Entry) -> tuple[str, str, str, float, str]:
    """Return the key of an entry in the tables."""
    data = storable(json.dumps(entry.data, ensure_ascii=False))
    return entry.uid, entry.verb, json.dumps(json.loads(data), sort_keys=True), entry.time_unix, entry.by


def _may_be_place(name: str) -> bool:
    return "/" in name and "\0" not in name and not name.startswith("memory:")


def _an(kind: ItemKind) -> str:
    return f"{'an' if kind[0] in 'aeiou' else 'a'} {kind}"


def _user() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError, ImportError):
        return ""
