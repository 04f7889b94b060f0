"""Metadata files of a run: JSON with a checksum.

A metadata file is one JSON object whose entry `sha256` is the digest of all others, so that damage is
detected also in files that are replaced under one name.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, fields
from typing import Any

from barograph.errors import DamagedChunk, NewerFormat
from barograph.model.manifest import (
    FORMAT_VERSION,
    Cost,
    Coverage,
    Ending,
    EndState,
    Heartbeat,
    Manifest,
    Worker,
)
from barograph.runs.format.layout import WORKERS, metadata_from_name

CLAIM = "claim"
"""Entry of a metadata file by which its writer recognizes it."""


def sealed(body: Mapping[str, Any], *, on_one_line: bool = False) -> bytes:
    """Return JSON data as the bytes of a metadata file.

    Args:
        body: Any JSON data; NaN becomes null, infinities "inf" and "-inf".
        on_one_line: For files with thousands of entries: ten times faster, but not readable.

    Example:
        >>> unsealed(sealed({"loss": 0.5, "worst": float("inf")}), "example")
        {'loss': 0.5, 'worst': 'inf'}
    """
    plain = _plain(body)
    whole = {**plain, "sha256": _digest(plain)}
    return (json.dumps(whole, separators=(",", ":")) if on_one_line else json.dumps(whole, indent=1)).encode()


def unsealed(data: bytes | memoryview, name: str) -> dict[str, Any]:
    """Return the JSON data of a metadata file.

    Args:
        data: Bytes of the file.
        name: Name of the object, for the message.

    Raises:
        DamagedChunk: The checksum does not match.
    """
    try:
        body = json.loads(bytes(data))
        claimed = body.pop("sha256")
        whole = claimed == _digest(body)
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        whole = False
    if not whole:
        raise DamagedChunk(f"The metadata file is damaged: its checksum does not match ({name}).")
    return dict(body)


def manifest_bytes(manifest: Manifest) -> bytes:
    """Return the metadata file of a run."""
    return sealed(asdict(manifest))


def manifest_from_bytes(data: bytes | memoryview, name: str) -> Manifest:
    """Return the manifest from the output of `manifest_bytes`.

    Raises:
        DamagedChunk: The checksum does not match.
        NewerFormat: A newer Barograph wrote it.
    """
    body = unsealed(data, name)
    written = body.get("format")
    if not isinstance(written, int) or written > FORMAT_VERSION:
        raise NewerFormat(f"The run has format {written}; this Barograph reads formats up to {FORMAT_VERSION}. "
                          f"Update Barograph ({name}).")
    with _understood(name):
        known = _known(Manifest, body)
        return Manifest(**{**known, "command": tuple(known["command"])})


def worker_bytes(worker: Worker, *, claim: str = "") -> bytes:
    """Return the metadata file of a worker.

    Args:
        worker: The worker.
        claim: Unique token of its process, see `claim.new_claim`. Readers ignore it.
    """
    return sealed({**asdict(worker), CLAIM: claim})


def worker_from_bytes(data: bytes | memoryview, name: str) -> Worker:
    """Return the worker from `worker_bytes`; raises as `unsealed`, also for the metadata file of another worker."""
    body = unsealed(data, name)
    with _understood(name):
        worker = Worker(**_known(Worker, body))
        if metadata_from_name(name) not in (None, (WORKERS, worker.name, worker.attempt)):
            raise ValueError(f"it is about worker {worker.name} in attempt {worker.attempt}")
        return worker


def heartbeat_bytes(heartbeat: Heartbeat) -> bytes:
    """Return the metadata file of a heartbeat."""
    return sealed(asdict(heartbeat))


def heartbeat_from_bytes(data: bytes | memoryview, name: str) -> Heartbeat:
    """Return the heartbeat from `heartbeat_bytes`; raises as `unsealed`."""
    body = unsealed(data, name)
    with _understood(name):
        return _heartbeat(body)


def ending_bytes(ending: Ending, *, last_chunk: int, first_steps: Mapping[str, int] | None = None) -> bytes:
    """Return the metadata file of a worker's ending.

    Args:
        ending: The ending.
        last_chunk: Sequence number of its last chunk; -1 without chunks.
        first_steps: Optimizer to the first training step it published; None if unknown.
    """
    firsts = {} if first_steps is None else {"first_steps": first_steps}
    return sealed({**asdict(ending), "last_chunk": last_chunk, **firsts})


def ending_from_bytes(data: bytes | memoryview, name: str) -> tuple[Ending, int]:
    """Return the ending and its `last_chunk` from `ending_bytes`; raises as `unsealed`."""
    body = unsealed(data, name)
    with _understood(name):
        ending = Ending(EndState(body["state"]), str(body["reason"]), _heartbeat(body["last"]))
        return ending, int(body["last_chunk"])


def first_steps_from_bytes(data: bytes | memoryview, name: str) -> dict[str, int] | None:
    """Return the first training steps in an ending; None if it has none; raises as `unsealed`."""
    body = unsealed(data, name)
    with _understood(name):
        if int(body["last_chunk"]) < 0:
            return {}
        firsts = body.get("first_steps")
        return None if firsts is None else {str(optimizer): int(step) for optimizer, step in firsts.items()}


def removed_through_from_bytes(data: bytes | memoryview, name: str) -> int:
    """Return the last removed chunk in a retention note; raises as `unsealed`."""
    body = unsealed(data, name)
    with _understood(name):
        return int(body["removed_through_chunk"])


@contextmanager
def _understood(name: str) -> Iterator[None]:
    """Raise DamagedChunk for a metadata file with a correct checksum and invalid content."""
    try:
        yield
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError) as error:
        raise DamagedChunk(f"The metadata file is invalid: {type(error).__name__}: {error} ({name}).") from error


def _heartbeat(body: Mapping[str, Any]) -> Heartbeat:
    known = _known(Heartbeat, body)
    coverage = _known(Coverage, known["coverage"])
    cost = {name: value if name == "interval_steps" else _number(value) for name, value in
            _known(Cost, known["cost"]).items()}
    return Heartbeat(**{
        **known,
        "step_secs": _number(known["step_secs"]),
        "loss": _number(known["loss"]),
        "cost": Cost(**cost),  # type: ignore[arg-type]  # its one whole number stays whole
        "coverage": Coverage(**{**coverage, "reasons": tuple(coverage["reasons"])}),
        "problems": tuple(known["problems"]),
    })


def _known(kind: type, body: Mapping[str, Any]) -> dict[str, Any]:
    # Entries may be added within one format version; unknown ones are ignored.
    known = {item.name: body[item.name] for item in fields(kind) if item.name in body}
    for item in fields(kind):
        plain = _PLAIN.get(str(item.type))
        if item.name in known and plain and not isinstance(known[item.name], plain):
            raise TypeError(f"{item.name} is {known[item.name]!r}")
    return known


_PLAIN: Mapping[str, tuple[type, ...]] = {
    # NaN is null in JSON, and infinities are strings.
    "int": (int,), "float": (int, float, str, type(None)), "str": (str,), "bool": (bool,),
    "tuple[str, ...]": (list,), "dict[str, str]": (dict,), "Mapping[str, str]": (dict,), "Mapping[str, Any]": (dict,),
    "Cost": (dict,), "Coverage": (dict,),
}


def _digest(body: Mapping[str, Any]) -> str:
    canonical = json.dumps(body, sort_keys=True, separators=(",", ":"), allow_nan=False)
    return hashlib.sha256(canonical.encode()).hexdigest()


def _plain(value: Any) -> Any:
    kind = type(value)
    if kind is str or kind is int or kind is bool:
        return value  # most common; the check for a mapping is the slowest
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None if math.isnan(value) else ("inf" if value > 0 else "-inf")
    return value


def _number(value: float | str | None) -> float:
    return math.nan if value is None else float(value)
