"""Barograph watches models while they train.

Every name is imported on first use: `import barograph` loads neither torch nor pyarrow nor NumPy.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from barograph.late import importer
from barograph.version import __version__

_HOMES = {
    "BarographError": "barograph.errors",
    "TrainingStopped": "barograph.errors",
    "attach": "barograph.attaching",
    "channel": "barograph.jobs.channel_of_script",
    "open": "barograph.runs.reading.reader",
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
    "channel",
    "open",
]

if TYPE_CHECKING:
    from barograph.attaching import attach
    from barograph.errors import BarographError, TrainingStopped
    from barograph.jobs.channel_of_script import channel
    from barograph.model.finding import Finding, Severity
    from barograph.model.key import Key, Kind
    from barograph.model.selection import Schedule, Selection
    from barograph.model.step import Mode
    from barograph.model.summary import Summary
    from barograph.rules.base import Rule
    from barograph.runs.reading.reader import open


__getattr__ = importer(__name__, _HOMES)


def __dir__() -> list[str]:
    return __all__
