"""The name of the training loss among the metrics of a run. It imports nothing that reads records."""

from __future__ import annotations

import re
from collections.abc import Iterable

_TRAINING_LOSS = re.compile(r"(?i)^((train|training)[_/. ]?)?loss$")


def training_loss(names: Iterable[str]) -> str:
    """Return the training loss: "loss", or the first other name that scripts give it; "" if there is none.

    Example:
        >>> training_loss(["val/loss", "train/loss"])
        'train/loss'
    """
    return min(filter(_TRAINING_LOSS.match, names), key=lambda name: (name != "loss", name), default="")
