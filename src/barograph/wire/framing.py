"""Records of a TFRecord file: the framing that TensorFlow, TensorBoard and smdebug share.

A record is the length of its payload (8 bytes), the masked CRC-32C of these, the payload, and its own masked CRC-32C.
What the payload means is not known here.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from barograph.wire.crc32c import masked_crc32c, masked_crc32c_of_rows

_HEAD = struct.Struct("<QI")
_FOOT = struct.Struct("<I")
_LENGTH_BYTES = 8
_LONG_BYTES, _MANY_RECORDS = 4096, 16
"""Shorter records, of which there are as many of one length, are summed up together."""

UNFILLED = masked_crc32c(b"0x12345678")
"""Stands where smdebug has filled in no checksum of the payload."""


@dataclass(frozen=True, slots=True)
class Record:
    """One record.

    Attributes:
        start: Where it begins in the file.
        payload: What it holds; a view of the file's bytes.
        proved: Its checksum was filled in, and is right. Else nothing proves it.
    """

    start: int
    payload: memoryview
    proved: bool


@dataclass(frozen=True, slots=True)
class BrokenRecord:
    """A place where no record can be read.

    Attributes:
        start: Where it begins in the file.
        reason: Why, for people: a clause.
    """

    start: int
    reason: str


def records_in(data: memoryview, known_starts: Sequence[int] = ()) -> Iterator[Record | BrokenRecord]:
    """Yield the records of a file, and the places where there should be one and none can be read.

    A payload whose checksum is wrong is passed over, and what follows is read. Where a length is wrong nobody knows
    where the next record begins, unless somebody noted it.

    Args:
        data: All of the file.
        known_starts: Where records begin, as noted elsewhere: reading goes on at the next of them.
    """
    at = 0
    while at < len(data):
        broken = _head_fault(data, at)
        if broken:
            yield BrokenRecord(at, broken)
            # A place that lies about itself must not be gone to again.
            later = [start for start in known_starts if at < start < len(data)]
            if not later:
                return
            at = min(later)
            continue
        length, _ = _HEAD.unpack_from(data, at)
        begin = at + _HEAD.size
        payload = data[begin : begin + length]
        stated = _FOOT.unpack_from(data, begin + length)[0]
        if stated == UNFILLED:
            yield Record(at, payload, proved=False)
        elif stated == masked_crc32c(payload):
            yield Record(at, payload, proved=True)
        else:
            yield BrokenRecord(at, "its checksum is not that of its bytes")
        at = begin + length + _FOOT.size


def framed(payload: bytes) -> bytes:
    """Return a payload as a record, with both checksums filled in.

    Example:
        >>> [bytes(record.payload) for record in records_in(memoryview(framed(b"a") + framed(b"bc")))]
        [b'a', b'bc']
    """
    length = struct.pack("<Q", len(payload))
    return length + _FOOT.pack(masked_crc32c(length)) + payload + _FOOT.pack(masked_crc32c(payload))


def framed_all(payloads: Sequence[bytes]) -> bytes:
    """Return payloads as records, one after the other; the same bytes as `framed` makes, sooner where there are many.

    Example:
        >>> framed_all([b"a", b"bc"]) == framed(b"a") + framed(b"bc")
        True
    """
    by_length: dict[int, list[int]] = {}
    for place, payload in enumerate(payloads):
        by_length.setdefault(len(payload), []).append(place)
    records = [b""] * len(payloads)
    for length, places in by_length.items():
        if length > _LONG_BYTES or len(places) < _MANY_RECORDS:
            for place in places:
                records[place] = framed(payloads[place])
            continue
        head = struct.pack("<Q", length)
        head += _FOOT.pack(masked_crc32c(head))
        rows = np.frombuffer(b"".join([payloads[place] for place in places]), np.uint8).reshape(len(places), length)
        feet = masked_crc32c_of_rows(rows).astype("<u4").tobytes()
        for number, place in enumerate(places):
            records[place] = head + payloads[place] + feet[4 * number : 4 * number + 4]
    return b"".join(records)


def _head_fault(data: memoryview, at: int) -> str:
    if at + _HEAD.size > len(data):
        return "the file ends within the length of a record"
    length, stated = _HEAD.unpack_from(data, at)
    if stated != masked_crc32c(data[at : at + _LENGTH_BYTES]):
        return "the length of a record does not match its checksum"
    if length > len(data) - at - _HEAD.size - _FOOT.size:
        return f"a record of {length} bytes does not fit in what is left of the file"
    return ""
