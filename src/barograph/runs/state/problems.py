"""Errors of Barograph that were caught to protect training: the first of each cause."""

from __future__ import annotations

_MOST = 20


class Problems:
    """Keeps one text for each cause, in order."""

    def __init__(self) -> None:
        self._texts: dict[str, str] = {}

    def note(self, cause: str, text: str) -> None:
        """Keep `text` if this cause is new, up to a number of causes."""
        if len(self._texts) < _MOST:
            self._texts.setdefault(cause, text)

    @property
    def texts(self) -> tuple[str, ...]:
        """All texts."""
        return tuple(self._texts.values())
