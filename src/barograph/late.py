"""Lazy imports: names of a module that are imported on first use."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Mapping
from typing import Any


def importer(module: str, homes: Mapping[str, str]) -> Callable[[str], Any]:
    """Return a `__getattr__` for a module.

    Args:
        module: Name of the module.
        homes: Name to the module that defines it.
    """
    def imported(name: str) -> Any:
        if name not in homes:
            raise AttributeError(f"module {module!r} has no attribute {name!r}")
        value = getattr(importlib.import_module(homes[name]), name)
        setattr(sys.modules[module], name, value)
        _be_drawn()
        return value

    return imported


def _be_drawn() -> None:
    """Register the formatters in a notebook."""
    shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    if shell is not None:
        importlib.import_module("barograph.jupyter.formatters").register(shell)
