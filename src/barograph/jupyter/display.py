"""A notebook output that can be redrawn."""

from __future__ import annotations

from typing import Any, Protocol


class Display(Protocol):
    """An output for HTML; each call replaces the previous content."""

    def show(self, html: str) -> None:
        """Show HTML."""
        ...


class CellDisplay:
    """An output below the cell that creates this object.

    Args:
        text: Fallback without HTML.
    """

    def __init__(self, text: str = "a run, drawn by barograph") -> None:
        self._text = text
        self._handle: Any = None

    def show(self, html: str) -> None:
        """Show HTML. Thread-safe."""
        from IPython.display import display

        bundle = {"text/html": html, "text/plain": self._text}
        if self._handle is None:
            self._handle = display(bundle, raw=True, display_id=True)
        else:
            self._handle.update(bundle, raw=True)
