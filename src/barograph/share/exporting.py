"""From what was chosen to an archive."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import IO, Any

from barograph.errors import ExportError, ObjectNotFound
from barograph.share.choosing import Choice, Piece
from barograph.share.container import ArchiveWriter
from barograph.share.manifest import ArchivedMember, ArchiveManifest
from barograph.share.members import ARCHIVE_MANIFEST, member_from_name
from barograph.store.streaming import parts_of

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
        damage: What is in the archive and was damaged before, a sentence each.
    """

    manifest: ArchiveManifest
    size_bytes: int
    asked: dict[str, int]
    damage: tuple[str, ...]

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
    members: dict[str, ArchivedMember] = {}
    damage: list[str] = []
    total, done = choice.size_bytes, 0
    on_progress(0, total)
    with ArchiveWriter(stream) as writer:
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
        manifest = ArchiveManifest(choice.items, choice.runs, members, (*choice.left_out, *choice.missing))
        data = manifest.to_bytes()
        writer.add(ARCHIVE_MANIFEST, [data], len(data))
    return Exported(manifest, done, choice.asked, tuple(damage))


def _sources(choice: Choice) -> Iterator[tuple[str, int, Piece | bytes]]:
    for piece in choice.pieces:
        yield piece.member, piece.size_bytes, piece
    for name, data in choice.papers:
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
