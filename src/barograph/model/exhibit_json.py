"""Conversion of matrices and curves to JSON files and back."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping
from typing import Any

from barograph.errors import DamagedChunk, NewerFormat
from barograph.model.exhibits import (
    ConfusionMatrix,
    Exhibit,
    PrecisionRecallCurves,
    PrecisionRecallOfClass,
    RocCurves,
    RocOfClass,
)

_VERSION = 1
_BEGINNING, _END = "application/vnd.barograph.", "+json"


def media_type_of(exhibit: Exhibit) -> str:
    """Return the media type of an exhibit.

    Example:
        >>> media_type_of(RocCurves("roc", ()))
        'application/vnd.barograph.roc+json'
    """
    return f"{_BEGINNING}{exhibit.kind}{_END}"


def is_exhibit_json(media_type: str) -> bool:
    """Return whether a media type is that of a matrix or a curve of Barograph."""
    return media_type.startswith(_BEGINNING) and media_type.endswith(_END)


def exhibit_to_bytes(exhibit: Exhibit) -> bytes:
    """Return a matrix or curves as JSON; NaN is null, infinities are "inf" and "-inf"."""
    data = {"version": _VERSION, **exhibit.to_json()}
    return json.dumps(data, ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode()


def exhibit_from_bytes(data: bytes) -> Exhibit:
    """Return the matrix or curves in the bytes of `exhibit_to_bytes`.

    Raises:
        DamagedChunk: It is invalid.
        NewerFormat: A newer Barograph wrote it.
    """
    try:
        body = json.loads(data)
        if body["version"] > _VERSION:
            raise NewerFormat(f"It has version {body['version']}; this Barograph reads versions up to {_VERSION}. "
                              "Update Barograph.")
        return _READERS[body["kind"]](body)
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise DamagedChunk(f"It is not a valid matrix or curve: {type(error).__name__}: {error}.") from error


def _confusion(body: Mapping[str, Any]) -> Exhibit:
    labels = tuple(map(str, body["labels"]))
    counts = tuple(_numbers(row, len(labels)) for row in body["counts"])
    if len(counts) != len(labels):
        raise ValueError(f"{len(counts)} rows of {len(labels)} classes")
    return ConfusionMatrix(str(body["title"]), labels, counts, str(body["normalize"]))


def _roc(body: Mapping[str, Any]) -> Exhibit:
    return RocCurves(str(body["title"]), tuple(
        RocOfClass(str(item["label"]), _number(item["positives"]), _number(item["negatives"]), _number(item["area"]),
                   *(_numbers(item[name], len(item["thresholds"]))
                     for name in ("false_positives", "true_positives", "thresholds")))
        for item in body["curves"]
    ))


def _precision_recall(body: Mapping[str, Any]) -> Exhibit:
    no_skill = body["no_skill"]
    return PrecisionRecallCurves(str(body["title"]), tuple(
        PrecisionRecallOfClass(
            str(item["label"]), _number(item["positives"]), _number(item["negatives"]),
            _number(item["average_precision"]), _numbers(item["precision"], len(item["recall"])),
            _numbers(item["recall"], len(item["recall"])), _numbers(item["thresholds"], len(item["recall"]) - 1))
        for item in body["curves"]
    ), None if no_skill is None else _number(no_skill))


def _numbers(values: list[Any], count: int) -> tuple[float, ...]:
    if len(values) != count:
        raise ValueError(f"{len(values)} numbers, expected {count}")
    return tuple(map(_number, values))


def _number(value: Any) -> float:
    return math.nan if value is None else float(value)


_READERS: Mapping[str, Callable[[Mapping[str, Any]], Exhibit]] = {
    ConfusionMatrix.kind: _confusion, RocCurves.kind: _roc, PrecisionRecallCurves.kind: _precision_recall,
}
