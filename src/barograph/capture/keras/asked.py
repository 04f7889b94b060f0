"""The statistics a compiled step must compute itself, known when it is compiled."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from barograph.capture.plan import Plan, Taking
from barograph.model.key import Key, Kind, canonical_path

if TYPE_CHECKING:
    from barograph.model.step import Mode


class Asked(Protocol):
    """Decides what is recorded of each tensor; equal objects decide equally."""

    def taking(self, kind: Kind, path: str, layer: str) -> Taking | None:
        """Return what is taken of a tensor; None: nothing."""

    def __hash__(self) -> int: ...


@dataclass(frozen=True, slots=True)
class AskedByPlan:
    """Everything a plan can ever request, at one point in time.

    Attributes:
        plan: It.
        selections: How many it had.
        mode: Of what the step is a part.
    """

    plan: Plan
    selections: int
    mode: Mode

    def taking(self, kind: Kind, path: str, layer: str) -> Taking | None:
        """Return what is taken of a tensor; None: nothing."""
        return self.plan.taking(self.plan.everything(self.mode), Key(kind, canonical_path(path)), layer)


def in_plain_data(taken: Iterable[tuple[Kind, str, Taking]]) -> list[list[Any]]:
    """Return what was taken of tensors in plain data: of each its kind, path, histogram, whether units, whether all."""
    return [[kind.value, path, int(taking.histogram), taking.units, taking.raw] for kind, path, taking in taken]
