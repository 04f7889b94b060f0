"""Artifacts stored beside the runs, deduplicated by the digest of their bytes."""

from __future__ import annotations

import contextlib
import hashlib
import mimetypes
import os
from collections.abc import Collection, Iterator, Sequence
from itertools import groupby
from pathlib import Path
from urllib.parse import quote, unquote

from barograph.errors import DamagedChunk, ObjectNotFound, SettingsError
from barograph.model.clock import Clock, SystemClock
from barograph.model.items import ArtifactLink, checked_name
from barograph.store.base import ObjectInfo, Store
from barograph.store.streaming import put_parts
from barograph.store.urls import store_from_url

ARTIFACTS = ".catalog/artifacts"
SCHEME = "artifact:"
"""Prefix of the address of an artifact stored beside the runs."""
FRESH_SECS = 12 * 3600.0
"""Logging an artifact that is older than this writes it again."""
_PART_BYTES = 2**20
_MODELS = (".pt", ".pth", ".ckpt", ".safetensors", ".keras", ".msgpack", ".ubj")


def artifact_of(
    root: Store, path: str | os.PathLike[str], name: str | None, *, media_type: str, copy: bool,
    clock: Clock | None = None,
) -> ArtifactLink:
    """Return the artifact of a file; if it is to be copied, store it beside the runs.

    Args:
        root: Root of the runs.
        path: Path of the file.
        name: Name of the artifact in the run; None: the file name.
        media_type: "": guessed from the file extension.
        copy: Store the bytes.
        clock: Determines the age of an artifact that is stored already.

    Raises:
        SettingsError: The file does not exist, or it is being written.
        StoreError: It cannot be stored.
    """
    file = Path(path)
    if not file.is_file():
        what = (
            "it is a directory; log its files with log_artifacts, or its location with log_output"
        ) if file.is_dir() else \
            "no such file"
        if isinstance(name, str) and "://" in name:
            what += f'; to record a location elsewhere, call log_output("{path}", "{name}")'
        raise SettingsError(f"No artifact at {file}: {what}.")
    name = checked_name("an artifact", file.name if name in (None, "") else name)
    digest, size_bytes = digest_of_file(file)
    uri = file.resolve().as_uri()
    if copy:
        if not is_kept(root, digest, (clock or SystemClock()).unix()):
            put_parts(root, place_of(digest), _parts_that_are(file, digest))
        uri = f"{SCHEME}{digest}"
    guessed = media_type or _guessed_type(file.name)
    return ArtifactLink(name, uri, guessed, digest, size_bytes)


def _guessed_type(name: str) -> str:
    """Return the media type of a file by its name; "" if unknown."""
    # Tables of some systems call a checkpoint ".pt" a page table of a game console.
    return "application/octet-stream" if name.lower().endswith(_MODELS) else mimetypes.guess_type(name)[0] or ""


def files_in(path: str | os.PathLike[str]) -> list[tuple[Path, str | None]]:
    """Return the files below a directory with their relative paths, or one file with None."""
    top = Path(path)
    if not top.is_dir():
        return [(top, None)]
    return [(file, file.relative_to(top).as_posix()) for file in sorted(top.rglob("*")) if file.is_file()]


def artifact_from_bytes(
    root: Store, data: bytes, name: str, media_type: str, *, clock: Clock | None = None
) -> ArtifactLink:
    """Store bytes as an artifact beside the runs and return it; arguments as in `artifact_of`.

    Raises:
        StoreError: They cannot be stored.
    """
    digest = f"sha256:{hashlib.sha256(data).hexdigest()}"
    if not is_kept(root, digest, (clock or SystemClock()).unix()):
        root.put(place_of(digest), data)
    return ArtifactLink(name, f"{SCHEME}{digest}", media_type, digest, len(data))


def root_of(run: Store) -> Store:
    """Return the root that contains a run."""
    return store_from_url(run.url.rstrip("/").rpartition("/")[0] or run.url)


