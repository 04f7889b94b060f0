"""Framework functions that are replaced during a recording and restored at its end."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from barograph.model.selection import Selection
    from barograph.model.step import Mode

Around = Callable[[Callable[..., Any], tuple[Any, ...], dict[str, Any]], Any]
"""Called in place of a function, with the function itself and the arguments; returns what that returned."""


class Patches:
    """An integration that only replaces functions; each replacement calls the original."""

    def __init__(self) -> None:
        self._undo: list[Callable[[], None]] = []
        self._listens = True

    def wrap(self, holder: Any, name: str, around: Around) -> None:
        """Put a function in the place of another.

        Args:
            holder: A module or a class that has it itself.
            name: Of the function.
            around: What is called instead, as long as this listens.
        """
        original = vars(holder)[name]

        @functools.wraps(original)
        def wrapper(*args: Any, **kwargs: Any) -> Any:
            return around(original, args, kwargs) if self._listens else original(*args, **kwargs)

        def put_back() -> None:
            # What somebody else has put on top of ours keeps working: ours is then a plain passage.
            if vars(holder).get(name) is wrapper:
                setattr(holder, name, original)

        setattr(holder, name, wrapper)
        self._undo.append(put_back)

    def ask_for(self, selections: Iterable[Selection]) -> None:
        """Note nothing: what is asked for is asked of the plan."""

    def mode_changes(self, mode: Mode | None) -> None:
        """Note nothing: the integrations that are fed know the mode."""

    def remove(self) -> None:
        """Put everything back."""
        self._listens = False
        while self._undo:
            self._undo.pop()()
