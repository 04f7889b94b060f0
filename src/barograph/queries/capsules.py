"""The capsules of a run: steps that were saved for replay."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from barograph.errors import DamagedChunk, NewerFormat
from barograph.model.capsule import CapsuleHead
from barograph.model.plain import plain
from barograph.runs.state.capsules import capsule_names, read_head
from barograph.store.base import Store


@dataclass(frozen=True, slots=True)
class CapsuleRow:
    """One capsule.

    Attributes:
        place: Path or URL, as `barograph replay` takes it.
        head: What it is; None if it cannot be read.
        damaged: Why it cannot be read; "" if it can.
    """

    place: str
    head: CapsuleHead | None
    damaged: str = ""

    def to_json(self) -> dict[str, Any]:
        """Return it as strict JSON data."""
        fields = {"damaged": self.damaged} if self.head is None else asdict(self.head)
        data: dict[str, Any] = plain({"place": self.place, **fields})
        return data


def capsules_of(store: Store, place: str) -> list[CapsuleRow]:
    """Return the capsules of a run.

    Args:
        store: Contains the run.
        place: Path or URL of the run, with which the place of each capsule begins.

    Raises:
        StoreError: The store cannot be read.
    """
    return [_row(store, f"{place.rstrip('/')}/capsules/{name}", name) for name in capsule_names(store)]


def _row(store: Store, place: str, name: str) -> CapsuleRow:
    try:
        return CapsuleRow(place, read_head(store, name))
    except (DamagedChunk, NewerFormat) as error:
        return CapsuleRow(place, None, str(error))
