"""Container of an archive: an uncompressed ZIP file, written and read as a stream.

Nothing is compressed: large files of a run are compressed already, and declared sizes cannot lie (no ZIP bombs). Times
are constant and members are sorted by name, so the same content gives the same file.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import stat
import struct
import zipfile
from collections.abc import Iterable, Iterator
from types import TracebackType
from typing import IO, Self

from barograph.errors import BadArchive, ImportFailed, StoreError
from barograph.share.archive_file import opened
from barograph.share.drained_file import DrainedFile
from barograph.share.members import ARCHIVE_MANIFEST, member_from_name

PART_BYTES = 2**20
MOST_DIRECTORY_BYTES = 64 * 2**20
"""Maximum size of the list of members; about 400,000 members."""

_FIRST_TIME = (1980, 1, 1, 0, 0, 0)
_PLAIN_FILE = stat.S_IFREG | 0o644
_UNIX = 3
_LARGE_BYTES = 2**31
_END = struct.Struct("<4s4H2LH")
_END64 = struct.Struct("<4sQ2H2L4Q")
_LOCATOR64 = struct.Struct("<4sLQL")
_LOCAL_BYTES = 30


class ArchiveWriter:
    """Writes an archive; unreadable until its `with` statement ends.

    Args:
        stream: Output; it need not be seekable.
    """

    def __init__(self, stream: IO[bytes] | DrainedFile) -> None:
        self._zip = zipfile.ZipFile(stream, "w", zipfile.ZIP_STORED, allowZip64=True)

    def add(self, name: str, parts: Iterable[bytes], size_bytes: int) -> tuple[int, str]:
        """Write a member; return its size and its SHA-256.

        Args:
            name: Name of the member.
            parts: Its bytes, in order.
            size_bytes: Expected size.
        """
        info = zipfile.ZipInfo(name, _FIRST_TIME)
        info.create_system = _UNIX
        info.external_attr = _PLAIN_FILE << 16
        info.file_size = size_bytes
        digest, written = hashlib.sha256(), 0
        with self._zip.open(info, "w", force_zip64=size_bytes >= _LARGE_BYTES) as member:
            for part in parts:
                digest.update(part)
                member.write(part)
                written += len(part)
        return written, digest.hexdigest()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: BaseException | TracebackType | None) -> None:
        if kind is None:
            self._zip.close()
            return
        # The output is discarded; otherwise zipfile would try to finish it when garbage-collected.
        with contextlib.suppress(OSError, ValueError):
            self._zip.close()


class ArchiveReader:
    """Reads an archive; checks its list of members, but not their contents.

    Args:
        path: Path of a file, or URL of an object in a bucket.

    Raises:
        BadArchive: It is damaged, or has a forbidden member; the message names the member.
        ImportFailed: It is not an archive.
        StoreError: It cannot be read.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = os.fspath(path)
        self._file = opened(path)
        try:
            _check_directory(self._file, self.path)
            self._zip = zipfile.ZipFile(self._file)
            self._members = _checked(self._zip, self.path)
        except (zipfile.BadZipFile, struct.error, NotImplementedError, ValueError, EOFError, OverflowError) as error:
            self._file.close()
            raise BadArchive(f"The archive is damaged: {error} ({self.path}).") from error
        except BaseException:
            self._file.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: type[BaseException] | BaseException | TracebackType | None) -> None:
        self._zip.close()
        self._file.close()

    @property
    def names(self) -> list[str]:
        """Names of its members, sorted."""
        return sorted(self._members)

    def size_bytes(self, name: str) -> int:
        """Return the size of a member."""
        return self._members[name].file_size

    def parts(self, name: str) -> Iterator[bytes]:
        """Yield the bytes of a member.

        Raises:
            BadArchive: They cannot be read.
        """
        try:
            with self._zip.open(self._members[name]) as member:
                while part := member.read(PART_BYTES):
                    yield part
        except StoreError:
            raise  # the bucket is unreachable; the archive may be intact
        except (zipfile.BadZipFile, struct.error, NotImplementedError, EOFError, OSError) as error:
            raise BadArchive(f'The archive is damaged: "{name}" cannot be read: {error} ({self.path}).') from error

    def read(self, name: str, most_bytes: int) -> bytes:
        """Return the bytes of a member.

        Raises:
            BadArchive: It is larger than `most_bytes`, or cannot be read.
        """
        if self.size_bytes(name) > most_bytes:
            raise BadArchive(f'"{name}" has {self.size_bytes(name):,} bytes; the limit is {most_bytes:,} '
                             f"({self.path}).")
        return b"".join(self.parts(name))


