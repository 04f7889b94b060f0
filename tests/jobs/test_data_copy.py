"""Copy mode: what a job gets, and what is left when it fails."""

from __future__ import annotations

import os
import subprocess
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from barograph.errors import (
    BarographError,
    JobError,
    JobRefused,
    ObjectNotFound,
    StoreDenied,
    StoreFull,
    StoreUnavailable,
)
from barograph.jobs.data.channel import Channel
from barograph.jobs.data.delivery import Delivery, deliver
from barograph.jobs.data.listing import DataListing, DataObject
from barograph.jobs.data.object_cache import ObjectCache, trim
from barograph.jobs.data.progress import DeliveryCancelled, DeliveryProgress
from barograph.jobs.data.settings import DeliverySettings
from barograph.jobs.data.source import objects_of
from barograph.store.base import ObjectInfo, Part
from barograph.store.failures import NoRanges
from barograph.store.urls import store_from_url

FILES = {"a.bin": b"first", "empty": b"", "ünï/日本.bin": b"unicode", "sub/deep/large.bin": bytes(range(256)) * 1000}
PART_BYTES = 50_000  # large.bin has six parts


class Bucket:
    """A store that counts its reads, and fails when it is told to."""

    url = "s3://bucket/digits"

    def __init__(self, files: dict[str, bytes]) -> None:
        self.files = files
        self.versions = dict.fromkeys(files, "v1")
        self.reads: list[tuple[str, int, int | None]] = []
        self.before_read: Callable[[str], None] = lambda name: None
        self.lock = threading.Lock()

    def read(self, name: str, start: int = 0, end: int | None = None) -> Part:
        with self.lock:
            self.reads.append((name, start, end))
        self.before_read(name)
        if name not in self.files:
            raise ObjectNotFound("The object does not exist.")
        data = self.files[name]
        return Part(memoryview(data)[start:end], self.info(name))

    def info(self, name: str) -> ObjectInfo:
        return ObjectInfo(name, len(self.files[name]), 1e9, self.versions[name])

    @property
    def listing(self) -> DataListing:
        return DataListing(self.url, tuple(sorted(DataObject(*self.info(name)) for name in self.files)))


class Place:
    """Directories of a job, and its deliveries."""

    def __init__(self, root: Path, bucket: Bucket) -> None:
        self.root, self.bucket = root, bucket
        self.cache = root / "cache"
        self.cancelled = threading.Event()
        self.seen: list[DeliveryProgress] = []
        self.settings = DeliverySettings(
            part_bytes=PART_BYTES, first_pause_secs=0.001, longest_pause_secs=0.001, progress_secs=0.001,
            open_store=lambda url: self.bucket)  # type: ignore[arg-type,return-value]

    def deliver(
        self, channel: Channel, listing: DataListing, *, to: str = "train", index: int = 0, count: int = 1,
    ) -> Delivery:
        with deliver(channel, listing, self.root / "job" / to, index=index, count=count, cache=self.cache,
                     progress=self.seen.append, cancelled=self.cancelled, settings=self.settings) as delivery:
            return delivery

    def fetch(self, **options: int | str) -> dict[str, bytes]:
        delivery = self.deliver(Channel("train", self.bucket.url), self.bucket.listing, **options)  # type: ignore[arg-type]
        return content(delivery.directory)

    def left(self) -> list[str]:
        return sorted(os.listdir(self.root / "job")) if (self.root / "job").exists() else []


def content(directory: Path) -> dict[str, bytes]:
    return {path.relative_to(directory).as_posix(): path.read_bytes() for path in directory.rglob("*")
            if path.is_file()}


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path, Bucket(dict(FILES)))


@pytest.fixture
def local(tmp_path: Path) -> DataListing:
    for name, data in FILES.items():
        path = tmp_path / "mine" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
    return objects_of(Channel("train", str(tmp_path / "mine")))


# What arrives


def test_all_objects_arrive(place: Place) -> None:
    assert place.fetch() == FILES
    assert place.left() == ["train"]
    last = place.seen[-1]
    total = sum(map(len, FILES.values()))
    assert last == DeliveryProgress("train", done_objects=4, objects=4, done_bytes=total, total_bytes=total)


def test_large_objects_are_read_in_parts(place: Place) -> None:
    place.fetch()
    parts = sorted(start for name, start, end in place.bucket.reads if name.endswith("large.bin") and end != 1)
    assert parts == [0, 50_000, 100_000, 150_000, 200_000, 250_000]


def test_a_store_without_ranges_reads_whole_objects(place: Place) -> None:
    whole = place.bucket.read

    def read(name: str, start: int = 0, end: int | None = None) -> Part:
        if end is not None:
            raise NoRanges("The store only reads whole objects.")
        return whole(name)

    place.bucket.read = read  # type: ignore[method-assign]
    assert place.fetch() == FILES


