"""The studies of a user on this machine: name to place, next to the records of jobs."""

from __future__ import annotations

import contextlib
import json
import os
import re
from collections.abc import Iterator
from pathlib import Path

from barograph.errors import TuneError, UnknownStudy, nearest
from barograph.jobs.home import JobsHome
from barograph.jobs.spec import check_name
from barograph.machine.host_lock import HostLock

FOLDER = "studies"
"""Folder of the records, and of the studies below a root of runs."""
LONGEST = 54
"""A name of a study may have so many characters: the names of its jobs begin with it."""


def new_study_name(title: str) -> str:
    """Return a name for a study of a script or an algorithm that no other study has.

    Example:
        >>> import re
        >>> bool(re.fullmatch(r"my-script-1-[0-9a-f]{4}", new_study_name("my script (1)")))
        True
    """
    stem = re.sub(r"[^A-Za-z0-9._]+", "-", title)[:LONGEST - 5].strip("-._")
    return f"{stem or 'study'}-{os.urandom(2).hex()}"


def check_study_name(name: str) -> None:
    """Raise `SettingsError` if this cannot be the name of a study."""
    check_name(name, "study", LONGEST)


class StudyHome:
    """Finds studies by name.

    Args:
        home: Directory of the jobs of the user.
    """

    def __init__(self, home: JobsHome) -> None:
        self._folder = home.path / FOLDER

    @contextlib.contextmanager
    def lock(self, name: str) -> Iterator[bool]:
        """Hold a name while its study is created. Yield whether this process has it.

        Raises:
            TuneError: The folder of the records cannot be created.
        """
        self._make()
        lock = HostLock(f"study {name}", self._folder)
        try:
            yield lock.take()
        finally:
            lock.release()

    def add(self, name: str, url: str) -> None:
        """Store where a study is; this replaces an older record of its name.

        Raises:
            SettingsError: It cannot be the name of a study.
            TuneError: The record cannot be written.
        """
        check_study_name(name)
        part = self._folder / f".{name}.{os.getpid()}"
        self._make()
        try:
            part.write_text(json.dumps({"name": name, "url": url}), "utf-8")
            os.replace(part, self._path(name))
        except OSError as error:
            raise TuneError(f"Cannot store the name of the study: {error.strerror} ({self._folder}).") from error

    def remove(self, name: str) -> None:
        """Forget a name."""
        with contextlib.suppress(OSError):
            self._path(name).unlink()

    def has(self, name: str) -> bool:
        """Return whether there is a record of that name."""
        return self._path(name).exists()

    def names(self) -> list[str]:
        """Return the names of all studies, the newest last."""
        try:
            paths = [path for path in self._folder.iterdir() if path.suffix == ".json" and path.name[0] != "."]
        except OSError:
            return []
        return [path.stem for path in sorted(paths, key=lambda path: (path.stat().st_mtime_ns, path.name))]

    def url(self, name: str) -> str:
        """Return the place of a study from its name, or from the place itself.

        Raises:
            UnknownStudy: There is no such study.
        """
        if "/" in name:
            return name
        try:
            url: str = json.loads(self._path(name).read_bytes())["url"]
        except FileNotFoundError:
            names = self.names()
            raise UnknownStudy(f'There is no study named "{name}". '
                               f'{nearest(name, names) if names else "There are no studies."}') from None
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise UnknownStudy(f'The record of the study "{name}" is damaged: {error} ({self._path(name)}).') from None
        return url

    def _make(self) -> None:
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise TuneError(f"Cannot store the names of studies: {error.strerror} ({self._folder}).") from error

    def _path(self, name: str) -> Path:
        return self._folder / f"{name}.json"
