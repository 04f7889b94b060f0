"""The start of the step after a checkpoint: saved once, and compared when a training resumes.

Batch and loss show whether everything was restored: weights, random numbers, the position in the data.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch

from barograph.capture.torch.capsule import digest
from barograph.capture.torch.graph import given_tensors
from barograph.capture.torch.kept import loss_value
from barograph.capture.torch.values import tensors_in

_SAME = "batch and loss of the next step are bit-identical"


class NextStep:
    """Records the next step on request.

    Attributes:
        waits: It waits for the next step.
    """

    def __init__(self) -> None:
        self.waits = False
        self._seen: dict[str, Any] = {}
        self._expected: Mapping[str, Any] = {}
        self._proved: Callable[[str, bool], None] = lambda text, same: None
        self._write: Callable[[Mapping[str, Any]], None] = lambda seen: None

    def write_with(self, write: Callable[[Mapping[str, Any]], None]) -> None:
        """Pass the next step to `write`."""
        self._seen, self._write, self.waits = {}, write, True

    def expect(self, expected: Mapping[str, Any], proved: Callable[[str, bool], None]) -> None:
        """Compare the next step.

        Args:
            expected: The written values; empty: unknown, nothing is reported.
            proved: Called with a short description, and whether the values are equal.
        """
        if expected:
            self._seen, self._expected, self._proved, self.waits = {}, expected, proved, True

    def batch_came(self, batch: Any) -> None:
        """Process the first batch."""
        if "batch" not in self._seen:
            self._seen["batch"] = " ".join(digest(tensor) for _, tensor in tensors_in(batch))

    def backward_begins(self, tensors: Any) -> None:
        """Process the first loss, the last value needed; waits for its device."""
        roots: list[torch.Tensor] = given_tensors(tensors)
        if not roots:
            return
        self._seen["loss"] = loss_value(roots[0].detach()).hex()
        self.waits = False
        expected, self._expected = self._expected, {}
        if expected:
            differ = [what for what in ("batch", "loss") if what in expected and expected[what] != self._seen.get(what)]
            verb = "differs from that" if len(differ) == 1 else "differ from those"
            self._proved(f"the {' and the '.join(differ)} of the next step {verb} of the original run"
                         if differ else _SAME, not differ)
        write, self._write = self._write, lambda seen: None
        write(self._seen)
