"""Records of a TFRecord file: the framing that TensorFlow, TensorBoard and smdebug share.

A record is the length of its payload (8 bytes), the masked CRC-32C of these, the payload, and its own masked CRC-32C.
This module does not interpret the payload.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from barograph.wire.crc32c import masked_crc32c, masked_crc32c_of_rows

_HEAD = struct.Struct("<QI")
_FOOT = struct.Struct("<I")
_LENGTH_BYTES = 8
_LONG_BYTES, _MANY_RECORDS = 4096, 16
"""Checksums of records shorter than this are computed together, if there are this many of one length."""
_SWEEP_RECORDS = 1 << 16
_ROWS_BYTES = 1 << 24

UNFILLED = masked_crc32c(b"0x12345678")
"""Placeholder that smdebug writes instead of the checksum of a payload."""


@dataclass(frozen=True, slots=True)
class Record:
    """One record.

    Attributes:
        start: Offset in the file.
        payload: Its payload; a view of the file's bytes.
        proved: It has a checksum, and it is correct.
    """

    start: int
    payload: memoryview
    proved: bool


@dataclass(frozen=True, slots=True)
class BrokenRecord:
    """A place where no record can be read.

    Attributes:
        start: Offset in the file.
        reason: Reason for people, a clause.
    """

    start: int
    reason: str


PROVED, UNFILLED_STATE, WRONG = 1, 0, -1
WRONG_CHECKSUM = "its checksum does not match"


class Sweep(NamedTuple):
    """Consecutive records, with checksums computed together.

    Attributes:
        starts: Offset of each.
        lengths: Length of each payload.
        states: PROVED, UNFILLED_STATE without a checksum, or WRONG.
        end: Offset of the next one.
    """

    starts: NDArray[np.int64]
    lengths: NDArray[np.int64]
    states: NDArray[np.int8]
    end: int


def records_in(data: memoryview, known_starts: Sequence[int] = ()) -> Iterator[Record | BrokenRecord]:
    """Yield the records of a file, and the places where a record cannot be read.

    A payload with a wrong checksum is skipped. After a wrong length, the start of the next record is unknown
    unless it is in `known_starts`.

    Args:
        data: Content of the file.
        known_starts: Known offsets of records, at which reading resumes.
    """
    at = 0
    while at < len(data):
        sweep = swept(data, at)
        for start, length, state in zip(
            sweep.starts.tolist(), sweep.lengths.tolist(), sweep.states.tolist(), strict=True
        ):
            if state == WRONG:
                yield BrokenRecord(start, WRONG_CHECKSUM)
            else:
                yield Record(start, payload_at(data, start, length), proved=state == PROVED)
        at = sweep.end
        broken = _head_fault(data, at) if at < len(data) else ""
        if broken:
            yield BrokenRecord(at, broken)
            # Do not visit a place with a wrong length again.
            later = [start for start in known_starts if at < start < len(data)]
            if not later:
                return
            at = min(later)


def swept(data: memoryview, at: int) -> Sweep:
    """Return the next records of a file, many at once, up to the first with an invalid length.

    Args:
        data: Content of the file.
        at: Offset of the first.
    """
    starts: list[int] = []
    lengths: list[int] = []
    heads: set[tuple[int, int]] = set()
    end, size = at, len(data)
    while len(starts) < _SWEEP_RECORDS and end + _HEAD.size <= size:
        head = _HEAD.unpack_from(data, end)
        length = head[0]
        if head not in heads:
            # Records of one length have the same head, so few are checked more than once.
            if length > size - end - _HEAD.size - _FOOT.size or head[1] != masked_crc32c(
                    data[end : end + _LENGTH_BYTES]):
                break
            heads.add(head)
        if length > size - end - _HEAD.size - _FOOT.size:
            break
        starts.append(end)
        lengths.append(length)
        end += _HEAD.size + length + _FOOT.size
    found_starts, found_lengths = np.array(starts, np.int64), np.array(lengths, np.int64)
    return Sweep(found_starts, found_lengths, _states(data, found_starts, found_lengths), end)


def payload_at(data: memoryview, start: int, length: int) -> memoryview:
    """Return the payload of a record.

    Args:
        data: Content of the file.
        start: Offset of the record.
        length: Length of its payload.
    """
    return data[start + _HEAD.size : start + _HEAD.size + length]


def rows_of(data: memoryview, starts: NDArray[np.int64], length: int) -> NDArray[np.uint8]:
    """Return the payloads of records of one length as rows.

    Args:
        data: Content of the file.
        starts: Offsets of the records.
        length: Length of each payload.
    """
    windows = np.lib.stride_tricks.sliding_window_view(np.frombuffer(data, np.uint8), length)
    rows: NDArray[np.uint8] = windows[starts + _HEAD.size]
    return rows


def _states(data: memoryview, starts: NDArray[np.int64], lengths: NDArray[np.int64]) -> NDArray[np.int8]:
    states = np.zeros(len(starts), np.int8)
    for length in np.unique(lengths).tolist():
        places = np.flatnonzero(lengths == length)
        stated = rows_of(data, starts[places] + length, _FOOT.size).copy().view("<u4").reshape(-1)
        if length > _LONG_BYTES or len(places) < _MANY_RECORDS:
            begins = (starts[places] + _HEAD.size).tolist()
            real = np.array([masked_crc32c(data[begin : begin + length]) for begin in begins], np.uint32)
        else:
            real = np.concatenate([
                masked_crc32c_of_rows(rows_of(data, starts[part], length))
                for part in np.array_split(places, 1 + len(places) * length // _ROWS_BYTES)
            ])
        states[places] = np.where(stated == UNFILLED, UNFILLED_STATE, np.where(stated == real, PROVED, WRONG))
    return states


def framed(payload: bytes) -> bytes:
    """Return a payload as a record with both checksums.

    Example:
        >>> [bytes(record.payload) for record in records_in(memoryview(framed(b"a") + framed(b"bc")))]
        [b'a', b'bc']
    """
    length = struct.pack("<Q", len(payload))
    return length + _FOOT.pack(masked_crc32c(length)) + payload + _FOOT.pack(masked_crc32c(payload))


def framed_all(payloads: Sequence[bytes]) -> bytes:
    """Return payloads as consecutive records: the same bytes as `framed`, but faster for many.

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
        return "the file ends in the length of a record"
    length, stated = _HEAD.unpack_from(data, at)
    if stated != masked_crc32c(data[at : at + _LENGTH_BYTES]):
        return "the length of a record does not match its checksum"
    if length > len(data) - at - _HEAD.size - _FOOT.size:
        return f"a record of {length} bytes is longer than the rest of the file"
    return ""
