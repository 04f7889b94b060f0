"""Unpacks the archive of untracked files safely into a directory."""

from __future__ import annotations

import io
import tarfile
from collections.abc import Iterable
from pathlib import Path

from barograph.errors import CheckoutFailed
from barograph.model.one_line import quoted
from barograph.store.inside import Inside, climbs_out, leads_out

_MOST_BYTES = 64 * 2**20


def unpack(packed: bytes, folder: Path) -> list[str]:
    """Unpack an archive into a directory; return the file names.

    Args:
        packed: The archive.
        folder: Destination.

    Raises:
        CheckoutFailed: A path or link leaves the directory, an entry is not a file, or it is not an archive.
    """
    try:
        with tarfile.open(fileobj=io.BytesIO(packed), mode="r:gz") as archive:
            entries = archive.getmembers()
            check_paths((entry.name for entry in entries), "the archive of untracked files")
            if sum(entry.size for entry in entries) > _MOST_BYTES:
                raise CheckoutFailed(f"The archive of untracked files has more than {_MOST_BYTES:,} bytes.")
            for entry in entries:
                _check_kind(entry)
            # Links come last, so that nothing is written through them.
            inside = Inside(folder)
            for entry in sorted(entries, key=lambda item: item.issym()):
                _lay_out(archive, entry, inside)
            return [entry.name for entry in entries]
    except (tarfile.TarError, EOFError, OSError) as error:
        raise CheckoutFailed(f"Cannot unpack the archive of untracked files: {error}.") from error


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


def _check_kind(entry: tarfile.TarInfo) -> None:
    if entry.issym():
        check_link(entry.name, entry.linkname, "the archive of untracked files")
    elif not entry.isfile():
        raise CheckoutFailed(f"In the archive of untracked files, {quoted(entry.name)} is not a file. Nothing was "
                             "checked out.")


def _lay_out(archive: tarfile.TarFile, entry: tarfile.TarInfo, inside: Inside) -> None:
    if entry.issym():
        inside.link(entry.name, entry.linkname)
        return
    content = archive.extractfile(entry)
    assert content is not None
    inside.write(entry.name, content.read(), executable=bool(entry.mode & 0o100))
