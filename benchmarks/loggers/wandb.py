"""Weights & Biases, offline."""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping
from pathlib import Path

import wandb
from wandb.proto import wandb_internal_pb2

from benchmarks.loggers.log import Log

HEADER_BYTES, BLOCK_BYTES = 7, 32 * 1024
WHOLE, LAST = 1, 4


def open_log(directory: str) -> Log:
    """Return an offline run with its own defaults."""
    return _Log(directory)


class _Log:
    def __init__(self, directory: str) -> None:
        self._directory = Path(directory)
        self._run = wandb.init(project="bench", mode="offline", dir=directory)

    def one(self, value: float, step: int) -> None:
        self._run.log({"loss": value}, step=step)

    def several(self, values: Mapping[str, float], step: int) -> None:
        self._run.log(dict(values), step=step)

    def close(self) -> None:
        self._run.finish()

    def kept(self) -> int:
        return sum(_points(path) for path in self._directory.rglob("*.wandb"))


def _points(path: Path) -> int:
    points = 0
    for data in _records(path.read_bytes()):
        record = wandb_internal_pb2.Record()
        record.ParseFromString(data)
        # Names that start with "_" are W&B's own: step, time, runtime.
        names = ("/".join(item.nested_key) or item.key for item in record.history.item)
        points += sum(not name.startswith("_") for name in names)
    return points


def _records(content: bytes) -> Iterator[bytes]:
    """Yield the records of a W&B file: LevelDB's log format, with seven bytes of W&B at the start of the first
    block."""
    parts: list[bytes] = []
    position = HEADER_BYTES
    while position + HEADER_BYTES <= len(content):
        left_in_block = BLOCK_BYTES - position % BLOCK_BYTES
        if left_in_block < HEADER_BYTES:
            position += left_in_block
            continue
        _checksum, length, part = struct.unpack_from("<IHB", content, position)
        parts.append(content[position + HEADER_BYTES : position + HEADER_BYTES + length])
        position += HEADER_BYTES + length
        if part in (WHOLE, LAST):
            yield b"".join(parts)
            parts = []
