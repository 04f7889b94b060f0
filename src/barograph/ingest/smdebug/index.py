"""Parses smdebug's JSON files: the index of a step, and the collections of a worker."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from barograph.errors import DamagedSource
from barograph.model.step import Mode

GLOBAL = "GLOBAL"
"""Mode of a script that never set one."""

MODES: Mapping[str, Mode] = {"TRAIN": Mode.TRAIN, "EVAL": Mode.EVAL, "PREDICT": Mode.PREDICT, GLOBAL: Mode.TRAIN}
"""smdebug's modes to Barograph's; a script without a mode was training."""

MODE_NUMBERS: Mapping[str, str] = {"1": "TRAIN", "2": "EVAL", "3": "PREDICT", "4": GLOBAL}
"""Modes as numbered in event files."""

_LARGEST = 1 << 62


@dataclass(frozen=True, slots=True)
class Index:
    """Index of a step.

    Attributes:
        mode: A name of `MODES`.
        mode_step: Step within that mode.
        starts: Name to the offset of its record.
        shapes: Name to separately saved shape.
        original_names: Name to TensorFlow's name, if that differs.
    """

    mode: str
    mode_step: int
    starts: Mapping[str, int] = field(default_factory=dict)
    shapes: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    original_names: Mapping[str, str] = field(default_factory=dict)


def index_from_bytes(data: bytes | memoryview) -> Index:
    """Parse the index file of a step.

    Raises:
        DamagedSource: It is not such a file.

    Example:
        >>> index_from_bytes(b'{"meta": {"mode": "EVAL", "mode_step": 3}, "tensor_payload": [], "shape_payload": []}')
        Index(mode='EVAL', mode_step=3, starts={}, shapes={}, original_names={})
    """
    try:
        body = _object(data)
        mode, mode_step = str(body["meta"]["mode"]).strip(), _step(body["meta"]["mode_step"])
        if mode not in MODES:
            raise DamagedSource(f'unknown mode "{mode[:40]}"')
        values, shapes = body.get("tensor_payload") or [], body.get("shape_payload") or []
        return Index(
            mode, mode_step,
            {str(item["tensorname"]): int(item["start_idx"]) for item in values},
            {str(item["tensorname"]): tuple(map(_step, item["shape"])) for item in shapes},
            {str(item["tensorname"]): str(item["originalname"]) for item in shapes
             if item.get("originalname") not in (None, item["tensorname"])},
        )
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise DamagedSource(f"not an index of a step ({type(error).__name__}: {str(error)[:80]})") from None


def collections_from_bytes(data: bytes | memoryview) -> dict[str, Any]:
    """Return the collections of a worker: `collections` by name, and `num_workers`.

    Raises:
        DamagedSource: It is not such a file.
    """
    try:
        body = _object(data)
        collections = {str(name): dict(entry) for name, entry in body["collections"].items()}
        for entry in collections.values():
            entry["tensor_names"] = [str(name) for name in entry.get("tensor_names") or ()]
        return {"collections": collections, "num_workers": int(body.get("_meta", {}).get("num_workers", 1))}
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise DamagedSource(f"not a collections file ({type(error).__name__}: {str(error)[:80]})") from None


def _object(data: bytes | memoryview) -> Any:
    try:
        return json.loads(bytes(data))
    except RecursionError:
        raise DamagedSource("nested too deeply") from None


def _step(value: Any) -> int:
    number = -1 if isinstance(value, float) else int(value)
    if not 0 <= number < _LARGEST:
        raise DamagedSource(f"invalid step or size: {str(value)[:30]}")
    return number
