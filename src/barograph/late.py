"""Names of a module that are imported when somebody first asks for them."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Mapping
from typing import Any


def importer(module: str, homes: Mapping[str, str]) -> Callable[[str], Any]:
    """Return what a module has as its `__getattr__`.

    Args:
        module: Its name.
        homes: Name to the module where that is at home.
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
    """Have what is ours drawn, where a notebook is there to show it."""
    shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    if shell is not None:
        importlib.import_module("barograph.jupyter.formatters").register(shell)
