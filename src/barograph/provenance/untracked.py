"""The files of a repository that git does not track and does not ignore, in one archive within limits."""

from __future__ import annotations

import gzip
import io
import os
import re
import stat
import tarfile
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from barograph.model.origin import LeftOut
from barograph.provenance.secrets import Secrets, is_secret_file

_METADATA = ("run.json", "attempts")
"""What stands in the folder of every run."""
_OF_ROOTS = re.compile(r"(?:^|/)\.catalog/(?:journal/|artifacts/|catalog\.sqlite)")
"""What stands beside runs: what was told of them, the files that they kept, the index."""


@dataclass(frozen=True, slots=True)
class Limits:
    """How much is kept.

    Attributes:
        file_bytes: Of one file.
        all_bytes: Of all together.
        files: How many.
    """

    file_bytes: int = 2 * 2**20
    all_bytes: int = 10 * 2**20
    files: int = 1000


def archived(
    root: Path, names: Sequence[str], *, secrets: Secrets, limits: Limits, away: Iterable[Path] = ()
) -> tuple[bytes, list[LeftOut]]:
    """Return an archive of these files (`b""` where none is kept), and what is not in it.

    Args:
        root: Of the repository.
        names: Paths below it.
        secrets: Are hidden in what is kept.
        limits: How much.
        away: Folders whose files are no code: those of runs. They are passed over in silence.
    """
    left_out: list[LeftOut] = []
    kept: list[tuple[str, bytes, int]] = []
    room, passed_over = limits.all_bytes, 0
    for name in _no_runs(root, names, away):
        if len(kept) >= limits.files:
            # Not even looked at: there may be any number of them.
            why, data, mode = f"more than {limits.files:,} files", b"", 0
        else:
            why, data, mode = _content(root / name, name, limits, room, secrets)
        if why and len(left_out) >= limits.files:
            passed_over += 1
        elif why:
            left_out.append(LeftOut(name, why))
        else:
            hidden = data if stat.S_ISLNK(mode) else _hidden(data, secrets)
            if hidden != data:
                left_out.append(LeftOut(name, "a secret in it was replaced"))
            kept.append((name, hidden, mode))
            room -= len(hidden)
    if passed_over:
        left_out.append(LeftOut(f"{passed_over:,} more untracked files", "beyond the limits"))
    return (_packed(kept) if kept else b""), left_out


def _no_runs(root: Path, names: Sequence[str], away: Iterable[Path]) -> Iterator[str]:
    runs = {os.path.dirname(name) for name in names if os.path.basename(name) == _METADATA[0]
            and (root / os.path.dirname(name) / _METADATA[1]).is_dir()}
    runs |= {os.path.relpath(path, root) for path in away}
    runs -= {"", "."}
    for name in names:
        if not (_OF_ROOTS.search(name) or any(name == run or name.startswith(f"{run}/") for run in runs)):
            yield name


def _content(path: Path, name: str, limits: Limits, room: int, secrets: Secrets) -> tuple[str, bytes, int]:
    """Return why a file is left out ("": it is not), its bytes, and its mode."""
    if is_secret_file(name):
        return "its name is that of a file with secrets", b"", 0
    try:
        status = path.lstat()
        if stat.S_ISLNK(status.st_mode):
            return "", os.fsencode(os.readlink(path)), status.st_mode
        if not stat.S_ISREG(status.st_mode):
            return "no file", b"", 0
        if status.st_size > limits.file_bytes:
            return f"{status.st_size:,} bytes, more than {limits.file_bytes:,}", b"", 0
        if status.st_size > room:
            return f"all together are more than {limits.all_bytes:,} bytes", b"", 0
        with path.open("rb") as file:
            data = file.read(limits.file_bytes + 1)
    except OSError as error:
        return f"cannot be read: {error.strerror}", b"", 0
    if _text(data) is None and secrets.holds(data.decode("latin-1")):
        return "a secret in bytes that are no text", b"", 0
    return "", data, status.st_mode


def _hidden(data: bytes, secrets: Secrets) -> bytes:
    text = _text(data)
    return data if text is None else secrets.hide(text).encode()


def _text(data: bytes) -> str | None:
    if b"\0" in data:
        return None
    try:
        return data.decode()
    except UnicodeDecodeError:
        return None


def _packed(files: Sequence[tuple[str, bytes, int]]) -> bytes:
    packed = io.BytesIO()
    # Nothing of the time or of who made it: the same files make the same archive.
    with (gzip.GzipFile(fileobj=packed, mode="wb", mtime=0, compresslevel=6) as zipped,
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
