"""Artifacts kept beside the runs, each once under the digest of its bytes, however many made or read it."""

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
"""Of the address of an artifact that is kept beside the runs."""
FRESH_SECS = 12 * 3600.0
"""An artifact that was put longer ago is put again by who logs it anew."""
_PART_BYTES = 2**20


def artifact_of(
    root: Store, path: str | os.PathLike[str], name: str | None, *, media_type: str, copy: bool,
    clock: Clock | None = None,
) -> ArtifactLink:
    """Return the artifact that a file is, kept beside the runs where it is copied.

    Args:
        root: Of the runs.
        path: Of the file.
        name: By which the run calls it; None: the file's own.
        media_type: "": as the file's ending says.
        copy: Keep its bytes.
        clock: Tells how old one is that is kept already.

    Raises:
        SettingsError: There is no such file, or it changes just now.
        StoreError: It cannot be kept.
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
    guessed = media_type or mimetypes.guess_type(file.name)[0] or ""
    return ArtifactLink(name, uri, guessed, digest, size_bytes)


def files_in(path: str | os.PathLike[str]) -> list[tuple[Path, str | None]]:
    """Return the files below a directory, each with its path in it; or the one file that `path` is, without a name."""
    top = Path(path)
    if not top.is_dir():
        return [(top, None)]
    return [(file, file.relative_to(top).as_posix()) for file in sorted(top.rglob("*")) if file.is_file()]


def artifact_from_bytes(
    root: Store, data: bytes, name: str, media_type: str, *, clock: Clock | None = None
) -> ArtifactLink:
    """Return the artifact that bytes are, kept beside the runs; arguments as of `artifact_of`.

    Raises:
        StoreError: They cannot be kept.
    """
    digest = f"sha256:{hashlib.sha256(data).hexdigest()}"
    if not is_kept(root, digest, (clock or SystemClock()).unix()):
        root.put(place_of(digest), data)
    return ArtifactLink(name, f"{SCHEME}{digest}", media_type, digest, len(data))


def root_of(run: Store) -> Store:
    """Return the folder that a run is in."""
    return store_from_url(run.url.rstrip("/").rpartition("/")[0] or run.url)


def digest_of_file(path: Path) -> tuple[str, int]:
    """Return the digest of a file's bytes, `sha256:…`, and how many there are."""
    whole, size_bytes = hashlib.sha256(), 0
    for part in parts_of_file(path):
        whole.update(part)
        size_bytes += len(part)
    return f"sha256:{whole.hexdigest()}", size_bytes


def parts_of_file(path: Path) -> Iterator[bytes]:
    """Yield the bytes of a file, some at a time."""
    with path.open("rb") as file:
        while part := file.read(_PART_BYTES):
            yield part


def _parts_that_are(path: Path, digest: str) -> Iterator[bytes]:
    """Yield the bytes of a file, which are put only if they are those that the digest was made of."""
    whole = hashlib.sha256()
    for part in parts_of_file(path):
        whole.update(part)
        yield part
    if f"sha256:{whole.hexdigest()}" != digest:
        raise SettingsError(f"The artifact at {path} is still being written. Log it once it is complete.")


def is_kept(root: Store, digest: str, now_unix: float) -> bool:
    """Return whether an artifact is kept in a root of runs, and put there so late that no collection can meet it.

    An old one that nobody has may be collected before whoever found it has said that he has it; so it is put again.
    """
    name = place_of(digest)
    return any(item.name == name and item.modified_unix > now_unix - FRESH_SECS
               for item in root.list(name.rpartition("/")[0]))


def bytes_of(root: Store, link: ArtifactLink) -> bytes:
    """Return the bytes of an artifact, checked.

    Raises:
        ObjectNotFound: It is not there.
        DamagedChunk: They are not those that were kept.
        SettingsError: It is in a place that this cannot read.
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
    """Return the bytes of an artifact from the first of several places that has it; errors as of `bytes_of`."""
    for root in roots[:-1]:
        with contextlib.suppress(ObjectNotFound):
            return bytes_of(root, link)
    return bytes_of(roots[-1], link)


def kept_before(root: Store, unix: float) -> list[ObjectInfo]:
    """Return the artifacts that are kept in a root of runs since before a time, by name."""
    return [item for item in root.list(ARTIFACTS) if item.modified_unix < unix]


def remove(root: Store, names: Collection[str], unix: float) -> tuple[int, int]:
    """Delete artifacts, and return how many these were and how many bytes they took.

    Args:
        root: Of runs.
        names: Of the objects.
        unix: One that was put again since then stays: somebody has just logged it.
    """
    number = freed = 0
    for folder, some in groupby(sorted(names), key=lambda name: name.rpartition("/")[0]):
        wanted = set(some)
        # Asked once more directly before: between the first look and now somebody may have come.
        for item in root.list(folder):
            if item.name in wanted and item.modified_unix < unix:
                root.delete(item.name)
                number, freed = number + 1, freed + item.size_bytes
    return number, freed


def place_of(digest: str) -> str:
    """Return the name, below a root of runs, of the artifact with that digest."""
    algorithm, _, text = digest.partition(":")
    return f"{ARTIFACTS}/{text[:2]}/{quote(algorithm, safe='')}-{quote(text, safe='')}"
