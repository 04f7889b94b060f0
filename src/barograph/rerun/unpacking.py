"""The archive of untracked files laid out in a folder, and nowhere else."""

from __future__ import annotations

import io
import os
import posixpath
import tarfile
from collections.abc import Iterable
from pathlib import Path

from barograph.errors import CheckoutFailed

_MOST_BYTES = 64 * 2**20


def unpack(packed: bytes, folder: Path) -> list[str]:
    """Lay the files of an archive out in a folder; return their names.

    Args:
        packed: The archive.
        folder: That they belong to.

    Raises:
        CheckoutFailed: A name leads out of the folder, a link does, an entry is no file, or it is no archive.
    """
    try:
        with tarfile.open(fileobj=io.BytesIO(packed), mode="r:gz") as archive:
            entries = archive.getmembers()
            check_paths((entry.name for entry in entries), "the archive of untracked files")
            if sum(entry.size for entry in entries) > _MOST_BYTES:
                raise CheckoutFailed(f"The archive of untracked files holds more than {_MOST_BYTES:,} bytes.")
            for entry in entries:
                _check_kind(entry)
            # Links come last, so that nothing is written through one.
            for entry in sorted(entries, key=lambda item: item.issym()):
                _lay_out(archive, entry, folder)
            return [entry.name for entry in entries]
    except (tarfile.TarError, EOFError, OSError) as error:
        raise CheckoutFailed(f"The archive of untracked files cannot be laid out: {error}.") from error


def check_paths(paths: Iterable[str], where: str) -> None:
    """Refuse paths that lead out of a folder, or into what git keeps there.

    Args:
        paths: From the folder.
        where: They stand, for the message.

    Raises:
        CheckoutFailed: One does.
    """
    for path in paths:
        parts = path.replace("\\", "/").split("/")
        if path.startswith(("/", "\\")) or ".." in parts or path[1:2] == ":" or "\0" in path:
            raise CheckoutFailed(f'In {where} the path "{path}" leads out of the folder; nothing was laid out.')
        if any(part.lower() == ".git" for part in parts):
            raise CheckoutFailed(f'In {where} the path "{path}" leads into what git keeps; nothing was laid out.')


def _check_kind(entry: tarfile.TarInfo) -> None:
    if entry.issym():
        target = posixpath.normpath(posixpath.join(posixpath.dirname(entry.name), entry.linkname))
        if entry.linkname.startswith("/") or target.startswith("../") or target == "..":
            raise CheckoutFailed(f'In the archive of untracked files the link "{entry.name}" leads out of the folder, '
                                 f"to {entry.linkname}; nothing was laid out.")
    elif not entry.isfile():
        raise CheckoutFailed(f'In the archive of untracked files "{entry.name}" is no file; nothing was laid out.')


def _lay_out(archive: tarfile.TarFile, entry: tarfile.TarInfo, folder: Path) -> None:
    path = folder / entry.name
    path.parent.mkdir(parents=True, exist_ok=True)
    # A link that the commit has may lead out, too.
    if not path.parent.resolve().is_relative_to(folder.resolve()) or path.is_symlink():
        raise CheckoutFailed(f'In the archive of untracked files the path "{entry.name}" leads through a link.')
    if entry.issym():
        os.symlink(entry.linkname, path)
        return
    content = archive.extractfile(entry)
    assert content is not None
    path.write_bytes(content.read())
    path.chmod(0o755 if entry.mode & 0o100 else 0o644)
