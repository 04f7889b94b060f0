"""The code of a training job: packed where it is submitted, unpacked on each instance."""

from __future__ import annotations

import hashlib
import os
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from barograph.errors import CheckoutFailed, JobError, JobRefused, StoreError
from barograph.model.one_line import quoted
from barograph.provenance.git import Git, GitFailed
from barograph.provenance.secrets import Secrets
from barograph.provenance.untracked import (
    CACHES,
    ENVIRONMENT_MARKS,
    Limits,
    archived,
    is_run,
    without_environments,
    without_runs,
)
from barograph.rerun.unpacking import check_link
from barograph.rerun.unpacking import unpack as unpack_archive

MOST_FILES = 20_000
MOST_BYTES = 256 * 2**20
FILE_BYTES = 32 * 2**20
"""Largest file of the repository that is sent."""
LOOSE_FILE_BYTES = 10 * 2**20
"""Largest file that is sent although git does not track it. Data belongs in a channel."""

_MOST_NOTES = 50
_STAGED = re.compile(r"(?P<mode>\d{6}) [0-9a-f]{40,64} [0-3]\t")
_NOT_A_REPOSITORY = "not a git repository"


@dataclass(frozen=True, slots=True)
class PackedCode:
    """The code of a job as one archive. The same files give the same archive.

    Attributes:
        data: The archive; b"" if there are no files.
        digest: SHA-256 of `data`, in hexadecimal.
        size_bytes: Size of `data`.
        notes: What was left out or changed and why, one sentence each.
    """

    data: bytes = field(repr=False)
    digest: str
    size_bytes: int
    notes: tuple[str, ...] = ()


def pack(directory: Path, *, secrets: Secrets, away: Iterable[Path] = ()) -> PackedCode:
    """Pack the files of a directory. Paths in the archive are relative to it.

    In a git repository: tracked files as they are in the working tree, files that git neither tracks nor ignores, and
    the files of submodules. Elsewhere: all files but hidden ones, virtual environments, caches and large files.
    Executable bits and symbolic links are kept.

    Args:
        directory: Where the script is, or the top of its project.
        secrets: Secrets to hide: code never carries them.
        away: Directories of runs and jobs, which are not code.

    Raises:
        JobRefused: The directory does not exist or holds too much to send.
    """
    directory = Path(os.path.abspath(directory))
    _check_directory(directory)
    away = [Path(os.path.abspath(path)) for path in away]
    notes: list[str] = []
    tracked, loose = _listed(directory, notes, away)
    chosen = _Chosen(directory, notes)
    for name in tracked:
        chosen.add(name, FILE_BYTES)
    # Before the limits count them.
    for name in without_runs(directory, loose, away):
        chosen.add(name, LOOSE_FILE_BYTES)
    data, left_out = archived(directory, sorted(chosen.names), secrets=secrets, away=away, to_run=True,
                              limits=Limits(FILE_BYTES, MOST_BYTES, MOST_FILES))
    notes += [f"{quoted(item.what)}: {item.why}." for item in left_out]
    if len(notes) > _MOST_NOTES:
        notes[_MOST_NOTES:] = [f"{len(notes) - _MOST_NOTES:,} more files were left out or changed."]
    return PackedCode(data, hashlib.sha256(data).hexdigest(), len(data), tuple(notes))


def unpack(data: bytes, target: Path) -> list[str]:
    """Unpack the code of a job into an existing directory. Return the names of its files.

    No path and no link of the archive leads out of the directory, whoever made the archive.

    Raises:
        JobError: It is not an archive of code, it is too large, or a file cannot be written.
    """
    if not data:
        return []
    try:
        return unpack_archive(data, target, what="the archive of the code", most_bytes=MOST_BYTES)
    except (CheckoutFailed, StoreError) as error:
        raise JobError(str(error)) from error


def code_files(directory: Path) -> list[str]:
    """Return the files of a directory that are code, as `pack` chooses them without git: sorted, relative, with "/"."""
    return sorted(_walked(directory, ()))


