"""What a place that refuses is reported as. Real file systems where they can be made, else what obstore says."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from obstore.exceptions import GenericError, PermissionDeniedError, UnauthenticatedError

from barograph.errors import StoreDenied, StoreError, StoreFull, StoreUnavailable
from barograph.store.failures import store_error
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
    with pytest.raises(StoreFull, match="No room"):
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
        (GenericError("Error performing PUT http://169.254.169.254/latest/api/token"), StoreDenied),
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
