"""The served roots, and keys for the runs below them that are safe in URLs."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from barograph.errors import NotARun, UnknownName
from barograph.model.one_line import shown
from barograph.store.base import Store
from barograph.store.urls import store_from_url

_LONGEST_KEY = 4096


@dataclass(frozen=True, slots=True)
class Root:
    """A directory or bucket prefix that is served.

    Attributes:
        number: Index among the served roots.
        place: Its path or URL.
    """

    number: int
    place: str

    @property
    def store(self) -> Store:
        """Its store."""
        return store_from_url(self.place)

    def key_of(self, place: str) -> str:
        """Return the key of the run at `place` below this root."""
        place = place.removeprefix("file://")
        below = place[len(self.place.rstrip("/")):].strip("/")
        return f"{self.number}/{below}" if below else str(self.number)


class Places:
    """Resolves keys of runs, such as `0/digits/first`: the number of a root, and the path below it.

    Args:
        roots: Paths or URLs of the roots.
    """

    def __init__(self, roots: Sequence[str]) -> None:
        self.roots = tuple(Root(number, root if "://" in root else os.path.abspath(root))
                           for number, root in enumerate(roots))

    def place_of(self, key: str) -> str:
        """Return the path or URL of a run.

        Raises:
            UnknownName: The key is not below a root.
        """
        number, _, below = key.partition("/")
        parts = below.split("/") if below else []
        if (len(key) > _LONGEST_KEY or not number.isascii() or not number.isdigit() or int(number) >= len(self.roots)
                or any(part in ("", ".", "..") or "\\" in part or shown(part) != part for part in parts)):
            raise UnknownName(f"No run is called {key[:200]!r} here.")
        root = self.roots[int(number)]
        if not parts:
            return root.place
        if "://" in root.place:
            return f"{root.place.rstrip('/')}/{below}"
        place = Path(root.place, *parts)
        # A link may lead out of what is served.
        if not place.resolve().is_relative_to(Path(root.place).resolve()):
            raise UnknownName(f"{key} is a link to a place that is not served.")
        return str(place)

    def store_of(self, key: str) -> Store:
        """Return the store of a run.

        Raises:
            UnknownName: The key is not below a root.
            NotARun: There is no run.
        """
        place = self.place_of(key)
        if (store := store_at(place)) is None:
            raise NotARun(f"There is no run at {place}.")
        return store


def store_at(place: str) -> Store | None:
    """Return the store at a path or URL; None if it is a path without a directory."""
    return store_from_url(place) if "://" in place or Path(place).is_dir() else None
