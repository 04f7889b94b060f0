"""smdebug's modes."""

from __future__ import annotations

from enum import Enum


class ModeKeys(Enum):
    """What a script was doing; `modes` to those who import it."""

    TRAIN = 1
    EVAL = 2
    PREDICT = 3
    GLOBAL = 4
    """Whatever it was: steps are counted over all modes."""


modes = ModeKeys
