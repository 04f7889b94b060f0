"""An output of a notebook that is drawn anew in its place."""

from __future__ import annotations

from typing import Any, Protocol


class Display(Protocol):
    """Where HTML is shown, each time in the place of what was shown before."""

    def show(self, html: str) -> None:
        """Show it."""
        ...


class CellDisplay:
    """An output below the cell that makes this.

    Args:
        text: What is shown where there is no HTML.
    """

    def __init__(self, text: str = "a run, drawn by barograph") -> None:
        self._text = text
        self._handle: Any = None

    def show(self, html: str) -> None:
        """Show it; from any thread."""
        from IPython.display import display

        bundle = {"text/html": html, "text/plain": self._text}
        if self._handle is None:
            self._handle = display(bundle, raw=True, display_id=True)
        else:
            self._handle.update(bundle, raw=True)
