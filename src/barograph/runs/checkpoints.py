"""A checkpoint in a run: tensors as safetensors, all else as JSON, nothing that can run code.

Two objects: `checkpoints/NAME.DIGEST.safetensors` first, then `checkpoints/NAME.json`, which names it: a checkpoint
without its paper is none.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from numpy.typing import NDArray

from barograph.errors import DamagedChunk
from barograph.model.tensor import RawTensor
from barograph.runs.layout import CHECKPOINTS, digest_of
from barograph.runs.papers import sealed, unsealed
from barograph.runs.proof import proved_by_name
from barograph.runs.tensors import raw_tensors_bytes, read_tensors
from barograph.store.base import Store

_PAPER = re.compile(rf"{CHECKPOINTS}/(?P<attempt>\d{{4,}})-(?P<steps>\d{{8,}})-(?P<who>\w+)\.json")


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """What was saved.

    Attributes:
        name: Of its paper in the store.
        attempt: Which life of the run.
        steps: Optimizer steps made by then.
        content: "models" and "optimizers", by label, as their `state_dict` was, packed as `capture.torch_packing`
            says.
        tensors: By name.
    """

    name: str
    attempt: int
    steps: int
    content: Mapping[str, Any]
    tensors: Mapping[str, NDArray[Any]]


def write_checkpoint(
    store: Store, *, attempt: int, steps: int, who: str, content: Mapping[str, Any], tensors: Mapping[str, RawTensor]
) -> str:
    """Write a checkpoint, whole or not at all; return the name of its tensors' file.

    Args:
        store: The run's.
        attempt: Which life of the run.
        steps: Optimizer steps made.
        who: Tells the checkpoint of one process from another's; letters and digits.
        content: See `Checkpoint`.
        tensors: By the names that stand in the content.

    Raises:
        UnsupportedDtype: A tensor has a type that safetensors cannot hold.
        StoreError: The store did not take it.
    """
    data = raw_tensors_bytes(tensors)
    stem = f"{CHECKPOINTS}/{attempt:04d}-{steps:08d}-{who}"
    file = f"{stem}.{digest_of(data)}.safetensors"
    store.put(file, data)
    store.put(f"{stem}.json", sealed({"attempt": attempt, "steps": steps, "file": file, "content": dict(content)}))
    return file


def read_checkpoint(store: Store, name: str = "") -> Checkpoint | None:
    """Return a checkpoint of the run; None where there is none.

    Args:
        store: The run's.
        name: Of its paper; "": the last that was written, by attempt and steps.

    Raises:
        DamagedChunk: Its bytes are not those that were written.
        StoreError: The store cannot be read.
    """
    names = [name] if name else sorted(item.name for item in store.list(CHECKPOINTS) if _PAPER.fullmatch(item.name))
    if not names:
        return None
    paper = unsealed(store.get(names[-1]), names[-1])
    try:
        file, attempt, steps, content = paper["file"], int(paper["attempt"]), int(paper["steps"]), paper["content"]
    except (KeyError, TypeError, ValueError) as error:
        raise DamagedChunk(f"The paper is no checkpoint's: {error} ({names[-1]}).") from error
    return Checkpoint(names[-1], attempt, steps, content, read_tensors(proved_by_name(store, file), file))
