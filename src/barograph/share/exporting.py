"""From what was chosen to an archive."""

from __future__ import annotations

import re
from collections.abc import Callable, Generator, Iterator
from dataclasses import dataclass, replace
from typing import IO, Any

from barograph.errors import ExportError, ObjectNotFound
from barograph.share.choosing import Choice, Piece
from barograph.share.container import ArchiveWriter
from barograph.share.manifest import ArchivedMember, ArchiveManifest
from barograph.share.members import ARCHIVE_MANIFEST, member_from_name
from barograph.share.sluice import Sluice
from barograph.store.base import Store
from barograph.store.streaming import parts_of, put_parts

_NAMED = re.compile(r"(?:records|tensors|trace|origin|output)/.*\.(?P<digest>[0-9a-f]{32})\.[\w.]+")

Progress = Callable[[int, int], object]
"""Called with how many bytes are done, and of how many."""


@dataclass(frozen=True, slots=True)
class Exported:
    """What an archive holds.

    Attributes:
        manifest: What it says of itself.
        size_bytes: Of the members.
        asked: Folders of runs that are left out where nobody asks for them, with their bytes.
        missing: What would be in it and is no longer kept, a sentence each; the manifest names it as left out.
        damage: What is in the archive and was damaged before, a sentence each.
        file_bytes: Of the archive itself, where it was written here.
    """

    manifest: ArchiveManifest
    size_bytes: int
    asked: dict[str, int]
    missing: tuple[str, ...]
    damage: tuple[str, ...]
    file_bytes: int = 0

    @property
    def whole(self) -> bool:
        """Whether all that belongs to it is in it, and nothing of that was damaged before."""
        return not self.missing and not self.damage

    def to_json(self) -> dict[str, Any]:
        """Return it as JSON data."""
        return {
            "items": [{"uid": it.uid, "kind": it.kind, "name": it.name} for it in self.manifest.items],
            "runs": [{"run_id": it.run_id, "name": it.name, "folder": it.folder, "state": it.state}
                     for it in self.manifest.runs],
            "members": len(self.manifest.members), "size_bytes": self.size_bytes,
            "left_out": list(self.manifest.left_out), "left_out_bytes": self.asked, "damage": list(self.damage),
        }


def write_archive(
    choice: Choice, stream: IO[bytes], *, on_progress: Progress = lambda done, total: None
) -> Exported:
    """Write an archive; no more than a few parts of a member are in memory at once.

    Args:
        choice: What goes in.
        stream: Where to.
        on_progress: Told how far it is.

    Raises:
        ExportError: An object went away meanwhile.
        BadArchive: A run holds a name that no archive can.
        StoreError: A store cannot be read.
        OSError: The stream cannot be written.
    """
    begin = stream.tell()
    with ArchiveWriter(stream) as writer:
        packing = _packed(choice, writer, on_progress)
        while True:
            try:
                next(packing)
            except StopIteration as end:
                found: Exported = end.value
                break
    return replace(found, file_bytes=stream.tell() - begin)


def put_archive(
    choice: Choice, store: Store, name: str, *, on_progress: Progress = lambda done, total: None
) -> Exported:
    """Put an archive into a store: the same bytes as `write_archive`, and whole or not at all.

    Of a member that is larger than `HELD_BYTES` a copy is on a disk of this machine while it is packed.

    Args:
        choice: What goes in.
        store, name: Where to.
        on_progress: As of `write_archive`.

    Raises:
        ExportError, BadArchive: As of `write_archive`.
        StoreError: A store cannot be read, or this one not written.
    """
    found: list[Exported] = []
    written = [0]

    def counted() -> Iterator[bytes]:
        for part in _in_parts(choice, on_progress, found.append):
            written[0] += len(part)
            yield part

    put_parts(store, name, counted())
    return replace(found[0], file_bytes=written[0])


def _in_parts(choice: Choice, on_progress: Progress, tell: Callable[[Exported], object]) -> Iterator[bytes]:
    with Sluice() as sluice:
        with ArchiveWriter(sluice) as writer:
            packing = _packed(choice, writer, on_progress)
            while True:
                try:
                    next(packing)
                except StopIteration as end:
                    tell(end.value)
                    break
                yield from sluice.let_through()
        yield from sluice.let_through()


def _packed(choice: Choice, writer: ArchiveWriter, on_progress: Progress) -> Generator[None, None, Exported]:
    """Write one member after the other; after each the caller may take what has been written."""
    members: dict[str, ArchivedMember] = {}
    damage: list[str] = []
    total, done = choice.size_bytes, 0
    on_progress(0, total)
    for name, size_bytes, source in sorted(_sources(choice), key=lambda item: item[0]):
        member_from_name(name)
        try:
            parts = _counted(_parts(source), done, total, on_progress)
            written = ArchivedMember(*writer.add(name, parts, size_bytes))
        except ObjectNotFound as error:
            raise ExportError(f"The run has changed while it was exported; try again ({error}).") from error
        members[name] = written
        done += written.size_bytes
        damage += _damage(name, written)
        yield
    manifest = ArchiveManifest(choice.items, choice.runs, members, (*choice.left_out, *choice.missing))
    data = manifest.to_bytes()
    writer.add(ARCHIVE_MANIFEST, [data], len(data))
    return Exported(manifest, done, choice.asked, choice.missing, tuple(damage))


def _sources(choice: Choice) -> Iterator[tuple[str, int, Piece | bytes]]:
    for piece in choice.pieces:
        yield piece.member, piece.size_bytes, piece
    for name, data in choice.metadata:
        yield name, len(data), data


def _parts(source: Piece | bytes) -> Iterator[bytes]:
    if isinstance(source, bytes):
        yield source
    else:
        yield from parts_of(source.store, source.name)


def _counted(parts: Iterator[bytes], done: int, total: int, on_progress: Progress) -> Iterator[bytes]:
    for part in parts:
        yield part
        done += len(part)
        on_progress(done, total)


def _damage(name: str, written: ArchivedMember) -> list[str]:
    """Return what is wrong with a member whose name says its digest: an archive of damage is damage, well packed."""
    member = member_from_name(name)
    match = _NAMED.fullmatch(member.object)
    expected = member.digest.removeprefix("sha256:") or (match["digest"] if match else "")
    if written.sha256.startswith(expected):
        return []
    return [f"{name} is not what was kept: its digest differs."]
