"""Fingerprints of files: XXH3 of all bytes, or of size, head and tail for large files."""

from __future__ import annotations

import hashlib
import os
import stat

import xxhash

from barograph.model.origin import DataFile

WHOLE_BYTES = 64 * 2**20
"""Larger files are fingerprinted by size, head and tail."""
END_BYTES = 2**20
_PIECE_BYTES = 2**20


def fingerprint_of(path: str, *, whole_bytes: int = WHOLE_BYTES) -> DataFile:
    """Return a file in its current state, with its fingerprint or the reason why it has none.

    Args:
        path: Path of the file.
        whole_bytes: Largest size that is read completely.
    """
    try:
        # Do not block on a pipe that has replaced a file.
        handle = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0))
        with open(handle, "rb", buffering=0) as file:
            status = os.fstat(handle)
            if not stat.S_ISREG(status.st_mode):
                return DataFile(path, 0, 0, problem="no file")
            whole = status.st_size <= max(whole_bytes, 2 * END_BYTES)
            digest, exact = xxhash.xxh3_128(), hashlib.sha256()
            if whole:
                while piece := file.read(_PIECE_BYTES):
                    digest.update(piece)
                    exact.update(piece)
            else:
                digest.update(f"{status.st_size}:".encode())
                digest.update(file.read(END_BYTES))
                file.seek(-END_BYTES, os.SEEK_END)
                digest.update(file.read(END_BYTES))
            return DataFile(path, status.st_size, status.st_mtime_ns, digest.hexdigest(), whole,
                            sha256=exact.hexdigest() if whole else "")
    except (OSError, ValueError) as error:
        return DataFile(path, 0, 0, problem=getattr(error, "strerror", None) or str(error))


def fingerprinted(file: DataFile, *, whole_bytes: int = WHOLE_BYTES) -> DataFile:
    """Return an opened file with its fingerprint, or with a problem if it has changed since.

    Args:
        file: The file when it was opened.
        whole_bytes: As in `fingerprint_of`.
    """
    now = fingerprint_of(file.path, whole_bytes=whole_bytes)
    if now.problem:
        return DataFile(file.path, file.size_bytes, file.modified_ns, problem=now.problem)
    if (now.size_bytes, now.modified_ns) != (file.size_bytes, file.modified_ns):
        return DataFile(file.path, file.size_bytes, file.modified_ns, problem="changed after it was opened")
    return now
