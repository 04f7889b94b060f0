"""What a place that refuses is reported as. Real file systems where they can be made, else what obstore says."""

from __future__ import annotations

import errno
import os
import stat
import subprocess
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import Any, cast

import pytest
from obstore.exceptions import GenericError, PermissionDeniedError, UnauthenticatedError

from barograph.errors import StoreDenied, StoreError, StoreFull, StoreUnavailable
from barograph.store.failures import store_error
from barograph.store.objects import ObjectsStore
from barograph.store.urls import store_from_url


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    with _mounted(tmp_path / "small", "size=256k") as place:
        yield place


@pytest.fixture
def read_only_disk(tmp_path: Path) -> Iterator[Path]:
    with _mounted(tmp_path / "fixed", "ro") as place:
        yield place


class _mounted:  # noqa: N801 - reads as a verb where it is used
    def __init__(self, place: Path, options: str) -> None:
        self._place = place
        self._options = options

    def __enter__(self) -> Path:
        self._place.mkdir()
        command = ["mount", "-t", "tmpfs", "-o", self._options, "tmpfs", str(self._place)]
        if os.name != "posix" or subprocess.run(command, check=False, capture_output=True).returncode != 0:
            pytest.skip("a small file system can be mounted by root on Linux only")
        return self._place

    def __exit__(self, *_: object) -> None:
        subprocess.run(["umount", str(self._place)], check=True)


def test_a_full_disk_is_full_and_leaves_no_part(small_disk: Path) -> None:
    store = store_from_url(small_disk / "run")
    store.put("a", b"small")
    with pytest.raises(StoreFull, match="is full"):
        store.put("b", bytes(1_000_000))
    with pytest.raises(StoreFull):
        store.create("c", bytes(1_000_000))
    assert [item.name for item in store.list()] == ["a"]


def test_a_disk_with_room_again_takes_again(small_disk: Path) -> None:
    store = store_from_url(small_disk / "run")
    store.put("a", bytes(200_000))
    with pytest.raises(StoreFull):
        store.put("b", bytes(200_000))
    store.delete("a")
    store.put("b", bytes(200_000))
    assert [item.name for item in store.list()] == ["b"]


def test_a_read_only_disk_is_denied(read_only_disk: Path) -> None:
    store = store_from_url(read_only_disk / "run")
    with pytest.raises(StoreDenied):
        store.put("a", b"x")
    with pytest.raises(StoreDenied):
        store.create("a", b"x")


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="root may write anywhere")
def test_a_directory_without_the_right_to_write_is_denied(tmp_path: Path) -> None:
    (tmp_path / "run").mkdir(mode=0o500)
    with pytest.raises(StoreDenied):
        store_from_url(tmp_path / "run").put("a", b"x")


@pytest.mark.parametrize(
    ("foreign", "ours"),
    [
        (GenericError("Unable to copy data to file: No space left on device (os error 28)"), StoreFull),
        (OSError(28, "No space left on device"), StoreFull),
        (GenericError("Unable to create dir: Disk quota exceeded (os error 122)"), StoreFull),
        (GenericError("Unable to open file: Read-only file system (os error 30)"), StoreDenied),
        (PermissionError(13, "Permission denied"), StoreDenied),
        (PermissionDeniedError("403 Forbidden"), StoreDenied),
        (UnauthenticatedError("401"), StoreDenied),
        (GenericError("Error performing PUT http://169.254.169.254/latest/api/token in 3s"), StoreDenied),
        (GenericError("Generic S3 error: no credentials in the chain"), StoreDenied),
        (GenericError("error sending request: operation timed out"), StoreUnavailable),
        (GenericError("Server returned non-2xx status code: 503 Service Unavailable"), StoreUnavailable),
        (OSError(5, "Input/output error"), StoreUnavailable),
    ],
)
def test_what_is_foreign_becomes_ours(foreign: Exception, ours: type[StoreError]) -> None:
    error = store_error(foreign, verb="put", name="records/x", url="s3://bucket/run")
    assert type(error) is ours
    assert "records/x" in str(error)
    assert "s3://bucket/run" in str(error)


