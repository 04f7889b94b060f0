"""Pipe mode: one named pipe per epoch."""

from __future__ import annotations

import os
import select
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path

import pytest

from barograph.errors import JobError, ObjectNotFound, StoreUnavailable
from barograph.jobs.data.channel import Channel, Mode
from barograph.jobs.data.delivery import Delivery, deliver
from barograph.jobs.data.listing import DataListing, DataObject
from barograph.jobs.data.progress import DeliveryProgress
from barograph.jobs.data.settings import DeliverySettings
from barograph.jobs.data.sharding import share_of
from barograph.store.base import ObjectInfo, Part

FILES = {"a": b"first", "b": b"", "c": bytes(range(256)) * 4000, "ü/d": b"last"}


class Bucket:
    """A store in memory, which fails when it is told to."""

    def __init__(self) -> None:
        self.before_read: Callable[[str], None] = lambda name: None

    def read(self, name: str, start: int = 0, end: int | None = None) -> Part:
        self.before_read(name)
        return Part(memoryview(FILES[name])[start:end], self.info(name))

    def info(self, name: str) -> ObjectInfo:
        return ObjectInfo(name, len(FILES[name]), 1e9, "v1")

    @property
    def listing(self) -> DataListing:
        return DataListing("s3://bucket/d", tuple(sorted(DataObject(*self.info(name)) for name in FILES)))


class Piped:
    """Delivers a channel through pipes."""

    def __init__(self, root: Path) -> None:
        self.bucket, self.directory = Bucket(), root / "data" / "train"
        self.seen: list[DeliveryProgress] = []

    def __call__(
        self, channel: Channel | None = None, *, index: int = 0, count: int = 1, retry_secs: float = 60.0,
        first_epoch: int = 0,
    ) -> AbstractContextManager[Delivery]:
        settings = DeliverySettings(
            part_bytes=100_000, first_pause_secs=0.001, longest_pause_secs=0.001, epochs_ahead=3, retry_secs=retry_secs,
            first_epoch=first_epoch, open_store=lambda url: self.bucket)  # type: ignore[arg-type,return-value]
        return deliver(channel or Channel("train", "s3://bucket/d", Mode.PIPE), self.bucket.listing, self.directory,
                       index=index, count=count, cache=self.directory, progress=self.seen.append,
                       cancelled=threading.Event(), settings=settings)

    def read(self, epoch: int) -> bytes:
        return Path(f"{self.directory}_{epoch}").read_bytes()

    def left(self) -> list[str]:
        return sorted(os.listdir(self.directory.parent))


@pytest.fixture
def piped(tmp_path: Path) -> Iterator[Piped]:
    yield Piped(tmp_path)
    assert not [thread.name for thread in threading.enumerate() if thread.name == "barograph-pipe"]


def whole(names: str) -> bytes:
    return b"".join(FILES[name] for name in sorted(FILES) if name[0] in names)


def test_each_epoch_has_all_objects_one_after_another(piped: Piped) -> None:
    with piped() as delivery:
        assert piped.left() == ["train_0", "train_1", "train_2"]
        assert [piped.read(epoch) for epoch in range(3)] == [whole("abcü")] * 3
        assert delivery.opened_epochs == 3
        assert delivery.fetched_bytes == 3 * len(whole("abcü"))
    assert piped.left() == []


def test_pipes_exist_before_they_are_opened(piped: Piped) -> None:
    with piped():
        piped.read(2)
        assert [f"train_{epoch}" for epoch in (0, 1, 3, 4, 5)] == piped.left()


def test_a_resumed_job_continues_at_its_epoch(piped: Piped) -> None:
    with piped(first_epoch=7):
        assert piped.left() == ["train_7", "train_8", "train_9"]
        assert piped.read(7) == whole("abcü")


def test_the_order_is_new_in_each_epoch(piped: Piped) -> None:
    channel = Channel("train", "s3://bucket/d", Mode.PIPE, shuffle_seed=7)
    with piped(channel):
        for epoch in range(3):
            order = share_of(piped.bucket.listing, index=0, count=1, epoch=epoch, shuffle_seed=7)
            assert piped.read(epoch) == b"".join(FILES[item.name] for item in order)


