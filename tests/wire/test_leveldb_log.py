"""The framing of a log of Weights & Biases: what was written is read, and what is damaged is named."""

from __future__ import annotations

import io
import struct
import time
import zlib

import pytest

from barograph.wire.leveldb_log import (
    BLOCK_BYTES,
    HEADER,
    IDENTITY,
    MAGIC,
    VERSION,
    LogFault,
    LogRecord,
    is_log,
    log_records_in,
    logged,
)


def read(data: bytes) -> tuple[list[bytes], list[LogFault]]:
    found = list(log_records_in(io.BytesIO(data)))
    return ([item.payload for item in found if isinstance(item, LogRecord)],
            [item for item in found if isinstance(item, LogFault)])


@pytest.mark.parametrize("sizes", [
    [0], [1, 2, 3], [BLOCK_BYTES - 14], [BLOCK_BYTES - 15, 5], [BLOCK_BYTES - 20, 5], [BLOCK_BYTES, 1],
    [3 * BLOCK_BYTES, 0, 7], list(range(32700, 32760)),
])
def test_records_of_any_length_come_back(sizes: list[int]) -> None:
    payloads = [bytes([place % 251]) * size for place, size in enumerate(sizes)]
    assert read(logged(payloads)) == (payloads, [])


def test_a_file_that_ends_within_a_record_ends_before_it() -> None:
    whole = logged([b"a" * 50, b"b" * 50])
    for cut in range(8, len(whole)):
        payloads, faults = read(whole[:cut])
        assert payloads == [b"a" * 50] * (cut >= 64)
        assert [fault.at_end for fault in faults] == [True] * (cut not in (64,))


def test_a_record_that_goes_over_blocks_and_has_no_end_is_no_damage() -> None:
    payloads, faults = read(logged([b"a", b"b" * 100_000])[: BLOCK_BYTES * 2])
    assert payloads == [b"a"]
    assert [(fault.reason, fault.at_end) for fault in faults] == [("the file ends in a record", True)]


@pytest.mark.parametrize("at", [20, 21, 24, 26, 27, 60])
def test_a_bit_that_was_turned_is_named_and_the_next_block_is_read(at: int) -> None:
    data = bytearray(logged([b"a" * 6, b"b" * 100, b"c" * 40_000, b"d"]))
    data[at] ^= 1
    payloads, faults = read(bytes(data))
    assert payloads == [b"a" * 6, b"d"]
    assert [fault.start for fault in faults] == [20]
    assert "checksum" in faults[0].reason or "longer than its block" in faults[0].reason


def test_what_is_no_log_is_told_by_its_first_bytes() -> None:
    assert not is_log(b"")
    assert not is_log(b"hello, I am a text")
    assert not is_log(logged([])[:6])


def test_fragments_without_bytes_cost_no_more_each_the_more_there_are() -> None:
    data = bytearray(HEADER.pack(IDENTITY, MAGIC, VERSION))
    for kind in (2, *[3] * 20_000):
        data += bytes(BLOCK_BYTES - len(data) % BLOCK_BYTES) if BLOCK_BYTES - len(data) % BLOCK_BYTES < 7 else b""
        data += struct.pack("<IHB", zlib.crc32(bytes([kind])), 0, kind)
    began = time.process_time()
    _, faults = read(bytes(data))
    assert [fault.reason for fault in faults] == ["the file ends in a record"]
    assert time.process_time() - began < 1.0
