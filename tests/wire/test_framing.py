"""Records of a TFRecord file, whole and broken."""

from __future__ import annotations

import struct

import pytest

from barograph.wire.crc32c import masked_crc32c
from barograph.wire.framing import BrokenRecord, Record, framed, records_in
from smdebug_data import FIRST, SAVED


def read(data: bytes, starts: tuple[int, ...] = ()) -> list[Record | BrokenRecord]:
    return list(records_in(memoryview(data), starts))


def test_an_empty_file_holds_no_record() -> None:
    assert read(b"") == []


def test_records_come_in_order_and_say_where_they_began() -> None:
    found = read(framed(b"one") + framed(b"") + framed(b"three"))
    assert [(record.start, bytes(record.payload)) for record in found if isinstance(record, Record)] == [
        (0, b"one"), (19, b""), (35, b"three")]


def test_what_smdebug_wrote_is_read_and_nothing_proves_it() -> None:
    found = read((SAVED / FIRST).read_bytes())
    assert [type(record) for record in found] == [Record] * 5
    assert not any(record.proved for record in found if isinstance(record, Record))


def test_a_checksum_that_is_filled_in_proves_the_record() -> None:
    (record,) = read(framed(b"payload"))
    assert isinstance(record, Record)
    assert record.proved


def test_a_flipped_bit_under_a_checksum_is_named_and_what_follows_is_read() -> None:
    data = bytearray(framed(b"first") + framed(b"second"))
    data[12] ^= 1
    broken, sound = read(bytes(data))
    assert broken == BrokenRecord(0, "its checksum does not match")
    assert isinstance(sound, Record)
    assert bytes(sound.payload) == b"second"


@pytest.mark.parametrize("size", range(1, 23))
def test_a_file_that_ends_too_soon_is_named_wherever_it_ends(size: int) -> None:
    (broken,) = read(framed(b"payload")[:size])
    assert isinstance(broken, BrokenRecord)
    assert broken.start == 0


def test_a_huge_length_takes_no_memory() -> None:
    length = struct.pack("<Q", 1 << 63)
    (broken,) = read(length + struct.pack("<I", masked_crc32c(length)) + b"rest of the file")
    assert broken == BrokenRecord(0, "a record of 9223372036854775808 bytes is longer than the rest of the file")


def test_after_a_wrong_length_reading_goes_on_where_a_record_is_known_to_begin() -> None:
    first, second = framed(b"first"), framed(b"second")
    data = bytearray(first + second)
    data[0] ^= 0x10
    broken, sound = read(bytes(data), (0, len(first)))
    assert broken == BrokenRecord(0, "the length of a record does not match its checksum")
    assert isinstance(sound, Record)
    assert bytes(sound.payload) == b"second"


def test_places_that_lie_end_the_reading() -> None:
    assert len(read(b"\0" * 100, tuple(range(-5, 200)))) <= 100