def digest_of_file(path: Path) -> tuple[str, int]:
    """Return the digest of a file, `sha256:…`, and its size in bytes."""
    whole, size_bytes = hashlib.sha256(), 0
    for part in parts_of_file(path):
        whole.update(part)
        size_bytes += len(part)
    return f"sha256:{whole.hexdigest()}", size_bytes


def parts_of_file(path: Path) -> Iterator[bytes]:
    """Yield the bytes of a file in chunks."""
    # By its descriptor: what Barograph reads to log it is no data that the script opened.
    with open(os.open(path, os.O_RDONLY | getattr(os, "O_BINARY", 0)), "rb") as file:
        while part := file.read(_PART_BYTES):
            yield part


def _parts_that_are(path: Path, digest: str) -> Iterator[bytes]:
    """Yield the bytes of a file; raise if they no longer match the digest."""
    whole = hashlib.sha256()
    for part in parts_of_file(path):
        whole.update(part)
        yield part
    if f"sha256:{whole.hexdigest()}" != digest:
        raise SettingsError(f"The artifact at {path} is still being written. Log it once it is complete.")


def is_kept(root: Store, digest: str, now_unix: float) -> bool:
    """Return whether an artifact is stored in a root and recent enough that no collection deletes it.

    An old unused artifact may be collected before the new user is recorded, so it is written again.
    """
    name = place_of(digest)
    return any(item.name == name and item.modified_unix > now_unix - FRESH_SECS
               for item in root.list(name.rpartition("/")[0]))


def bytes_of(root: Store, link: ArtifactLink) -> bytes:
    """Return the bytes of an artifact after checking their digest.

    Raises:
        ObjectNotFound: The artifact does not exist.
        DamagedChunk: The bytes have changed.
        SettingsError: The artifact is at a location that Barograph cannot read.
    """
    if link.uri.startswith(SCHEME):
        data = bytes(root.get(place_of(link.uri.removeprefix(SCHEME))))
    elif link.uri.startswith("file://"):
        try:
            data = Path(unquote(link.uri.removeprefix("file://"))).read_bytes()
        except FileNotFoundError:
            raise ObjectNotFound(f'Artifact "{link.name}" no longer exists ({link.uri}).') from None
    else:
        raise SettingsError(f'Artifact "{link.name}" is at {link.uri}; read it with the tools for that location.')
    if link.digest and f"sha256:{hashlib.sha256(data).hexdigest()}" != link.digest:
        raise DamagedChunk(f'Artifact "{link.name}" has changed since it was logged: its digest differs ({link.uri}).')
    return data


def bytes_in(roots: Sequence[Store], link: ArtifactLink) -> bytes:
    """Return the bytes of an artifact from the first root that has it; errors as in `bytes_of`."""
    for root in roots[:-1]:
        with contextlib.suppress(ObjectNotFound):
            return bytes_of(root, link)
    return bytes_of(roots[-1], link)


def kept_before(root: Store, unix: float) -> list[ObjectInfo]:
    """Return the artifacts that a root has stored since before a time, by name."""
    return [item for item in root.list(ARTIFACTS) if item.modified_unix < unix]


def remove(root: Store, names: Collection[str], unix: float) -> tuple[int, int]:
    """Delete artifacts; return how many were deleted and their size in bytes.

    Args:
        root: Root of the runs.
        names: Names of the objects.
        unix: An artifact written after this time stays: it has just been logged again.
    """
    number = freed = 0
    for folder, some in groupby(sorted(names), key=lambda name: name.rpartition("/")[0]):
        wanted = set(some)
        # Checked again right before deleting: it may have been logged again meanwhile.
        for item in root.list(folder):
            if item.name in wanted and item.modified_unix < unix:
                root.delete(item.name)
                number, freed = number + 1, freed + item.size_bytes
    return number, freed


def place_of(digest: str) -> str:
    """Return the object name, below the root, of the artifact with that digest."""
    algorithm, _, text = digest.partition(":")
    return f"{ARTIFACTS}/{text[:2]}/{quote(algorithm, safe='')}-{quote(text, safe='')}"
