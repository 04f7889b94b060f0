"""What people edit in the page is stored in the catalog, where the command line finds it."""

from __future__ import annotations

import json
import shutil
import threading
from pathlib import Path
from typing import Any

import pytest

from barograph.cli.inspect.runs_page import print_runs
from barograph.errors import StoreUnavailable
from barograph.experiments.handle import catalog_at
from barograph.model.clock import ManualClock
from barograph.model.items import Entry, Verb
from barograph.web.app import application
from barograph.web.catalogs import Catalogs
from barograph.web.places import Places
from barograph.web.searching import RunLists
from web_client import Client, recorded

HOSTILE = "<img src=x onerror='window.hacked=1'>\u202eevil ../../etc " + "x" * 900


def edit(client: Client, changes: dict[str, Any], **more: Any) -> Any:
    return client.post("/api/edit", {"run": "0/first", "changes": changes, **more})


def names(client: Client) -> list[str]:
    return sorted(run["name"] for run in client.get("/api/now").json["runs"])


def test_edits_are_shown_by_the_page_and_found_by_the_command_line(client: Client, root: Path) -> None:
    edit(client, {"name": "best", "starred": True, "tags": {"team": "vision"}, "description": "**wide**"})
    edit(client, {"note": "one"})
    edit(client, {"note": "two"})

    marks = client.get("/api/marks?run=0/first").json
    assert (marks["name"], marks["starred"], marks["tags"], marks["description"]) == (
        "best", True, {"team": "vision"}, "**wide**")
    assert [note["text"] for note in marks["notes"]] == ["one", "two"]
    assert names(client) == ["best", "second"]
    item = catalog_at(str(root)).item("best")
    assert ([note.text for note in item.notes], item.facts["starred"]) == (["one", "two"], True)


def test_of_two_tabs_the_later_one_is_told_that_the_other_edited(client: Client) -> None:
    version = client.get("/api/marks?run=0/first").json["version"]
    assert edit(client, {"description": "mine"}, version=version).status == 200

    late = edit(client, {"description": "yours"}, version=version)

    assert (late.status, late.json["type"]) == (409, "EditConflict")
    assert "Somebody else edited" in late.json["error"]
    assert client.get("/api/marks?run=0/first").json["description"] == "mine"


def test_archived_and_deleted_runs_leave_the_list_and_come_back(client: Client, root: Path) -> None:
    edit(client, {"archived": True})
    assert names(client) == ["second"]
    edit(client, {"archived": False})

    gone = client.post("/api/delete", {"run": "0/first"}).json
    assert ([item["name"] for item in gone["deleted"]], gone["undo_days"]) == (["first"], 30.0)
    assert names(client) == ["second"]
    assert client.get("/api/search").json["count"] == 1
    assert (root / "first").is_dir(), "nothing is removed from the disk"
    assert client.get("/api/run?run=0/first").status == 200, "an open page still shows it"
    (deleted,) = client.get("/api/deleted").json["items"]

    back = client.post("/api/restore", {"root": deleted["root"], "uid": deleted["uid"]})

    assert [item["name"] for item in back.json["restored"]] == ["first"]
    assert names(client) == ["first", "second"]
    assert client.get("/api/deleted").json["items"] == []


def test_what_others_derive_from_is_deleted_only_with_them(client: Client, root: Path) -> None:
    catalog = catalog_at(str(root))
    first, second = (client.get(f"/api/marks?run=0/{key}").json["uid"] for key in ("first", "group/second"))
    catalog.tell([Entry(second, Verb.RELATE, {"relation": "derived_from", "target": first})])

    refused = client.post("/api/delete", {"run": "0/first"})
    assert (refused.status, refused.json["type"]) == (409, "StillNeeded")
    both = client.post("/api/delete", {"run": "0/first", "cascade": True}).json
    assert [item["name"] for item in both["deleted"]] == ["first", "second"]


def test_hostile_names_and_notes_are_stored_as_they_are(client: Client) -> None:
    answer = edit(client, {"name": HOSTILE, "note": HOSTILE, "tags": {HOSTILE: HOSTILE}, "description": HOSTILE})

    assert answer.status == 200, answer.body
    marks = client.get("/api/marks?run=0/first").json
    assert {marks["name"], marks["notes"][0]["text"], marks["tags"][HOSTILE], marks["description"]} == {HOSTILE}
    assert names(client)[0] == HOSTILE


