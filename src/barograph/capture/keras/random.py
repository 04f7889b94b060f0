"""Random states a Keras step may use besides its own seeds: Python, NumPy and, on that backend, PyTorch.

Keras layers have their own seeds, which are variables. On torch, layers without a seed use its generator, and an eager
step may use any generator.
"""

from __future__ import annotations

import random
import sys
from collections.abc import Mapping
from typing import Any

import keras
import numpy as np
from numpy.typing import NDArray

_NONE = float("nan")
"""Represents the absence of a cached second normal number."""


class RandomStates:
    """The current states of the generators."""

    def __init__(self) -> None:
        self._python = random.getstate()
        self._numpy: Any = np.random.get_state(legacy=True)
        torch = sys.modules.get("torch") if keras.backend.backend() == "torch" else None
        self._torch = {} if torch is None else {"torch": torch.get_rng_state()}
        if torch is not None and torch.cuda.is_initialized():
            self._torch |= {f"cuda[{number}]": state for number, state in enumerate(torch.cuda.get_rng_state_all())}

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Return them as arrays."""
        _, words, kept = self._python
        found = {"python": np.array(words, np.int64), "python kept": np.float64(_NONE if kept is None else kept)}
        if self._numpy[0] == "MT19937":
            _, keys, position, has_kept, kept = self._numpy
            found |= {"numpy": np.array(keys, np.uint32),
                      "numpy position": np.array([position, has_kept], np.int64), "numpy kept": np.float64(kept)}
        return {**{name: np.asarray(value) for name, value in found.items()},
                **{name: state.numpy() for name, state in self._torch.items()}}


def put_back(arrays: Mapping[str, NDArray[Any]]) -> None:
    """Restore the states of the generators; those missing in the arrays are unchanged."""
    if "python" in arrays:
        kept = float(arrays["python kept"])
        random.setstate((3, tuple(arrays["python"].tolist()), None if np.isnan(kept) else kept))
    if "numpy" in arrays:
        position, has_kept = arrays["numpy position"].tolist()
        np.random.set_state(("MT19937", np.array(arrays["numpy"]), position, has_kept, float(arrays["numpy kept"])))
    torch: Any = sys.modules.get("torch")
    if torch is not None and "torch" in arrays:
        torch.set_rng_state(torch.from_numpy(np.array(arrays["torch"])))
        for number in range(torch.cuda.device_count()):
            if f"cuda[{number}]" in arrays:
                torch.cuda.set_rng_state(torch.from_numpy(np.array(arrays[f"cuda[{number}]"])), number)
