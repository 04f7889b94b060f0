"""Names of the objects of a run."""

from __future__ import annotations

import pytest

from barograph.runs.format.layout import (
    ChunkName,
    TensorsName,
    digest_of,
    metadata_from_name,
    metadata_name,
    tensors_from_name,
)

DIGEST = "0123456789abcdef0123456789abcdef"


def test_a_chunk_is_named_by_worker_attempt_numbers_and_digest() -> None:
    name = ChunkName("r3", 1, 32, 63, DIGEST)
    assert str(name) == f"records/r3/0001-00000032-00000063.{DIGEST}.parquet"
    assert ChunkName.from_name(str(name)) == name


def test_numbers_that_outgrow_their_padding_still_read() -> None:
    name = ChunkName("p0", 12_345, 123_456_789, 123_456_790, DIGEST)
    assert ChunkName.from_name(str(name)) == name


def test_a_file_of_tensors_is_named_by_its_chunk() -> None:
    name = TensorsName("p0", 0, 7, DIGEST)
    assert str(name) == f"tensors/p0/0000-00000007.{DIGEST}.safetensors"
    assert tensors_from_name(str(name)) == name


@pytest.mark.parametrize(
    "name",
    [
        "records/p0/0000-00000000-00000000.parquet",
        f"records/p0/0-0-0.{DIGEST}.parquet",
        f"records/p0/0000-00000005-00000004.{DIGEST}.parquet",
        f"records/x0/0000-00000000-00000000.{DIGEST}.parquet",
        f"records/p0/00000-00000000-00000000.{DIGEST}.parquet",
        f"records/p0/0000-00000000-00000000.{DIGEST.upper()}.parquet",
        f"records/p0/0000-00000000-00000000.{DIGEST}.parquet.tmp",
        "notes.txt",
    ],
)
def test_other_names_are_no_chunks(name: str) -> None:
    assert ChunkName.from_name(name) is None


def test_names_sort_by_attempt_and_number() -> None:
    numbers = [(1, 2), (0, 10), (0, 9), (1, 0)]
    names = [str(ChunkName("p0", attempt, first, first, DIGEST)) for attempt, first in numbers]
    assert sorted(names) == [names[2], names[1], names[3], names[0]]


def test_a_paper_is_named_by_folder_worker_and_attempt() -> None:
    assert metadata_name("heartbeats", "r0", 2) == "heartbeats/r0-0002.json"
    assert metadata_from_name("heartbeats/r0-0002.json") == ("heartbeats", "r0", 2)
    assert metadata_from_name("papers/r0-0002.json") is None


def test_the_digest_is_that_of_sha256sum() -> None:
    assert digest_of(b"abc") == "ba7816bf8f01cfea414140de5dae2223"
