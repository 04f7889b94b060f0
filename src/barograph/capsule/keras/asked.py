"""The statistics requested of a held step's tensors, to rebuild its program."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from barograph.capture.plan import Taking
from barograph.errors import ReplayFailed
from barograph.model.key import Kind
from barograph.model.selection import Histogram


class AskedThen:
    """The requested statistics, as saved with the step.

    Args:
        said: As `barograph.capture.keras.asked.in_plain_data` returned it.

    Raises:
        ReplayFailed: It is not of that form.
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
        """Return what was taken of a tensor; None: nothing."""
        return self._takings.get((kind, path))
