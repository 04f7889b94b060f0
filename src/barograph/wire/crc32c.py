"""CRC-32C (Castagnoli) of TFRecord files: a plain loop for few bytes, NumPy lanes for many."""

from __future__ import annotations

from functools import cache

import numpy as np
from numpy.typing import NDArray

_POLYNOMIAL = 0x82F63B78
"""Castagnoli polynomial, bits reversed."""
_ALL = 0xFFFFFFFF
_MASK_DELTA = 0xA282EAD8
_MANY_BYTES = 4096
"""From this size on, lanes are faster than a loop over bytes."""
_LANES = 1024


def crc32c(data: bytes | memoryview) -> int:
    """Return the CRC-32C of some bytes.

    Example:
        >>> hex(crc32c(b"123456789"))
        '0xe3069283'
        >>> crc32c(bytes(range(256)) * 64) == _plain(bytes(range(256)) * 64, _ALL) ^ _ALL
        True
    """
    if len(data) < _MANY_BYTES:
        return _plain(data, _ALL) ^ _ALL
    lane_bytes = len(data) // _LANES
    rest = len(data) - lane_bytes * _LANES
    # The remainder comes first, so that all lanes have the same length.
    state = _plain(data[:rest], _ALL)
    lanes = np.frombuffer(data, np.uint8)[rest:].reshape(_LANES, lane_bytes)
    crcs = _each_lane(lanes)
    crcs[0] ^= _apply(_zeros_operator(lane_bytes), np.array([state], np.uint32))[0]
    return int(_joined(crcs, lane_bytes)) ^ _ALL


def masked_crc32c(data: bytes | memoryview) -> int:
    """Return the masked CRC-32C of TFRecord files: rotated and offset, so that data containing CRCs has another CRC.

    Example:
        >>> hex(masked_crc32c(b""))
        '0xa282ead8'
    """
    crc = crc32c(data)
    return (((crc >> 15) | (crc << 17 & _ALL)) + _MASK_DELTA) & _ALL


def masked_crc32c_of_rows(rows: NDArray[np.uint8]) -> NDArray[np.uint32]:
    """Return `masked_crc32c` of each row, for many short records at once.

    Args:
        rows: Shape (records, bytes).

    Example:
        >>> masked_crc32c_of_rows(np.frombuffer(b"abcabd", np.uint8).reshape(2, 3)).tolist() == [
        ...     masked_crc32c(b"abc"), masked_crc32c(b"abd")]
        True
    """
    crc = _each_lane(rows, _ALL) ^ np.uint32(_ALL)
    turned: NDArray[np.uint32] = (crc >> np.uint32(15) | crc << np.uint32(17)) + np.uint32(_MASK_DELTA)
    return turned


@cache
def _table() -> tuple[int, ...]:
    entries = []
    for byte in range(256):
        crc = byte
        for _ in range(8):
            crc = crc >> 1 ^ (_POLYNOMIAL if crc & 1 else 0)
        entries.append(crc)
    return tuple(entries)


def _plain(data: bytes | memoryview, state: int) -> int:
    """Return the state after these bytes. The caller inverts it before and after."""
    table = _table()
    for byte in data:
        state = table[(state ^ byte) & 0xFF] ^ state >> 8
    return state


def _each_lane(lanes: NDArray[np.uint8], state: int = 0) -> NDArray[np.uint32]:
    """Return the state after each lane, if every lane starts with the same state."""
    table = np.array(_table(), np.uint32)
    states = np.full(len(lanes), state, np.uint32)
    columns = np.ascontiguousarray(lanes.T)
    for column in columns:
        states = table[(states ^ column) & np.uint32(0xFF)] ^ (states >> np.uint32(8))
    return states


def _joined(states: NDArray[np.uint32], lane_bytes: int) -> np.uint32:
    """Return the state after all lanes, by merging neighbors until one is left."""
    while len(states) > 1:
        states = _apply(_zeros_operator(lane_bytes), states[0::2]) ^ states[1::2]
        lane_bytes *= 2
    joined: np.uint32 = states[0]
    return joined


def _zeros_operator(count: int) -> NDArray[np.uint32]:
    """Return the operator of `count` zero bytes on a state: the result for each of its 32 bits."""
    table = _table()
    power = np.array([table[1 << bit] if bit < 8 else 1 << bit - 8 for bit in range(32)], np.uint32)
    operator = np.array([1 << bit for bit in range(32)], np.uint32)
    while count:
        if count & 1:
            operator = _apply(power, operator)
        power = _apply(power, power)
        count >>= 1
    return operator


def _apply(operator: NDArray[np.uint32], states: NDArray[np.uint32]) -> NDArray[np.uint32]:
    result = np.zeros(len(states), np.uint32)
    for bit in range(32):
        result ^= np.where(states >> np.uint32(bit) & np.uint32(1), operator[bit], np.uint32(0))
    return result
