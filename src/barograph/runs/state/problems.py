"""Errors of ours that were caught where they may not disturb training: the first of each cause."""

from __future__ import annotations

_MOST = 20


class Problems:
    """Keeps one text for each cause, in the order they came."""

    def __init__(self) -> None:
        self._texts: dict[str, str] = {}

    def note(self, cause: str, text: str) -> None:
        """Keep `text` if nothing was noted of this cause, and few enough causes are known."""
        if len(self._texts) < _MOST:
            self._texts.setdefault(cause, text)

    @property
    def texts(self) -> tuple[str, ...]:
        """All that was noted."""
        return tuple(self._texts.values())
