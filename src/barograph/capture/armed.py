"""Runs a callback at the import of a framework."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from barograph.capture.imports import after_import, forget


def arm(begin: Callable[[], None], modules: Sequence[str]) -> None:
    """Call `begin` once, at the first import of any of these modules.

    Until then, each import takes a few microseconds longer.
    """
    armed = _Armed(begin)
    _armed.append(armed)
    for name in modules:
        after_import(name, armed.fire)


def begin_if_armed() -> None:
    """Run the pending callback now instead of at the import of a framework."""
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
