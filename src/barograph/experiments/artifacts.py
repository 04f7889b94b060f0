"""Artifacts kept beside the runs, each once under the digest of its bytes, however many made or read it."""

from __future__ import annotations

import hashlib
import mimetypes
import os
from collections.abc import Collection
from pathlib import Path
from urllib.parse import quote, unquote

from barograph.errors import DamagedChunk, ObjectNotFound, SettingsError
from barograph.model.items import ArtifactLink
from barograph.store.base import Store
from barograph.store.urls import store_from_url

ARTIFACTS = ".catalog/artifacts"
_SCHEME = "artifact:"
_PART_BYTES = 2**20


def artifact_of(
    root: Store, path: str | os.PathLike[str], name: str | None, *, media_type: str, copy: bool
) -> ArtifactLink:
    """Return the artifact that a file is, kept beside the runs where it is copied.

    Args:
        root: Of the runs.
        path: Of the file.
        name: By which the run calls it; None: the file's own.
        media_type: "": as the file's ending says.
        copy: Keep its bytes.

    Raises:
        SettingsError: There is no such file, or it changes just now.
        StoreError: It cannot be kept.
    """
    file = Path(path)
    if not file.is_file():
        what = "a directory; log its files, or its place by log_output" if file.is_dir() else "no such file"
        raise SettingsError(f"There is no artifact at {file}: {what}.")
    digest, size_bytes = digest_of_file(file)
    uri = file.resolve().as_uri()
    if copy:
        if not has(root, digest):
            data = file.read_bytes()
            if f"sha256:{hashlib.sha256(data).hexdigest()}" != digest:
                raise SettingsError(f"The artifact at {file} is being written; log it once it is whole.")
            root.put(_place(digest), data)
        uri = f"{_SCHEME}{digest}"
    guessed = media_type or mimetypes.guess_type(file.name)[0] or ""
    return ArtifactLink(name or file.name, uri, guessed, digest, size_bytes)


def root_of(run: Store) -> Store:
    """Return the folder that a run is in."""
    return store_from_url(run.url.rstrip("/").rpartition("/")[0] or run.url)


def digest_of_file(path: Path) -> tuple[str, int]:
    """Return the digest of a file's bytes, `sha256:…`, and how many there are."""
    whole, size_bytes = hashlib.sha256(), 0
    with path.open("rb") as file:
        while part := file.read(_PART_BYTES):
            whole.update(part)
            size_bytes += len(part)
    return f"sha256:{whole.hexdigest()}", size_bytes


def has(root: Store, digest: str) -> bool:
    """Return whether an artifact is kept in a root of runs."""
    return any(item.name == _place(digest) for item in root.list(f"{ARTIFACTS}/{digest[7:9]}"))


def bytes_of(root: Store, link: ArtifactLink) -> bytes:
    """Return the bytes of an artifact, checked.

    Raises:
        ObjectNotFound: It is not there.
        DamagedChunk: They are not those that were kept.
        SettingsError: It is in a place that this cannot read.
    """
    if link.uri.startswith(_SCHEME):
        data = bytes(root.get(_place(link.uri.removeprefix(_SCHEME))))
    elif link.uri.startswith("file://"):
        try:
            data = Path(unquote(link.uri.removeprefix("file://"))).read_bytes()
        except FileNotFoundError:
            raise ObjectNotFound(f'Artifact "{link.name}" is no longer there ({link.uri}).') from None
    else:
        raise SettingsError(f'Artifact "{link.name}" is at {link.uri}, which is read by its own tools.')
    if link.digest and f"sha256:{hashlib.sha256(data).hexdigest()}" != link.digest:
        raise DamagedChunk(f'Artifact "{link.name}" is not what was kept: its digest differs ({link.uri}).')
    return data


def collect(root: Store, wanted: Collection[str]) -> int:
    """Delete the artifacts that nobody has any more, and return how many bytes they took.

    Args:
        root: Of runs.
        wanted: Digests of those that somebody has.
    """
    kept = {_place(digest) for digest in wanted}
    freed = 0
    for item in root.list(ARTIFACTS):
        if item.name not in kept:
            root.delete(item.name)
            freed += item.size_bytes
    return freed


def _place(digest: str) -> str:
    algorithm, _, text = digest.partition(":")
    return f"{ARTIFACTS}/{text[:2]}/{quote(algorithm, safe='')}-{quote(text, safe='')}"