@pytest.mark.parametrize(
    ("url", "text", "ours"),
    [
        ("/data/credentials/run", "put /data/credentials/run/x: full (os error 28)", StoreFull),
        ("/data/credentials/run", "Unable to open /data/credentials/run/x: (os error 5)", StoreUnavailable),
        ("/data/169.254.1.1/run", "Unable to open http://169.254.1.1/run/x", StoreUnavailable),
        ("s3://bucket/credentials", "PUT https://s3.amazonaws.com/bucket/credentials/x: 503", StoreUnavailable),
        ("s3://bucket/credentials", "put credentials/records/x: operation timed out", StoreUnavailable),
    ],
)
def test_a_word_in_a_path_is_no_reason(url: str, text: str, ours: type[StoreError]) -> None:
    assert type(store_error(GenericError(text), verb="put", name="records/x", url=url)) is ours


@pytest.mark.parametrize(
    ("url", "keys"),
    [("s3://b/e", "AWS_ACCESS_KEY_ID"), ("gs://b/run", "GOOGLE_APPLICATION"), ("az://b/run", "AZURE_STORAGE")],
)
def test_without_credentials_it_is_said_which_to_set(url: str, keys: str) -> None:
    error = GenericError("Error performing PUT http://169.254.169.254/latest/api/token in 3s: timed out")
    told = store_error(error, verb="list", name="", url=url)
    assert isinstance(told, StoreDenied)
    assert keys in str(told)


class Backend:
    """A bucket whose machine fetches its credentials, except while it cannot."""

    def __init__(self) -> None:
        self.cut_off = False

    def put(self, name: str, data: bytes) -> None:
        if self.cut_off:
            raise GenericError("Error performing PUT http://169.254.169.254/latest/api/token in 3s: timed out")


def test_a_short_place_does_not_hide_that_there_are_no_credentials() -> None:
    told = store_error(GenericError("no credentials in the chain"), verb="list", name="", url="s3://b/e")
    assert isinstance(told, StoreDenied)


def test_credentials_that_could_be_fetched_before_are_only_away() -> None:
    backend = Backend()
    store = ObjectsStore("s3://bucket/run", cast("Any", backend))
    backend.cut_off = True
    with pytest.raises(StoreDenied):
        store.put("a", b"x")
    backend.cut_off = False
    store.put("a", b"x")
    backend.cut_off = True
    with pytest.raises(StoreUnavailable, match="cannot be fetched now"):
        store.put("a", b"x")


@pytest.mark.parametrize(
    ("number", "kind", "refused"),
    [
        (errno.EINVAL, stat.S_ISDIR, False), (errno.ENOTSUP, stat.S_ISDIR, False),
        (errno.EIO, stat.S_ISDIR, True), (errno.EINVAL, stat.S_ISREG, True),
    ],
)
def test_a_directory_that_cannot_be_synced_is_no_reason_to_refuse(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int, kind: Callable[[int], bool], refused: bool
) -> None:
    def fsync(handle: int) -> None:
        if kind(os.fstat(handle).st_mode):
            raise OSError(number, os.strerror(number))

    monkeypatch.setattr(os, "fsync", fsync)
    store = store_from_url(tmp_path / "run")
    with pytest.raises(StoreError) if refused else nullcontext():
        store.create("attempts/0000.json", b"x")


def test_missing_credentials_are_one_sentence_without_how_they_were_looked_for() -> None:
    foreign = GenericError("Error performing PUT http://169.254.169.254/latest/api/token in 3s - 403: denied")
    assert str(store_error(foreign, verb="list", name="", url="s3://bucket/x")) == (
        "No credentials for the store. Set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY. "
        "(list everything in s3://bucket/x)")
