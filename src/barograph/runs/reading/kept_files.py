"""Verification of the files of a run other than records, tensors and curves."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import xxhash

from barograph.errors import DamagedChunk, ObjectNotFound
from barograph.runs.format.layout import (
    ATTEMPTS,
    CAPSULES,
    CHECKPOINTS,
    CONTROL,
    FINDINGS,
    IMPORTED,
    JOURNAL,
    ORIGIN,
    WATCH,
)
from barograph.runs.format.metadata import unsealed
from barograph.runs.state.origins import damaged_files
from barograph.runs.state.output import damaged_parts
from barograph.store.base import Store
from barograph.store.streaming import parts_of

_WITH_METADATA = (FINDINGS, WATCH, CONTROL, CHECKPOINTS, CAPSULES, ORIGIN, ATTEMPTS, JOURNAL, IMPORTED)
_CHECKPOINT = re.compile(rf"{CHECKPOINTS}/[^/]+\.(?P<checksum>[0-9a-f]{{32}})\.safetensors")
_CAPSULE = re.compile(rf"(?P<folder>{CAPSULES}/[^/]+/)capsule\.json")


@dataclass(slots=True)
class FileCheck:
    """Problems of these files, one sentence each.

    Attributes:
        damaged: Damaged files.
        missing: Files named by a metadata file that are missing.
        leftover: Files that no metadata file names: their process ended before it had written all.
    """

    damaged: list[str] = field(default_factory=list)
    missing: list[str] = field(default_factory=list)
    leftover: list[str] = field(default_factory=list)


def check_files(store: Store, names: Collection[str]) -> FileCheck:
    """Read every file of a run that is neither records, tensors nor curves, and return the problems.

    Args:
        store: Store of the run.
        names: Names of all its objects.

    Raises:
        StoreError: The store cannot be read.
    """
    found = FileCheck()
    known = set[str]()
    for metadata_file in names:
        if metadata_file.partition("/")[0] not in _WITH_METADATA or not metadata_file.endswith(".json"):
            continue
        for name, checksum in _check_metadata(store, metadata_file, found).items():
            known.add(name)
            if name in names:
                _check_bytes(store, name, checksum, found)
            elif any(item.name == metadata_file for item in store.list(metadata_file.rpartition("/")[0])):
                # Old checkpoints are removed during the run.
                found.missing.append(f"{name} is missing; {metadata_file} refers to it.")
    for name in sorted(_large_files(names) - known):
        found.leftover.append(f"{name} is left over from an interrupted save.")
    found.damaged += damaged_files(store, names)
    found.damaged += damaged_parts(store, names)
    return found


def _check_metadata(store: Store, name: str, found: FileCheck) -> Mapping[str, str]:
    """Return the files listed in a metadata file, with their checksums; note damage."""
    try:
        metadata_file = unsealed(store.get(name), name)
        return _files_of(name, metadata_file)
    except ObjectNotFound:
        return {}  # it was removed since it was listed
    except DamagedChunk as error:
        found.damaged.append(str(error))
    except (AttributeError, KeyError, TypeError, ValueError, OverflowError) as error:
        found.damaged.append(f"The metadata file is invalid: {type(error).__name__}: {error} ({name}).")
    return {}


def _files_of(name: str, metadata_file: Mapping[str, Any]) -> dict[str, str]:
    if capsule := _CAPSULE.fullmatch(name):
        return {f"{capsule['folder']}{entry['name']}": str(entry["checksum"])
                for entry in metadata_file["files"].values()}
    if name.partition("/")[0] == CHECKPOINTS and "file" in metadata_file:
        if match := _CHECKPOINT.fullmatch(metadata_file["file"]):
            return {match[0]: match["checksum"]}
        raise ValueError(f"{metadata_file['file']!r} is not the name of a checkpoint file")
    return {}


def _check_bytes(store: Store, name: str, checksum: str, found: FileCheck) -> None:
    whole = xxhash.xxh3_128()
    try:
        # Part by part: a checkpoint may be larger than memory.
        for part in parts_of(store, name):
            whole.update(part)
    except ObjectNotFound:
        return  # it was removed since it was listed
    if whole.hexdigest() != checksum:
        found.damaged.append(f"The file is damaged: its checksum does not match ({name} in {store.url}).")


def _large_files(names: Iterable[str]) -> set[str]:
    return {name for name in names
            if name.partition("/")[0] in (CHECKPOINTS, CAPSULES) and not name.endswith(".json")}
