"""The statistics a compiled step must compute itself, known when it is compiled."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from barograph.capture.plan import Plan, Taking
from barograph.model.key import Key, Kind, canonical_path

if TYPE_CHECKING:
    from barograph.model.step import Mode


class Requests(Protocol):
    """Decides what is recorded of each tensor; equal objects decide equally."""

    def taking(self, kind: Kind, path: str, layer: str) -> Taking | None:
        """Return the statistics to record of a tensor; None: none."""

    def __hash__(self) -> int: ...


@dataclass(frozen=True, slots=True)
class PlanRequests:
    """Everything a plan can ever request, at one point in time.

    Attributes:
        plan: The plan.
        selections: Number of its Selections.
        mode: Mode of the step.
    """

    plan: Plan
    selections: int
    mode: Mode

    def taking(self, kind: Kind, path: str, layer: str) -> Taking | None:
        """Return the statistics to record of a tensor; None: none."""
        return self.plan.taking(self.plan.everything(self.mode), Key(kind, canonical_path(path)), layer)


def in_plain_data(taken: Iterable[tuple[Kind, str, Taking]]) -> list[list[Any]]:
    """Return recorded statistics as plain data: kind, path, histogram, units and raw of each tensor."""
    return [[kind.value, path, int(taking.histogram), taking.units, taking.raw] for kind, path, taking in taken]
