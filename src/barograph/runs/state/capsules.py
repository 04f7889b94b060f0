"""Capsules: all inputs of one step, in files that can be read without the run and contain no code.

A capsule is a self-contained folder, `capsules/ATTEMPT-TICK-WORKER/` of its run, and may be copied anywhere.
`docs/reference/capsule-format.md` documents its content.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from numpy.typing import NDArray

from barograph.errors import BarographError, DamagedChunk, NewerFormat, ObjectNotFound, UnknownName, nearest
from barograph.model.capsule import ANOTHER_WORKER, CAPSULE_FORMAT, CapsuleHead, head_from_json
from barograph.model.tensor import RawTensor
from barograph.runs.format.layout import CAPSULES
from barograph.runs.format.metadata import sealed, unsealed
from barograph.runs.format.proof import proved_by_checksum, put_with_checksum
from barograph.runs.format.tensors import raw_tensors_parts, read_tensors
from barograph.store.base import Store

METADATA_FILE = "capsule.json"
"""Written last: a folder without it is not a capsule."""

CapsuleWriter = Callable[[CapsuleHead, Mapping[str, Any], Mapping[str, RawTensor], bytes | None], str]
"""Takes the arguments of `write_capsule` without the store, and returns the location of the capsule."""

REPLAY_FILE = "replay.json"
"""Result of the last replay of a capsule; not a part of the capsule."""

_NAME = re.compile(r"\d{4,}-\d{8,}-[rp]\d+")


@dataclass(frozen=True, slots=True)
class Capsule:
    """A saved step.

    Attributes:
        head: Its step, and the reason.
        content: Packed by `capture.torch.packing`; see `docs/reference/capsule-format.md`.
        tensors: Tensors by the names in the content. They share the bytes of the file and are read-only.
        pickled: Pickled objects; None without any. Only the user may open them, since they can run
            code.
        where: Location of the capsule, for messages.
        files: Names of its other files: "tensors", and "pickled" if there is one.
    """

    head: CapsuleHead
    content: Mapping[str, Any]
    tensors: Mapping[str, NDArray[Any]]
    pickled: bytes | None
    where: str
    files: Mapping[str, str] = field(default_factory=dict)


def write_capsule(
    store: Store, head: CapsuleHead, content: Mapping[str, Any], tensors: Mapping[str, RawTensor],
    pickled: bytes | None = None,
) -> str:
    """Write a capsule atomically; return the name of its folder.

    Args:
        store: Store of the run.
        head: Its step, and the reason.
        content: Plain JSON data, without NaN.
        tensors: Tensors by the names in the content.
        pickled: Pickled objects.

    Raises:
        UnsupportedDtype: safetensors does not support the type of a tensor.
        StoreError: The store rejected it. Files already written remain, but are not a capsule.
    """
    folder = f"{CAPSULES}/{head.name}"
    files = {"tensors": ("tensors.safetensors", raw_tensors_parts(tensors))}
    if pickled is not None:
        files["pickled"] = ("pickled.pickle", [pickled])
    entries = {}
    for what, (name, parts) in files.items():
        entries[what] = {"name": name, "checksum": put_with_checksum(store, f"{folder}/{name}", parts)}
    store.put(f"{folder}/{METADATA_FILE}", sealed({"head": asdict(head), "files": entries, "content": dict(content)}))
    return folder


def capsule_names(store: Store) -> list[str]:
    """Return the names of the run's complete capsules, in order of creation for each worker.

    Raises:
        StoreError: The store cannot be read.
    """
    return sorted(name for item in store.list(CAPSULES) if (name := _name_of(item.name)))


def read_head(store: Store, name: str) -> CapsuleHead:
    """Return the head of a capsule without reading its tensors; raises as `read_capsule`."""
    return _head(_metadata_file(store, f"{CAPSULES}/{name}/{METADATA_FILE}"), f"{CAPSULES}/{name}")


def withheld_steps(store: Store, attempt: int) -> list[CapsuleHead]:
    """Return the steps of an attempt whose update was withheld, in order; for a step held by several workers, the
    first worker with its own reason.

    Skips capsules that cannot be read: reading them by name raises the reason.

    Raises:
        StoreError: The store cannot be read.
    """
    found: dict[tuple[str, int], CapsuleHead] = {}
    for name in capsule_names(store):
        if int(name.partition("-")[0]) != attempt:
            continue
        try:
            head = read_head(store, name)
        except (DamagedChunk, NewerFormat, ObjectNotFound):
            continue
        if head.withheld:
            before = found.get((head.optimizer, head.step))
            if before is None or before.text.startswith(ANOTHER_WORKER):
                found[head.optimizer, head.step] = head
    return list(found.values())


def read_capsule(store: Store, name: str = "") -> Capsule:
    """Return a capsule.

    Args:
        store: Store of the run, or of the folder of the capsule, wherever it was copied.
        name: Name of the capsule; "" if the store is its own folder, or the run has only one saved step. If several
            workers saved it, the first with a nonfinite loss is returned, else the one with the largest loss.

    Raises:
        UnknownName: The run has no such capsule, or several and no name was given.
        NewerFormat: A newer Barograph wrote it.
        DamagedChunk: It is damaged.
        StoreError: The store cannot be read.
    """
    folder = _folder(store, name)
    metadata_file = _metadata_file(store, f"{folder}{METADATA_FILE}")
    where = f"{store.url.rstrip('/')}/{folder}".rstrip("/")
    head = _head(metadata_file, where)
    try:
        content = dict(metadata_file["content"])
        files = {str(what): (str(entry["name"]), str(entry["checksum"]))
                 for what, entry in metadata_file["files"].items()}
        data = _proved(store, folder, *files["tensors"])
        pickled = bytes(_proved(store, folder, *files["pickled"])) if "pickled" in files else None
    except (AttributeError, KeyError, TypeError, ValueError, OverflowError) as error:
        raise DamagedChunk(f"Not the metadata of a capsule: {type(error).__name__}: {error} ({where}).") from error
    return Capsule(head, content, read_tensors(data, where), pickled, where,
                   {what: name for what, (name, _) in files.items()})


def keep_replay(store: Store, capsule: Capsule, result: Mapping[str, Any]) -> None:
    """Store the result of a replay with its capsule, in place of an earlier one.

    Args:
        store: The store that the capsule was read from.
        capsule: The capsule.
        result: Plain JSON data.

    Raises:
        StoreError: The store rejected it.
    """
    name = capsule.head.name
    store.put(f"{_folder(store, name if name in capsule_names(store) else '')}{REPLAY_FILE}", sealed(result))


def read_replay(store: Store, name: str) -> dict[str, Any] | None:
    """Return the result of the last replay of a capsule; None if it was never replayed.

    Args:
        store: Store of the run.
        name: Name of the capsule.

    Raises:
        DamagedChunk: It is damaged.
        StoreError: The store cannot be read.
    """
    file = f"{CAPSULES}/{name}/{REPLAY_FILE}"
    try:
        return unsealed(store.get(file), file)
    except ObjectNotFound:
        return None


def _folder(store: Store, name: str) -> str:
    """Return the folder of a capsule in the store, with a trailing slash; "" if the store is that folder."""
    if not name and any(item.name == METADATA_FILE for item in store.list()):
        return ""
    known = capsule_names(store)
    if not name and known:
        name = _only_step(store, known)
    if name not in known:
        if not known:
            raise UnknownName(f"No capsule at {store.url}. List the capsules of a run with: barograph capsules RUN.")
        if not name:
            raise UnknownName(f"The run has {len(known)} capsules. Name one of: {', '.join(known)}, as in "
                              f"{store.url.rstrip('/')}/{CAPSULES}/{known[0]}.")
        raise UnknownName(f'The run has no capsule "{name}". {nearest(name, known)} ({store.url})')
    return f"{CAPSULES}/{name}/"


def _only_step(store: Store, names: Sequence[str]) -> str:
    """Return the only capsule of a run; for a step saved by several workers, the first with a nonfinite loss, else the
    one with the largest loss; "" if there are several steps."""
    if len(names) == 1:
        return names[0]
    try:
        metadata = {name: _metadata_file(store, f"{CAPSULES}/{name}/{METADATA_FILE}") for name in names}
        heads = [_head(metadata_file, f"{CAPSULES}/{name}") for name, metadata_file in metadata.items()]
    except (DamagedChunk, NewerFormat):
        return ""  # the others can be read by name
    if len({head.worker for head in heads}) < len(heads) or len(
            {(head.attempt, head.step, head.optimizer) for head in heads}) > 1:
        return ""
    # The first of equal ones.
    return max(metadata, key=lambda name: _loss(metadata[name]))


def _loss(metadata_file: Mapping[str, Any]) -> float:
    """Return the loss of a step: +inf if nonfinite, −inf if unknown."""
    try:
        losses = [float.fromhex(loss) for loss in metadata_file["content"]["seen"]["losses"]]
    except (KeyError, TypeError, ValueError, OverflowError):
        losses = []
    if not losses:
        return -math.inf
    return sum(losses) if all(map(math.isfinite, losses)) else math.inf


def _metadata_file(store: Store, name: str) -> dict[str, Any]:
    return unsealed(store.get(name), name)


def _head(metadata_file: Mapping[str, Any], where: str) -> CapsuleHead:
    try:
        head = metadata_file["head"]
        if int(head["format"]) < 1:
            raise DamagedChunk(f"The capsule has an invalid format: {head['format']} ({where}).")
        if int(head["format"]) > CAPSULE_FORMAT:
            raise NewerFormat(f"The capsule has format {head['format']}; this Barograph reads formats up to "
                              f"{CAPSULE_FORMAT}. Update Barograph ({where}).")
        return head_from_json(head)
    except BarographError:
        raise
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError) as error:
        raise DamagedChunk(f"Not the metadata of a capsule: {type(error).__name__}: {error} ({where}).") from error


def _proved(store: Store, folder: str, name: str, checksum: str) -> memoryview:
    """Return a file of a capsule after verifying its checksum."""
    if "/" in name or "\\" in name or name in ("", ".", ".."):
        raise DamagedChunk(f"The metadata of the capsule names a file outside of it: {name} ({folder}{METADATA_FILE}).")
    try:
        return proved_by_checksum(store, f"{folder}{name}", checksum)
    except ObjectNotFound as error:
        raise DamagedChunk(f"The capsule is incomplete: {name} is missing. Copy the whole folder "
                           f"({store.url}).") from error


def _name_of(path: str) -> str:
    """Return the capsule of a metadata file's path; "" for other paths."""
    folder, _, rest = path.partition("/")
    name, _, file = rest.partition("/")
    return name if folder == CAPSULES and file == METADATA_FILE and _NAME.fullmatch(name) else ""
