"""Messages between a watcher and the processes it began for its rules: pickles, each behind its length.

Both ends are ours and of one user: nothing that comes from a run is ever read so. The tables that say what the rows
of a step are about are sent once, and meant by number afterwards.
"""

from __future__ import annotations

import io
import pickle
import select
import struct
from typing import Any, BinaryIO
from weakref import WeakKeyDictionary

from barograph.runs.format.rows import SubjectTable

_LENGTH = struct.Struct("<Q")
_MOST_TABLES = 64
_PIECE_BYTES = 2**20


class Messages:
    """One end's knowledge of what was said: turns messages into bytes and back, in the order of the line."""

    def __init__(self) -> None:
        self._sent = _SentTables()
        self._known: dict[int, SubjectTable] = {}

    def packed(self, message: object) -> bytes:
        """Return a message as bytes, which must be the next to come to the other end."""
        return self._sent.pickled(message)

    def unpacked(self, data: bytes) -> Any:
        """Return the message that the other end packed."""
        return _Unpickler(io.BytesIO(data), self._known).load()


class Frames:
    """Packed messages over a pair of pipes.

    Args:
        source: Where they come from: a pipe, unbuffered.
        sink: Where they go: a pipe, unbuffered.
    """

    def __init__(self, source: BinaryIO, sink: BinaryIO) -> None:
        self._source = source
        self._sink = sink

    def send(self, data: bytes) -> None:
        """Send a packed message.

        Raises:
            OSError: The other end is gone.
        """
        self._write(_LENGTH.pack(len(data)))
        self._write(data)

    def has_come(self, timeout_secs: float) -> bool:
        """Return whether anything, or the end, has come; wait for it so long."""
        return bool(select.select([self._source], [], [], timeout_secs)[0])

    def receive(self) -> bytes:
        """Return the next message, packed, waiting for it.

        Raises:
            EOFError: The other end is gone.
        """
        (length,) = _LENGTH.unpack(self._read(_LENGTH.size))
        return self._read(length)

    def _write(self, data: bytes) -> None:
        view = memoryview(data)
        while view:
            view = view[self._sink.write(view) or 0:]

    def _read(self, count: int) -> bytes:
        got = bytearray()
        while len(got) < count:
            piece = self._source.read(min(_PIECE_BYTES, count - len(got)))
            if not piece:
                raise EOFError("the other end is gone")
            got += piece
        return bytes(got)


class _SentTables:
    """Which tables the other end knows, and by which numbers."""

    def __init__(self) -> None:
        self._numbers: WeakKeyDictionary[SubjectTable, int] = WeakKeyDictionary()
        self._count = 0

    def pickled(self, message: object) -> bytes:
        data = io.BytesIO()
        _Pickler(data, self).dump(message)
        return data.getvalue()

    def name_of(self, table: SubjectTable) -> tuple[int, SubjectTable | None]:
        number = self._numbers.get(table)
        if number is not None and self._count - number < _MOST_TABLES:
            return number, None
        number = self._numbers[table] = self._count
        self._count += 1
        return number, table


class _Pickler(pickle.Pickler):
    def __init__(self, file: BinaryIO, tables: _SentTables) -> None:
        super().__init__(file, protocol=pickle.HIGHEST_PROTOCOL)
        self._tables = tables

    def persistent_id(self, thing: Any) -> Any:
        if not isinstance(thing, SubjectTable):
            return None
        number, table = self._tables.name_of(thing)
        return number, None if table is None else table.subjects


class _Unpickler(pickle.Unpickler):
    def __init__(self, file: BinaryIO, known: dict[int, SubjectTable]) -> None:
        super().__init__(file)
        self._known = known

    def persistent_load(self, name: Any) -> SubjectTable:
        number, subjects = name
        if subjects is not None:
            self._known[number] = SubjectTable(subjects)
            # The sender means none by a number that is so old.
            self._known.pop(number - _MOST_TABLES, None)
        return self._known[number]
