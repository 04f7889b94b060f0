"""Metrics reported in parts: for an evaluation, the mean over its calls."""

from __future__ import annotations

from collections.abc import Callable

from barograph.capture.array_integration import ArrayIntegration
from barograph.capture.buffer import StepBuffer
from barograph.model.key import Key


class EvaluationMeans:
    """Metrics: the last value in a step, the mean over the parts of an evaluation."""

    def __init__(self) -> None:
        self._of: StepBuffer | None = None
        self._values: dict[Key, list[float]] = {}

    def add(self, integration: ArrayIntegration, key: Key, value: float | Callable[[], float]) -> None:
        """Record a metric when its device has computed it."""
        def put(buffer: StepBuffer) -> None:
            if buffer is not self._of:
                self._of, self._values = buffer, {}
            values = self._values.setdefault(key, [])
            values.append(value() if callable(value) else value)
            buffer.scalars[key] = sum(values) / len(values)

        integration.defer(put)
