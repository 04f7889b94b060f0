"""Artifacts that are files of this machine: found below a folder that is trusted, and nowhere else."""

from __future__ import annotations

import os
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from urllib.parse import unquote, urlsplit

from barograph.errors import ImportFailed
from barograph.ingest.trackers.foreign import ForeignFile

MOST_COPIED_BYTES = 1 << 30
"""Of one file; a larger one stays where it is."""


class ArtifactFolders:
    """Finds artifacts.

    Whoever hands on a database may write any path into it, and what it names would be copied beside the runs: so it
    must be below a folder that the user has named.

    Args:
        trusted: Those folders.
    """

    def __init__(self, trusted: list[Path]) -> None:
        self._trusted = [folder.resolve() for folder in trusted]

    def local(self, uri: str) -> Path | None:
        """Return the folder of this machine that a URI of artifacts speaks of; None where it is elsewhere."""
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
        # What was brought here from elsewhere stands below the same folders as it did there.
        tails = [path.parts[at:] for at in range(int(path.is_absolute()), len(path.parts) - 1)]
        places = [root.joinpath(*tail) for root in self._trusted for tail in tails if ".." not in tail]
        return next((place for place in (*places, path) if place.is_dir()), None)

    def files(self, uri: str, prefix: str, damage: list[str]) -> Iterator[ForeignFile]:
        """Yield the files below a URI of artifacts, or what is to be known of it where it is elsewhere.

        Args:
            uri: Of a folder.
            prefix: Before the names of the files.
            damage: Gets a sentence for what is not taken.
        """
        folder = self.local(uri)
        if folder is None:
            if "://" in uri or uri.startswith(("mlflow-artifacts:", "dbfs:")):
                yield ForeignFile(prefix.rstrip("/") or "artifacts", uri)
            return
        resolved = folder.resolve()
        if not any(resolved.is_relative_to(root) for root in self._trusted):
            damage.append(f"Its artifacts are in {folder}, which is not below the place that is imported; their place "
                          "alone is kept. Name the folder they are in by --artifacts to have them copied.")
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
                # A link may lead to any file of the user's.
                damage.append(f"The artifact {path} is a link or no plain file, and is left out.")
                continue
            yield path


def _found(path: Path, _: Path) -> Path:
    if path.is_symlink() or not path.is_file():
        raise ImportFailed(f"it is no longer there ({path}).")
    return path
