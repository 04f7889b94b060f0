"""What a channel lists: directories, files, patterns and buckets."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from barograph.errors import JobRefused, StoreDenied, StoreUnavailable
from barograph.jobs.data.channel import Channel
from barograph.jobs.data.listing import DataListing, DataObject, listing_from_json
from barograph.jobs.data.object_names import check_names
from barograph.jobs.data.source import objects_of
from barograph.store.base import Store
from barograph.store.urls import store_from_url


@pytest.fixture
def data(tmp_path: Path) -> Path:
    folder = tmp_path / "data"
    for name in ("a.csv", "b.txt", "sub/c.csv", "sub/deep/d.csv", "ünï/e.csv", ".hidden/f.csv"):
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(name.encode())
    return folder


def names(source: object) -> list[str]:
    return [item.name for item in objects_of(Channel("train", str(source))).objects]


def test_a_directory_has_its_files_at_any_depth(data: Path) -> None:
    assert names(data) == [".hidden/f.csv", "a.csv", "b.txt", "sub/c.csv", "sub/deep/d.csv", "ünï/e.csv"]


def test_a_file_is_listed_by_its_name(data: Path) -> None:
    listing = objects_of(Channel("train", str(data / "sub/c.csv")))
    assert (listing.root, [item.name for item in listing.objects]) == (str(data / "sub"), ["c.csv"])
    assert listing.total_bytes == len("sub/c.csv")


@pytest.mark.parametrize(("pattern", "expected"), [
    ("*.csv", ["a.csv"]),
    ("**/*.csv", ["a.csv", "sub/c.csv", "sub/deep/d.csv", "ünï/e.csv"]),
    ("*/*.csv", ["sub/c.csv", "ünï/e.csv"]),
    ("s*", ["sub/c.csv", "sub/deep/d.csv"]),
    ("[ab].*", ["a.csv", "b.txt"]),
    ("**", ["a.csv", "b.txt", "sub/c.csv", "sub/deep/d.csv", "ünï/e.csv"]),
])
def test_a_pattern_chooses_files_and_directories(data: Path, pattern: str, expected: list[str]) -> None:
    assert names(data / pattern) == expected


def test_names_start_where_the_pattern_does(data: Path) -> None:
    assert names(data / "sub" / "**" / "d.csv") == ["deep/d.csv"]


def test_a_file_whose_name_looks_like_a_pattern_is_that_file(data: Path) -> None:
    (data / "a[1].csv").write_bytes(b"")
    assert names(data / "a[1].csv") == ["a[1].csv"]


def test_links_are_followed_but_not_in_a_circle(data: Path, tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "g.csv").write_bytes(b"g")
    (data / "link").symlink_to(tmp_path / "other")
    (data / "file").symlink_to(tmp_path / "other" / "g.csv")
    (data / "sub" / "up").symlink_to(data)
    (data / "nowhere").symlink_to(data / "missing")
    os.mkfifo(data / "pipe")
    listing = objects_of(Channel("train", str(data)))
    assert {"file", "link/g.csv"} <= {item.name for item in listing.objects}
    assert not any(item.name.startswith("sub/up/sub/up") for item in listing.objects)
    assert {name for name in listing.skipped if "/" not in name} == {"nowhere", "pipe"}


def test_an_empty_directory_has_no_objects(tmp_path: Path) -> None:
    assert names(tmp_path) == []


@pytest.mark.parametrize(("source", "message"), [
    ("dat", 'there is no "dat" in {tmp}. Did you mean "data"?'),
    ("data/sbu/c.csv", 'there is no "sbu" in {tmp}/data. Did you mean "sub"?'),
    ("data/a.csv/x", "a.csv is a file"),
    ("data/*.parquet", 'No file of channel train matches "*.parquet". The directory has: .hidden, a.csv'),
    ("missing/*.csv", 'there is no "missing" in {tmp}'),
])
def test_a_missing_source_is_refused_with_what_is_near(data: Path, tmp_path: Path, source: str, message: str) -> None:
    with pytest.raises(JobRefused) as caught:
        names(tmp_path / source)
    assert message.format(tmp=tmp_path) in str(caught.value)


def test_a_pipe_is_no_source(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(JobRefused, match="neither a file nor a directory"):
        names(tmp_path / "pipe")


def test_the_fingerprint_changes_with_the_data(data: Path) -> None:
    def fingerprint() -> str:
        return objects_of(Channel("train", str(data))).fingerprint

    before = fingerprint()
    assert fingerprint() == before
    os.utime(data / "a.csv", ns=(1, 1))
    touched = fingerprint()
    (data / "b.txt").rename(data / "z.txt")
    renamed = fingerprint()
    (data / "new").write_bytes(b"")
    assert len({before, touched, renamed, fingerprint()}) == 4


def test_a_listing_comes_back_from_json(data: Path) -> None:
    (data / os.fsdecode(b"\xff.csv")).write_bytes(b"")
    listing = objects_of(Channel("train", str(data)))
    again = listing_from_json(listing.to_json())
    assert (again, again.fingerprint) == (listing, listing.fingerprint)


# Buckets


@pytest.fixture
def bucket(s3_environment: str) -> str:
    url = f"{s3_environment}/source-{time.monotonic_ns()}"
    store = store_from_url(url)
    for name in ("digits/a.csv", "digits/sub/b.csv", "digits/ü.csv", "faces/c.png"):
        store.put(name, name.encode())
    return url


@pytest.mark.s3
def test_a_prefix_of_a_bucket_is_listed(bucket: str) -> None:
    listing = objects_of(Channel("train", f"{bucket}/digits"))
    assert [item.name for item in listing.objects] == ["a.csv", "sub/b.csv", "ü.csv"]
    assert all(item.version for item in listing.objects)
    assert listing.total_bytes == len("digits/a.csv" "digits/sub/b.csv" "digits/ü.csv".encode())


@pytest.mark.s3
def test_an_object_of_a_bucket_is_listed(bucket: str) -> None:
    listing = objects_of(Channel("train", f"{bucket}/digits/a.csv"))
    assert (listing.root, [item.name for item in listing.objects]) == (f"{bucket}/digits", ["a.csv"])


@pytest.mark.s3
def test_a_pattern_chooses_objects_of_a_bucket(bucket: str) -> None:
    assert names(f"{bucket}/*/*.csv") == ["digits/a.csv", "digits/ü.csv"]
    assert names(f"{bucket}/digits/**/*.csv") == ["a.csv", "sub/b.csv", "ü.csv"]


@pytest.mark.s3
@pytest.mark.parametrize(("source", "message"), [
    ("digts", 'Did you mean "digits/"?'),
    ("digits/aa.csv", 'Did you mean "a.csv"?'),
    ("digits/*.parquet", "There are: a.csv, sub/, ü.csv."),
])
def test_a_missing_prefix_is_refused_with_what_is_near(bucket: str, source: str, message: str) -> None:
    with pytest.raises(JobRefused) as caught:
        names(f"{bucket}/{source}")
    assert message in str(caught.value)


@pytest.mark.s3
def test_folders_of_consoles_are_no_objects(bucket: str) -> None:
    store_from_url(bucket).put("digits/sub", b"")
    assert names(f"{bucket}/digits") == ["a.csv", "sub/b.csv", "ü.csv"]


@pytest.mark.s3
def test_a_missing_bucket_is_refused(s3_environment: str) -> None:
    with pytest.raises(JobRefused, match="Channel train: The bucket does not exist"):
        names("s3://no-such-bucket/digits")


class Failing:
    """A store that fails."""

    def __init__(self, error: Exception) -> None:
        self._error = error

    def list(self, folder: str = "") -> list[object]:
        raise self._error


@pytest.mark.parametrize(("error", "raised"), [
    (StoreUnavailable("The store cannot be reached."), StoreUnavailable),
    (StoreDenied("Access to the store was denied."), JobRefused),
])
def test_a_store_that_fails_is_reported(error: Exception, raised: type[Exception]) -> None:
    def open_store(url: str) -> Store:
        return Failing(error)  # type: ignore[return-value]

    with pytest.raises(raised, match=str(error)):
        objects_of(Channel("train", "s3://bucket/digits"), open_store=open_store)


@pytest.mark.parametrize(("found", "message"), [
    (["../x"], "leads out of its directory"), (["/etc/passwd"], "leads out"), (["a/../../b"], "leads out"),
    ([""], "is empty"), (["a\0b"], "contains a zero byte"), (["a//b"], "has an empty part"),
    (["a/./b"], "has an empty part"), (["a" * 256], "more than 255 bytes"),
    (["a", "a/b"], "cannot also be a directory"), (["a", "a"], "is there twice"),
])
def test_a_name_that_no_file_can_have_is_refused(found: list[str], message: str) -> None:
    listing = DataListing("s3://bucket", tuple(DataObject(name, 1, 0.0) for name in found))
    with pytest.raises(JobRefused, match=message):
        check_names("train", listing)
