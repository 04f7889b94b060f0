"""Random states of Python, NumPy (if used) and PyTorch on every device."""

from __future__ import annotations

import random
import sys
from dataclasses import dataclass
from typing import Any

import torch


@dataclass(frozen=True, slots=True)
class RandomStates:
    """The states of all generators.

    Attributes:
        python: State of `random`.
        numpy: State of NumPy's global generator; None if NumPy was not loaded.
        cpu: State of PyTorch's CPU generator.
        cuda: States per device; empty if CUDA was not initialized.
    """

    python: tuple[Any, ...]
    numpy: Any
    cpu: torch.Tensor
    cuda: tuple[torch.Tensor, ...] = ()

    def put_back(self) -> None:
        """Restore the states of all generators; missing devices are skipped."""
        random.setstate(self.python)
        if self.numpy is not None:
            import numpy as np

            np.random.set_state(self.numpy)
        torch.set_rng_state(self.cpu)
        if torch.cuda.is_available():
            for device, state in enumerate(self.cuda[: torch.cuda.device_count()]):
                torch.cuda.set_rng_state(state, device)


def random_states() -> RandomStates:
    """Return the states of all generators; draws nothing.

    Reading the generator of a CUDA device does not wait: it is on the host.
    """
    numpy = sys.modules.get("numpy")
    cuda = tuple(torch.cuda.get_rng_state_all()) if torch.cuda.is_initialized() else ()  # type: ignore[no-untyped-call]
    return RandomStates(
        random.getstate(), numpy.random.get_state() if numpy is not None else None, torch.get_rng_state(), cuda)
