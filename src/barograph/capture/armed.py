"""Waits for the import of a framework, to begin something then."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from barograph.capture.imports import after_import, forget


def arm(begin: Callable[[], None], modules: Sequence[str]) -> None:
    """Call `begin` once, at the first import of any of these modules.

    Until then, an import costs a few microseconds more.
    """
    armed = _Armed(begin)
    _armed.append(armed)
    for name in modules:
        after_import(name, armed.fire)


def begin_if_armed() -> None:
    """Begin now rather than at the import of a framework, if that was still waited for."""
    for armed in list(_armed):
        armed.fire()


class _Armed:
    """Runs a callback once, at the first import of one of several modules."""

    def __init__(self, begin: Callable[[], None]) -> None:
        self._begin = begin

    def fire(self) -> None:
        if self in _armed:
            _armed.remove(self)
            forget(self.fire)
            self._begin()


_armed: list[_Armed] = []
