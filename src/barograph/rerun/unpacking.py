"""Unpacks an archive of code safely into a directory."""

from __future__ import annotations

import io
import tarfile
import zlib
from collections.abc import Iterable, Iterator
from pathlib import Path

from barograph.errors import CheckoutFailed
from barograph.model.one_line import quoted
from barograph.store.inside import Inside, climbs_out, leads_out

_MOST_BYTES = 64 * 2**20
_MOST_ENTRIES = 100_000


def unpack(
    packed: bytes, folder: Path, *, what: str = "the archive of untracked files", most_bytes: int = _MOST_BYTES
) -> list[str]:
    """Unpack an archive into a directory; return the file names.

    Args:
        packed: The archive.
        folder: Destination.
        what: Name of the archive, for messages.
        most_bytes: Maximum size of its files together.

    Raises:
        CheckoutFailed: A path or link leaves the directory, an entry is not a file, or it is not an archive.
    """
    try:
        with tarfile.open(fileobj=io.BytesIO(packed), mode="r:gz") as archive:
            entries = list(_checked(archive, what, most_bytes))
            # Links come last, so that nothing is written through them.
            inside = Inside(folder)
            for entry in sorted(entries, key=lambda item: item.issym()):
                _lay_out(archive, entry, inside)
            return [entry.name for entry in entries]
    except (tarfile.TarError, EOFError, OSError, zlib.error) as error:
        raise CheckoutFailed(f"Cannot unpack {what}: {error}.") from error


def check_paths(paths: Iterable[str], where: str) -> None:
    """Refuse paths that leave a directory, or lead into `.git`.

    Args:
        paths: Paths relative to the directory.
        where: Where they are listed, for the message.

    Raises:
        CheckoutFailed: A path is refused.
    """
    for path in paths:
        if climbs_out(path):
            raise CheckoutFailed(f"In {where}, path {quoted(path)} leaves the directory. Nothing was checked out.")
        if any(part.lower() == ".git" for part in path.replace("\\", "/").split("/")):
            raise CheckoutFailed(f"In {where}, path {quoted(path)} leads into .git. Nothing was checked out.")


def check_link(path: str, target: str, where: str) -> None:
    """Refuse a symbolic link that leaves a directory, or leads into `.git`.

    Args:
        path: Path of the link, relative to the directory.
        target: Target of the link.
        where: Where it is listed, for the message.

    Raises:
        CheckoutFailed: The link is refused.
    """
    if leads_out(path, target):
        raise CheckoutFailed(f"In {where}, link {quoted(path)} leaves the directory: {quoted(target)}. Nothing was "
                             "checked out.")
    check_paths([part for part in target.split("/") if part not in ("", "..")], where)


def _checked(archive: tarfile.TarFile, what: str, most_bytes: int) -> Iterator[tarfile.TarInfo]:
    """Yield the entries of an archive. The first bad one raises before more of the archive is decompressed."""
    room = most_bytes
    for number, entry in enumerate(archive):
        room -= entry.size
        if room < 0:
            raise CheckoutFailed(f"{_capital(what)} has more than {most_bytes:,} bytes.")
        if number >= _MOST_ENTRIES:
            raise CheckoutFailed(f"{_capital(what)} has more than {_MOST_ENTRIES:,} files.")
        check_paths((entry.name,), what)
        if entry.issym():
            check_link(entry.name, entry.linkname, what)
        elif not entry.isfile():
            raise CheckoutFailed(f"In {what}, {quoted(entry.name)} is not a file. Nothing was checked out.")
        yield entry


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]


def _lay_out(archive: tarfile.TarFile, entry: tarfile.TarInfo, inside: Inside) -> None:
    if entry.issym():
        inside.remove(entry.name)
        inside.link(entry.name, entry.linkname)
        return
    content = archive.extractfile(entry)
    assert content is not None
    inside.write(entry.name, content.read(), executable=bool(entry.mode & 0o100))
