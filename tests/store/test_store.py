"""The contract of a Store, kept by each place alike."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from obstore.exceptions import GenericError

from barograph.errors import (
    DamagedChunk,
    ObjectExists,
    ObjectNotFound,
    SettingsError,
    StoreDenied,
    StoreUnavailable,
)
from barograph.store.base import Browsable, Informed, Ranged, Store, Streaming
from barograph.store.failures import NoRanges, store_error
from barograph.store.urls import store_from_url

PLACES = ["file", "memory", pytest.param("s3", marks=pytest.mark.s3)]


@pytest.fixture(params=PLACES)
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Store:
    if request.param == "file":
        return store_from_url(tmp_path / "läufe mit leerzeichen" / "run")
    if request.param == "memory":
        return store_from_url(f"memory://{request.node.name}")
    return store_from_url(request.getfixturevalue("s3_url"))


def test_what_was_put_comes_back(store: Store) -> None:
    store.put("a/b.json", b"bytes")
    assert bytes(store.get("a/b.json")) == b"bytes"


def test_nothing_at_all_can_be_put(store: Store) -> None:
    store.put("empty", b"")
    assert bytes(store.get("empty")) == b""


def test_putting_again_replaces(store: Store) -> None:
    store.put("a", b"a longer text")
    store.put("a", b"short")
    assert bytes(store.get("a")) == b"short"


def test_an_object_is_described_without_being_read(store: Store) -> None:
    assert isinstance(store, Informed)
    store.put("a/b", b"bytes")
    assert store.info("a/b")[:2] == ("a/b", 5)
    assert store.info("a/b") == store.info("a/b")
    before = store.info("a/b")
    store.put("a/b", b"longer")
    assert store.info("a/b") != before
    with pytest.raises(ObjectNotFound):
        store.info("a/c")


def test_a_large_object_comes_back_whole(store: Store) -> None:
    data = bytes(range(256)) * 50_000
    store.put("large", data)
    assert bytes(store.get("large")) == data


def test_a_large_object_goes_in_and_out_in_parts(store: Store) -> None:
    assert isinstance(store, Streaming)
    part = bytes(range(256)) * 4096
    store.put_parts("a/large", (part for _ in range(12)))
    assert b"".join(store.parts("a/large")) == part * 12
    store.put_parts("a/empty", [])
    assert list(store.parts("a/empty")) == []
    with pytest.raises(ObjectNotFound):
        list(store.parts("a/nothing"))


@pytest.mark.parametrize("parts", [0, 12])
def test_where_parts_fail_what_was_there_before_stays(store: Store, parts: int) -> None:
    assert isinstance(store, Streaming)

    def failing() -> Iterator[bytes]:
        for _ in range(parts):
            yield bytes(2**20)
        raise DamagedChunk("no more")

    with pytest.raises(DamagedChunk):
        store.put_parts("a", failing())
    assert store.list() == []
    store.put("a", b"before")
    with pytest.raises(DamagedChunk):
        store.put_parts("a", failing())
    assert bytes(store.get("a")) == b"before"


@pytest.mark.parametrize("error", [ValueError("own"), FileNotFoundError(2, "own"), SettingsError("own")])
def test_an_error_of_the_parts_is_not_taken_for_one_of_the_store(store: Store, error: Exception) -> None:
    def failing() -> Iterator[bytes]:
        yield b"x"
        raise error

    with pytest.raises(type(error)) as raised:
        store.put_parts("a", failing())
    assert raised.value is error


def test_parts_that_fail_leave_no_file_behind(tmp_path: Path) -> None:
    def failing() -> Iterator[bytes]:
        yield bytes(2**20)
        raise DamagedChunk("no more")

    store = store_from_url(tmp_path / "run")
    assert isinstance(store, Streaming)
    with pytest.raises(DamagedChunk):
        store.put_parts("a/b", failing())
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []


@pytest.mark.parametrize("name", ["", "../a", "a/../b", "a//b", "a/./b", "a\nb", "a#1"])
def test_parts_go_under_no_name_that_no_object_can_have(tmp_path: Path, name: str) -> None:
    store = store_from_url(tmp_path / "run")
    store.put("first", b"")
    with pytest.raises(StoreUnavailable):
        store.put(name, [b"some", memoryview(b"parts")])
    assert [path.name for path in tmp_path.rglob("*") if path.is_file()] == ["first"]


def test_a_name_with_a_slash_before_it_stays_within_the_store(tmp_path: Path) -> None:
    store = store_from_url(tmp_path / "run")
    store.put("/a/b", [b"some", memoryview(b"parts")])
    assert (tmp_path / "run" / "a" / "b").read_bytes() == b"someparts"


def test_creating_takes_a_free_name(store: Store) -> None:
    store.create("a", b"first")
    assert bytes(store.get("a")) == b"first"


def test_creating_a_name_that_is_taken_changes_nothing(store: Store) -> None:
    store.put("a", b"first")
    with pytest.raises(ObjectExists):
        store.create("a", b"second")
    assert bytes(store.get("a")) == b"first"


def test_of_many_that_create_at_once_one_succeeds(store: Store) -> None:
    won: list[int] = []
    start = threading.Barrier(8)

    def create(number: int) -> None:
        start.wait(600)
        try:
            store.create("claim", str(number).encode())
        except ObjectExists:
            return
        won.append(number)

    threads = [threading.Thread(target=create, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(600)
    assert [bytes(store.get("claim"))] == [str(number).encode() for number in won]


def test_getting_what_is_not_there_says_so(store: Store) -> None:
    with pytest.raises(ObjectNotFound, match="nothing"):
        store.get("nothing")


def test_a_pipe_and_a_device_are_no_objects(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "device").symlink_to("/dev/zero")
    store = store_from_url(tmp_path)
    for name in ("pipe", "device"):
        with pytest.raises(ObjectNotFound):
            store.get(name)


def test_a_listing_shows_names_and_sizes_in_order(store: Store) -> None:
    store.put("b/2", b"22")
    store.put("b/1", b"1")
    store.put("a", b"333")
    assert [(item.name, item.size_bytes) for item in store.list()] == [("a", 3), ("b/1", 1), ("b/2", 2)]


def test_a_folder_is_listed_without_its_namesakes(store: Store) -> None:
    store.put("records/r1/x", b"")
    store.put("records/r10/y", b"")
    assert [item.name for item in store.list("records/r1")] == ["records/r1/x"]


def test_a_folder_that_is_not_there_is_empty(store: Store) -> None:
    assert store.list("nowhere") == []


def test_a_listing_tells_when_an_object_was_written(store: Store) -> None:
    store.put("a", b"")
    assert store.list()[0].modified_unix > 1_600_000_000


def test_what_was_deleted_is_gone(store: Store) -> None:
    store.put("a", b"")
    store.delete("a")
    assert store.list() == []


def test_deleting_what_is_not_there_is_no_error(store: Store) -> None:
    store.delete("nothing")


def test_names_with_spaces_and_letters_of_any_alphabet(store: Store) -> None:
    store.put("größe 大/é.json", b"x")
    assert [item.name for item in store.list()] == ["größe 大/é.json"]
    assert bytes(store.get("größe 大/é.json")) == b"x"


def test_one_level_shows_folders_and_objects_apart(store: Store) -> None:
    for name in ("top.json", "a/one ü.json", "a/b/deep.json", "a/b/c/deeper.json", "ab/other.json"):
        store.put(name, b"x")
    assert isinstance(store, Browsable)
    assert store.level() == (["a", "ab"], ["top.json"])
    assert store.level("a") == (["a/b"], ["a/one ü.json"])
    assert store.level("nowhere") == ([], [])


# Parts and versions of objects


@pytest.fixture(params=["memory", pytest.param("s3", marks=pytest.mark.s3)])
def bucket(request: pytest.FixtureRequest) -> Store:
    if request.param == "memory":
        return store_from_url(f"memory://{request.node.name}")
    return store_from_url(request.getfixturevalue("s3_url"))


def test_a_part_of_an_object_is_read(bucket: Store) -> None:
    assert isinstance(bucket, Ranged)
    bucket.put("a/b", bytes(range(100)))
    assert bytes(bucket.read("a/b", 10, 20).data) == bytes(range(10, 20))
    assert bytes(bucket.read("a/b").data) == bytes(range(100))
    with pytest.raises(ObjectNotFound):
        bucket.read("a/c")
    with pytest.raises(ObjectNotFound):
        bucket.info("a/c")


def test_each_way_gives_the_same_version_until_the_object_is_replaced(bucket: Store) -> None:
    assert isinstance(bucket, Ranged)
    bucket.put("a", b"first")
    first = bucket.info("a")
    assert (first.name, first.size_bytes) == ("a", 5)
    assert {item.version for item in (first, *bucket.list(), bucket.read("a").info, bucket.read("a", 1, 2).info)} == {
        first.version}
    assert first.version != ""
    bucket.put("a", b"other")
    assert bucket.info("a").version != first.version


def test_a_server_that_only_reads_whole_objects_is_named() -> None:
    foreign = GenericError("Generic S3 error: Received non-partial response when range requested")
    assert isinstance(store_error(foreign, verb="get", name="a", url="s3://bucket"), NoRanges)


def test_a_name_that_no_file_can_have_is_named() -> None:
    foreign = GenericError('Error parsing Path "a/../b": Encountered illegal character sequence ".." in segment ".."')
    found = store_error(foreign, verb="list", name="", url="s3://bucket")
    assert isinstance(found, StoreDenied)
    assert str(found).startswith("An object has a name that no file can have.")
