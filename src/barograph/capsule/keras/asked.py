"""The statistics requested of a saved step's tensors, for rebuilding its program."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from barograph.capture.plan import Taking
from barograph.errors import ReplayFailed
from barograph.model.key import Kind
from barograph.model.selection import Histogram


class SavedRequest:
    """The requested statistics, as saved with the step.

    Args:
        said: Result of `barograph.capture.keras.asked.in_plain_data`.

    Raises:
        ReplayFailed: `said` is invalid.
    """

    def __init__(self, said: Any) -> None:
        try:
            self._takings: Mapping[tuple[Kind, str], Taking] = {
                (Kind(kind), str(path)): Taking(Histogram(histogram), bool(units), bool(raw))
                for kind, path, histogram, units, raw in said}
        except (TypeError, ValueError) as error:
            raise ReplayFailed(f"The capsule lists the requested tensors in an unknown form: {error}"
                               ) from None

    def taking(self, kind: Kind, path: str, layer: str) -> Taking | None:
        """Return the statistics recorded of a tensor; None: none."""
        return self._takings.get((kind, path))
