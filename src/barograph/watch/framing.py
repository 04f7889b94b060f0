"""Messages between a watcher and its rule processes: length-prefixed pickles.

Both ends belong to us and to one user: data from a run is never unpickled. The tables that describe the rows of a step
are sent once and then referenced by number.
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
    """State of one end of a connection: converts messages to bytes and back, in order."""

    def __init__(self) -> None:
        self._sent = _SentTables()
        self._known: dict[int, SubjectTable] = {}

    def packed(self, message: object) -> bytes:
        """Return a message as bytes; the other end must unpack messages in this order."""
        return self._sent.pickled(message)

    def unpacked(self, data: bytes) -> Any:
        """Return the message that the other end packed."""
        return _Unpickler(io.BytesIO(data), self._known).load()


class Frames:
    """Packed messages over a pair of pipes.

    Args:
        source: Unbuffered pipe to read from.
        sink: Unbuffered pipe to write to.
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
        """Wait for data or the end of the pipe for at most `timeout_secs`; return whether either arrived."""
        return bool(select.select([self._source], [], [], timeout_secs)[0])

    def receive(self) -> bytes:
        """Wait for the next message and return it, packed.

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
    """Tables that the other end has, and their numbers."""

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
            # The sender never references a number this old.
            self._known.pop(number - _MOST_TABLES, None)
        return self._known[number]
