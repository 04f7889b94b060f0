"""Detects whether a value that is too small is growing."""

from __future__ import annotations

from typing import Any

_GAIN, _LOOKS = 1.5, 3


def is_gaining(share: float, memory: dict[str, Any], *, times: float = _GAIN) -> bool:
    """Add the smallest share; return whether it is 1.5 times the value three calls ago.

    Layers initialized near zero on purpose (LayerScale, adapters) grow step by step; layers that have vanished
    fluctuate around their level. With fewer calls, compares with the first; the first call returns False.

    Args:
        share: Ratio of the smallest to the largest.
        memory: State of this function, empty at first.
        times: Required multiple of the share three calls ago.

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