@pytest.mark.parametrize(("data", "status", "says"), [
    ({"run": "0/third", "changes": {}}, 404, "does not have the run"),
    ({"run": "0/../first", "changes": {}}, 404, "No run is called"),
    ({"run": 3, "changes": {}}, 400, "run must be a string"),
    ({"root": 7, "uid": "x", "changes": {}}, 404, "no root 7"),
    ({"root": [], "uid": "x", "changes": {}}, 400, "root must be a number"),
    ({"uid": "x", "changes": {}}, 404, "No item has the ID"),
    ({"changes": {}}, 400, "uid must be a string"),
    ({"run": "0/first"}, 400, "changes must be a JSON object"),
    ({"run": "0/first", "changes": {"name": "a\nb"}}, 400, "on one line"),
    ({"run": "0/first", "changes": {"place": "/etc"}}, 404, "cannot be edited"),
    (b"{", 400, "no JSON"), (b"[]", 400, "must be a JSON object"), (b"[" * 100_000, 400, "no JSON"),
    (b" " * 1_000_001, 400, "more than 1,000,000 bytes"),
])
def test_wrong_edits_are_answered_with_a_sentence(client: Client, data: Any, status: int, says: str) -> None:
    answer = client.post("/api/edit", data)

    assert (answer.status, says in answer.json["error"]) == (status, True), answer.json


def test_a_run_recorded_meanwhile_can_be_edited(root: Path) -> None:
    clock = ManualClock()
    client = Client(application([str(root)], hosts=["127.0.0.1"], clock=clock))
    client.get("/api/now")
    recorded(root / "third", [1.0])
    clock.advance(3.0)

    assert client.post("/api/edit", {"run": "0/third", "changes": {"starred": True}}).json["starred"] is True


def test_a_run_whose_folder_was_removed_is_named_and_the_others_stay(client: Client, root: Path) -> None:
    assert client.get("/api/run?run=0/first").status == 200
    shutil.rmtree(root / "first")

    for question in ("run", "output", "curves"):
        gone = client.get(f"/api/{question}?run=0/first&name=loss")
        assert (gone.status, "no run" in gone.json["error"]) == (404, True)
    assert names(client) == ["second"]
    shutil.copytree(root / "group" / "second", root / "first")
    assert client.get("/api/run?run=0/first").json["name"] == "second", "another run is at the same place"


def test_a_root_that_cannot_be_read_is_named_and_the_others_are_listed(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def opened(place: str) -> Any:
        if "://" in place:
            raise StoreUnavailable("The bucket does not answer.")
        return catalog_at(place)

    monkeypatch.setattr("barograph.web.indexing.catalog_at", opened)
    client = Client(application([str(root), "s3://gone/runs"], hosts=["127.0.0.1"]))

    found = client.get("/api/now").json

    assert len(found["runs"]) == 2
    assert [one["failure"] for one in found["indexing"]] == ["", "The bucket does not answer."]


def test_while_a_catalog_is_migrated_the_page_says_so(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    migrated = threading.Event()

    def slowly(place: str) -> Any:
        assert migrated.wait(600)
        return catalog_at(place)

    monkeypatch.setattr("barograph.web.indexing.catalog_at", slowly)
    places = Places([str(root)])
    catalogs = Catalogs(places, patience_secs=0.01)

    (indexing,) = RunLists(places, catalogs).now(None)["indexing"]
    assert "is being read or migrated" in indexing["failure"]

    migrated.set()
    found = RunLists(places, Catalogs(places, patience_secs=60)).now(None)
    assert (len(found["runs"]), found["indexing"][0]["failure"]) == (2, "")


def test_a_run_is_moved_to_another_experiment_and_out_of_it(client: Client, root: Path) -> None:
    edit(client, {"experiment": "wide nets", "trial": "64"})
    assert [(one["experiment"], one["name"]) for one in client.get("/api/marks?run=0/first").json["trials"]] == [
        ("wide nets", "64")]

    edit(client, {"experiment": "deep nets"})
    assert [(one["experiment"], one["name"]) for one in client.get("/api/marks?run=0/first").json["trials"]] == [
        ("deep nets", "first")]
    assert client.get("/api/search?q=experiment%20%3D%20'deep%20nets'").json["count"] == 1
    catalog_at(str(root)).feed(thorough=True)
    assert client.get("/api/search?q=experiment%20%3D%20'wide%20nets'").json["count"] == 0

    edit(client, {"experiment": ""})
    assert client.get("/api/marks?run=0/first").json["trials"] == []
    assert edit(client, {"experiment": "a\nb"}).status == 400


def test_deleted_and_archived_runs_leave_the_list_of_the_command_line_too(client: Client, root: Path,
                                                                         capsys: pytest.CaptureFixture[str]) -> None:
    edit(client, {"archived": True})
    client.post("/api/delete", {"run": "0/group/second"})

    def printed(**options: bool) -> list[str]:
        print_runs(str(root), as_json=True, **options)
        return [row["name"] for row in json.loads(capsys.readouterr().out)]

    assert printed() == []
    assert printed(archived=True) == ["first"]
