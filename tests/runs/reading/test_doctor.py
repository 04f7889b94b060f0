"""Is this run whole? What is damaged, what is missing, what was dropped?"""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from barograph.errors import NewerFormat, NotARun, StoreUnavailable
from barograph.model.capsule import CapsuleHead, Held
from barograph.model.items import Entry, Verb
from barograph.model.key import Key, Kind
from barograph.model.manifest import Coverage, EndState
from barograph.model.records import StepRecords
from barograph.model.step import Mode
from barograph.model.tensor import RawTensor
from barograph.runs.format.metadata import ending_bytes, ending_from_bytes, sealed
from barograph.runs.format.pending import Recorded
from barograph.runs.reading.doctor import examine
from barograph.runs.state.capsules import write_capsule
from barograph.runs.state.checkpoints import write_checkpoint
from barograph.runs.state.journal import JOURNAL_OF_RUN, Journal
from barograph.runs.state.output import OutputWriter

MakeRecords = Callable[..., StepRecords]
TENSORS = {Key(Kind.CUSTOM, "map"): RawTensor("uint8", (4,), bytes(4))}


def test_a_run_that_ended_well_is_whole(workshop: Any, make_records: MakeRecords) -> None:
    workshop.finished(make_records(0, tensors=TENSORS), make_records(1))
    diagnosis = examine(workshop.store)
    assert diagnosis.intact
    assert (diagnosis.workers, diagnosis.chunks, diagnosis.tensors) == (1, 1, 1)
    assert diagnosis.size_bytes == sum(item.size_bytes for item in workshop.store.inner.list())
    assert [json.loads(json.dumps(diagnosis.to_json()))[key] for key in ("intact", "whole")] == [True, True]


def test_a_place_without_a_run_says_so(workshop: Any) -> None:
    workshop.store.put("notes.txt", b"not a run")
    with pytest.raises(NotARun):
        examine(workshop.store)


def test_a_run_that_goes_on_is_whole_so_far(workshop: Any, make_records: MakeRecords) -> None:
    workshop.publish(workshop.writer(), make_records(0))
    diagnosis = examine(workshop.store)
    assert diagnosis.intact
    assert diagnosis.unended == ["Worker p0 in attempt 0 is running."]


def test_a_worker_that_was_killed_may_have_lost_its_last_steps(workshop: Any, make_records: MakeRecords) -> None:
    worker = workshop.worker(attempt=workshop.claim())
    workshop.publish(workshop.writer(worker), make_records(0), make_records(1))
    workshop.kill(worker)
    diagnosis = examine(workshop.store)
    assert not diagnosis.intact
    assert diagnosis.unended == ["Worker p0 in attempt 0 was killed."]
    assert "after step 1 were lost" in diagnosis.missing[0]


def test_once_resumed_the_killed_attempt_is_not_missed(workshop: Any, make_records: MakeRecords) -> None:
    worker = workshop.worker(attempt=workshop.claim())
    workshop.publish(workshop.writer(worker), make_records(0))
    workshop.kill(worker)
    workshop.store.put("attempts/0001.json", sealed({"attempt": 1}))
    assert examine(workshop.store).intact


@pytest.mark.parametrize("folder", ["records", "tensors", "workers", "heartbeats", "endings", "run.json", "findings",
                                    "watch", "control"])
