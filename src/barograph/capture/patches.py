"""Framework functions that are replaced during a recording and restored at its end."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from barograph.model.selection import Selection
    from barograph.model.step import Mode

Around = Callable[[Callable[..., Any], tuple[Any, ...], dict[str, Any]], Any]
"""Called in place of a function, with the function and its arguments; returns the function's result."""


class Patches:
    """An integration that only replaces functions; each replacement calls the original."""

    def __init__(self) -> None:
        self._undo: list[Callable[[], None]] = []
        self._listens = True

    def wrap(self, holder: Any, name: str, around: Around) -> None:
        """Replace a function by a wrapper.

        Args:
            holder: Module or class that defines it.
            name: Name of the function.
            around: Called instead, until removal.
        """
        original = vars(holder)[name]

        @functools.wraps(original)
        def wrapper(*args: Any, **kwargs: Any) -> Any:
            return around(original, args, kwargs) if self._listens else original(*args, **kwargs)

        def put_back() -> None:
            # Wrappers that others installed over ours keep working; ours then does nothing.
            if vars(holder).get(name) is wrapper:
                setattr(holder, name, original)

        setattr(holder, name, wrapper)
        self._undo.append(put_back)

    def ask_for(self, selections: Iterable[Selection]) -> None:
        """Do nothing: the plan has all requests."""

    def mode_changes(self, mode: Mode | None) -> None:
        """Do nothing: the integrations that get the data know the mode."""

    def remove(self) -> None:
        """Put everything back."""
        self._listens = False
        while self._undo:
            self._undo.pop()()
