"""What a run survives, end to end: each fault on a real place where it can be made."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from barograph.errors import DamagedChunk, NewerFormat, StoreDenied, StoreUnavailable
from barograph.model.manifest import EndState
from barograph.model.records import StepRecords
from barograph.runs.format.metadata import sealed, unsealed
from barograph.runs.reading.doctor import examine
from barograph.runs.reading.reader import RunReader
from barograph.store.urls import store_from_url

MakeRecords = Callable[..., StepRecords]


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    yield from mounted(tmp_path / "small", "size=512k")


@pytest.fixture
def read_only_disk(tmp_path: Path) -> Iterator[Path]:
    yield from mounted(tmp_path / "fixed", "ro")


def fill(place: Path) -> Path:
    """Leave room for a few chunks, and no more."""
    ballast = place / "ballast"
    status = os.statvfs(place)
    ballast.write_bytes(bytes(status.f_bavail * status.f_frsize - 60 * 1024))
    return ballast


def mounted(place: Path, options: str) -> Iterator[Path]:
    place.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", options, "tmpfs", str(place)]
    if subprocess.run(command, check=False, capture_output=True).returncode != 0:
        pytest.skip("a file system can be mounted by root on Linux only")
    yield place
    subprocess.run(["umount", str(place)], check=True)


def test_a_disk_that_runs_full_keeps_what_it_holds_and_goes_on_when_there_is_room(
    small_disk: Path, make_workshop: Any, make_records: MakeRecords
) -> None:
    workshop = make_workshop(store_from_url(small_disk / "run"))
    writer = workshop.writer()
    workshop.publish(writer, make_records(0))
    ballast = fill(small_disk)
    for tick in range(1, 20):
        workshop.publish(writer, make_records(tick))
    published = workshop.run().steps().tolist()
    assert published == list(range(len(published)))
    assert len(published) < 20
    assert "is full" in writer.problems[0]
    assert examine(workshop.store).damaged == []
    ballast.unlink()
    workshop.publish(writer)
    assert writer.close(EndState.FINISHED).complete
    assert workshop.run().steps().tolist() == list(range(20))


def test_a_disk_that_stays_full_is_said_at_the_end(
    small_disk: Path, make_workshop: Any, make_records: MakeRecords
) -> None:
    workshop = make_workshop(store_from_url(small_disk / "run"))
    writer = workshop.writer()
    fill(small_disk)
    for tick in range(40):
        workshop.publish(writer, make_records(tick))
    closing = writer.close(EndState.FINISHED)
    assert not closing.complete
    assert closing.lost_steps > 0
    assert "is full" in closing.problems[0]


def test_a_read_only_place_is_refused_before_training(read_only_disk: Path, make_workshop: Any) -> None:
    workshop = make_workshop(store_from_url(read_only_disk / "run"))
    with pytest.raises(StoreDenied):
        workshop.claim()


def test_a_finished_run_on_a_read_only_place_can_be_read(
    tmp_path: Path, make_workshop: Any, make_records: MakeRecords
) -> None:
    workshop = make_workshop(store_from_url(tmp_path / "run"))
    workshop.finished(make_records(0))
    workshop.store.error = StoreDenied("read-only")
    workshop.store.verbs = {"put", "create", "delete"}
    assert workshop.run().steps().tolist() == [0]
    assert workshop.feed().poll().ended
    assert examine(workshop.store).intact


@pytest.mark.parametrize("position", range(0, 100, 7))
def test_a_flipped_bit_anywhere_in_a_chunk_is_never_a_wrong_value(
    workshop: Any, make_records: MakeRecords, position: int
) -> None:
    writer = workshop.writer()
    for tick in range(3):
        workshop.publish(writer, make_records(tick, loss=float(tick)))
    victim = workshop.names("records")[1]
    data = bytearray(workshop.store.get(victim))
    data[len(data) * position // 100] ^= 1 << (position % 8)
    workshop.store.inner.put(victim, bytes(data))
    run = workshop.run()
    series = run.series("loss:loss")
    assert list(zip(series.steps.tolist(), series.values.tolist(), strict=True)) == [(0, 0.0), (2, 2.0)]
    assert len(run.damage) == 1
    assert victim in run.damage[0]


@pytest.mark.parametrize("length", [0, 1, 4, 100, 5000, -1])
def test_a_truncated_chunk_is_named_and_the_rest_reads(
    workshop: Any, make_records: MakeRecords, length: int
) -> None:
    writer = workshop.writer()
    for tick in range(3):
        workshop.publish(writer, make_records(tick))
    victim = workshop.names("records")[2]
    workshop.store.inner.put(victim, bytes(workshop.store.get(victim))[:length])
    run = workshop.run()
    assert run.steps().tolist() == [0, 1]
    assert victim in run.damage[0]
    assert [str(key) for key in run.keys(None)] == ["loss:loss", "weight:fc.weight"]
    feed = workshop.feed()
    assert [view.step.number for view in feed.poll().views] == [0, 1]


def test_foreign_files_change_nothing(workshop: Any, make_records: MakeRecords) -> None:
    workshop.finished(make_records(0))
    before = workshop.run().arrow()
    for name in ("notes.txt", "records/p0/notes.parquet", "records/p0/0000-00000000-00000000.parquet", "tensors/x",
                 "workers/nobody.json", "records/zz/0000-00000000-00000000.00000000000000000000000000000000.parquet"):
        workshop.store.put(name, b"something else")
    assert workshop.run().arrow() == before
    assert workshop.run().damage == ()
    assert workshop.feed().poll().ended
    assert len(examine(workshop.store).foreign) == 6


def test_a_chunk_whose_name_fits_and_whose_bytes_are_foreign_is_named(workshop: Any, make_records: MakeRecords) -> None:
    workshop.finished(make_records(0))
    name = f"records/p0/0000-00000007-00000007.{'ab' * 16}.parquet"
    workshop.store.put(name, b"something else")
    run = workshop.run()
    assert run.steps().tolist() == [0]
    assert name in run.damage[0]


def test_a_newer_run_is_refused_by_every_reader(workshop: Any, make_records: MakeRecords) -> None:
    workshop.finished(make_records(0))
    body = unsealed(workshop.store.get("run.json"), "run.json")
    workshop.store.put("run.json", sealed({**body, "format": 2}))
    for ask in (workshop.run, lambda: workshop.feed().poll(), lambda: examine(workshop.store), workshop.claim):
        with pytest.raises(NewerFormat):
            ask()


def test_a_damaged_manifest_is_said_by_every_reader(workshop: Any, make_records: MakeRecords) -> None:
    workshop.finished(make_records(0))
    workshop.store.put("run.json", bytes(workshop.store.get("run.json"))[:-9])
    for ask in (workshop.run, lambda: workshop.feed().poll()):
        with pytest.raises(DamagedChunk, match=r"run\.json"):
            ask()
    assert "run.json" in examine(workshop.store).damaged[0]


def test_a_reader_of_a_store_that_is_away_says_so(workshop: Any, make_records: MakeRecords) -> None:
    workshop.finished(make_records(0))
    run = workshop.run()
    workshop.store.error = StoreUnavailable("away")
    with pytest.raises(StoreUnavailable):
        run.series("loss:loss")
    workshop.store.error = None
    assert run.series("loss:loss").steps.tolist() == [0]


def test_not_a_number_and_infinity_survive_every_hop(workshop: Any, make_records: MakeRecords) -> None:
    values = [np.nan, np.inf, -np.inf, 1.0]
    writer = workshop.writer()
    for tick in range(32):
        workshop.publish(writer, make_records(tick, loss=values[tick % 4], weight=values))
    assert len(workshop.names("records")) == 1  # the compacted file is a hop, too
    writer.close(EndState.FINISHED)
    run = RunReader(store_from_url(workshop.store.url))
    np.testing.assert_array_equal(run.series("loss:loss").values, values * 8)
    np.testing.assert_array_equal(run.pandas("loss").sort_values("step")["value"], values * 8)
    np.testing.assert_array_equal(run.polars("loss").sort("step")["value"].to_numpy(), values * 8)
    summary = run.summary("weight:fc.weight", 3)
    assert (summary.nan, summary.posinf, summary.neginf, summary.finite) == (1, 1, 1, 1)
    np.testing.assert_array_equal([view.scalar(run.keys("loss")[0]) for view in run.views()], values * 8)


@pytest.mark.s3
def test_a_run_in_a_bucket_from_start_to_end(s3_url: str, make_workshop: Any, make_records: MakeRecords) -> None:
    workshop = make_workshop(store_from_url(f"{s3_url}/mit leerzeichen ü"))
    writer = workshop.writer()
    feed = workshop.feed()
    seen: list[int] = []
    for tick in range(40):
        workshop.publish(writer, make_records(tick, loss=float(tick)))
        seen.extend(view.step.number for view in feed.poll().views)
    assert len(workshop.names("records")) < 40
    assert writer.close(EndState.FINISHED).complete
    result = feed.poll()
    assert (seen, result.ended) == (list(range(40)), True)
    run = RunReader(store_from_url(workshop.store.url))
    assert run.series("loss:loss").values.tolist() == [float(tick) for tick in range(40)]
    assert examine(workshop.store).intact
