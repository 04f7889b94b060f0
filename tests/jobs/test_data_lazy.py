"""Lazy mode: a directory that fetches what is read."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path

import pytest

from barograph.errors import BarographError, JobError, JobRefused, StoreUnavailable
from barograph.jobs.data import lazy
from barograph.jobs.data.channel import Channel, Mode
from barograph.jobs.data.delivery import Delivery, deliver
from barograph.jobs.data.lazy import lazy_problem
from barograph.jobs.data.lazy_blocks import BlockFile
from barograph.jobs.data.listing import DataListing, DataObject
from barograph.jobs.data.mounts import mounts, stale_mounts, unmount
from barograph.jobs.data.object_reader import ObjectReader
from barograph.jobs.data.progress import Tally
from barograph.jobs.data.settings import DeliverySettings
from barograph.jobs.data.source import objects_of
from barograph.processes.command import Command
from barograph.processes.local_process import PIPE, LocalProcess
from barograph.store.urls import store_from_url

FILES = {"a.bin": b"first", "empty": b"", "ünï/日本.bin": b"unicode", "sub/deep/large.bin": bytes(range(256)) * 20_000}


@pytest.fixture(scope="module")
def fuse() -> None:
    if problem := lazy_problem():
        pytest.skip(problem)


@pytest.fixture
def local(tmp_path: Path) -> DataListing:
    for name, data in FILES.items():
        path = tmp_path / "mine" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
    return objects_of(Channel("train", str(tmp_path / "mine")))


@pytest.fixture
def bucket(s3_url: str) -> str:
    store = store_from_url(s3_url)
    for name, data in FILES.items():
        store.put(name, data)
    return s3_url


def delivered(listing: DataListing, root: Path) -> AbstractContextManager[Delivery]:
    return deliver(Channel("train", listing.root, Mode.LAZY), listing, root / "job" / "train", index=0, count=1,
                   cache=root / "cache", progress=lambda found: None, cancelled=threading.Event())


def content(directory: Path) -> dict[str, bytes]:
    return {path.relative_to(directory).as_posix(): path.read_bytes() for path in directory.rglob("*")
            if path.is_file()}


@pytest.mark.usefixtures("fuse")
def test_local_files_are_there_and_gone_afterwards(local: DataListing, tmp_path: Path) -> None:
    with delivered(local, tmp_path) as delivery:
        assert content(delivery.directory) == FILES
        assert sorted(os.listdir(delivery.directory)) == ["a.bin", "empty", "sub", "ünï"]
        given, original = (delivery.directory / "a.bin").stat(), (Path(local.root) / "a.bin").stat()
        assert abs(given.st_mtime - original.st_mtime) < 1e-6, "seconds as a float keep no nanoseconds"
    assert os.listdir(delivery.directory) == []
    assert mounts(tmp_path) == []


@pytest.mark.usefixtures("fuse")
def test_two_instances_see_one_half_of_the_files_each(local: DataListing, tmp_path: Path) -> None:
    seen = []
    for index in range(2):
        channel = Channel("train", local.root, Mode.LAZY, sharded=True)
        with deliver(channel, local, tmp_path / f"{index}" / "train", index=index, count=2, cache=tmp_path / "cache",
                     progress=lambda found: None, cancelled=threading.Event()) as delivery:
            seen.append(content(delivery.directory))
    assert [len(files) for files in seen] == [2, 2]
    assert {**seen[0], **seen[1]} == FILES


@pytest.mark.usefixtures("fuse")
def test_nothing_can_be_written(local: DataListing, tmp_path: Path) -> None:
    with delivered(local, tmp_path) as delivery:
        for write in (lambda: (delivery.directory / "a.bin").write_bytes(b"x"),
                      lambda: (delivery.directory / "new").write_bytes(b"x"), (delivery.directory / "a.bin").unlink):
            with pytest.raises(OSError, match="Read-only"):
                write()
    assert (Path(local.root) / "a.bin").read_bytes() == b"first"


@pytest.mark.s3
@pytest.mark.usefixtures("fuse")
def test_a_bucket_is_fetched_as_far_as_it_is_read(bucket: str, tmp_path: Path) -> None:
    listing = objects_of(Channel("train", bucket))
    with delivered(listing, tmp_path) as delivery, open(delivery.directory / "sub/deep/large.bin", "rb") as file:
        file.seek(2_000_000)
        assert file.read(512_000) == FILES["sub/deep/large.bin"][2_000_000:2_512_000]
    assert 512_000 <= delivery.fetched_bytes <= 1_000_000
    with delivered(listing, tmp_path) as delivery:
        assert content(delivery.directory) == FILES
    fetched = delivery.fetched_bytes
    assert fetched < listing.total_bytes - 500_000
    with delivered(listing, tmp_path) as delivery:
        assert content(delivery.directory) == FILES
    assert delivery.fetched_bytes == 0


@pytest.mark.s3
@pytest.mark.usefixtures("fuse")
def test_two_directories_share_one_cache_at_once(bucket: str, tmp_path: Path) -> None:
    listing = objects_of(Channel("train", bucket))
    with delivered(listing, tmp_path) as one, deliver(
        one.channel, listing, tmp_path / "job" / "other", index=0, count=1, cache=tmp_path / "cache",
        progress=lambda found: None, cancelled=threading.Event(),
    ) as other:
        found: list[dict[str, bytes]] = []
        threads = [threading.Thread(target=lambda place=place: found.append(content(place)))
                   for place in (one.directory, other.directory)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(600)
        assert found == [FILES, FILES]


@pytest.mark.usefixtures("fuse")
@pytest.mark.parametrize("change", [lambda path: path.write_bytes(b"other"), lambda path: path.unlink()])
def test_a_file_that_changed_gives_an_error_and_a_reason(
    local: DataListing, tmp_path: Path, change: Callable[[Path], object],
) -> None:
    os.utime(Path(local.root, "a.bin"), ns=(1, 1))
    listing = objects_of(Channel("train", local.root))

    def read_all() -> None:
        with delivered(listing, tmp_path) as delivery:
            change(Path(local.root, "a.bin"))
            with pytest.raises(OSError, match="Input/output error"):
                (delivery.directory / "a.bin").read_bytes()
            assert (delivery.directory / "ünï/日本.bin").read_bytes() == b"unicode"

    with pytest.raises(JobError, match=r'"a\.bin" (changed|was deleted) after the job listed its data'):
        read_all()


def until(holds: Callable[[], bool]) -> None:
    """Wait for another process."""
    deadline = time.monotonic() + 600
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.01)


SCRIPT = """
import sys, threading
from pathlib import Path
from barograph.jobs.data.channel import Channel, Mode
from barograph.jobs.data.delivery import deliver
from barograph.jobs.data.object_reader import ObjectReader
from barograph.jobs.data.progress import Tally
from barograph.jobs.data.settings import DeliverySettings
from barograph.jobs.data.source import objects_of
from barograph.processes.command import Command
from barograph.processes.local_process import PIPE, LocalProcess
channel, root = Channel("train", sys.argv[1], Mode.LAZY), Path(sys.argv[2])
with deliver(channel, objects_of(channel), root / "job" / "train", index=0, count=1, cache=root / "cache",
             progress=print, cancelled=threading.Event()):
    print("mounted", flush=True)
    sys.stdin.read()
