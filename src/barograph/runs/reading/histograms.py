"""At which steps histograms were taken, and what they say."""

from __future__ import annotations

import glob

import numpy as np
from numpy.typing import NDArray

from barograph.model.key import Key
from barograph.model.step import Mode
from barograph.runs.reading.reader import RunReader


def steps_with_histogram(run: RunReader, key: Key, *, optimizer: str | None = None) -> NDArray[np.int64]:
    """Return the training steps at which a histogram of that key was taken, rising, each once.

    Args:
        run: Which.
        key: Of a tensor.
        optimizer: Only of steps of this one; None: of any.

    Raises:
        StoreError: The store cannot be read.
    """
    table = run.arrow(key.kind, glob.escape(key.path), mode=Mode.TRAIN, optimizer=optimizer,
                      columns=("step", "exponents"))
    steps: NDArray[np.int64] = table["step"].to_numpy()[~table["exponents"].is_null().to_numpy()]
    return np.unique(steps)
