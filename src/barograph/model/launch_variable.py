"""The part of a launch that a Python process needs before it trains; most never do."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

LAUNCH_VARIABLE = "BAROGRAPH_LAUNCH"
"""Environment variable that holds a `Launch` as JSON."""

COMMAND_NOTE_VARIABLE = "BAROGRAPH_COMMAND_NOTE"
"""Environment variable with the file for the output of a command that does not train.

Its value is `NUMBER:PATH`: the number of the process that started it, and the file.
"""


class InstalledIntegration(NamedTuple):
    """An installed integration of a framework.

    Attributes:
        module: Module whose import activates it.
        listener: Function that installs its hooks, as `module:function`. It takes the recording.
        package: Package that declares it; "": ours.
    """

    module: str
    listener: str
    package: str = ""

    @property
    def framework(self) -> str:
        """The top-level module of the framework."""
        return self.module.partition(".")[0]


def integrations_from_launch(data: Mapping[str, Any]) -> tuple[InstalledIntegration, ...] | None:
    """Return the integrations that a launch lists, from its parsed JSON; None if it lists none."""
    listed = data.get("integrations")
    return None if listed is None else tuple(InstalledIntegration(*item) for item in listed)
