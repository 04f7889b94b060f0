"""A file that is written for somebody who takes it in parts: what has been written is held until it is let through."""

from __future__ import annotations

import io
import os
import tempfile
from collections.abc import Iterator
from typing import Any

HELD_BYTES = 64 * 2**20
"""What is held in memory; more goes to a temporary file."""

_PART_BYTES = 2**20


class Sluice(io.RawIOBase):
    """A file that can be wound back as far as it has not been let through.

    So a ZIP file can be sent while it is written, and be the same as one on a disk, where the head of each member is
    written anew when its end is known.
    """

    def __init__(self) -> None:
        self._held = tempfile.SpooledTemporaryFile(HELD_BYTES)  # noqa: SIM115 - closed with this one
        self._gone_bytes = 0

    def writable(self) -> bool:
        """It is."""
        return True

    def seekable(self) -> bool:
        """It is, as far as it is held."""
        return True

    def write(self, data: Any) -> int:
        """Hold these bytes, too; return how many they are."""
        return self._held.write(data)

    def tell(self) -> int:
        """Return where the next byte stands in the whole."""
        return self._gone_bytes + self._held.tell()

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        """Write on elsewhere in what is held; return where that is."""
        if whence != os.SEEK_SET or offset < self._gone_bytes:
            raise io.UnsupportedOperation(f"no way back to {offset} from {whence}")
        self._held.seek(offset - self._gone_bytes)
        return offset

    def let_through(self) -> Iterator[bytes]:
        """Yield what is held, and hold it no longer."""
        size_bytes = self._held.seek(0, os.SEEK_END)
        self._held.seek(0)
        while part := self._held.read(_PART_BYTES):
            yield part
        self._held.seek(0)
        self._held.truncate()
        self._gone_bytes += size_bytes

    def close(self) -> None:
        """Let go of what is held."""
        self._held.close()
        super().close()
