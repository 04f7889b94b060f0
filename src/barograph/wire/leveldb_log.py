"""Records of a LevelDB log, as written by Weights & Biases: blocks of 32 KiB with fragments of records.

A fragment is a checksum (4 bytes), a length (2 bytes), a type (1 byte: whole, first, middle or last) and its bytes. The
checksum is the CRC-32 of zlib over type and bytes, not LevelDB's masked CRC-32C. The file starts with seven bytes.
This module does not interpret the records.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import BinaryIO

HEADER = struct.Struct("<4sHB")
IDENTITY, MAGIC, VERSION = b":W&B", 0xBEE1, 0
BLOCK_BYTES = 32768
_HEAD = struct.Struct("<IHB")
_WHOLE, _FIRST, _MIDDLE, _LAST = 1, 2, 3, 4
_MOST_RECORD_BYTES = 1 << 30


@dataclass(frozen=True, slots=True)
class LogRecord:
    """One record.

    Attributes:
        start: Offset in the file.
        payload: Its content.
    """

    start: int
    payload: bytes


@dataclass(frozen=True, slots=True)
class LogFault:
    """A place where no record can be read.

    Attributes:
        start: Offset in the file.
        reason: Reason for people, a clause.
        at_end: The file ends there, because the process was killed or is still writing.
    """

    start: int
    reason: str
    at_end: bool = False


def is_log(head: bytes) -> bool:
    """Return whether a file starts like such a log.

    Example:
        >>> is_log(b":W&B\\xe1\\xbe\\x00")
        True
    """
    return len(head) >= HEADER.size and HEADER.unpack_from(head) == (IDENTITY, MAGIC, VERSION)


def log_records_in(file: BinaryIO) -> Iterator[LogRecord | LogFault]:
    """Yield the records of a log, and the places where a record cannot be read; reading continues at the next block.

    Args:
        file: The file, at its start; `is_log` is true for it.
    """
    parts: list[bytes] = []
    began = at = held_bytes = 0
    block = file.read(BLOCK_BYTES)
    within = HEADER.size
    while block:
        for fragment in _fragments(block, within, at):
            if isinstance(fragment, LogFault):
                parts = []
                yield fragment
                continue
            start, kind, data = fragment
            if kind in (_WHOLE, _FIRST):
                if parts:
                    yield LogFault(began, "a record has no end")
                began, parts, held_bytes = start, [], 0
            elif not parts:
                continue  # its start could not be read
            parts.append(data)
            held_bytes += len(data)
            if kind in (_WHOLE, _LAST):
                yield LogRecord(began, b"".join(parts))
                parts = []
            elif held_bytes > _MOST_RECORD_BYTES:
                yield LogFault(began, f"a record has more than {_MOST_RECORD_BYTES:,} bytes")
                parts = []
        at += len(block)
        within = 0
        block = file.read(BLOCK_BYTES)
    if parts:
        yield LogFault(began, "the file ends in a record", at_end=True)


def _fragments(block: bytes, within: int, at: int) -> Iterator[tuple[int, int, bytes] | LogFault]:
    """Yield the fragments of a block: offset, type, bytes."""
    is_last = len(block) < BLOCK_BYTES
    while within + _HEAD.size <= len(block):
        checksum, length, kind = _HEAD.unpack_from(block, within)
        if not (checksum or length or kind):
            return  # the block was filled up with zeros
        start, end = at + within, within + _HEAD.size + length
        if end > len(block):
            reason = "the file ends in a record" if is_last else "a record is longer than its block"
            yield LogFault(start, reason, at_end=is_last)
            return
        if kind not in (_WHOLE, _FIRST, _MIDDLE, _LAST) or zlib.crc32(block[within + 6 : end]) != checksum:
            # Its length may be wrong, too: continue at the next block.
            yield LogFault(start, "the checksum of a record does not match")
            return
        yield start, kind, block[within + _HEAD.size : end]
        within = end
    if is_last and within < len(block):
        yield LogFault(at + within, "the file ends in a record", at_end=True)


def logged(payloads: list[bytes]) -> bytes:
    """Return the bytes of a log file with short records.

    Example:
        >>> import io
        >>> [record.payload for record in log_records_in(io.BytesIO(logged([b"a", b"b" * 40000])))][0]
        b'a'
    """
    data = bytearray(HEADER.pack(IDENTITY, MAGIC, VERSION))
    for payload in payloads:
        rest, first = payload, True
        while first or rest:
            room = BLOCK_BYTES - len(data) % BLOCK_BYTES
            if room < _HEAD.size:
                data += bytes(room)
                continue
            part, rest = rest[: room - _HEAD.size], rest[room - _HEAD.size :]
            kind = (_FIRST if rest else _WHOLE) if first else (_MIDDLE if rest else _LAST)
            data += _HEAD.pack(zlib.crc32(bytes([kind]) + part), len(part), kind) + part
            first = False
    return bytes(data)
