"""Finds local artifacts below trusted directories."""

from __future__ import annotations

import os
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from urllib.parse import unquote, urlsplit

from barograph.errors import ImportFailed
from barograph.ingest.trackers.foreign import ForeignFile

MOST_COPIED_BYTES = 1 << 30
"""Maximum size of a file; larger ones are not copied."""


class ArtifactFolders:
    """Finds local artifacts.

    An imported database may contain any path, and its files would be copied beside the runs. So they must be below a
    directory that the user has named.

    Args:
        trusted: These directories.
    """

    def __init__(self, trusted: list[Path]) -> None:
        self._trusted = [folder.resolve() for folder in trusted]

    def local(self, uri: str) -> Path | None:
        """Return the local directory of an artifact URI; None if it is elsewhere."""
        try:
            parts = urlsplit(uri)
        except ValueError:
            return None
        if not uri.strip() or "\0" in uri:
            return None
        if parts.scheme == "file" and parts.netloc in ("", "localhost"):
            path = Path(unquote(parts.path))
        elif "://" not in uri and not uri.startswith(("mlflow-artifacts:", "dbfs:", "models:", "runs:")):
            path = Path(uri)
        else:
            return None
        if path.is_absolute() and any(path.resolve().is_relative_to(root) for root in self._trusted):
            return path if path.is_dir() else None
        # Copied from another machine, it has the same path below the trusted directory.
        tails = [path.parts[at:] for at in range(int(path.is_absolute()), len(path.parts) - 1)]
        places = [root.joinpath(*tail) for root in self._trusted for tail in tails if ".." not in tail]
        return next((place for place in (*places, path) if place.is_dir()), None)

    def files(self, uri: str, prefix: str, damage: list[str]) -> Iterator[ForeignFile]:
        """Yield the files below an artifact URI, or only its location if it is elsewhere.

        Args:
            uri: URI of a directory.
            prefix: Prefix of the file names.
            damage: Gets a sentence for each omission.
        """
        folder = self.local(uri)
        if folder is None:
            if "://" in uri or uri.startswith(("mlflow-artifacts:", "dbfs:")):
                yield ForeignFile(prefix.rstrip("/") or "artifacts", uri)
            return
        resolved = folder.resolve()
        if not any(resolved.is_relative_to(root) for root in self._trusted):
            damage.append("Its artifacts are outside the imported directory, so only their location is recorded. To "
                          f"copy them, pass their directory with --artifacts ({folder}).")
            yield ForeignFile(prefix.rstrip("/") or "artifacts", resolved.as_uri())
            return
        for path in _walked(resolved, damage):
            size_bytes = path.stat().st_size
            large = size_bytes > MOST_COPIED_BYTES
            yield ForeignFile(f"{prefix}{path.relative_to(resolved).as_posix()}", path.as_uri(), size_bytes,
                              fetch=None if large else partial(_found, path))


def _walked(folder: Path, damage: list[str]) -> Iterator[Path]:
    for place, folders, names in os.walk(folder):
        folders.sort()
        for name in sorted(names):
            path = Path(place) / name
            if path.is_symlink() or not path.is_file():
                # A link may lead to any file of the user.
                damage.append(f"An artifact is a link or not a regular file, and is left out ({path}).")
                continue
            yield path


def _found(path: Path, _: Path) -> Path:
    if path.is_symlink() or not path.is_file():
        raise ImportFailed(f"it no longer exists ({path}).")
    return path
