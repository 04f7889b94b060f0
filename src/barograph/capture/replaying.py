"""Whether this process is replaying a saved step; a replay records nothing."""

from __future__ import annotations

_framework = ""

PLACE = "memory://replay"
"""Place of a run that the script attaches during a replay; it vanishes with the process."""


def begin(framework: str) -> None:
    """Note that this process replays a step.

    Args:
        framework: Framework of the step.
    """
    global _framework
    _framework = framework


def is_replaying(framework: str = "") -> bool:
    """Return whether this process replays a step.

    Args:
        framework: Only a step of this framework; "": any.
    """
    return bool(_framework) and framework in ("", _framework)
