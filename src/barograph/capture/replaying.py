"""Whether this process is replaying a held step; a replay records nothing."""

from __future__ import annotations

_framework = ""

PLACE = "memory://replay"
"""What a run that the script attaches is written to then: gone with the process."""


def begin(framework: str) -> None:
    """Note that this process makes a step again.

    Args:
        framework: That made it.
    """
    global _framework
    _framework = framework


def is_replaying(framework: str = "") -> bool:
    """Return whether this process does; of one framework, or of any.

    Args:
        framework: "": any.
    """
    return bool(_framework) and framework in ("", _framework)
