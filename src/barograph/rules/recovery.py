"""Whether what is far too small is on its way up by itself."""

from __future__ import annotations

from typing import Any

_GAIN = 1.1


def is_gaining(share: float, memory: dict[str, Any]) -> bool:
    """Take in how small the smallest is, and return whether that is more by a tenth than it has ever been.

    Layers that are begun at nearly zero on purpose (LayerScale, adapters) grow out of it step by step. False at the
    first look, when nothing is known of where it goes.

    Args:
        share: The smallest beside the greatest.
        memory: What this function remembers, empty at first.

    Example:
        >>> memory = {}
        >>> [is_gaining(share, memory) for share in (1e-5, 2e-5, 2e-5, 1e-5, 4e-5)]
        [False, True, False, False, True]
    """
    highest = memory.get("highest_share")
    memory["highest_share"] = max(share, highest or 0.0)
    return highest is not None and share > _GAIN * highest
