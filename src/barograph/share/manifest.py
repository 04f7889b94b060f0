"""Manifest of an archive: format, items, and size and digest of every member."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from barograph.errors import BadArchive, DamagedChunk, NewerFormat
from barograph.runs.format.metadata import sealed, unsealed
from barograph.share.members import ARCHIVE_MANIFEST
from barograph.version import __version__

ARCHIVE_FORMAT = 1
"""Format that this Barograph writes, and the newest it reads."""


@dataclass(frozen=True, slots=True)
class ArchivedItem:
    """An experiment, a trial, a component or a run in an archive.

    Attributes:
        uid: ID.
        kind: Kind of the item.
        name: Name.
    """

    uid: str
    kind: str
    name: str


@dataclass(frozen=True, slots=True)
class ArchivedRun:
    """A run in an archive.

    Attributes:
        folder: Its directory in the archive.
        run_id: ID of the run.
        name: Name.
        state: State at the time of the export.
    """

    folder: str
    run_id: str
    name: str
    state: str


@dataclass(frozen=True, slots=True)
class ArchivedMember:
    """A member of an archive.

    Attributes:
        size_bytes: Size.
        sha256: SHA-256 in hexadecimal.
    """

    size_bytes: int
    sha256: str


@dataclass(frozen=True, slots=True)
class ArchiveManifest:
    """Manifest of an archive. It has no time and no host name: the same content gives the same manifest.

    Attributes:
        items: Requested items and those that belong to them.
        runs: Included runs.
        members: All members by name, except the manifest.
        left_out: Omissions, one sentence each.
        barograph: Version of Barograph that wrote it.
    """

    items: tuple[ArchivedItem, ...] = ()
    runs: tuple[ArchivedRun, ...] = ()
    members: Mapping[str, ArchivedMember] = field(default_factory=dict)
    left_out: tuple[str, ...] = ()
    barograph: str = __version__

    @property
    def size_bytes(self) -> int:
        """Total size of all members."""
        return sum(member.size_bytes for member in self.members.values())

    def to_bytes(self) -> bytes:
        """Return the manifest as bytes."""
        return sealed({
            "format": ARCHIVE_FORMAT, "barograph": self.barograph, "items": [asdict(item) for item in self.items],
            "runs": [asdict(run) for run in self.runs], "left_out": list(self.left_out),
            "members": {name: [it.size_bytes, it.sha256] for name, it in sorted(self.members.items())},
        })


def manifest_from_bytes(data: bytes) -> ArchiveManifest:
    """Return the manifest from the bytes of `ArchiveManifest.to_bytes`.

    Raises:
        BadArchive: The bytes are not a valid manifest.
        NewerFormat: A newer Barograph wrote it.
    """
    try:
        body = unsealed(data, ARCHIVE_MANIFEST)
    except DamagedChunk as error:
        raise BadArchive(f"The archive's manifest is damaged: {error}") from error
    version = body.get("format")
    if not isinstance(version, int) or version > ARCHIVE_FORMAT:
        raise NewerFormat(f"The archive has format {version}, written by Barograph {body.get('barograph')}; this one "
                          f"reads formats up to {ARCHIVE_FORMAT}. Update Barograph.")
    try:
        return _manifest(body)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise BadArchive(f"The archive's manifest is invalid: {type(error).__name__}: {error}.") from error


def _manifest(body: Mapping[str, Any]) -> ArchiveManifest:
    members = {}
    for name, (size_bytes, sha256) in body["members"].items():
        if not isinstance(size_bytes, int) or size_bytes < 0 or not isinstance(sha256, str):
            raise ValueError(f'"{name}" has no size or digest')
        members[str(name)] = ArchivedMember(size_bytes, sha256)
    return ArchiveManifest(
        tuple(ArchivedItem(str(it["uid"]), str(it["kind"]), str(it["name"])) for it in body["items"]),
        tuple(ArchivedRun(str(it["folder"]), str(it["run_id"]), str(it["name"]), str(it["state"]))
              for it in body["runs"]),
        members, tuple(map(str, body["left_out"])), str(body["barograph"]),
    )
