"""Archives, as tests make them: whole ones, and such as nobody should believe."""

from __future__ import annotations

import hashlib
import io
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from barograph.experiments.catalog import Catalog
from barograph.runs.format.metadata import sealed, unsealed
from barograph.share.checking import checked
from barograph.share.choosing import chosen
from barograph.share.container import ArchiveReader
from barograph.share.exporting import write_archive
from barograph.share.importing import Imported, bring_in
from barograph.share.members import ARCHIVE_MANIFEST


def packed(catalog: Catalog, *names: str, **options: object) -> bytes:
    """Return an archive."""
    stream = io.BytesIO()
    write_archive(chosen(catalog, names, **options), stream)  # type: ignore[arg-type]
    return stream.getvalue()


def brought(path: Path, catalog: Catalog) -> Imported:
    """Bring an archive in."""
    with ArchiveReader(path) as archive:
        return bring_in(checked(archive), catalog)


def members_of(path: Path) -> dict[str, bytes]:
    """Return the members of an archive, the manifest among them."""
    with zipfile.ZipFile(path) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def remade(path: Path, members: Mapping[str, bytes], **said: Any) -> None:
    """Write members as an archive whose manifest fits them; `said`: entries of the manifest."""
    others = {name: data for name, data in members.items() if name != ARCHIVE_MANIFEST}
    body = unsealed(members[ARCHIVE_MANIFEST], "")
    body["members"] = {name: [len(data), hashlib.sha256(data).hexdigest()] for name, data in others.items()}
    with zipfile.ZipFile(path, "w") as archive:
        for name, data in [*others.items(), (ARCHIVE_MANIFEST, sealed({**body, **said}))]:
            archive.writestr(name, data)
