"""Atomic writing of files for users."""

from __future__ import annotations

import contextlib
import errno
import os
import secrets
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import IO

from barograph.errors import BarographError, StoreDenied, StoreFull

_NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


def check_writable(file: Path, *, example: str = "report.html") -> None:
    """Raise if a file cannot be written, before a long run is read for it.

    Args:
        file: The file.
        example: Example of a file name, for the message.

    Raises:
        StoreDenied: `file` is a directory or not writable, or its folder is missing or not writable.
    """
    if file.is_dir():
        raise StoreDenied(f"{file} is a directory. Name a file in it, such as {file / example}.")
    if file.exists() and not os.access(file, os.W_OK):
        raise StoreDenied(f"{file} is not writable.")
    folder = file.parent
    if not folder.is_dir():
        raise StoreDenied(f"{file} cannot be written: there is no directory {folder}.")
    if not os.access(folder, os.W_OK):
        raise StoreDenied(f"{file} cannot be written: {folder} is not writable.")


def write_whole(file: Path, data: bytes) -> None:
    """Write a file so that a reader sees the old one or the new one, never a part.

    Raises:
        StoreDenied, StoreFull: The file cannot be written; the old file remains.
    """
    with replacing(file) as stream:
        stream.write(data)


@contextlib.contextmanager
def replacing(file: Path) -> Iterator[IO[bytes]]:
    """Yield a stream for writing a file, which replaces the old file if the block succeeds.

    Raises:
        StoreDenied, StoreFull: The file cannot be written; the old file remains.
    """
    with _mapped(file):
        if file.exists() and not file.is_file():
            # Nothing can be put in the place of a pipe or a terminal.
            with file.open("wb") as stream:
                yield stream
            return
        # A link stays a link: what it leads to is replaced.
        target = Path(os.path.realpath(file))
        beside = target.with_name(f".{target.name[:100]}.{secrets.token_hex(4)}.part")
        try:
            with beside.open("xb") as part:
                yield part
                part.flush()
                os.fsync(part.fileno())
            if target.exists():
                shutil.copymode(target, beside)
            beside.replace(target)
        except BaseException:
            with contextlib.suppress(OSError):
                beside.unlink()
            raise


@contextlib.contextmanager
def _mapped(file: Path) -> Iterator[None]:
    try:
        yield
    except BarographError:
        raise
    except OSError as error:
        kind = StoreFull if error.errno in _NO_ROOM else StoreDenied
        raise kind(f"{file} cannot be written: {error.strerror or error}.") from error
