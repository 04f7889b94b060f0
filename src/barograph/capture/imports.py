"""Calls back when a module is imported; costs a few microseconds per import."""

from __future__ import annotations

import importlib.machinery
import sys
from collections.abc import Callable, Sequence
from types import ModuleType
from typing import Any

Action = Callable[[], None]


def after_import(name: str, action: Action) -> None:
    """Call `action` once, after the module with that name has been imported; immediately if it already is.

    It runs within the import, after the module's own code. If the import is already in progress and nobody waited for
    it at its start, its end is not observed.

    Args:
        name: Full name of the module.
        action: The callback; it must not raise.
    """
    if _is_loaded(name):
        action()
        return
    _waiting.setdefault(name, []).append(action)
    if _finder not in sys.meta_path:
        sys.meta_path.insert(0, _finder)


def forget(action: Action) -> None:
    """Cancel `action`."""
    for name, actions in list(_waiting.items()):
        left = [item for item in actions if item != action]
        if left:
            _waiting[name] = left
        else:
            del _waiting[name]
    _stop_if_idle()


def _is_loaded(name: str) -> bool:
    module = sys.modules.get(name)
    if module is None:
        return False
    # During our callbacks, Python still considers a module whose code has run as loading.
    return name in _executed or not getattr(getattr(module, "__spec__", None), "_initializing", False)


def _loaded(name: str) -> None:
    _executed.add(name)
    actions = _waiting.pop(name, [])
    _stop_if_idle()
    try:
        for action in actions:
            action()
    finally:
        _executed.discard(name)


def _stop_if_idle() -> None:
    if not _waiting and _finder in sys.meta_path:
        sys.meta_path.remove(_finder)


class _Finder:
    """Finds modules by the usual finders, and calls back when an awaited module is loaded."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        if fullname not in _waiting:
            return None
        spec = _spec_of_others(fullname, path, target)
        loader = spec.loader if spec is not None else None
        if loader is None:
            return spec
        load = loader.exec_module

        def exec_module(module: ModuleType) -> None:
            # First of all, since a reload must find the original loader.
            vars(loader).pop("exec_module", None)
            load(module)
            _loaded(fullname)

        loader.exec_module = exec_module  # type: ignore[method-assign]
        return spec


def _spec_of_others(
    fullname: str, path: Sequence[str] | None, target: ModuleType | None
) -> importlib.machinery.ModuleSpec | None:
    for finder in list(sys.meta_path):
        find: Any = None if finder is _finder else getattr(finder, "find_spec", None)
        spec: importlib.machinery.ModuleSpec | None = find(fullname, path, target) if find is not None else None
        if spec is not None:
            return spec
    return None


_waiting: dict[str, list[Action]] = {}
_executed: set[str] = set()
_finder = _Finder()
