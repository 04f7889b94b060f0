"""Writes the selected contents to an archive."""

from __future__ import annotations

import re
from collections.abc import Callable, Generator, Iterator
from dataclasses import dataclass, replace
from typing import IO, Any

from barograph.errors import ExportError, ObjectNotFound
from barograph.share.choosing import Choice, Piece
from barograph.share.container import ArchiveWriter
from barograph.share.drained_file import DrainedFile
from barograph.share.manifest import ArchivedMember, ArchiveManifest
from barograph.share.members import ARCHIVE_MANIFEST, member_from_name
from barograph.store.base import Store
from barograph.store.streaming import parts_of, put_parts

_NAMED = re.compile(r"(?:records|tensors|trace|origin|output)/.*\.(?P<digest>[0-9a-f]{32})\.[\w.]+")

Progress = Callable[[int, int], object]
"""Called with the bytes done and their total."""


@dataclass(frozen=True, slots=True)
class Exported:
    """Result of an export.

    Attributes:
        manifest: Manifest of the archive.
        size_bytes: Total size of the members.
        asked: Optional directories that are left out, with their size in bytes.
        missing: What no longer exists, one sentence each; the manifest lists it as left out.
        damage: Included items that were damaged before the export, one sentence each.
        file_bytes: Size of the archive file, if written locally.
    """

    manifest: ArchiveManifest
    size_bytes: int
    asked: dict[str, int]
    missing: tuple[str, ...]
    damage: tuple[str, ...]
    file_bytes: int = 0

    @property
    def complete(self) -> bool:
        """Whether nothing is missing or damaged."""
        return not self.missing and not self.damage

    def to_json(self) -> dict[str, Any]:
        """Return plain JSON data."""
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
    """Write an archive in a stream of small parts.

    Args:
        choice: Contents of the archive.
        stream: Output.
        on_progress: Called with the bytes written and their total.

    Raises:
        ExportError: An object was deleted meanwhile.
        BadArchive: A run has a file name that archives do not allow.
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
    """Write an archive to a store atomically; the same bytes as `write_archive`.

    A member larger than `HELD_BYTES` is buffered on a local disk.

    Args:
        choice: Contents of the archive.
        store, name: Destination.
        on_progress: As in `write_archive`.

    Raises:
        ExportError, BadArchive: As in `write_archive`.
        StoreError: A store cannot be read, or the destination cannot be written.
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
    with DrainedFile() as drained_file:
        with ArchiveWriter(drained_file) as writer:
            packing = _packed(choice, writer, on_progress)
            while True:
                try:
                    next(packing)
                except StopIteration as end:
                    tell(end.value)
                    break
                yield from drained_file.let_through()
        yield from drained_file.let_through()


def _packed(choice: Choice, writer: ArchiveWriter, on_progress: Progress) -> Generator[None, None, Exported]:
    """Write one member after another; after each, the caller may take what has been written."""
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
            raise ExportError(f"The run changed during the export. Try again ({error}).") from error
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
    """Return a sentence if a member's digest differs from its name; damage is exported, but reported."""
    member = member_from_name(name)
    match = _NAMED.fullmatch(member.object)
    expected = member.digest.removeprefix("sha256:") or (match["digest"] if match else "")
    if written.sha256.startswith(expected):
        return []
    return [f"The digest of {name} differs: it was damaged before the export."]