@pytest.mark.s3
def test_a_bucket_arrives(place: Place, s3_url: str) -> None:
    store = store_from_url(s3_url)
    for name, data in FILES.items():
        store.put(name, data)
    place.settings = replace(place.settings, open_store=store_from_url)
    channel = Channel("train", s3_url)
    listing = DataListing(s3_url, tuple(DataObject(*info) for info in store.list()))
    assert content(place.deliver(channel, listing).directory) == FILES


def test_local_files_arrive_as_copies(place: Place, local: DataListing) -> None:
    delivery = place.deliver(Channel("train", local.root), local)
    assert content(delivery.directory) == FILES
    mine, copy = Path(local.root, "a.bin"), delivery.directory / "a.bin"
    assert mine.stat().st_ino != copy.stat().st_ino
    copy.chmod(0o600)
    copy.write_bytes(b"scribble")
    assert mine.read_bytes() == b"first"


def test_no_objects_give_an_empty_directory(place: Place) -> None:
    place.bucket.files = {}
    assert place.fetch() == {}
    assert place.left() == ["train"]


def test_shards_are_disjoint_and_complete(place: Place) -> None:
    channel = Channel("train", place.bucket.url, sharded=True)
    shards = [content(place.deliver(channel, place.bucket.listing, to=f"train{index}", index=index, count=3).directory)
              for index in range(3)]
    assert sorted(map(len, shards)) == [1, 1, 2]
    assert {name: data for shard in shards for name, data in shard.items()} == FILES


def test_a_second_attempt_replaces_the_first(place: Place) -> None:
    place.fetch()
    (place.root / "job" / "train" / "scribble").write_bytes(b"by the script")
    (place.root / "job" / ".train.part-dead").mkdir()
    assert place.fetch() == FILES
    assert place.left() == ["train"]


# The cache


def test_the_second_delivery_fetches_nothing(place: Place) -> None:
    place.fetch()
    place.bucket.reads.clear()
    assert place.fetch(to="again") == FILES
    assert [read for read in place.bucket.reads if read[2] != 1] == []


def test_a_changed_object_is_fetched_again(place: Place) -> None:
    place.fetch()
    place.bucket.files["a.bin"], place.bucket.versions["a.bin"] = b"other", "v2"
    assert place.fetch(to="again")["a.bin"] == b"other"


def test_a_scribble_of_a_script_reaches_no_later_job(place: Place) -> None:
    place.fetch()
    copy = place.root / "job" / "train" / "a.bin"
    copy.chmod(0o600)
    copy.write_bytes(b"scrib")
    assert place.fetch(to="again")["a.bin"] == b"first"


