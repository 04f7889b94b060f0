"""Steps with histograms."""

from __future__ import annotations

import glob

import numpy as np
from numpy.typing import NDArray

from barograph.model.key import Key
from barograph.model.step import Mode
from barograph.runs.reading.reader import Run


def steps_with_histogram(run: Run, key: Key, *, optimizer: str | None = None) -> NDArray[np.int64]:
    """Return the training steps with a histogram of a key, ascending, each once.

    Args:
        run: The run.
        key: Key of a tensor.
        optimizer: Only steps of this optimizer; None: all.

    Raises:
        StoreError: The store cannot be read.
    """
    table = run.arrow(key.kind, glob.escape(key.path), mode=Mode.TRAIN, optimizer=optimizer,
                      columns=("step", "exponents"))
    steps: NDArray[np.int64] = table["step"].to_numpy()[~table["exponents"].is_null().to_numpy()]
    return np.unique(steps)