@pytest.mark.parametrize("damage", ["truncated", "flipped", "foreign"])
def test_every_damaged_object_is_named(workshop: Any, make_records: MakeRecords, folder: str, damage: str) -> None:
    workshop.finished(make_records(0, tensors=TENSORS))
    for name in ("findings/G101-1-a.opened.json", "watch/state.json", "control/stop.json"):
        workshop.store.put(name, sealed({"id": "x"}))
    (name,) = [name for name in workshop.names("") if name.startswith(folder)]
    whole = bytes(workshop.store.get(name))
    flipped = bytearray(whole)
    flipped[len(whole) // 2] ^= 0x10
    damaged = {"truncated": whole[:-7], "flipped": bytes(flipped), "foreign": b"something else"}[damage]
    workshop.store.inner.put(name, damaged)
    diagnosis = examine(workshop.store)
    assert not diagnosis.intact
    assert any(name in text for text in diagnosis.damaged)


def test_foreign_files_are_named_and_do_no_harm(workshop: Any, make_records: MakeRecords) -> None:
    workshop.finished(make_records(0))
    workshop.store.put("records/p0/notes.txt", b"mine")
    workshop.store.put("readme ü.md", b"mine")
    diagnosis = examine(workshop.store)
    assert diagnosis.intact
    assert [text.split(" is not part")[0] for text in diagnosis.foreign] == ["readme ü.md", "records/p0/notes.txt"]


def test_a_chunk_copied_under_another_name_is_named(workshop: Any, make_records: MakeRecords) -> None:
    workshop.finished(make_records(0))
    (name,) = workshop.names("records")
    workshop.store.put(name.replace("records/p0", "records/p7"), bytes(workshop.store.get(name)))
    diagnosis = examine(workshop.store)
    assert "another worker" in diagnosis.damaged[0]


def test_missing_chunks_are_named(workshop: Any, make_records: MakeRecords) -> None:
    writer = workshop.writer()
    for tick in range(6):
        workshop.publish(writer, make_records(tick))
    for name in [workshop.names("records")[index] for index in (0, 2, 3)]:
        workshop.store.inner.delete(name)
    assert examine(workshop.store).missing == [
        "Chunk 0 of worker p0 in attempt 0 is missing.", "Chunks 2 to 3 of worker p0 in attempt 0 are missing."]


def test_a_last_chunk_that_is_missing_is_known_from_the_ending(workshop: Any, make_records: MakeRecords) -> None:
    workshop.finished(make_records(0))
    workshop.store.inner.delete(workshop.names("records")[0])
    assert examine(workshop.store).missing == ["Chunk 0 of worker p0 in attempt 0 is missing."]


def test_missing_tensors_are_named(workshop: Any, make_records: MakeRecords) -> None:
    workshop.finished(make_records(0, tensors=TENSORS))
    workshop.store.inner.delete(workshop.names("tensors")[0])
    assert examine(workshop.store).missing == ["The saved tensors of chunk 0 of worker p0 in attempt 0 are missing."]


def test_a_missing_manifest_is_named(workshop: Any, make_records: MakeRecords) -> None:
    workshop.finished(make_records(0))
    workshop.store.inner.delete("run.json")
    assert examine(workshop.store).missing == ["run.json is missing."]


def test_dropped_steps_are_counted(workshop: Any, make_records: MakeRecords) -> None:
    writer = workshop.writer(queue_bytes=Recorded(make_records(0)).size_bytes + 1)
    for tick in range(4):
        writer.put(make_records(tick))
    writer.close(EndState.FINISHED)
    diagnosis = examine(workshop.store)
    assert not diagnosis.intact
    assert diagnosis.dropped_steps == 3
    assert "3 steps" in diagnosis.dropped[0]


def test_problems_the_workers_reported_are_shown(workshop: Any, make_records: MakeRecords) -> None:
    writer = workshop.writer()
    workshop.store.error = StoreUnavailable("the bucket went away")
    writer.turn()
    workshop.store.error = None
    workshop.publish(writer, make_records(0))
    writer.close(EndState.FINISHED)
    assert "the bucket went away" in examine(workshop.store).problems[0]


def test_a_newer_run_is_refused(workshop: Any) -> None:
    workshop.store.put("run.json", sealed({"format": 2}))
    with pytest.raises(NewerFormat):
        examine(workshop.store)


def test_files_made_one_while_the_doctor_reads_are_the_only_ones_read_again(
    workshop: Any, make_records: MakeRecords
) -> None:
    writer = workshop.writer()
    for tick in range(63):
        workshop.publish(writer, make_records(tick))
    workshop.store.calls.clear()

    def compact(verb: str, name: str) -> None:
        if verb == "get" and "00000050" in name:
            workshop.store.before = lambda verb, name: None
            workshop.publish(writer, make_records(63))

    workshop.store.before = compact
    diagnosis = examine(workshop.store, clock=workshop.clock)
    read = [name for verb, name in workshop.store.calls if verb == "get" and "0000-00000000-00000031" in name]
    assert (diagnosis.intact, diagnosis.chunks, len(read)) == (True, 2, 1)


def test_a_run_whose_files_are_made_one_again_and_again_is_examined_all_the_same(
    workshop: Any, make_records: MakeRecords, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("barograph.runs.writing.compaction.FILES_PER_LEVEL", 4)
    writer = workshop.writer()
    workshop.publish(writer, make_records(0))
    ticks = iter(range(1, 30))

    def go_on(verb: str, name: str) -> None:
        if verb == "get" and name.startswith("records/"):
            workshop.store.before = lambda verb, name: None
            for tick in itertools.islice(ticks, 4):
                workshop.publish(writer, make_records(tick))
            workshop.store.before = go_on

    workshop.store.before = go_on
    diagnosis = examine(workshop.store, clock=workshop.clock)
    assert list(ticks) == []
    assert (diagnosis.intact, diagnosis.damaged, diagnosis.missing) == (True, [], [])


def test_a_store_that_is_away_says_so(workshop: Any, make_records: MakeRecords) -> None:
    workshop.finished(make_records(0))
    workshop.store.error = StoreUnavailable("away")
    with pytest.raises(StoreUnavailable):
        examine(workshop.store)


def ended(workshop: Any, coverage: Coverage, *steps: StepRecords, dropped: int = 0) -> Any:
    """Examine a run of these steps whose worker says at its end what it has recorded."""
    workshop.finished(*steps)
    (name,) = workshop.names("endings")
    ending, last_chunk = ending_from_bytes(workshop.store.get(name), name)
    last = replace(ending.last, coverage=coverage, dropped_steps=dropped)
    workshop.store.put(name, ending_bytes(replace(ending, last=last), last_chunk=last_chunk))
    return examine(workshop.store)


@pytest.mark.parametrize(("coverage", "lost"), [
    (Coverage(steps=5, steps_recorded=5), "3 of 5 recorded steps of worker p0 in attempt 0 are missing"),
    (Coverage(steps=5, steps_seen=5), "3 of 5 recorded steps of worker p0 in attempt 0 are missing"),
    (Coverage(steps=3, steps_recorded=3), "1 of 3 recorded steps of worker p0 in attempt 0 is missing"),
])
def test_steps_that_were_lost_before_they_were_published_are_missed(
    workshop: Any, make_records: MakeRecords, coverage: Coverage, lost: str
) -> None:
    diagnosis = ended(workshop, coverage, make_records(0), make_records(3), make_records(4, mode=Mode.EVAL))
    assert diagnosis.missing == [f"{lost}: lost before publication."]


def test_steps_that_were_not_recorded_are_not_missed(workshop: Any, make_records: MakeRecords) -> None:
    assert ended(workshop, Coverage(steps=50, steps_seen=1, steps_recorded=2), make_records(0), make_records(40)).intact


def test_dropped_steps_are_not_missed_once_more(workshop: Any, make_records: MakeRecords) -> None:
    coverage = Coverage(steps=5, steps_recorded=5)
    diagnosis = ended(workshop, coverage, make_records(0), make_records(1), dropped=3)
    assert (diagnosis.missing, len(diagnosis.dropped)) == ([], 1)


def with_all_files(workshop: Any, make_records: MakeRecords) -> None:
    """Write a run that holds a file of every kind."""
    workshop.finished(make_records(0, tensors=TENSORS))
    tensors = {"w": RawTensor("uint8", (64,), bytes(64))}
    write_checkpoint(workshop.store, attempt=0, steps=3, who="p0", content={}, tensors=tensors)
    write_capsule(workshop.store, CapsuleHead(0, "p0", 3, 3, "", Held.NOT_FINITE, "", 1.5e9),
                  {}, tensors, b"pickled")
    shelf = OutputWriter(workshop.store, 0, {})
    shelf.add([("out", "hello\n")])
    shelf.write("p0", last=True)
    Journal(workshop.store, JOURNAL_OF_RUN).write([Entry("x", Verb.TAG, {"a": 1}, 5.0, "me")])
    for name in ("imported/tensorboard.json", "origin/0000-options-p0.json"):
        workshop.store.put(name, sealed({"options": {}}))


def test_a_run_with_files_of_every_kind_is_whole(workshop: Any, make_records: MakeRecords) -> None:
    with_all_files(workshop, make_records)
    diagnosis = examine(workshop.store)
    assert diagnosis.intact
    assert (diagnosis.leftover, diagnosis.foreign) == ([], [])


def test_a_flipped_bit_is_noticed_in_every_file(workshop: Any, make_records: MakeRecords) -> None:
    with_all_files(workshop, make_records)
    blind = []
    for name in workshop.names(""):
        whole = bytes(workshop.store.get(name))
        workshop.store.inner.put(name, bytes([*whole[:len(whole) // 2], whole[len(whole) // 2] ^ 1,
                                              *whole[len(whole) // 2 + 1:]]))
        if not any(name in text for text in examine(workshop.store).damaged):
            blind.append(name)
        workshop.store.inner.put(name, whole)
    assert blind == []
    assert len(workshop.names("")) >= 13


@pytest.mark.parametrize("file", ["tensors.safetensors", "pickled.pickle", ".safetensors"])
def test_a_file_of_a_capsule_or_a_checkpoint_that_is_gone_is_missed(
    workshop: Any, make_records: MakeRecords, file: str
) -> None:
    with_all_files(workshop, make_records)
    folder = "capsules" if file != ".safetensors" else "checkpoints"
    (name,) = [name for name in workshop.names(folder) if name.endswith(file)]
    workshop.store.inner.delete(name)
    assert [text.partition(" ")[0] for text in examine(workshop.store).missing] == [name]


def test_what_a_save_that_did_not_end_left_behind_is_harmless(workshop: Any, make_records: MakeRecords) -> None:
    with_all_files(workshop, make_records)
    for name in workshop.names(""):
        if name.startswith(("capsules", "checkpoints")) and name.endswith(".json"):
            workshop.store.inner.delete(name)
    diagnosis = examine(workshop.store)
    assert diagnosis.intact
    assert len(diagnosis.leftover) == 3
