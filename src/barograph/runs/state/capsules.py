"""Capsules: everything that one step was made of, in files that can be read without this run and run no code.

A capsule is a folder, `capsules/ATTEMPT-TICK-WORKER/` of its run, and whole by itself: it may be copied anywhere.
`docs/reference/capsule-format.md` says what it holds.
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
"""Written last: a folder without it is no capsule."""

CapsuleWriter = Callable[[CapsuleHead, Mapping[str, Any], Mapping[str, RawTensor], bytes | None], str]
"""Takes what `write_capsule` takes, but for the store, and returns where the capsule is."""

_NAME = re.compile(r"\d{4,}-\d{8,}-[rp]\d+")


@dataclass(frozen=True, slots=True)
class Capsule:
    """What was held, as it is read.

    Attributes:
        head: Of which step, and why.
        content: Packed as `capture.torch.packing` says; see `docs/reference/capsule-format.md`.
        tensors: By the names that stand in the content. They share the file's bytes and cannot be written to.
        pickled: Bytes of what only pickle can hold; None where there is nothing of that. Nobody but the user may open
            them: they can run anything.
        where: The place of the capsule, for messages.
        files: Names of its other files: "tensors", and "pickled" where there is one.
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
    """Write a capsule, whole or not at all; return the name of its folder.

    Args:
        store: The run's.
        head: Of which step, and why.
        content: Plain JSON data, without NaN.
        tensors: By the names that stand in the content.
        pickled: Of what only pickle can hold.

    Raises:
        UnsupportedDtype: A tensor has a type that safetensors cannot hold.
        StoreError: The store did not take it. What it did take is left, and is no capsule.
    """
    folder = f"{CAPSULES}/{head.name}"
    files = {"tensors": ("tensors.safetensors", raw_tensors_parts(tensors))}
    if pickled is not None:
        files["pickled"] = ("pickled.pickle", [pickled])
    said = {}
    for what, (name, parts) in files.items():
        said[what] = {"name": name, "checksum": put_with_checksum(store, f"{folder}/{name}", parts)}
    store.put(f"{folder}/{METADATA_FILE}", sealed({"head": asdict(head), "files": said, "content": dict(content)}))
    return folder


def capsule_names(store: Store) -> list[str]:
    """Return the names of the run's whole capsules, in the order in which each worker made them.

    Raises:
        StoreError: The store cannot be read.
    """
    return sorted(name for item in store.list(CAPSULES) if (name := _name_of(item.name)))


def read_head(store: Store, name: str) -> CapsuleHead:
    """Return what a capsule of the run is of; raises as `read_capsule`, without reading its tensors."""
    return _head(_metadata_file(store, f"{CAPSULES}/{name}/{METADATA_FILE}"), f"{CAPSULES}/{name}")


def withheld_steps(store: Store, attempt: int) -> list[CapsuleHead]:
    """Return the steps of an attempt whose update was withheld, in order; of workers that held one together, the
    first with a reason of its own.

    A capsule that cannot be read is left out: whoever asks for it by name is told why.

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
        store: The run's, or that of the capsule's own folder, wherever it was copied to.
        name: Of the capsule; "": the store is its own folder's, or its run holds one step only; of several workers'
            capsules of it that of the first whose loss was not finite is returned, else that of the greatest.

    Raises:
        UnknownName: The run has no such capsule, or several and none was named.
        NewerFormat: A newer Barograph wrote it.
        DamagedChunk: Its bytes are not those that were written.
        StoreError: The store cannot be read.
    """
    folder = _folder(store, name)
    metadata_file = _metadata_file(store, f"{folder}{METADATA_FILE}")
    where = f"{store.url.rstrip('/')}/{folder}".rstrip("/")
    head = _head(metadata_file, where)
    try:
        content = dict(metadata_file["content"])
        files = {str(what): (str(said["name"]), str(said["checksum"])) for what, said in metadata_file["files"].items()}
        data = _proved(store, folder, *files["tensors"])
        pickled = bytes(_proved(store, folder, *files["pickled"])) if "pickled" in files else None
    except (AttributeError, KeyError, TypeError, ValueError, OverflowError) as error:
        raise DamagedChunk(f"Not the metadata of a capsule: {type(error).__name__}: {error} ({where}).") from error
    return Capsule(head, content, read_tensors(data, where), pickled, where,
                   {what: name for what, (name, _) in files.items()})


def _folder(store: Store, name: str) -> str:
    """Return the folder of a capsule within the store, with a slash at its end; "" where the store is that folder."""
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
    """Return the capsule where a run has one only; of workers that saved one step together, that of the first whose
    loss was not finite, else of the greatest; "": there are several steps."""
    if len(names) == 1:
        return names[0]
    try:
        metadata = {name: _metadata_file(store, f"{CAPSULES}/{name}/{METADATA_FILE}") for name in names}
        heads = [_head(metadata_file, f"{CAPSULES}/{name}") for name, metadata_file in metadata.items()]
    except (DamagedChunk, NewerFormat):
        return ""  # whoever names one of the others can have it
    if len({head.worker for head in heads}) < len(heads) or len(
            {(head.attempt, head.step, head.optimizer) for head in heads}) > 1:
        return ""
    # The first of those that are alike.
    return max(metadata, key=lambda name: _loss(metadata[name]))


def _loss(metadata_file: Mapping[str, Any]) -> float:
    """Return the loss of a step: infinite where one was not finite, and least where none is known."""
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
    """Return a file of a capsule whose bytes are those that its metadata file speaks of."""
    if "/" in name or "\\" in name or name in ("", ".", ".."):
        raise DamagedChunk(f"The metadata of the capsule names a file outside of it: {name} ({folder}{METADATA_FILE}).")
    try:
        return proved_by_checksum(store, f"{folder}{name}", checksum)
    except ObjectNotFound as error:
        raise DamagedChunk(f"The capsule is incomplete: {name} is missing. Copy the whole folder "
                           f"({store.url}).") from error


def _name_of(path: str) -> str:
    """Return the capsule whose metadata file stands at a path; "" for anything else."""
    folder, _, rest = path.partition("/")
    name, _, file = rest.partition("/")
    return name if folder == CAPSULES and file == METADATA_FILE and _NAME.fullmatch(name) else ""
