"""Archives the untracked, not ignored files of a repository, within limits."""

from __future__ import annotations

import gzip
import io
import os
import re
import stat
import tarfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from barograph.model.origin import LeftOut
from barograph.provenance.secrets import Secrets, is_secret_file

CACHES = frozenset({"__pycache__", "node_modules", "__pypackages__", "site-packages"})
"""Folders of generated or installed files. Python writes `__pycache__` while the script runs."""
ENVIRONMENT_MARKS = ("pyvenv.cfg", "conda-meta")
"""Mark a folder as a virtual environment."""
_METADATA = ("run.json", "attempts")
"""Marks a directory as a run."""
_FAST, _SMALL = 1, 6
"""Levels of compression."""
_OF_ROOTS = re.compile(r"(?:^|/)\.catalog/(?:journal/|artifacts/|catalog\.sqlite)")
"""Directory beside runs with journal, artifacts and index."""


@dataclass(frozen=True, slots=True)
class Limits:
    """Limits of the archive.

    Attributes:
        file_bytes: Maximum size of a file.
        all_bytes: Maximum total size.
        files: Maximum number of files.
    """

    file_bytes: int = 2 * 2**20
    all_bytes: int = 10 * 2**20
    files: int = 1000


def archived(
    root: Path, names: Sequence[str], *, secrets: Secrets, limits: Limits, away: Iterable[Path] = (),
    to_run: bool = False,
) -> tuple[bytes, list[LeftOut]]:
    """Return an archive of these files (`b""` if empty), and the omissions.

    Args:
        root: Root of the repository.
        names: Paths below it.
        secrets: Secrets to hide.
        limits: Limits of the archive.
        away: Directories of runs; silently skipped.
        to_run: The code is to run from the archive: only certain secrets are hidden, and a module is never left out
            for its name. Compressed less, but faster.
    """
    hide = secrets.hide_certain if to_run else secrets.hide
    left_out: list[LeftOut] = []
    kept: list[tuple[str, bytes, int]] = []
    room, passed_over = limits.all_bytes, 0
    for name in without_runs(root, names, away):
        if len(kept) >= limits.files:
            # Not read: there may be any number of them.
            why, data, mode = f"more than {limits.files:,} files", b"", 0
        else:
            why, data, mode = _content(root / name, name, limits, room, hide, to_run)
        if why and len(left_out) >= limits.files:
            passed_over += 1
        elif why:
            left_out.append(LeftOut(name, why))
        else:
            hidden = data if stat.S_ISLNK(mode) else _hidden(data, hide)
            if hidden != data:
                left_out.append(LeftOut(name, "a secret in it was replaced"))
            kept.append((name, hidden, mode))
            room -= len(hidden)
    if passed_over:
        left_out.append(LeftOut(f"{passed_over:,} more untracked files", "over the limits"))
    return (_packed(kept, _FAST if to_run else _SMALL) if kept else b""), left_out


def without_runs(root: Path, names: Sequence[str], away: Iterable[Path]) -> Iterator[str]:
    """Yield the names that are not in a directory of a run.

    Args:
        root: Folder that the names start in.
        names: Paths below it.
        away: Directories of runs, besides those that are recognized.
    """
    runs = {os.path.dirname(name) for name in names if os.path.basename(name) == _METADATA[0]
            and is_run(root / os.path.dirname(name))}
    runs |= {os.path.relpath(path, root) for path in away}
    runs -= {"", "."}
    for name in names:
        if not (_OF_ROOTS.search(name) or any(name == run or name.startswith(f"{run}/") for run in runs)):
            yield name


def without_environments(names: Iterable[str]) -> Iterator[str]:
    """Yield the names that are not in a virtual environment or cache which git does not ignore."""
    names = list(names)
    tops = {f"/{name}".partition(f"/{mark}")[0][1:] for name in names for mark in ENVIRONMENT_MARKS
            if f"/{mark}/" in f"/{name}/"} - {""}
    for name in names:
        parts = name.split("/")[:-1]
        if not CACHES.intersection(parts) and not any(
                "/".join(parts[:depth]) in tops for depth in range(1, len(parts) + 1)):
            yield name


def is_run(folder: Path) -> bool:
    """Return whether a folder is a run."""
    return (folder / _METADATA[0]).is_file() and (folder / _METADATA[1]).is_dir()


def _content(
    path: Path, name: str, limits: Limits, room: int, hide: Callable[[str], str], to_run: bool
) -> tuple[str, bytes, int]:
    """Return why a file is left out ("" if it is not), its bytes, and its mode."""
    if is_secret_file(name) and not (to_run and name.endswith(".py")):
        return "its name is that of a file with secrets", b"", 0
    try:
        status = path.lstat()
        if stat.S_ISLNK(status.st_mode):
            return "", os.fsencode(os.readlink(path)), status.st_mode
        if not stat.S_ISREG(status.st_mode):
            return "not a regular file", b"", 0
        if status.st_size > limits.file_bytes:
            return f"{status.st_size:,} bytes, more than {limits.file_bytes:,}", b"", 0
        if status.st_size > room:
            return f"total size over {limits.all_bytes:,} bytes", b"", 0
        with path.open("rb") as file:
            data = file.read(limits.file_bytes + 1)
    except OSError as error:
        return f"cannot be read: {error.strerror}", b"", 0
    if _text(data) is None and hide(binary := data.decode("latin-1")) != binary:
        return "a secret in a binary file", b"", 0
    return "", data, status.st_mode


def _hidden(data: bytes, hide: Callable[[str], str]) -> bytes:
    text = _text(data)
    return data if text is None else hide(text).encode()


def _text(data: bytes) -> str | None:
    if b"\0" in data:
        return None
    try:
        return data.decode()
    except UnicodeDecodeError:
        return None


def _packed(files: Sequence[tuple[str, bytes, int]], level: int) -> bytes:
    packed = io.BytesIO()
    # Without times and owners: the same files give the same archive.
    with (gzip.GzipFile(fileobj=packed, mode="wb", mtime=0, compresslevel=level) as zipped,
          tarfile.open(fileobj=zipped, mode="w", format=tarfile.PAX_FORMAT) as archive):
        for name, data, mode in files:
            entry = tarfile.TarInfo(name)
            if stat.S_ISLNK(mode):
                entry.type, entry.linkname = tarfile.SYMTYPE, os.fsdecode(data)
                archive.addfile(entry)
            else:
                entry.size, entry.mode = len(data), 0o755 if mode & stat.S_IXUSR else 0o644
                archive.addfile(entry, io.BytesIO(data))
    return packed.getvalue()
