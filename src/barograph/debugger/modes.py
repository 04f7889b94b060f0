"""smdebug's modes."""

from __future__ import annotations

from enum import Enum


class ModeKeys(Enum):
    """The modes of a script; exported as `modes`."""

    TRAIN = 1
    EVAL = 2
    PREDICT = 3
    GLOBAL = 4
    """Whatever it was: steps are counted over all modes."""


modes = ModeKeys
