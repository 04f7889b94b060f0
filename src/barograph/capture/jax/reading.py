"""Hands what an observed JAX step returned beside its own results to the tap, each with the step it belongs to."""

from __future__ import annotations

import functools
import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import jax
import numpy as np

from barograph.capture.array_labels import gather_codes, gather_labels
from barograph.capture.array_tap import ArrayTap
from barograph.capture.jax.harvest import DEVICES, Found
from barograph.capture.jax.program import Harvested
from barograph.capture.jax.reduce import moments_of
from barograph.capture.plan import Taking
from barograph.errors import BarographError
from barograph.measures.summary import identity_rows, merge_rows, merge_unit_columns
from barograph.model.activations import bound_of
from barograph.model.key import Key, Kind, canonical_path
from barograph.model.records import Subject
from barograph.model.selection import Histogram
from barograph.model.summary import EXPONENT_BINS, MOMENT_FIELDS, UNIT_FIELDS

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from barograph.capture.buffer import StepBuffer

_OF_EACH_DEVICE = frozenset({Kind.OUTPUT, Kind.INPUT, Kind.BATCH, Kind.TARGET, Kind.CUSTOM, Kind.LOSS})
"""What each device has its part of; weights, gradients and what an optimizer keeps are the same on all."""

_MODEL = frozenset({Kind.GRADIENT, Kind.UPDATE})


