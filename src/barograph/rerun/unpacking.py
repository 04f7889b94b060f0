"""The archive of untracked files laid out in a folder, and nowhere else."""

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
            inside = Inside(folder)
            for entry in sorted(entries, key=lambda item: item.issym()):
                _lay_out(archive, entry, inside)
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
        if climbs_out(path):
            raise CheckoutFailed(f"In {where} the path {quoted(path)} leads out of the folder; nothing was laid out.")
        if any(part.lower() == ".git" for part in path.replace("\\", "/").split("/")):
            raise CheckoutFailed(f"In {where} the path {quoted(path)} leads into what git keeps; nothing was laid out.")


def check_link(path: str, target: str, where: str) -> None:
    """Refuse a symbolic link that leads out of a folder, or into what git keeps there.

    Args:
        path: Of the link, from the folder.
        target: What it says.
        where: It stands, for the message.

    Raises:
        CheckoutFailed: It does.
    """
    if leads_out(path, target):
        raise CheckoutFailed(f"In {where} the link {quoted(path)} leads out of the folder, to {quoted(target)}; "
                             "nothing was laid out.")
    check_paths([part for part in target.split("/") if part not in ("", "..")], where)


def _check_kind(entry: tarfile.TarInfo) -> None:
    if entry.issym():
        check_link(entry.name, entry.linkname, "the archive of untracked files")
    elif not entry.isfile():
        raise CheckoutFailed(f"In the archive of untracked files {quoted(entry.name)} is not a file; nothing was laid "
                             "out.")


def _lay_out(archive: tarfile.TarFile, entry: tarfile.TarInfo, inside: Inside) -> None:
    if entry.issym():
        inside.link(entry.name, entry.linkname)
        return
    content = archive.extractfile(entry)
    assert content is not None
    inside.write(entry.name, content.read(), executable=bool(entry.mode & 0o100))
