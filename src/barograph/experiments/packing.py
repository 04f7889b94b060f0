"""Metrics, parameters and tags of an item packed into one value, so that large tables read few rows."""

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
"""One metric of one item; names are numbers of the table `names`."""

NUMBER = np.dtype([("item", "<i8"), ("name", "<i8"), ("type", "<i8"), ("number", "<f8")])
"""One numeric parameter of one item that a double represents exactly."""

_METRIC, _NUMBER = struct.Struct("<2q5d3q"), struct.Struct("<3qd")


def packed_metrics(item: int, metrics: Iterable[tuple[int, MetricSummary]]) -> bytes:
    """Return the packed metrics of an item, by name numbers."""
    return b"".join(_METRIC.pack(item, name, it.last, it.min, it.max, it.mean, it.std, it.count, it.first_step,
                                 it.last_step) for name, it in metrics)


def packed_numbers(item: int, numbers: Iterable[tuple[int, int, float]]) -> bytes:
    """Return the packed numeric parameters of an item: name, type and value of each."""
    return b"".join(_NUMBER.pack(item, *number) for number in numbers)


def packed_texts(parameters: Mapping[int, Any], tags: Mapping[int, str]) -> str:
    """Return the packed other parameters and tags of an item."""
    return json.dumps([parameters, tags], ensure_ascii=False, separators=(",", ":"))


def metrics_in(parts: Iterable[bytes]) -> NDArray[Any]:
    """Return the metrics of many items: an array of `METRIC`, shape (n,)."""
    return np.frombuffer(b"".join(parts), METRIC)


def numbers_in(parts: Iterable[bytes]) -> NDArray[Any]:
    """Return the numbers of many items: an array of `NUMBER`, shape (n,)."""
    return np.frombuffer(b"".join(parts), NUMBER)


def texts_in(parts: Sequence[str]) -> list[tuple[dict[str, Any], dict[str, str]]]:
    """Return what `packed_texts` packed, for many items; keys are name numbers as strings."""
    # Parsed in one call, because a call per item takes longer than reading.
    found: list[tuple[dict[str, Any], dict[str, str]]] = json.loads(f"[{','.join(parts)}]")
    return found
