"""Converts values by smdebug's names to the records of a step."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from barograph.ingest.smdebug.book import SHAPE, Book, texts_as_bytes
from barograph.measures.elements import DTYPE_CODES
from barograph.measures.native import dtype_code, summarize_into
from barograph.measures.summary import identity_rows
from barograph.model.key import Key
from barograph.model.records import StepRecords, Subject
from barograph.model.selection import Histogram
from barograph.model.step import Step
from barograph.model.summary import EXPONENT_BINS
from barograph.model.tensor import RawTensor
from barograph.wire.tensor_proto import Texts

Array = NDArray[Any]


class Drafter:
    """Makes records of steps; what rows cannot hold goes into the `Book`.

    Args:
        book: smdebug's names of the run.
    """

    def __init__(self, book: Book) -> None:
        self._book = book
        # Subjects are compared by identity, so equal steps must share them.
        self._subjects: dict[tuple[Subject, ...], tuple[Subject, ...]] = {}

    def records(
        self, step: Step, values: Mapping[str, Array | Texts], shapes: Mapping[str, tuple[int, ...]]
    ) -> StepRecords:
        """Return the records of a step.

        Args:
            step: The step.
            values: Name to value.
            shapes: Name to separately saved shape.
        """
        scalars: dict[Key, float] = {}
        tensors: dict[Key, RawTensor] = {}
        summarised: dict[Subject, Array] = {}
        for name, value in values.items():
            key = self._book.naming.key(name)
            if isinstance(value, list):
                self._book.texts.add(name)
                data = texts_as_bytes(value)
                tensors[key] = RawTensor("uint8", (len(data),), data)
                continue
            if self._is_number(name, value):
                scalars[key] = float(value.reshape(()))
                if self._reads_back(name, value):
                    continue
            elif value.dtype.name in DTYPE_CODES:
                summarised[Subject(key, dtype=value.dtype.name)] = value
            tensors[key] = raw(value)
        for name, shape in shapes.items():
            saved = values.get(name)
            if isinstance(saved, list) or saved is None or saved.shape != shape:
                key = self._book.naming.key(name)
                sizes = np.array(shape, np.int64)
                tensors[Key(key.kind, key.path + SHAPE)] = raw(sizes)
        moments, exponents = _statistics(list(summarised.values()))
        subjects = tuple(summarised)
        return StepRecords(step, self._subjects.setdefault(subjects, subjects), moments, exponents, scalars=scalars,
                           tensors=tensors)

    def _is_number(self, name: str, value: Array) -> bool:
        return value.size == 1 and value.dtype.kind in "fiub" and self._book.naming.is_number(name)

    def _reads_back(self, name: str, value: Array) -> bool:
        """Return whether the scalar restores the array bit for bit."""
        form = value.dtype.name, value.shape
        if self._book.numbers.setdefault(name, form) != form:
            return False
        return array_of_number(float(value.reshape(())), form).tobytes() == value.tobytes()


def array_of_number(number: float, form: tuple[str, tuple[int, ...]]) -> Array:
    """Return the array that was stored as a scalar.

    Args:
        number: The scalar.
        form: Data type and shape.

    Example:
        >>> array_of_number(0.5, ("float32", (1,)))
        array([0.5], dtype=float32)
    """
    kind, shape = form
    with np.errstate(all="ignore"):
        try:
            return np.array(number).astype(np.dtype(kind)).reshape(shape)
        except (OverflowError, ValueError):
            return np.zeros(shape, kind)


def raw(value: Array) -> RawTensor:
    """Return an array as stored in a run."""
    contiguous = np.ascontiguousarray(value)
    return RawTensor(value.dtype.name, value.shape, contiguous.reshape(-1).view(np.uint8).data)


def _statistics(arrays: list[Array]) -> tuple[NDArray[np.float64] | None, NDArray[np.int64] | None]:
    if not arrays:
        return None, None
    moments, exponents = identity_rows(len(arrays)), np.zeros((len(arrays), EXPONENT_BINS), np.int64)
    for row, array in enumerate(arrays):
        dense = np.ascontiguousarray(array)
        summarize_into(dense.ctypes.data, dense.size, dtype_code(dense.dtype.name), moments, row, exponents,
                       int(Histogram.EXACT))
    return moments, exponents
