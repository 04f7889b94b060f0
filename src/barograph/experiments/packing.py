"""What an item has by name, in one piece: for tables of thousands of items, which would wait for the rows."""

from __future__ import annotations

import json
import struct
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from barograph.model.items import MetricSummary

METRIC = np.dtype([("item", "<i8"), ("name", "<i8"), ("last", "<f8"), ("min", "<f8"), ("max", "<f8"), ("mean", "<f8"),
                   ("std", "<f8"), ("count", "<i8"), ("first_step", "<i8"), ("last_step", "<i8")])
"""One metric of one item; names are numbers, see the table `names`."""

NUMBER = np.dtype([("item", "<i8"), ("name", "<i8"), ("type", "<i8"), ("number", "<f8")])
"""One parameter of one item that a double holds exactly."""

_METRIC, _NUMBER = struct.Struct("<2q5d3q"), struct.Struct("<3qd")


def packed_metrics(item: int, metrics: Iterable[tuple[int, MetricSummary]]) -> bytes:
    """Return the metrics of an item, by the numbers of their names."""
    return b"".join(_METRIC.pack(item, name, it.last, it.min, it.max, it.mean, it.std, it.count, it.first_step,
                                 it.last_step) for name, it in metrics)


def packed_numbers(item: int, numbers: Iterable[tuple[int, int, float]]) -> bytes:
    """Return the parameters of an item that are numbers: name, type and value of each."""
    return b"".join(_NUMBER.pack(item, *number) for number in numbers)


def packed_texts(parameters: Mapping[int, Any], tags: Mapping[int, str]) -> str:
    """Return the other parameters of an item, and its tags."""
    return json.dumps([parameters, tags], ensure_ascii=False, separators=(",", ":"))


def metrics_in(parts: Iterable[bytes]) -> NDArray[Any]:
    """Return the metrics of many items: an array of `METRIC`, shape (n,)."""
    return np.frombuffer(b"".join(parts), METRIC)


def numbers_in(parts: Iterable[bytes]) -> NDArray[Any]:
    """Return the numbers of many items: an array of `NUMBER`, shape (n,)."""
    return np.frombuffer(b"".join(parts), NUMBER)


def texts_in(parts: Sequence[str]) -> list[tuple[dict[str, Any], dict[str, str]]]:
    """Return what `packed_texts` packed, of many items; the numbers of names are texts."""
    # All at once, since a call for each would take longer than the reading.
    found: list[tuple[dict[str, Any], dict[str, str]]] = json.loads(f"[{','.join(parts)}]")
    return found