def _checked(archive: zipfile.ZipFile, path: str) -> dict[str, zipfile.ZipInfo]:
    members: dict[str, zipfile.ZipInfo] = {}
    for info in archive.infolist():
        name = info.orig_filename  # the raw name: `filename` ends at a null character
        member_from_name(name)
        if name in members:
            raise BadArchive(f'The archive has "{name}" twice ({path}).')
        kind = stat.S_IFMT(info.external_attr >> 16)
        if kind and kind != stat.S_IFREG:
            raise BadArchive(f'"{name}" in the archive is {_KINDS.get(kind, "not a file")}; only files are allowed '
                             f"({path}).")
        if info.flag_bits & 1:
            raise BadArchive(f'"{name}" is encrypted; Barograph archives are not ({path}).')
        if info.compress_type != zipfile.ZIP_STORED or info.compress_size != info.file_size:
            raise BadArchive(f'"{name}" is compressed, or declares {info.file_size:,} bytes and has '
                             f"{info.compress_size:,}; Barograph archives are uncompressed. Another program packed "
                             f"this one ({path}).")
        members[name] = info
    end = 0
    for info in sorted(members.values(), key=lambda info: info.header_offset):
        if info.header_offset < end:
            raise BadArchive(f'"{info.filename}" overlaps another member of the archive ({path}).')
        end = info.header_offset + _LOCAL_BYTES + info.file_size
    if end > archive.start_dir:
        raise BadArchive(f"The archive declares more bytes than the file has ({path}).")
    if ARCHIVE_MANIFEST not in members:
        raise BadArchive(f"This ZIP file is not a Barograph archive: it has no {ARCHIVE_MANIFEST} ({path}).")
    return members


_KINDS = {stat.S_IFLNK: "a link", stat.S_IFDIR: "a directory", stat.S_IFIFO: "a pipe", stat.S_IFCHR: "a device",
          stat.S_IFBLK: "a device", stat.S_IFSOCK: "a socket"}


def _check_directory(file: IO[bytes], path: str) -> None:
    """Raise if the list of members is missing, or too long to read.

    Checked first, because zipfile reads the whole list at once.

    Raises:
        BadArchive, ImportFailed: As in `ArchiveReader`.
    """
    size_bytes = file.seek(0, os.SEEK_END)
    tail_bytes = min(size_bytes, _END.size + _LOCATOR64.size + _END64.size + 65535)
    file.seek(size_bytes - tail_bytes)
    tail = file.read(tail_bytes)
    at = tail.rfind(b"PK\x05\x06")
    if at < 0 or at + _END.size > len(tail):
        file.seek(0)
        if file.read(4) == b"PK\x03\x04":
            raise BadArchive("The archive is truncated: the list of members at its end is missing. "
                             f"Copy it again ({path}).")
        raise ImportFailed(f"Not an archive of barograph export archive ({path}).")
    directory_bytes = _END.unpack_from(tail, at)[5]
    locator_at = at - _LOCATOR64.size
    if locator_at >= _END64.size and tail[locator_at:locator_at + 4] == b"PK\x06\x07":
        # zipfile looks for it directly before.
        directory_bytes = _END64.unpack_from(tail, locator_at - _END64.size)[8]
    if directory_bytes > MOST_DIRECTORY_BYTES:
        raise BadArchive(f"The archive has too many members: their list has {directory_bytes:,} bytes; the limit is "
                         f"{MOST_DIRECTORY_BYTES:,} ({path}).")
    file.seek(0)
