"""The checksum of TFRecord files."""

from __future__ import annotations

import numpy as np
import pytest

from barograph.wire.crc32c import crc32c, masked_crc32c


def test_the_published_examples_come_out() -> None:
    # RFC 3720, B.4
    assert crc32c(bytes(32)) == 0x8A9136AA
    assert crc32c(b"\xff" * 32) == 0x62A8AB43
    assert crc32c(bytes(range(32))) == 0x46DD794E
    assert crc32c(b"123456789") == 0xE3069283


def test_of_nothing_it_is_nothing() -> None:
    assert crc32c(b"") == 0


@pytest.mark.parametrize("size", [4095, 4096, 4097, 5119, 5120, 70_001, 1_000_003])
def test_lanes_agree_with_the_definition_bit_by_bit(size: int) -> None:
    data = np.random.default_rng(size).bytes(size)
    table = [slow_entry(byte) for byte in range(256)]
    crc = 0xFFFFFFFF
    for byte in data:
        crc = table[(crc ^ byte) & 0xFF] ^ crc >> 8
    assert crc32c(data) == crc ^ 0xFFFFFFFF
    assert crc32c(memoryview(data)) == crc ^ 0xFFFFFFFF


def slow_entry(byte: int) -> int:
    for _ in range(8):
        byte = byte >> 1 ^ (0x82F63B78 if byte & 1 else 0)
    return byte


def test_masked_it_is_what_a_file_of_smdebug_holds() -> None:
    # Of its eight bytes of length, 186, as tests/data/smdebug begins.
    assert masked_crc32c((0).to_bytes(8, "little")) == ((0x8C28B28A >> 15 | 0x8C28B28A << 17) + 0xA282EAD8) & 0xFFFFFFFF