"""


@pytest.mark.usefixtures("fuse")
def test_a_killed_agent_leaves_no_mount(local: DataListing, tmp_path: Path) -> None:
    with subprocess.Popen([sys.executable, "-c", SCRIPT, local.root, str(tmp_path)], stdin=subprocess.PIPE,
                          stdout=subprocess.PIPE) as agent:
        assert agent.stdout is not None
        assert agent.stdout.readline() == b"mounted\n"
        assert mounts(tmp_path) == [tmp_path / "job" / "train"]
        agent.kill()
        until(lambda: mounts(tmp_path) == [])


def servers() -> list[int]:
    """Return the servers that this process has started."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            if b"barograph.jobs.data.lazy_server" in (process / "cmdline").read_bytes() and \
                    (process / "status").read_text().split("PPid:")[1].split()[0] == str(os.getpid()):
                found.append(int(process.name))
        except OSError:
            continue
    return found


@pytest.mark.usefixtures("fuse")
def test_a_killed_server_leaves_no_mount_after_the_next_delivery(local: DataListing, tmp_path: Path) -> None:
    with delivered(local, tmp_path) as delivery:
        for server in servers():
            os.kill(server, signal.SIGKILL)
        until(lambda: stale_mounts(tmp_path) == [delivery.directory] or mounts(tmp_path) == [])
        for place in stale_mounts(tmp_path):
            unmount(place)
        assert mounts(tmp_path) == []
        with delivered(local, tmp_path) as again:
            assert content(again.directory) == FILES
    assert mounts(tmp_path) == []


