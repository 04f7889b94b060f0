"""What was asked of the tensors of a held step, whose program is to be made again."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from barograph.capture.plan import Taking
from barograph.errors import ReplayFailed
from barograph.model.key import Kind
from barograph.model.selection import Histogram


class AskedThen:
    """It, as the step was saved with it.

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
            raise ReplayFailed(f"What was asked of the step's tensors stands there in no form that is known: {error}"
                               ) from None

    def taking(self, kind: Kind, path: str, layer: str) -> Taking | None:
        """Return what was taken of a tensor; None: nothing."""
        return self._takings.get((kind, path))
