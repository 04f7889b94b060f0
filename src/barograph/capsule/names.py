"""Names of the samples of a saved batch: index in the data set, and file or name if recorded."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class NamedSample:
    """One sample of a batch.

    Attributes:
        row: Row in the batch.
        loader: Class of the data set.
        index: Index in the data set; for a stream the loader's worker and the position, as in "0:25".
        name: Name; "" if unknown.
    """

    row: int
    loader: str
    index: str
    name: str

    def __str__(self) -> str:
        called = f", {self.name}" if self.name else ""
        return f"{self.index} of {self.loader}{called}"


def named_samples(content: Mapping[str, Any], batch: int, rows: Sequence[int]) -> list[NamedSample]:
    """Return the names of some samples of a batch; empty if the capsule has none.

    Args:
        content: Content of the capsule.
        batch: Index of the batch in the step.
        rows: Rows of the samples.

    Example:
        >>> made_of = {"loader": "Images", "first": 32, "indices": [7, 9], "loader_worker": None, "names": ["a", "b"]}
        >>> [str(item) for item in named_samples({"samples": [made_of]}, 0, [1])]
        ['9 of Images, b']
    """
    known = content.get("samples") or []
    made_of = known[batch] if batch < len(known) else None
    if made_of is None:
        return []
    indices, names = made_of["indices"], made_of["names"]
    worker, first = made_of["loader_worker"] or 0, made_of["first"]
    samples = (made_of.get("samples") or None) if indices is None else len(indices)
    # A loader that does not batch yields one sample of the data set, whatever it contains.
    places = [(row, 0 if samples == 1 else row) for row in rows]
    return [
        NamedSample(row, made_of["loader"], f"{worker}:{first + at}" if indices is None else str(indices[at]),
                    names[at] if at < len(names) else "")
        for row, at in places if samples is None or at < samples
    ]
