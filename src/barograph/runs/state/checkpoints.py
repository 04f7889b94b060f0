"""Checkpoints in a run: tensors as safetensors, everything else as JSON, no code.

First `checkpoints/NAME.CHECKSUM.safetensors` is written, then `checkpoints/NAME.json`, which names it: without its
metadata file, a checkpoint does not count. After the next step, `checkpoints/NAME.next.json` has the start of that
step. `checkpoints/full-evaluations.json` exists if the script needs whole evaluations to reach a checkpoint.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from numpy.typing import NDArray

from barograph.errors import DamagedChunk, ObjectNotFound
from barograph.model.tensor import RawTensor
from barograph.runs.format.layout import CHECKPOINTS
from barograph.runs.format.metadata import sealed, unsealed
from barograph.runs.format.proof import checksum_of, proved_by_checksum
from barograph.runs.format.tensors import raw_tensors_parts, read_tensors
from barograph.store.base import Store

_METADATA_NAME = re.compile(rf"{CHECKPOINTS}/(?P<attempt>\d{{4,}})-(?P<steps>\d{{8,}})-(?P<who>\w+)\.json")
_NEXT = ".next.json"
_FULL_EVALUATIONS = f"{CHECKPOINTS}/full-evaluations.json"


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """A checkpoint.

    Attributes:
        name: Name of its metadata file in the store.
        attempt: Attempt of the run.
        steps: Optimizer steps so far.
        content: "models" and "optimizers", by label, and all other state of the training, packed by
            `capture.torch.packing`.
        tensors: Tensors by name.
        finite: Whether all weights are finite.
    """

    name: str
    attempt: int
    steps: int
    content: Mapping[str, Any]
    tensors: Mapping[str, NDArray[Any]]
    finite: bool = True

    @property
    def rank(self) -> int | None:
        """Rank of the worker that saved it; None for a process without rank."""
        rank = self.content.get("machine", {}).get("rank")
        return None if rank is None else int(rank)

    @property
    def world_size(self) -> int:
        """Number of workers that saved their parts after the same step."""
        return int(self.content.get("machine", {}).get("world_size", 1))

    @property
    def is_of_child(self) -> bool:
        """Whether a process started by the script saved it, one that trained alone."""
        return self.world_size == 1 and self.content.get("machine", {}).get("child") is True

    @property
    def why_not(self) -> str:
        """Why a training cannot resume from it; "" if it can."""
        if not self.finite:
            return "its weights are not finite"
        place = self.content.get("place") or {}
        return "" if place.get("passes") else str(place.get("why_not") or "it was saved in the middle of a step")


def write_checkpoint(
    store: Store, *, attempt: int, steps: int, who: str, content: Mapping[str, Any], tensors: Mapping[str, RawTensor],
    finite: bool = True,
) -> str:
    """Write a checkpoint atomically; return the name of its tensor file.

    Args:
        store: Store of the run.
        attempt: Attempt of the run.
        steps: Optimizer steps so far.
        who: Distinguishes the checkpoints of processes; letters and digits.
        content: See `Checkpoint`.
        tensors: Tensors by the names in the content.
        finite: Whether all weights are finite.

    Raises:
        UnsupportedDtype: safetensors does not support the type of a tensor.
        StoreError: The store rejected it.
    """
    parts = raw_tensors_parts(tensors)
    stem = f"{CHECKPOINTS}/{attempt:04d}-{steps:08d}-{who}"
    file = f"{stem}.{checksum_of(*parts)}.safetensors"
    store.put(file, parts)
    store.put(f"{stem}.json", sealed({"attempt": attempt, "steps": steps, "file": file, "finite": finite,
                                      "content": dict(content)}))
    return file


def read_checkpoint(store: Store, name: str = "") -> Checkpoint | None:
    """Return a checkpoint of the run; None if there is none.

    Args:
        store: Store of the run.
        name: Name of its metadata file; "": the last one by attempt and steps.

    Raises:
        DamagedChunk: It is damaged.
        StoreError: The store cannot be read.
    """
    names = [name] if name else checkpoint_names(store)
    if not names:
        return None
    metadata_file = unsealed(store.get(names[-1]), names[-1])
    try:
        file, attempt, steps = str(metadata_file["file"]), int(metadata_file["attempt"]), int(metadata_file["steps"])
        content = dict(metadata_file["content"])
        for part in ("place", "machine"):
            dict(content.get(part) or {})
    except (KeyError, TypeError, ValueError, OverflowError) as error:
        raise DamagedChunk(f"Not the metadata of a checkpoint: {error} ({names[-1]}).") from error
    return Checkpoint(names[-1], attempt, steps, content, read_tensors(_proved(store, file), file),
                      bool(metadata_file.get("finite", True)))


def _proved(store: Store, file: str) -> memoryview:
    """Return the bytes of a file after verifying the checksum in its name."""
    return proved_by_checksum(store, file, file.rpartition(".safetensors")[0].rpartition(".")[2])


def name_of_worker(name: str, rank: int) -> str:
    """Return the name of the metadata file of another worker's part of a checkpoint.

    Example:
        >>> name_of_worker("checkpoints/0000-00000020-r0.json", 3)
        'checkpoints/0000-00000020-r3.json'
    """
    return f"{name.rpartition('-')[0]}-r{rank}.json"


@dataclass(frozen=True, slots=True)
class SavedCheckpoint:
    """State of one checkpoint of a run, with the parts of all workers.

    Attributes:
        name: Name of its metadata file in the store; with several workers, that of the first.
        attempt: Attempt of the run.
        steps: Optimizer steps so far.
        saved_unix: Time by the store's clock.
        size_bytes: Size of all its files.
        why_not: Why training cannot resume from it; "" if it can; None: not read, since a newer one is good.
    """

    name: str
    attempt: int
    steps: int
    saved_unix: float
    size_bytes: int
    why_not: str | None


class _Read(NamedTuple):
    name: str
    found: Checkpoint | None
    why_not: str
    is_damaged: bool = False


def last_good(store: Store) -> tuple[Checkpoint | None, list[str]]:
    """Return the last checkpoint from which training can resume, and for each newer one why it cannot.

    Raises:
        StoreError: The store cannot be read.
    """
    passed_over: list[str] = []
    for name, found, why_not, is_damaged in _newest_first(store):
        if not why_not:
            return found, passed_over
        passed_over.append(f"The checkpoint {name} is damaged; the previous one is used: {why_not}" if is_damaged
                           else f"The checkpoint {name} is skipped: {why_not}.")
    return None, passed_over


def saved_checkpoints(store: Store) -> list[SavedCheckpoint]:
    """Return all checkpoints of a run with their states, oldest first; only those from the last good one on are read.

    Raises:
        StoreError: The store cannot be read.
    """
    why_not: dict[str, str] = {}
    for read in _newest_first(store):
        why_not[read.name] = read.why_not
        if not read.why_not:
            break
    files = list(store.list(CHECKPOINTS))
    saved = []
    for name in checkpoint_names(store):
        match = _METADATA_NAME.fullmatch(name)
        if match is None or _is_part(name):
            continue
        stem = name.rpartition("-")[0] + "-r" if match["who"] == "r0" else name.removesuffix("json")
        own = [item for item in files if item.name.startswith(stem)]
        saved.append(SavedCheckpoint(
            name, int(match["attempt"]), int(match["steps"]),
            max((item.modified_unix for item in own if item.name == name), default=0.0),
            sum(item.size_bytes for item in own), why_not.get(name)))
    return saved


def steps_of_checkpoints(store: Store) -> list[int]:
    """Return the steps of each checkpoint, oldest first, without reading them.

    Raises:
        StoreError: The store cannot be read.
    """
    metadata = (_METADATA_NAME.fullmatch(name) for name in checkpoint_names(store) if not _is_part(name))
    return [int(metadata_file["steps"]) for metadata_file in metadata if metadata_file is not None]


def steps_to_go_on_from(store: Store) -> int | None:
    """Return the number of steps at the newest checkpoint that a training can resume from; None if there is none.

    Its tensors are not read: `last_good` verifies them.

    Raises:
        StoreError: The store cannot be read.
    """
    for name in reversed(checkpoint_names(store)):
        if _is_part(name):
            continue
        try:
            metadata_file = unsealed(store.get(name), name)
            if not Checkpoint(
                name, 0, int(metadata_file["steps"]), metadata_file["content"], {}, metadata_file.get("finite", True)
            ).why_not:
                return int(metadata_file["steps"])
        except (DamagedChunk, ObjectNotFound, AttributeError, KeyError, TypeError, ValueError):
            continue
    return None


def _newest_first(store: Store) -> Iterator[_Read]:
    """Yield each checkpoint, and why training cannot resume from it."""
    for name in reversed(checkpoint_names(store)):
        if _is_part(name):
            continue  # the part of the first worker represents all parts
        try:
            found = read_checkpoint(store, name)
        except (DamagedChunk, ObjectNotFound) as error:
            yield _Read(name, None, str(error), is_damaged=True)
            continue
        if found is not None:
            yield _Read(name, found, found.why_not or _why_not_whole(store, found))


def _is_part(name: str) -> bool:
    match = _METADATA_NAME.fullmatch(name)
    return match is not None and re.fullmatch(r"r0*[1-9]\d*", match["who"]) is not None


def _why_not_whole(store: Store, first: Checkpoint) -> str:
    """Return why a checkpoint of several workers is incomplete; "" if each has saved its part."""
    for rank in range(1, first.world_size):
        name = name_of_worker(first.name, rank)
        try:
            part = read_checkpoint(store, name)
        except ObjectNotFound:
            return f"worker {rank} of {first.world_size} has not saved its part"
        except DamagedChunk as error:
            return f"the part of worker {rank} is damaged: {error}"
        if part is not None and part.why_not:
            return f"the part of worker {rank} cannot be resumed: {part.why_not}"
    return ""


def checkpoint_names(store: Store) -> list[str]:
    """Return the names of all metadata files, oldest first.

    Raises:
        StoreError: The store cannot be read.
    """
    found = ((match, item.name) for item in store.list(CHECKPOINTS) if (match := _METADATA_NAME.fullmatch(item.name)))
    return [name for _, name in sorted(found, key=lambda item: (int(item[0]["attempt"]), int(item[0]["steps"]),
                                                                item[1]))]


def keep_newest(store: Store, keep: int, good: Sequence[str], *, who: str = "", workers: int = 1) -> None:
    """Remove all checkpoints but the newest. The newest of `good` and the newest complete one are never removed.

    Args:
        store: Store of the run.
        keep: Number to keep.
        good: Names of metadata files of complete and finite ones, oldest first.
        who: Only parts of this worker; "": of all.
        workers: Number of workers that save parts.

    Raises:
        StoreError: An operation failed; retrying is safe.
    """
    there = checkpoint_names(store)
    names = [name for name in there if name.endswith(f"-{who}.json" if who else ".json")]
    parts = Counter(name.rpartition("-")[0] for name in there)
    # Another worker may not have saved its part of newer ones (yet).
    whole = [name for name in names if parts[name.rpartition("-")[0]] >= workers]
    kept = {*names[-keep:], *list(good)[-1:], *whole[-1:]}
    gone = [name.removesuffix(".json") for name in names if name not in kept]
    # Metadata files first: tensors without one are ignored, but a metadata file without tensors would be a damaged
    # checkpoint.
    for stem in gone:
        store.delete(f"{stem}.json")
    for item in store.list(CHECKPOINTS):
        if any(item.name.startswith(f"{stem}.") for stem in gone):
            store.delete(item.name)


def write_next(store: Store, name: str, seen: Mapping[str, Any]) -> None:
    """Write the start of the step after a checkpoint.

    Args:
        store: Store of the run.
        name: Name of the checkpoint's metadata file.
        seen: "batch": a digest; "loss": a hexadecimal float.

    Raises:
        StoreError: The store rejected it.
    """
    store.put(name.removesuffix(".json") + _NEXT, sealed(dict(seen)))


def read_next(store: Store, name: str) -> Mapping[str, Any]:
    """Return the data of `write_next`; empty if the training ended before, or if it is damaged."""
    metadata_file = name.removesuffix(".json") + _NEXT
    try:
        return unsealed(store.get(metadata_file), metadata_file)
    except (ObjectNotFound, DamagedChunk):
        return {}


def need_full_evaluations(store: Store) -> None:
    """Note that the script fails if an evaluation is shortened while it resumes.

    Raises:
        StoreError: The store rejected it.
    """
    store.put(_FULL_EVALUATIONS, sealed({"full_evaluations": True}))


def needs_full_evaluations(store: Store) -> bool:
    """Return whether `need_full_evaluations` was called for this run.

    Raises:
        StoreError: The store cannot be read.
    """
    return any(item.name == _FULL_EVALUATIONS for item in store.list(CHECKPOINTS))