def test_shards_move_from_epoch_to_epoch(piped: Piped) -> None:
    with piped(Channel("train", "s3://bucket/d", Mode.PIPE, sharded=True), index=1, count=2):
        assert (piped.read(0), piped.read(1)) == (whole("bü"), whole("ac"))


def test_a_pipe_may_be_closed_early(piped: Piped) -> None:
    with piped() as delivery:
        with open(f"{piped.directory}_0", "rb", buffering=0) as pipe:
            assert pipe.read(5) == b"first"
        assert piped.read(1) == whole("abcü")
    assert delivery.failure is None


def test_a_reader_that_dies_disturbs_nothing(piped: Piped) -> None:
    with piped() as delivery:
        reader = subprocess.Popen([sys.executable, "-c", f"import sys; f = open({f'{piped.directory}_0'!r}, 'rb', 0); "
                                   "f.read(5); print('read', flush=True); sys.stdin.read()"], stdin=subprocess.PIPE,
                                  stdout=subprocess.PIPE)
        with reader:
            assert reader.stdout is not None
            assert reader.stdout.readline() == b"read\n"
            reader.kill()
        assert piped.read(1) == whole("abcü")
    assert delivery.failure is None
    assert piped.left() == []


def test_a_reader_that_stops_reading_does_not_delay_the_end(piped: Piped) -> None:
    with open_first(piped) as pipe:
        assert pipe.read(5) == b"first"
    assert piped.left() == []


class open_first:  # noqa: N801 - reads as a verb where it is used
    """Opens the first pipe, and closes it only after the delivery has ended."""

    def __init__(self, piped: Piped) -> None:
        self._delivery = piped()
        self._path = f"{piped.directory}_0"

    def __enter__(self) -> object:
        self._delivery.__enter__()
        self._pipe = open(self._path, "rb", buffering=0)
        return self._pipe

    def __exit__(self, *_: object) -> None:
        self._delivery.__exit__(None, None, None)
        self._pipe.close()


def test_a_pipe_that_was_read_is_gone(piped: Piped) -> None:
    with piped():
        piped.read(0)
        piped.read(1)
        with pytest.raises(FileNotFoundError):
            piped.read(0)


def test_objects_that_are_all_empty_give_an_empty_epoch(piped: Piped, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(FILES, "a", b"")
    with piped(Channel("train", "s3://bucket/d", Mode.PIPE, sharded=True), index=0, count=4):
        assert piped.read(0) == b""


def test_a_store_that_is_unreachable_for_a_while_delays_the_epoch(piped: Piped) -> None:
    failures = iter(range(20))

    def before_read(name: str) -> None:
        if next(failures, None) is not None:
            raise StoreUnavailable("The store cannot be reached.")

    piped.bucket.before_read = before_read
    with piped():
        assert piped.read(0) == whole("abcü")


@pytest.mark.parametrize(("error", "message"), [
    (ObjectNotFound("The object does not exist."), '"c" was deleted after the job listed its data'),
    (StoreUnavailable("The store cannot be reached."), "cannot be reached"),
])
def test_data_that_cannot_be_read_does_not_look_like_the_end(
    piped: Piped, error: Exception, message: str,
) -> None:
    probed: list[str] = []

    def before_read(name: str) -> None:
        if name == "c" and name in probed:
            raise error
        probed.append(name)

    piped.bucket.before_read = before_read
    delivery = piped(retry_secs=0.0)
    found = delivery.__enter__()
    with open(f"{piped.directory}_0", "rb", buffering=0) as pipe:
        assert pipe.read(5) == b"first"
        os.set_blocking(pipe.fileno(), False)
        poll = select.poll()
        poll.register(pipe, select.POLLHUP)
        while found.failure is None:
            assert pipe.read(5) != b""
        assert poll.poll(200) == []  # it waits: this is not the end
    with pytest.raises((JobError, StoreUnavailable), match=message):
        delivery.__exit__(None, None, None)
    assert piped.left() == []


def test_pipes_of_an_earlier_attempt_are_replaced(piped: Piped) -> None:
    piped.directory.parent.mkdir()
    Path(f"{piped.directory}_0").write_bytes(b"left behind")
    with piped():
        assert piped.read(0) == whole("abcü")
