"""Barograph watches models while they train.

Every name is imported on first use: `import barograph` loads neither torch nor pyarrow nor NumPy.
"""

from __future__ import annotations

import importlib
import sys
from typing import TYPE_CHECKING, Any

from barograph.version import __version__

_HOMES = {
    "BarographError": "barograph.errors",
    "TrainingStopped": "barograph.errors",
    "attach": "barograph.attaching",
    "open": "barograph.runs.reader",
    "Key": "barograph.model.key",
    "Kind": "barograph.model.key",
    "Mode": "barograph.model.step",
    "Selection": "barograph.model.selection",
    "Schedule": "barograph.model.selection",
    "Summary": "barograph.model.summary",
    "Finding": "barograph.model.finding",
    "Severity": "barograph.model.finding",
    "Rule": "barograph.rules.base",
    "load_ipython_extension": "barograph.notebook",
}

__all__ = [
    "BarographError",
    "Finding",
    "Key",
    "Kind",
    "Mode",
    "Rule",
    "Schedule",
    "Selection",
    "Severity",
    "Summary",
    "TrainingStopped",
    "__version__",
    "attach",
    "open",
]

if TYPE_CHECKING:
    from barograph.attaching import attach
    from barograph.errors import BarographError, TrainingStopped
    from barograph.model.finding import Finding, Severity
    from barograph.model.key import Key, Kind
    from barograph.model.selection import Schedule, Selection
    from barograph.model.step import Mode
    from barograph.model.summary import Summary
    from barograph.rules.base import Rule
    from barograph.runs.reader import open


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'barograph' has no attribute {name!r}")
    value = getattr(importlib.import_module(_HOMES[name]), name)
    globals()[name] = value
    _be_drawn()
    return value


def _be_drawn() -> None:
    """Have what is ours drawn, where a notebook is there to show it."""
    shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    if shell is not None:
        importlib.import_module("barograph.jupyter.formatters").register(shell)


def __dir__() -> list[str]:
    return __all__