@pytest.mark.usefixtures("fuse")
def test_no_objects_give_an_empty_directory(tmp_path: Path) -> None:
    with delivered(DataListing(str(tmp_path), ()), tmp_path) as delivery:
        assert os.listdir(delivery.directory) == []


def test_a_machine_without_fuse_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(lazy, "_DEVICE", str(tmp_path / "fuse"))
    assert lazy_problem() == "Lazy channels need FUSE, and this machine has no /dev/fuse. Use the mode copy."
    with pytest.raises(JobRefused, match="has no /dev/fuse"), delivered(DataListing(str(tmp_path), ()), tmp_path):
        pass


# The parts of one object


class Source:
    """Counts what is fetched of random bytes."""

    def __init__(self, path: Path, size_bytes: int) -> None:
        self.data = os.urandom(size_bytes)
        self.fetched: list[tuple[int, int]] = []
        self.file = BlockFile(path, size_bytes, self._fetch)

    def _fetch(self, start: int, end: int) -> memoryview:
        self.fetched.append((start, end))
        return memoryview(self.data)[start:end]

    @property
    def fetched_bytes(self) -> int:
        return sum(end - start for start, end in self.fetched)


def test_reading_in_order_fetches_little_more_than_is_read(tmp_path: Path) -> None:
    source = Source(tmp_path / "blocks" / "x", 20_000_000)
    for start in range(0, 2_000_000, 100_000):
        assert source.file.read(start, 100_000) == source.data[start:start + 100_000]
    assert 2_000_000 <= source.fetched_bytes <= 2_400_000
    source.file.close()


def test_reading_in_order_takes_fewer_requests_than_blocks(tmp_path: Path) -> None:
    source = Source(tmp_path / "x", 20_000_000)
    for start in range(0, 20_000_000, 131_072):
        source.file.read(start, 131_072)
    assert source.fetched_bytes == 20_000_000
    assert len(source.fetched) < 50
    source.file.close()


def test_reading_here_and_there_fetches_single_blocks(tmp_path: Path) -> None:
    source = Source(tmp_path / "x", 20_000_000)
    for start in range(0, 20_000_000, 2_000_000):
        source.file.read(start, 1000)
    assert source.fetched_bytes <= 10 * 2 * 131_072
    source.file.close()


def test_a_small_object_is_fetched_as_a_whole(tmp_path: Path) -> None:
    source = Source(tmp_path / "x", 200_000)
    assert source.file.read(150_000, 100_000) == source.data[150_000:]
    assert source.fetched == [(0, 200_000)]
    assert source.file.read(0, 200_000) == source.data
    assert source.file.read(200_000, 10) == b""
    assert source.fetched == [(0, 200_000)]
    source.file.close()


def test_another_process_reuses_what_was_fetched(tmp_path: Path) -> None:
    first = Source(tmp_path / "x", 1_000_000)
    first.file.read(0, 1_000_000)
    first.file.close()
    second = Source(tmp_path / "x", 1_000_000)
    assert second.file.read(0, 1_000_000) == first.data
    assert second.fetched == []
    second.file.close()


@pytest.mark.parametrize(("is_of_store", "kind"), [("true", StoreUnavailable), ("false", JobError)])
def test_a_store_that_cannot_be_read_is_no_fault_of_the_data(is_of_store: str, kind: type[BarographError]) -> None:
    said = f'{{"failure": "It failed.", "is_of_store": {is_of_store}}}'
    process, tally = LocalProcess(Command(("echo", said)), stdout=PIPE), Tally("train", 1, 1)
    lazy._Messages(process, tally).close()
    process.wait()
    assert type(tally.failure) is kind
    assert str(tally.failure) == "It failed."


def test_the_server_says_whether_the_store_failed(
    local: DataListing, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("mfusepy", reason="libfuse is not installed here", exc_type=(ImportError, OSError))
    from barograph.jobs.data.lazy_server import LazyFiles

    class Failing(ObjectReader):
        error: BarographError = StoreUnavailable("It failed.")

        def read(self, item: DataObject, start: int, end: int) -> memoryview:
            raise self.error

    tally = Tally("train", 1, 1)
    reader = Failing(local, DeliverySettings(), tally, threading.Event())
    files = LazyFiles(local, tmp_path / "cache", reader, tally)
    for reader.error in (StoreUnavailable("It failed."), JobError("It failed.")):
        with pytest.raises(OSError, match="Input/output error"):
            files.read("/a.bin", 5, 0, files.open("/a.bin", os.O_RDONLY))
    said = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert said == [{"failure": "It failed.", "is_of_store": True}, {"failure": "It failed.", "is_of_store": False}]
