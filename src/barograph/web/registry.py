"""The running studios of this user, as files, so that a training finds the one that serves its root."""

from __future__ import annotations

import contextlib
import json
import os
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from urllib.parse import quote

from barograph.jobs.home import JobsHome
from barograph.web.places import Places

_ANSWER_SECS = 2.0


@dataclass(frozen=True, slots=True)
class Studio:
    """A running studio.

    Attributes:
        url: Address of its page, without a token.
        roots: Paths or URLs that it serves.
    """

    url: str
    roots: tuple[str, ...]

    def link_to(self, place: str) -> str:
        """Return the link to a run; "" if no root contains it.

        Example:
            >>> Studio("http://127.0.0.1:8642/", ("/runs",)).link_to("/runs/wide nets/first")
            'http://127.0.0.1:8642/#/run/0/wide%20nets/first'
        """
        for root in Places(self.roots).roots:
            if place.startswith(f"{root.place.rstrip('/')}/"):
                return f"{self.url}#/run/{quote(root.key_of(place))}"
        return ""


class Registry:
    """The running studios, one file each.

    Args:
        folder: Directory of the files; None: in the user's state directory.
        answers: Whether a studio responds at its URL.
    """

    def __init__(self, folder: Path | None = None, *, answers: Callable[[str], bool] | None = None) -> None:
        self.folder = folder or JobsHome().path / "studios"
        self._answers = answers or _answers

    @contextmanager
    def entered(self, studio: Studio) -> Iterator[None]:
        """Register a studio of this process.

        If the file cannot be written, a training starts another studio.
        """
        note = self.folder / f"{os.getpid()}.json"
        part = note.with_suffix(".part")
        with contextlib.suppress(OSError):
            self.folder.mkdir(parents=True, exist_ok=True)
            part.write_text(json.dumps(asdict(studio)), "utf-8")
            part.replace(note)
        try:
            yield
        finally:
            with contextlib.suppress(OSError):
                note.unlink(missing_ok=True)

    def link_to(self, place: str) -> str:
        """Return the link to a run in a studio that serves its place; "" if none does. Removes files of dead ones.

        Args:
            place: Absolute path or URL of the run.
        """
        for note in sorted(self.folder.glob("*.json")):
            studio = _studio(note) if _has_process(note) else None
            link = studio.link_to(place) if studio is not None else ""
            if studio is not None and link and self._answers(studio.url):
                return link
            if studio is None or link:
                with contextlib.suppress(OSError):
                    note.unlink(missing_ok=True)
        return ""


def _has_process(note: Path) -> bool:
    """Return whether the process that wrote a note may still run."""
    if os.name == "nt":
        return True  # there, signal 0 would end it
    try:
        os.kill(int(note.stem), 0)
    except (ProcessLookupError, ValueError, OverflowError):
        return False
    except PermissionError:
        return True
    return True


def _studio(note: Path) -> Studio | None:
    try:
        data = json.loads(note.read_bytes())
        return Studio(str(data["url"]), tuple(map(str, data["roots"])))
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _answers(url: str) -> bool:
    # Not through a proxy of the environment: it is on this machine.
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        with opener.open(f"{url}health", timeout=_ANSWER_SECS) as answer:
            return bool(answer.read(100) == b"barograph studio\n")
    except TimeoutError:
        return True  # it is busy
    except (OSError, ValueError):
        return False


def roots_shown(roots: Sequence[str]) -> tuple[str, ...]:
    """Return roots as absolute paths or URLs."""
    return tuple(root.place for root in Places(roots).roots)
