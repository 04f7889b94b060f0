"""Fingerprints of files: XXH3 of all bytes, or of a large file of its size, its head and its tail."""

from __future__ import annotations

import os
import stat

import xxhash

from barograph.model.origin import DataFile

WHOLE_BYTES = 64 * 2**20
"""A file beyond this is told by its ends."""
END_BYTES = 2**20
_PIECE_BYTES = 2**20


def fingerprint_of(path: str, *, whole_bytes: int = WHOLE_BYTES) -> DataFile:
    """Return a file as it is now, with its fingerprint, or why it has none.

    Args:
        path: Of the file.
        whole_bytes: The longest file that is read whole.
    """
    try:
        # A pipe that stands where a file was must not be waited for.
        handle = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0))
        with open(handle, "rb", buffering=0) as file:
            status = os.fstat(handle)
            if not stat.S_ISREG(status.st_mode):
                return DataFile(path, 0, 0, problem="no file")
            whole = status.st_size <= max(whole_bytes, 2 * END_BYTES)
            digest = xxhash.xxh3_128()
            if whole:
                while piece := file.read(_PIECE_BYTES):
                    digest.update(piece)
            else:
                digest.update(f"{status.st_size}:".encode())
                digest.update(file.read(END_BYTES))
                file.seek(-END_BYTES, os.SEEK_END)
                digest.update(file.read(END_BYTES))
            return DataFile(path, status.st_size, status.st_mtime_ns, digest.hexdigest(), whole)
    except (OSError, ValueError) as error:
        return DataFile(path, 0, 0, problem=getattr(error, "strerror", None) or str(error))


def fingerprinted(file: DataFile, *, whole_bytes: int = WHOLE_BYTES) -> DataFile:
    """Return a file that was opened, with its fingerprint; where it has changed since, with that as the problem.

    Args:
        file: As it was when it was opened.
        whole_bytes: As of `fingerprint_of`.
    """
    now = fingerprint_of(file.path, whole_bytes=whole_bytes)
    if now.problem:
        return DataFile(file.path, file.size_bytes, file.modified_ns, problem=now.problem)
    if (now.size_bytes, now.modified_ns) != (file.size_bytes, file.modified_ns):
        return DataFile(file.path, file.size_bytes, file.modified_ns, problem="changed after it was opened")
    return now
