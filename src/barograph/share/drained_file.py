"""A write buffer that is drained in parts."""

from __future__ import annotations

import io
import os
import tempfile
from collections.abc import Iterator
from typing import Any

HELD_BYTES = 64 * 2**20
"""Bytes kept in memory; more goes to a temporary file."""

_PART_BYTES = 2**20


class DrainedFile(io.RawIOBase):
    """A file that is seekable within the part that is not yet drained.

    A ZIP file can thus be sent while it is written, with the same bytes as on a disk, where the header of each member
    is rewritten at its end.
    """

    def __init__(self) -> None:
        self._held = tempfile.SpooledTemporaryFile(HELD_BYTES)  # noqa: SIM115 - closed with this one
        self._gone_bytes = 0

    def writable(self) -> bool:
        return True

    def seekable(self) -> bool:
        """Return True; `seek` works within the buffered part."""
        return True

    def write(self, data: Any) -> int:
        """Append bytes to the buffer; return their number."""
        return self._held.write(data)

    def tell(self) -> int:
        """Return the position in the whole file."""
        return self._gone_bytes + self._held.tell()

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        """Move to a position in the buffered part; return it."""
        if whence != os.SEEK_SET or offset < self._gone_bytes:
            raise io.UnsupportedOperation(f"no way back to {offset} from {whence}")
        self._held.seek(offset - self._gone_bytes)
        return offset

    def let_through(self) -> Iterator[bytes]:
        """Yield and drop the buffered bytes."""
        size_bytes = self._held.seek(0, os.SEEK_END)
        self._held.seek(0)
        while part := self._held.read(_PART_BYTES):
            yield part
        self._held.seek(0)
        self._held.truncate()
        self._gone_bytes += size_bytes

    def close(self) -> None:
        """Drop the buffer."""
        self._held.close()
        super().close()
