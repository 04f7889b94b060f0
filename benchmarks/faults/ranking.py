"""Which cause a run's findings name first."""

from __future__ import annotations

from collections.abc import Iterable

from barograph.model.finding import Finding
from barograph.queries.causes import diagnose


def causes_of(findings: Iterable[Finding]) -> tuple[str, ...]:
    """Return the causes that are suspected, the likeliest first, as Barograph's own summary ranks them."""
    return tuple(str(item.cause) for item in diagnose(tuple(findings)))
