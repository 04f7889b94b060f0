"""Writing files safely below one folder, whatever their names and whatever links it contains."""

from __future__ import annotations

import contextlib
import errno
import os
import secrets
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from barograph.errors import StoreDenied, StoreFull
from barograph.model.one_line import quoted

_NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
_BINARY = getattr(os, "O_BINARY", 0)
_NO_LINK = getattr(os, "O_NOFOLLOW", 0)
_BY_HANDLE = {os.open, os.mkdir, os.unlink, os.symlink, os.stat, os.rename} <= os.supports_dir_fd
"""Whether directories are opened by handle. Otherwise (Windows) each is checked by name before it is entered."""


@dataclass(frozen=True, slots=True)
class Inside:
    """A folder for files with untrusted names.

    Links below the folder are never followed, even if they appear while a file is written. The folder itself may be
    a link.

    Attributes:
        top: The folder. It must exist.
    """

    top: Path

    def write(self, path: str, data: bytes, *, executable: bool = False) -> None:
        """Write a file. Replaces an existing file or link, without following the link.

        Raises:
            StoreDenied: The path leaves the folder or contains a link, or cannot be written.
            StoreFull: The disk is full.
        """
        with self._parent(path, make=True) as (parent, name):
            beside = f".{secrets.token_hex(8)}.part"  # not its name, which may be as long as names can be
            flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | _NO_LINK | _BINARY
            handle = parent.open(beside, flags, 0o777 if executable else 0o666)
            try:
                with os.fdopen(handle, "wb") as file:
                    file.write(data)
                parent.replace(beside, name)
            except BaseException:
                with contextlib.suppress(OSError):
                    parent.unlink(beside)
                raise

    def link(self, path: str, target: str) -> None:
        """Create a symbolic link at an unused path; raises as `write`."""
        with self._parent(path, make=True) as (parent, name):
            parent.symlink(target, name)

    def remove(self, path: str) -> None:
        """Remove the file or link at a path, if there is one; raises as `write`."""
        with contextlib.suppress(FileNotFoundError), self._parent(path, make=False) as (parent, name):
            parent.unlink(name)

    def make_directory(self, path: str) -> None:
        """Create a directory and its parents if they are missing; raises as `write`."""
        if _parts(path, self.top):
            with self._parent(f"{path}/-", make=True):
                pass

    def check(self, path: str) -> None:
        """Raise as `write` if a path leaves the folder or contains a link. Changes nothing."""
        with contextlib.suppress(FileNotFoundError), self._parent(path, make=False):
            pass

    @contextlib.contextmanager
    def _parent(self, path: str, *, make: bool) -> Iterator[tuple[_Directory, str]]:
        *folders, name = _parts(path, self.top) or [""]
        if not name:
            raise StoreDenied(f"{quoted(path)} is not a file name (in {self.top}).")
        try:
            with contextlib.ExitStack() as opened:
                here = _Directory.at(self.top)
                opened.callback(here.close)
                for folder in folders:
                    here = here.entered(folder, make=make)
                    opened.callback(here.close)
                yield here, name
        except FileNotFoundError:
            raise
        except OSError as error:
            if isinstance(error, StoreDenied):
                raise
            if error.errno in (errno.ELOOP, errno.ENOTDIR):
                raise StoreDenied(f"{quoted(path)} leads through a link or a file; nothing was written (in "
                                  f"{self.top}).") from error
            kind = StoreFull if error.errno in _NO_ROOM else StoreDenied
            raise kind(f"{quoted(path)} cannot be written: {error.strerror or error} (in {self.top}).") from error


def leads_out(path: str, target: str) -> bool:
    """Return whether a symbolic link leads out of its folder.

    ".." is considered safe only at the start of a link: "a/.." is another place if "a" is a link itself.

    Args:
        path: Path of the link from the folder.
        target: Target of the link.

    Example:
        >>> [leads_out("data/link", target) for target in ("x.csv", "../y", "../../z", "/etc", "a/../b")]
        [False, False, True, True, True]
    """
    target = target.replace("\\", "/")
    if target.startswith("/") or target[1:2] == ":" or "\0" in target:
        return True
    steps = [part for part in target.split("/") if part not in ("", ".")]
    up = next((at for at, part in enumerate(steps) if part != ".."), len(steps))
    depth = len([part for part in path.replace("\\", "/").split("/")[:-1] if part not in ("", ".")])
    return up > depth or ".." in steps[up:]


def climbs_out(path: str) -> bool:
    """Return whether a path leads out of the folder in which it starts.

    Example:
        >>> [climbs_out(path) for path in ("a/b", "../a", "a/../b", "/a", "C:a", "a\\\\..\\\\b")]
        [False, True, True, True, True, True]
    """
    return path.startswith(("/", "\\")) or ".." in path.replace("\\", "/").split("/") or path[1:2] == ":" \
        or "\0" in path


def _parts(path: str, top: Path) -> list[str]:
    if climbs_out(path):
        raise StoreDenied(f"{quoted(path)} leads out of the folder; nothing was written (in {top}).")
    return [part for part in path.split("/") if part not in ("", ".")]


@dataclass(frozen=True, slots=True)
class _Directory:
    """An open directory for access to its entries."""

    path: str
    handle: int | None

    @classmethod
    def at(cls, path: Path) -> _Directory:
        # The top is the caller's choice: links to it are followed.
        return cls(os.fspath(path), os.open(path, os.O_RDONLY | os.O_DIRECTORY) if _BY_HANDLE else None)

    def entered(self, name: str, *, make: bool) -> _Directory:
        if make:
            with contextlib.suppress(FileExistsError):
                os.mkdir(self._name(name), dir_fd=self.handle)
        path = os.path.join(self.path, name)
        if self.handle is not None:
            flags = os.O_RDONLY | os.O_DIRECTORY | _NO_LINK
            return _Directory(path, os.open(name, flags, dir_fd=self.handle))
        if os.path.realpath(path) != os.path.join(os.path.realpath(self.path), name) or \
                not stat.S_ISDIR(os.lstat(path).st_mode):
            raise NotADirectoryError(errno.ENOTDIR, "This is a link or a file, not a directory", path)
        return _Directory(path, None)

    def open(self, name: str, flags: int, mode: int) -> int:
        return os.open(self._name(name), flags, mode, dir_fd=self.handle)

    def replace(self, name: str, by: str) -> None:
        os.replace(self._name(name), self._name(by), src_dir_fd=self.handle, dst_dir_fd=self.handle)

    def unlink(self, name: str) -> None:
        os.unlink(self._name(name), dir_fd=self.handle)

    def symlink(self, target: str, name: str) -> None:
        os.symlink(target, self._name(name), dir_fd=self.handle)

    def close(self) -> None:
        if self.handle is not None:
            os.close(self.handle)

    def _name(self, name: str) -> str:
        return name if self.handle is not None else os.path.join(self.path, name)
