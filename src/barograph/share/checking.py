"""Checks an archive before anything of it becomes visible: digests, metadata and names."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass

from barograph.errors import BadArchive, DamagedChunk, NewerFormat
from barograph.experiments.folding import folded, without_place
from barograph.model.items import Entry, Verb
from barograph.runs.format.layout import MANIFEST
from barograph.runs.format.metadata import manifest_from_bytes as run_manifest_from_bytes
from barograph.runs.state.journal import batch_of
from barograph.share.container import ArchiveReader
from barograph.share.exporting import Progress
from barograph.share.manifest import ArchiveManifest, manifest_from_bytes
from barograph.share.members import ARCHIVE_MANIFEST, Member, member_from_name

_MOST_MANIFEST_BYTES = 256 * 2**20
_MOST_METADATA_BYTES = 64 * 2**20


@dataclass(frozen=True, slots=True)
class Checked:
    """An archive that passed all checks.

    Attributes:
        archive: The archive.
        manifest: Its manifest.
        entries: Journal entries of its items.
    """

    archive: ArchiveReader
    manifest: ArchiveManifest
    entries: tuple[Entry, ...]

    def members(self) -> Iterator[Member]:
        """Yield its members by name, except the manifest."""
        return (member_from_name(name) for name in sorted(self.manifest.members))

    def parts(self, name: str) -> Iterator[bytes]:
        """Yield the bytes of a member; raise at the end if their digest differs.

        Raises:
            BadArchive: The digest differs, or they cannot be read.
        """
        digest = hashlib.sha256()
        for part in self.archive.parts(name):
            digest.update(part)
            yield part
        if digest.hexdigest() != self.manifest.members[name].sha256:
            raise BadArchive(f'The archive is damaged: the digest of "{name}" differs ({self.archive.path}).')


def checked(archive: ArchiveReader, *, on_progress: Progress = lambda done, total: None) -> Checked:
    """Check a whole archive and return it.

    Args:
        archive: The archive.
        on_progress: Called with the bytes checked and their total.

    Raises:
        BadArchive: A check failed; the message names the member.
        NewerFormat: A newer Barograph wrote it, or a run in it.
    """
    manifest = manifest_from_bytes(archive.read(ARCHIVE_MANIFEST, _MOST_MANIFEST_BYTES))
    _check_lists(archive, manifest)
    found = Checked(archive, manifest, ())
    entries: list[Entry] = []
    done, total = 0, manifest.size_bytes
    for member in found.members():
        if member.metadata_file:
            entries += _entries(found, member)
        elif member.object == MANIFEST:
            _check_run(found, member)
        else:
            _check_bytes(found, member)
        done += manifest.members[member.name].size_bytes
        on_progress(done, total)
    return Checked(archive, manifest, tuple(entries))


def _check_lists(archive: ArchiveReader, manifest: ArchiveManifest) -> None:
    there, listed = set(archive.names) - {ARCHIVE_MANIFEST}, set(manifest.members)
    for names, what in ((there - listed, "is not in its manifest"), (listed - there, "is missing")):
        if names:
            more = f", and {len(names) - 1} more" if len(names) > 1 else ""
            raise BadArchive(f'The archive is damaged: "{min(names)}" {what}{more} ({archive.path}).')
    for name, member in manifest.members.items():
        if archive.size_bytes(name) != member.size_bytes:
            raise BadArchive(f'The archive is damaged: "{name}" has {archive.size_bytes(name):,} bytes, expected '
                             f"{member.size_bytes:,} ({archive.path}).")
    folders = [run.folder for run in manifest.runs]
    held = {member_from_name(name).run for name in listed} - {""}
    if held != set(folders) or len(folders) != len(set(folders)):
        raise BadArchive(f"The runs in the archive differ from those in its manifest ({archive.path}).")
    for run in manifest.runs:
        if f"{run.folder}/{MANIFEST}" not in listed:
            raise BadArchive(f'The archive is damaged: "{run.folder}" has no {MANIFEST} ({archive.path}).')


def _check_bytes(found: Checked, member: Member) -> None:
    for _ in found.parts(member.name):
        pass
    if member.digest and member.digest != f"sha256:{found.manifest.members[member.name].sha256}":
        raise BadArchive(f'The archive is damaged: the digest of artifact "{member.name}" differs from its name '
                         f"({found.archive.path}).")


def _check_run(found: Checked, member: Member) -> None:
    data = _whole(found, member)
    run_id = next(run.run_id for run in found.manifest.runs if run.folder == member.run)
    try:
        manifest = run_manifest_from_bytes(data, member.name)
    except DamagedChunk as error:
        raise BadArchive(f"The manifest of a run in the archive is damaged: {error}") from error
    except NewerFormat as error:
        raise NewerFormat(f"{error} ({member.name} in {found.archive.path})") from None
    if manifest.run_id != run_id:
        raise BadArchive(f'"{member.run}" is run {manifest.run_id}, but the archive\'s manifest says {run_id} '
                         f"({found.archive.path}).")


def _entries(found: Checked, member: Member) -> tuple[Entry, ...]:
    try:
        batch = batch_of(member.metadata_file, _whole(found, member), member.name)
        for entry in batch.entries:
            folded(entry.uid, [entry])
    except (DamagedChunk, AttributeError, KeyError, TypeError, ValueError) as error:
        raise BadArchive(f'The archive has invalid journal entries: {error} ("{member.name}" in '
                         f"{found.archive.path}).") from error
    for entry in batch.entries:
        if entry.verb in (Verb.DELETE, Verb.RESTORE):
            raise BadArchive(f'The archive has a forbidden entry: {entry.verb} "{entry.uid}" ("{member.name}" in '
                             f"{found.archive.path}).")
        # Entries must not set the place of a run: another export would read and pack that directory.
        if without_place(entry) != entry:
            raise BadArchive(f'The archive has a forbidden entry: it moves "{entry.uid}" to another place '
                             f'("{member.name}" in {found.archive.path}).')
    return batch.entries


def _whole(found: Checked, member: Member) -> bytes:
    size_bytes = found.manifest.members[member.name].size_bytes
    if size_bytes > _MOST_METADATA_BYTES:
        raise BadArchive(
            f'"{member.name}" has {size_bytes:,} bytes; the limit for a metadata file is {_MOST_METADATA_BYTES:,} '
            f"({found.archive.path})."
        )
    return b"".join(found.parts(member.name))
