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
        python: Of `random`.
        numpy: Of NumPy's global generator; None where NumPy was not loaded.
        cpu: Of torch, on the CPU.
        cuda: On each device; none where CUDA was not begun.
    """

    python: tuple[Any, ...]
    numpy: Any
    cpu: torch.Tensor
    cuda: tuple[torch.Tensor, ...] = ()

    def put_back(self) -> None:
        """Let all generators stand where they stood; those of devices that are not here are passed over."""
        random.setstate(self.python)
        if self.numpy is not None:
            import numpy as np

            np.random.set_state(self.numpy)
        torch.set_rng_state(self.cpu)
        if torch.cuda.is_available():
            for device, state in enumerate(self.cuda[: torch.cuda.device_count()]):
                torch.cuda.set_rng_state(state, device)


def random_states() -> RandomStates:
    """Return where all generators stand; draws nothing.

    On CUDA each device is asked, which waits for none: its generator lives on the host.
    """
    numpy = sys.modules.get("numpy")
    cuda = tuple(torch.cuda.get_rng_state_all()) if torch.cuda.is_initialized() else ()  # type: ignore[no-untyped-call]
    return RandomStates(
        random.getstate(), numpy.random.get_state() if numpy is not None else None, torch.get_rng_state(), cuda)