def test_two_deliveries_share_one_cache_at_once(place: Place) -> None:
    channel, listing = Channel("train", place.bucket.url), place.bucket.listing
    meet = threading.Barrier(2, timeout=600)
    first_read: set[int] = set()

    def before_read(name: str) -> None:
        thread = threading.get_ident()
        if thread not in first_read and len(first_read) < 2:
            first_read.add(thread)
            meet.wait()

    place.settings = replace(place.settings, at_once=1)
    place.bucket.before_read = before_read
    threads = [threading.Thread(target=place.deliver, args=(channel, listing),
                                kwargs={"to": f"train{index}", "index": index, "count": 2}) for index in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(600)
    assert [content(place.root / "job" / f"train{index}") for index in range(2)] == [FILES, FILES]


def test_the_cache_keeps_what_jobs_use_and_the_last_used_of_the_rest(place: Place) -> None:
    place.fetch()
    cache = ObjectCache(place.cache, place.bucket.listing)
    trim(place.cache, 0)
    assert all(cache.has(item) for item in place.bucket.listing.objects)
    for path in (place.root / "job").rglob("*"):
        if path.is_file():
            path.unlink()
    large = next(item for item in place.bucket.listing.objects if item.name.endswith("large.bin"))
    cache.take(large, str(place.root / "used"))
    (place.root / "used").unlink()
    trim(place.cache, 300_000)
    assert cache.has(large)
    trim(place.cache, 0)
    assert not any(cache.has(item) for item in place.bucket.listing.objects if item.size_bytes)


# Failures. Each leaves nothing.


def failed(place: Place, kind: type[BarographError], message: str) -> None:
    with pytest.raises(kind, match=message):
        place.fetch()
    assert place.left() == []


def test_a_store_that_is_unreachable_for_a_while_is_waited_for(place: Place) -> None:
    failures = iter(range(20))

    def before_read(name: str) -> None:
        if next(failures, None) is not None:
            raise StoreUnavailable("The store cannot be reached.")

    place.bucket.before_read = before_read
    assert place.fetch() == FILES


def test_waiting_is_reported(place: Place) -> None:
    seen = threading.Event()

    def before_read(name: str) -> None:
        if not seen.is_set():
            raise StoreUnavailable("The store cannot be reached.")

    def progress(found: DeliveryProgress) -> None:
        if found.waiting == "The store cannot be reached.":
            seen.set()

    place.bucket.before_read = before_read
    with deliver(Channel("train", place.bucket.url), place.bucket.listing, place.root / "job" / "train", index=0,
                 count=1, cache=place.cache, progress=progress, cancelled=place.cancelled, settings=place.settings):
        assert seen.is_set()


@pytest.mark.parametrize("name", ["a.bin", "sub/deep/large.bin"])
@pytest.mark.parametrize(("error", "message"), [
    (StoreUnavailable("The store cannot be reached."), "cannot be reached"),
    (StoreDenied("Access to the store was denied."), "was denied"),
])
def test_a_store_that_stays_away_ends_the_delivery(
    place: Place, name: str, error: BarographError, message: str,
) -> None:
    def before_read(read: str) -> None:
        if read == name:
            raise error

    place.settings = replace(place.settings, retry_secs=0.0)
    place.bucket.before_read = before_read
    failed(place, type(error), message)


@pytest.mark.parametrize("name", ["a.bin", "sub/deep/large.bin"])
def test_an_object_that_changed_is_named(place: Place, name: str) -> None:
    def before_read(read: str) -> None:
        place.bucket.versions[name] = "v2"

    place.bucket.before_read = before_read
    failed(place, JobError, f'"{name}" changed after the job listed its data')


def test_an_object_that_became_shorter_is_named(place: Place) -> None:
    def before_read(read: str) -> None:
        place.bucket.files["a.bin"] = b"fi"

    place.bucket.before_read = before_read
    failed(place, JobError, r'"a.bin" changed after the job listed its data \(5 bytes then, 2 now\)')


def test_an_object_that_was_deleted_is_named(place: Place) -> None:
    place.bucket.before_read = lambda name: place.bucket.files.pop("a.bin", None) and None
    failed(place, JobError, '"a.bin" was deleted after the job listed its data')


@pytest.mark.parametrize(("change", "message"), [
    (lambda path: path.write_bytes(b"longer than before"), '"a.bin" changed after the job listed its data'),
    (lambda path: os.utime(path, ns=(1, 1)), '"a.bin" changed'),
    (lambda path: path.unlink(), '"a.bin" was deleted after the job listed its data'),
    (lambda path: (path.unlink(), path.symlink_to("/nowhere")), '"a.bin" was deleted'),
])
def test_a_local_file_that_changed_is_named(
    place: Place, local: DataListing, change: Callable[[Path], object], message: str,
) -> None:
    change(Path(local.root, "a.bin"))
    with pytest.raises(JobError, match=message):
        place.deliver(Channel("train", local.root), local)
    assert place.left() == []


def test_cancelling_leaves_nothing(place: Place) -> None:
    place.bucket.before_read = lambda name: place.cancelled.set()
    failed(place, DeliveryCancelled, "cancelled")


def test_cancelling_ends_the_wait_for_a_store(place: Place) -> None:
    def before_read(name: str) -> None:
        place.cancelled.set()
        raise StoreUnavailable("The store cannot be reached.")

    place.settings = replace(place.settings, first_pause_secs=3600.0)
    place.bucket.before_read = before_read
    failed(place, DeliveryCancelled, "cancelled")


def test_an_error_of_the_caller_leaves_nothing(place: Place) -> None:
    def progress(found: DeliveryProgress) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt), deliver(
        Channel("train", place.bucket.url), place.bucket.listing, place.root / "job" / "train", index=0, count=1,
        cache=place.cache, progress=progress, cancelled=place.cancelled, settings=place.settings,
    ):
        pass
    assert place.left() == []


@pytest.mark.parametrize("name", ["../x", "/x", "", "a/../../x", "x\0y"])
def test_a_hostile_name_is_refused_before_anything_is_written(place: Place, name: str) -> None:
    listing = DataListing(place.bucket.url, (DataObject(name, 1, 0.0),))
    with pytest.raises(JobRefused, match="Channel train has an object whose name"):
        place.deliver(Channel("train", place.bucket.url), listing)
    assert os.listdir(place.root) == []


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    disk = tmp_path / "small"
    disk.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", "size=512k", "tmpfs", str(disk)]
    if subprocess.run(command, check=False, capture_output=True).returncode != 0:
        pytest.skip("a small file system can be mounted by root on Linux only")
    yield disk
    subprocess.run(["umount", str(disk)], check=True)


def test_too_much_data_is_refused_before_it_is_copied(small_disk: Path) -> None:
    place = Place(small_disk, Bucket({"a": bytes(1_000_000)}))
    failed(place, StoreFull, r"Channel train needs 0\.001 GB, and the disk has 0\.0005\d* GB left")
    assert place.bucket.reads == []


def test_a_disk_that_fills_up_meanwhile_is_named(small_disk: Path) -> None:
    place = Place(small_disk, Bucket({f"{at}": bytes(40_000) for at in range(10)}))
    place.bucket.before_read = lambda name: (small_disk / "other").write_bytes(bytes(200_000)) and None
    failed(place, StoreFull, "The disk is full: channel train cannot be copied")


def test_a_directory_that_cannot_be_written_is_named(place: Place) -> None:
    (place.root / "job").write_bytes(b"a file")
    with pytest.raises((StoreDenied, FileExistsError)):
        place.fetch()
