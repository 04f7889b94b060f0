"""Whether what is far too small is on its way up by itself."""

from __future__ import annotations

from typing import Any

_GAIN, _LOOKS = 1.5, 3


def is_gaining(share: float, memory: dict[str, Any], *, times: float = _GAIN) -> bool:
    """Take in how small the smallest is, and return whether that is half more than it was three looks ago.

    Layers that are begun at nearly zero on purpose (LayerScale, adapters) grow out of it step by step; what has
    vanished for good swings about its level. As long as there are fewer looks the first one is compared with; at
    the first itself it is not known.

    Args:
        share: The smallest beside the greatest.
        memory: What this function remembers, empty at first.
        times: What it must be of the share three looks ago; half more by default.

    Example:
        >>> memory = {}
        >>> [is_gaining(share, memory) for share in (1e-5, 2e-5, 1e-5, 1.2e-5, 4e-5)]
        [False, True, False, False, True]
    """
    shares: list[float] = memory.setdefault("shares", [])
    gains = bool(shares) and share > times * shares[0]
    shares.append(share)
    del shares[:-_LOOKS]
    return gains
