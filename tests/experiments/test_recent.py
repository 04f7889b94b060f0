"""Live and recent runs come from the catalog."""

from __future__ import annotations

from barograph.experiments.catalog import Catalog
from barograph.experiments.recent import RecentRun, recent_runs
from barograph.experiments.run_reading import SeenRun
from barograph.model.items import Entry, Verb
from experiments_entries import NOW_UNIX

STATES = ("running", "finished", "unknown", "killed", "starting", "empty")


def filled(catalog: Catalog) -> Catalog:
    seen = []
    for number, state in enumerate(STATES):
        uid, when = f"r{number}", NOW_UNIX - 100 + number
        entries = [Entry(uid, Verb.CREATE, {"kind": "run", "name": uid}, when),
                   Entry(uid, Verb.SET, {"state": state, "place": f"/runs/{uid}"}, when)]
        seen.append(SeenRun(uid, uid, "", "", [("", entry) for entry in entries], {}, (), ()))
    catalog._feeder.write_runs(seen, catalog._feeder.feed())
    return catalog


def test_runs_that_may_go_on_are_live_and_the_others_recent_newest_first(catalog: Catalog) -> None:
    found = recent_runs(filled(catalog), most_live=9, most_recent=9)

    assert [run.name for run in found.live] == ["r4", "r2", "r0"]
    assert [run.name for run in found.recent] == ["r5", "r3", "r1"]
    assert (found.live_count, found.count) == (3, 6)


def test_only_so_many_are_returned_but_all_are_counted(catalog: Catalog) -> None:
    found = recent_runs(filled(catalog), most_live=1, most_recent=2)

    assert ([run.place for run in found.live], [run.place for run in found.recent]) == (
        ["/runs/r4"], ["/runs/r5", "/runs/r3"])
    assert (found.live_count, found.count) == (3, 6)


def test_runs_of_groups_are_left_out_and_make_room_for_others(catalog: Catalog) -> None:
    groups = {"/runs/r5": "study", "/runs/r4": "study"}
    found = recent_runs(filled(catalog), most_live=1, most_recent=1, group_of=lambda place: groups.get(place, ""))

    assert ([run.name for run in found.live], [run.name for run in found.recent]) == (["r2"], ["r3"])
    assert (found.groups, found.live_count, found.count) == (("study",), 2, 6)


def test_what_users_changed_in_the_catalog_counts(catalog: Catalog) -> None:
    filled(catalog).tell([Entry("r4", Verb.SET, {"archived": True}), Entry("r5", Verb.DELETE, {}),
                          Entry("r3", Verb.SET, {"name": "best", "starred": True})])
    found = recent_runs(catalog, most_live=9, most_recent=9)

    assert [run.name for run in found.live] == ["r2", "r0"]
    assert found.recent[0] == RecentRun("/runs/r3", "best", True)