class Reading:
    """What one call has returned, on its way from the device.

    Args:
        harvested: It.
        steps: Optimizer steps that the call made.
    """

    def __init__(self, harvested: Harvested, steps: int) -> None:
        self._found, self._values, self._steps = harvested.version.found, harvested.values, steps
        self._path = next((_scans(item) for item in self._found if item.mark.kind in _MODEL), ())
        self._fetched: dict[int, NDArray[Any]] = {}
        for leaf in jax.tree.leaves(list(self._values)):
            leaf.copy_to_host_async()

    def hand_over(self, tap: ArrayTap, step: int) -> None:
        """Give the tap what belongs to one of the steps of the call, and is due there.

        Args:
            tap: Whose step is under way.
            step: From 0.
        """
        mine = [number for number, item in enumerate(self._found) if self._belongs(item, step)]
        self._labels(tap, [number for number in mine if self._found[number].mark.role in ("labels", "answers")], step)
        for number in mine:
            if self._found[number].mark.role == "number":
                self._number(tap, number, step)
            elif self._found[number].mark.role == "codes":
                self._codes(tap, number, step)
        plain = [number for number in mine if not self._found[number].mark.role]
        self._wholes(tap, [number for number in plain if self._found[number].whole], step)
        by_kind: dict[Kind, list[int]] = {}
        for number in plain:
            if not self._found[number].whole:
                by_kind.setdefault(self._found[number].mark.kind, []).append(number)
        for kind, numbers in by_kind.items():
            self._reduced(tap, kind, numbers, step)

    def _belongs(self, item: Found, step: int) -> bool:
        return step == self._steps - 1 or (bool(self._path) and _scans(item)[: len(self._path)] == self._path)

    def _reduced(self, tap: ArrayTap, kind: Kind, numbers: Sequence[int], step: int) -> None:
        """Merge what was reduced on the device into the rows of those tensors that are due."""
        due: dict[str, tuple[list[int], Taking]] = {}
        for number in numbers:
            mark = self._found[number].mark
            taking = tap.taking(kind, mark.path, mark.layer)
            if taking is not None:
                due.setdefault(mark.path, ([], taking))[0].append(number)
        if not due:
            return
        histograms = any(taking.histogram is not Histogram.NONE for _, taking in due.values())

        def fetch() -> tuple[NDArray[np.float64], NDArray[np.int64] | None]:
            moments = identity_rows(len(due))
            bins = np.zeros((len(due), EXPONENT_BINS), np.int64) if histograms else None
            for row, (members, taking) in enumerate(due.values()):
                for number in members:
                    self._merge_rows(number, step, moments[row : row + 1])
                    if bins is not None and taking.histogram and "bins" in self._values[number]:
                        bins[row] += self._part(number, "bins", step).reshape(-1, EXPONENT_BINS).sum(0)
            return moments, bins

        firsts = [self._found[members[0]] for members, _ in due.values()]
        tap.merge(kind, list(due), fetch, dtypes=[item.dtype for item in firsts],
                  layers=[item.mark.layer for item in firsts])
        for members, taking in due.values():
            if taking.units and "units" in self._values[members[0]]:
                self._units(tap, members, step)

    def _merge_rows(self, number: int, step: int, into: NDArray[np.float64]) -> None:
        parts = {name: self._part(number, name, step) for name in ("whole", "sums")}
        for row in moments_of(parts, self._found[number].dtype).reshape(-1, len(MOMENT_FIELDS)):
            merge_rows(into, row[np.newaxis])

    def _units(self, tap: ArrayTap, members: Sequence[int], step: int) -> None:
        item = self._found[members[0]]
        key, bound = Key(item.mark.kind, canonical_path(item.mark.path)), bound_of(item.mark.layer)
        row = tap.session.table.row(Subject(key, item.mark.layer, item.dtype))
        count = math.prod(item.shape[:-1])

        def merge_in(buffer: StepBuffer) -> None:
            for number in members:
                for columns in self._part(number, "units", step).reshape(-1, item.shape[-1], len(UNIT_FIELDS)):
                    merge_unit_columns(buffer.unit_columns(row, item.shape[-1], count,
                                                           math.nan if bound is None else bound),
                                       np.asarray(columns, np.float64))

        tap.defer(merge_in)

    def _wholes(self, tap: ArrayTap, numbers: Sequence[int], step: int) -> None:
        """Hand over tensors that came whole: one that was met several times is merged."""
        rounds: list[dict[Kind, dict[str, int]]] = []
        for number in numbers:
            mark = self._found[number].mark
            place = next((one for one in rounds if mark.path not in one.get(mark.kind, {})), None)
            if place is None:
                rounds.append(place := {})
            place.setdefault(mark.kind, {})[mark.path] = number
        for one in rounds:
            for kind, paths in one.items():
                layers = {path: self._found[number].mark.layer for path, number in paths.items()}
                arrays = {path: functools.partial(self._whole, number, step) for path, number in paths.items()}
                tap.take(kind, arrays, layers=layers)

    def _labels(self, tap: ArrayTap, numbers: Sequence[int], step: int) -> None:
        """Have labels and answers counted that the step named, once they have come."""
        by_name: dict[str, dict[str, list[int]]] = {}
        for number in numbers:
            mark = self._found[number].mark
            by_name.setdefault(mark.path, {}).setdefault(mark.role, []).append(number)
        for name, roles in by_name.items():
            pairs = list(zip(roles.get("labels", ()), roles.get("answers", ()), strict=False))

            def count(buffer: StepBuffer, name: str = name, pairs: Sequence[tuple[int, int]] = tuple(pairs)) -> None:
                try:
                    for labels, answers in pairs:
                        gather_labels(name, self._flat(labels, step), self._flat(answers, step), buffer)
                    buffer.settle(training=True)
                except BarographError as error:
                    # In another thread, where it would cost the whole step.
                    tap.session.guard.report(str(error), cause="labels of JAX")

            if tap.due(Kind.LABEL, Kind.CONFUSION):
                tap.defer(count)

    def _codes(self, tap: ArrayTap, number: int, step: int) -> None:
        """Have the labels and answers of a loss function counted, once they have come."""
        mark = self._found[number].mark

        def count(buffer: StepBuffer) -> None:
            gather_codes(mark.path, mark.classes, self._flat(number, step), buffer)
            buffer.settle(training=True)

        if tap.due(Kind.LABEL, Kind.CONFUSION):
            tap.defer(count)

    def _number(self, tap: ArrayTap, number: int, step: int) -> None:
        mark = self._found[number].mark
        if mark.kind is Kind.LOSS:
            # Of micro-batches, and of devices that each have their part, the mean.
            tap.loss(lambda: float(np.mean(self._flat(number, step))))
            return

        def put(buffer: StepBuffer) -> None:
            buffer.scalars[Key(mark.kind, mark.path)] = float(self._flat(number, step)[-1])

        tap.defer(put)

    def _flat(self, number: int, step: int) -> NDArray[Any]:
        return np.asarray(self._whole(number, step)).reshape(-1)

    def _whole(self, number: int, step: int) -> Any:
        item, value = self._found[number], self._values[number]
        return value if not item.axes else np.asarray(value)[self._index(item, value, step)]

    def _part(self, number: int, name: str, step: int) -> NDArray[Any]:
        """Return one array of what was reduced: that of a step, with the axes that are to be merged."""
        item, value = self._found[number], self._values[number][name]
        array = np.asarray(value)
        return array[self._index(item, value, step)] if item.axes else array

    def _index(self, item: Found, value: Any, step: int) -> tuple[Any, ...]:
        """Return where a step lies: at its turn of the loops of steps; on one device, of what is the same on all."""
        turns = [size for axis, size in zip(item.axes, value.shape, strict=False) if axis in self._path]
        places = list(np.unravel_index(step, turns)) if turns and math.prod(turns) == self._steps else [-1] * len(turns)
        index: list[Any] = []
        for axis in item.axes:
            if axis in self._path:
                index.append(places.pop(0))
            else:
                index.append(0 if axis == DEVICES and item.mark.kind not in _OF_EACH_DEVICE else slice(None))
        return tuple(index)


def _scans(item: Found) -> tuple[str, ...]:
    return tuple(axis for axis in item.axes if axis != DEVICES)


def layers_and_parameters(found: Sequence[Any]) -> Mapping[Kind, set[str]]:
    """Return the paths of what is marked, by kind."""
    by_kind: dict[Kind, set[str]] = {}
    for mark in found:
        by_kind.setdefault(mark.kind, set()).add(mark.path)
    return by_kind
