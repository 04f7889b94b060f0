"""What a listing says is in a run, and when it cannot be trusted."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from barograph.model.manifest import Ending, EndState, Heartbeat
from barograph.model.records import StepRecords
from barograph.runs.format.layout import ChunkName
from barograph.runs.format.metadata import ending_bytes
from barograph.runs.state.survey import survey, surveyed
from barograph.store.base import ObjectInfo

MakeRecords = Callable[..., StepRecords]


def listings(workshop: Any) -> int:
    return sum(verb == "list" for verb, _ in workshop.store.calls)


def torn_once(workshop: Any, monkeypatch: pytest.MonkeyPatch, *lost: str) -> None:
    """Leave these chunks out of the next listing."""
    whole = workshop.store.list
    answers = [[item for item in whole() if not any(f"0000-{chunk}" in item.name for chunk in lost)]]
    monkeypatch.setattr(workshop.store, "list", lambda folder="": answers.pop() if answers else whole(folder))


@pytest.mark.parametrize("lost", [("00000000",), ("00000001",), ("00000003",), ("00000000", "00000003")])
def test_a_listing_in_which_a_chunk_is_missing_is_asked_for_again(
    workshop: Any, make_records: MakeRecords, monkeypatch: pytest.MonkeyPatch, lost: tuple[str, ...]
) -> None:
    writer = workshop.writer()
    for tick in range(4):
        workshop.publish(writer, make_records(tick))
    ending = Ending(EndState.FINISHED, "", Heartbeat(9, 0.0))
    workshop.store.put("endings/p0-0000.json", ending_bytes(ending, last_chunk=3))
    torn_once(workshop, monkeypatch, *lost)
    assert workshop.run().steps().tolist() == [0, 1, 2, 3]


def test_a_listing_with_no_chunk_of_a_worker_that_ended_is_asked_for_again(
    workshop: Any, make_records: MakeRecords, monkeypatch: pytest.MonkeyPatch
) -> None:
    workshop.finished(make_records(0))
    torn_once(workshop, monkeypatch, "00000000")
    assert workshop.run().steps().tolist() == [0]


def test_a_listing_of_a_whole_run_is_asked_for_once(workshop: Any, make_records: MakeRecords) -> None:
    workshop.finished(make_records(0), make_records(1))
    before = listings(workshop)
    survey(workshop.store)
    assert listings(workshop) == before + 1


def test_chunks_that_were_removed_as_the_settings_ask_are_not_looked_for(
    workshop: Any, make_records: MakeRecords
) -> None:
    writer = workshop.writer(keep_last=3)
    for tick in range(9):
        workshop.publish(writer, make_records(tick))
    assert "00000000" not in workshop.names("records")[0]
    before = listings(workshop)
    survey(workshop.store)
    assert listings(workshop) == before + 1


def test_an_ending_is_read_once_however_often_the_run_is_looked_at(workshop: Any, make_records: MakeRecords) -> None:
    workshop.finished(make_records(0))
    run = workshop.run()
    workshop.store.calls.clear()
    run.refresh()
    assert workshop.store.calls == [("list", "")]


def test_the_file_to_go_on_with_is_found_among_all(workshop: Any, make_records: MakeRecords) -> None:
    writer = workshop.writer()
    for tick in range(35):
        workshop.publish(writer, make_records(tick))
    found = survey(workshop.store)
    stream = (0, "p0")
    assert [(file.first, file.last) for file in found.files(stream)] == [(0, 31), (32, 32), (33, 33), (34, 34)]
    assert [str(found.file_from(stream, chunk))[11:33] for chunk in (0, 31, 32, 34)] == [
        "0000-00000000-00000031", "0000-00000000-00000031", "0000-00000032-00000032", "0000-00000034-00000034"]
    assert found.file_from(stream, 35) is None
    assert found.file_from((1, "p0"), 0) is None
    damaged = [str(found.files(stream)[0])]
    assert found.file_from(stream, 0, damaged) == found.files(stream)[1]


def test_files_that_were_seen_before_are_not_taken_apart_again(
    workshop: Any, make_records: MakeRecords, monkeypatch: pytest.MonkeyPatch
) -> None:
    writer = workshop.writer()
    feed = workshop.feed()
    for tick in range(3):
        workshop.publish(writer, make_records(tick))
    feed.poll()
    read: list[str] = []
    taken_apart = ChunkName.from_name

    def chunk_read(name: str) -> ChunkName | None:
        chunk = taken_apart(name)
        if chunk:
            read.append(name)
        return chunk

    monkeypatch.setattr(ChunkName, "from_name", chunk_read)
    workshop.publish(writer, make_records(3))
    assert [view.step.number for view in feed.poll().views] == [3]
    assert read == workshop.names("records")[3:]


def test_the_files_to_read_are_worked_out_once_a_look() -> None:
    digest = "0" * 32
    found = surveyed([ObjectInfo(f"records/p0/0000-00000000-00000000.{digest}.parquet", 1, 0.0)])
    assert found.files((0, "p0")) is found.files((0, "p0"))