class _Chosen:
    """Chooses the files to send, within the limits.

    Attributes:
        names: Their paths.
    """

    def __init__(self, directory: Path, notes: list[str]) -> None:
        self._directory, self._notes = directory, notes
        self._room = MOST_BYTES
        self._bytes: Counter[str] = Counter()
        self.names: list[str] = []

    def add(self, name: str, most_bytes: int) -> None:
        path = os.path.join(self._directory, name)
        try:
            status = os.lstat(path)
            if os.path.islink(path):
                check_link(name, os.readlink(path), "the code")
        except CheckoutFailed:
            self._notes.append(f"{quoted(name)}: the link leads out of the folder, to {quoted(os.readlink(path))}.")
            return
        except FileNotFoundError:
            return  # tracked and deleted: as in the working tree
        except OSError as error:
            self._notes.append(f"{quoted(name)}: cannot be read: {error.strerror}.")
            return
        if status.st_size > most_bytes:
            self._notes.append(f"{quoted(name)}: {status.st_size:,} bytes, more than {most_bytes:,}. Pass data with "
                               "--data.")
            return
        self._room -= status.st_size
        self._bytes[name.partition("/")[0]] += status.st_size
        self.names.append(name)
        if len(self.names) > MOST_FILES:
            tops = Counter(name.partition("/")[0] for name in self.names)
            raise _too_much(f"more than {MOST_FILES:,} files, {_mostly(tops)}", self._directory)
        if self._room < 0:
            raise _too_much(f"more than {MOST_BYTES // 2**20:,} MiB, {_mostly(self._bytes)}", self._directory)


def _check_directory(directory: Path) -> None:
    if not directory.is_dir():
        raise JobRefused(f"The directory of the code does not exist ({directory}).")
    try:
        home = Path.home().resolve()
    except RuntimeError:
        return  # nobody's home is known
    real = directory.resolve()
    if real == Path(real.anchor):
        raise _too_much("the root of the file system", directory)
    if real == home or real in home.parents:
        raise _too_much("your home directory", directory)


def _mostly(tops: Counter[str]) -> str:
    top, _ = tops.most_common(1)[0]
    return f"mostly {quoted(top)}. Move data out of this folder and pass it with --data, or add it to .gitignore"


def _too_much(what: str, directory: Path) -> JobRefused:
    return JobRefused(f"The code is too much to send: {what}. Submit from the script's folder ({directory}).")


def _listed(directory: Path, notes: list[str], away: Sequence[Path]) -> tuple[list[str], list[str]]:
    """Return the files that git tracks, and the others that are code."""
    try:
        tracked, loose = _of_git(Git(directory), "", notes)
    except GitFailed as error:
        if _NOT_A_REPOSITORY not in str(error):
            notes.append(f"git failed ({error}): the code is every file of the folder.")
        tracked, loose = [], []
    if tracked or loose:
        return tracked, list(without_environments(loose))
    # Also a folder that the repository around it ignores.
    return [], list(_walked(directory, away))


def _of_git(git: Git, prefix: str, notes: list[str]) -> tuple[list[str], list[str]]:
    """Return the tracked and the untracked, not ignored files below the directory of `git`."""
    tracked: dict[str, None] = {}
    loose: list[str] = []
    modules: list[str] = []
    for entry in git.names("ls-files", "--cached", "--others", "--exclude-standard", "--stage", "-z"):
        staged = _STAGED.match(entry)
        if not staged:
            loose.append(prefix + entry)
        elif staged["mode"] == "160000":
            modules.append(entry[staged.end():])
        else:
            tracked[prefix + entry[staged.end():]] = None  # a conflict has several stages
    notes += [f"{quoted(name)}: a repository of its own." for name in loose if name.endswith("/")]
    loose = [name for name in loose if not name.endswith("/")]
    for module in modules:
        inner = git.at(os.path.join(git.folder, module))
        if not os.path.exists(os.path.join(inner.folder, ".git")):
            notes.append(f"{quoted(prefix + module)}: the submodule is not checked out. Run git submodule update "
                         "--init.")
            continue
        its_tracked, its_loose = _of_git(inner, f"{prefix}{module}/", notes)
        tracked |= dict.fromkeys(its_tracked)
        loose += its_loose
    return list(tracked), loose


def _walked(directory: Path, away: Sequence[Path]) -> Iterator[str]:
    """Yield the files of a directory without git, sorted within each folder."""
    skipped = {os.fspath(path) for path in away}
    seen, tops = 0, Counter[str]()
    for folder, folders, files in os.walk(directory):
        folders[:] = sorted(name for name in folders if not _is_no_code(folder, name, skipped))
        # A link to a folder is listed among the folders, and is not followed.
        links = [name for name in folders if os.path.islink(os.path.join(folder, name))]
        for name in sorted((*files, *links)):
            if name.startswith(".") or name.endswith((".pyc", ".pyo")):
                continue
            path = os.path.relpath(os.path.join(folder, name), directory).replace(os.sep, "/")
            seen += 1
            tops[path.partition("/")[0]] += 1
            if seen > MOST_FILES:
                raise _too_much(f"more than {MOST_FILES:,} files, {_mostly(tops)}", directory)
            yield path


def _is_no_code(folder: str, name: str, skipped: set[str]) -> bool:
    path = os.path.join(folder, name)
    return (name.startswith(".") or name in CACHES or name.endswith(".egg-info") or path in skipped
            or any(os.path.exists(os.path.join(path, mark)) for mark in ENVIRONMENT_MARKS) or is_run(Path(path)))
