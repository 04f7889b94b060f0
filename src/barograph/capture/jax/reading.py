"""Records the additional results of an observed JAX step, each with its step."""

from __future__ import annotations

import functools
import math
import weakref
from collections.abc import Container, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, NamedTuple, cast

import jax
import numpy as np

from barograph.capture.array_integration import ArrayIntegration
from barograph.capture.array_labels import gather_codes, gather_labels
from barograph.capture.jax import foreign
from barograph.capture.jax.harvest import DEVICES, Found, Returns
from barograph.capture.jax.reduce import columns_of, moments_of
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
"""Kinds of which each device has a part; weights, gradients and optimizer state are the same on all."""

_MODEL = frozenset({Kind.GRADIENT, Kind.UPDATE, Kind.LEARNING_RATE})


class _Names(NamedTuple):
    """The names of a tensor's statistics arrays."""

    moments: str
    histogram: str
    units: str


_NATIVE, _REDUCED = _Names("moments", "bins", "columns"), _Names("exact", "counts", "units")
"""Names of the native loop's statistics, and of `reduce`'s."""


@dataclass(frozen=True, slots=True)
class _Sorted:
    """The results of a call that belong to one of its steps.

    Attributes:
        labels: Targets and predictions.
        codes: Targets and predictions encoded in one integer.
        numbers: Plain numbers.
        wholes: Whole tensors.
        reduced: Tensors with statistics, by kind.
    """

    labels: Sequence[int]
    codes: Sequence[int]
    numbers: Sequence[int]
    wholes: Sequence[int]
    reduced: Mapping[Kind, Sequence[int]]


@dataclass(frozen=True, slots=True)
class _Due:
    """Tensors of one kind that are due, by path.

    Attributes:
        members: Indices of each tensor's occurrences.
        takings: What to record of each.
        rows: Rows for merging; empty: nothing is due.
        joined: Positions of their moments among the joined ones; None: some are missing or occur several times.
        with_bins: Positions of their histograms; None: also if there are none.
        dtypes: Element types, if the program computed the moments; None: the native loop did.
    """

    members: Sequence[Sequence[int]]
    takings: Sequence[Taking]
    rows: NDArray[np.int64]
    joined: NDArray[np.int64] | None = None
    with_bins: NDArray[np.int64] | None = None
    dtypes: NDArray[np.str_] | None = None

    @property
    def histograms(self) -> bool:
        """Whether any is taken."""
        return any(taking.histogram is not Histogram.NONE for taking in self.takings)


@dataclass(slots=True)
class _Known:
    """Cached facts for reading a version of a step.

    Attributes:
        parts: Results by number of steps per call, and whether it is the last step.
        due: Due tensors by kind, request, and whether it is the last step.
    """

    parts: dict[tuple[int, bool], _Sorted] = field(default_factory=dict)
    due: dict[tuple[Kind, int, bool], _Due] = field(default_factory=dict)


class Readings:
    """Reads the results of calls, and caches what is constant for each version."""

    def __init__(self) -> None:
        self._known: weakref.WeakKeyDictionary[Returns, _Known] = weakref.WeakKeyDictionary()

    def of(self, version: Returns, values: Sequence[Any], joined: Mapping[str, Any], steps: int = 1) -> Reading:
        """Return the results of one call; arguments as in `Reading`."""
        return Reading(version, values, joined, steps, self._known.setdefault(version, _Known()))


class Reading:
    """The results of one call, in transfer from the device.

    Args:
        version: Describes its results.
        values: Results, see `version.found`; they may still be computed. None: among the joined ones.
        joined: Joined results, see `version.places`.
        steps: Number of optimizer steps of the call.
        known: Cached facts of its version.
    """

    def __init__(self, version: Returns, values: Sequence[Any], joined: Mapping[str, Any], steps: int,
                 known: _Known) -> None:
        self._known = known
        self._version, self._values, self._joined = version, values, joined
        self._found, self._steps = self._version.found, steps
        self._path = next((_scans(item) for item in self._found if item.mark.kind in _MODEL), ())
        for leaf in jax.tree.leaves((list(self._values), self._joined)):
            leaf.copy_to_host_async()

    @property
    def taken(self) -> list[tuple[Kind, str, Taking]]:
        """Kind, path and recorded statistics of each result of the call."""
        return [(item.mark.kind, item.mark.path, item.taking) for item in self._found]

    def hand_over(self, integration: ArrayIntegration, step: int, but: Container[Kind] = ()) -> None:
        """Pass the due results of one of the call's steps to the integration.

        Args:
            integration: Integration with the current step.
            step: Index of the step, from 0.
            but: Kinds of tensors to omit.
        """
        mine = self._sorted(step)
        self._labels(integration, mine.labels, step)
        for number in mine.numbers:
            self._number(integration, number, step)
        for number in mine.codes:
            self._codes(integration, number, step)
        self._wholes(integration, [number for number in mine.wholes if self._found[number].mark.kind not in but], step)
        for kind in mine.reduced:
            if kind not in but:
                self._reduced(integration, kind, step)

    def _sorted(self, step: int) -> _Sorted:
        """Return the results of a step: the same for all steps except the last."""
        which = self._steps, step == self._steps - 1
        if which not in self._known.parts:
            mine = [number for number, item in enumerate(self._found) if self._belongs(item, step)]
            role = {number: self._found[number].mark.role for number in mine}
            plain = [number for number in mine if not role[number]]
            by_kind: dict[Kind, list[int]] = {}
            for number in plain:
                if not self._found[number].whole:
                    by_kind.setdefault(self._found[number].mark.kind, []).append(number)
            self._known.parts[which] = _Sorted(
                [number for number in mine if role[number] in ("labels", "predictions")],
                [number for number in mine if role[number] == "codes"],
                [number for number in mine if role[number] == "number"],
                [number for number in plain if self._found[number].whole], by_kind)
        return self._known.parts[which]

    def _belongs(self, item: Found, step: int) -> bool:
        return step == self._steps - 1 or (bool(self._path) and _scans(item)[: len(self._path)] == self._path)

    def _reduced(self, integration: ArrayIntegration, kind: Kind, step: int) -> None:
        """Merge statistics of one kind into the rows of the due tensors."""
        due = self._due(integration, kind, step)
        if not len(due.rows):
            return
        integration.merge_rows(due.rows, functools.partial(self._fetched, due, step))
        for members, taking in zip(due.members, due.takings, strict=True):
            if taking.units and self._has_units(members[0]):
                self._units(integration, members, step)

    def _due(self, integration: ArrayIntegration, kind: Kind, step: int) -> _Due:
        """Return the due tensors of one kind, cached while the request is the same."""
        which = kind, integration.session.plan.of_kind(integration.mask(), kind), step == self._steps - 1
        if which not in self._known.due:
            self._known.due[which] = self._newly_due(integration, kind, self._sorted(step).reduced[kind])
        return self._known.due[which]

    def _newly_due(self, integration: ArrayIntegration, kind: Kind, numbers: Sequence[int]) -> _Due:
        due: dict[str, tuple[list[int], Taking]] = {}
        for number in numbers:
            mark = self._found[number].mark
            taking = integration.taking(kind, mark.path, mark.layer)
            if taking is not None:
                due.setdefault(mark.path, ([], taking))[0].append(number)
        members, takings = [members for members, _ in due.values()], [taking for _, taking in due.values()]
        firsts = [self._found[each[0]] for each in members]
        rows = integration.rows(kind, list(due), dtypes=[item.dtype for item in firsts],
                        layers=[item.mark.layer for item in firsts])
        found = _Due(members, takings, rows)
        native = all(item.is_native for item in firsts)
        names = _NATIVE if native else _REDUCED
        moments, bins = self._version.places.rows(names.moments), self._version.places.rows(names.histogram)
        alone = [each[0] for each in members if len(each) == 1 and each[0] in moments]
        of_all = all(taking.histogram and each[0] in bins for taking, each in zip(takings, members, strict=True))
        if len(alone) < len(members) or (found.histograms and not of_all):
            return found
        return replace(found, joined=np.array([moments[number] for number in alone], np.int64),
                       with_bins=np.array([bins[number] for number in alone], np.int64) if found.histograms else None,
                       dtypes=None if native else np.array([item.dtype for item in firsts]))

    def _fetched(self, due: _Due, step: int) -> tuple[NDArray[np.float64], NDArray[np.int64] | None]:
        """Return the moments and the histograms of due tensors."""
        if due.joined is not None:
            return self._fetched_at_once(due)
        moments = identity_rows(len(due.rows))
        bins = np.zeros((len(due.rows), EXPONENT_BINS), np.int64) if due.histograms else None
        for row, (members, taking) in enumerate(zip(due.members, due.takings, strict=True)):
            for number in members:
                for one in self._moments(number, step):
                    merge_rows(moments[row : row + 1], one[np.newaxis])
                if bins is not None and taking.histogram:
                    bins[row] += self._bins(number, step)
        return moments, bins

    def _fetched_at_once(self, due: _Due) -> tuple[NDArray[np.float64], NDArray[np.int64] | None]:
        """Return moments and histograms of due tensors among the joined results."""
        if due.dtypes is None:
            bins = None if due.with_bins is None else foreign.bins_of(self._joined["bins"])[due.with_bins]
            return foreign.moments_of(np.asarray(self._joined["moments"])[due.joined]), bins
        counts = None if due.with_bins is None else np.asarray(self._joined["counts"])[due.with_bins].astype(np.int64)
        reduced = {name: np.asarray(self._joined[name])[due.joined] for name in ("exact", "sums")}
        return moments_of(reduced, due.dtypes), counts

    def _moments(self, number: int, step: int) -> Iterator[NDArray[np.float64]]:
        """Yield the moments of a tensor, once for each occurrence."""
        item = self._found[number]
        if item.is_native:
            rows = foreign.moments_of(self._part(number, "moments", step))
        else:
            parts = {name: self._part(number, name, step) for name in ("exact", "sums")}
            rows = moments_of(parts, item.dtype)
        yield from rows.reshape(-1, len(MOMENT_FIELDS))

    def _bins(self, number: int, step: int) -> Any:
        item = self._found[number]
        name = _names(item).histogram
        if name not in (item.parts or {}):
            return 0
        bins = self._part(number, name, step)
        return (foreign.bins_of(bins) if item.is_native else bins).reshape(-1, EXPONENT_BINS).sum(0)

    def _has_units(self, number: int) -> bool:
        item = self._found[number]
        return _names(item).units in (item.parts or {})

    def _columns(self, number: int, step: int) -> NDArray[Any]:
        """Return the per-unit statistics of a tensor, once for each occurrence."""
        item = self._found[number]
        columns = (foreign.columns_of(self._part(number, "columns", step)) if item.is_native
                   else columns_of(self._part(number, "units", step)))
        return columns.reshape(-1, item.shape[-1], len(UNIT_FIELDS))

    def _units(self, integration: ArrayIntegration, members: Sequence[int], step: int) -> None:
        item = self._found[members[0]]
        key, bound = Key(item.mark.kind, canonical_path(item.mark.path)), bound_of(item.mark.layer)
        row = integration.session.output.table.row(Subject(key, item.mark.layer, item.dtype))
        count = math.prod(item.shape[:-1])

        def merge_in(buffer: StepBuffer) -> None:
            for number in members:
                for moments, columns in zip(self._moments(number, step), self._columns(number, step), strict=True):
                    if not moments[0]:
                        continue  # the branch was not taken
                    merge_unit_columns(buffer.unit_columns(row, item.shape[-1], count,
                                                           math.nan if bound is None else bound),
                                       np.asarray(columns, np.float64))

        integration.defer(merge_in)

    def _wholes(self, integration: ArrayIntegration, numbers: Sequence[int], step: int) -> None:
        """Pass on whole tensors; several occurrences are merged."""
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
                integration.take(kind, arrays, layers=layers)

    def _labels(self, integration: ArrayIntegration, numbers: Sequence[int], step: int) -> None:
        """Count named targets and predictions of the step when they are available."""
        by_name: dict[str, dict[str, list[int]]] = {}
        for number in numbers:
            mark = self._found[number].mark
            by_name.setdefault(mark.path, {}).setdefault(mark.role, []).append(number)
        for name, roles in by_name.items():
            pairs = list(zip(roles.get("labels", ()), roles.get("predictions", ()), strict=False))

            def count(buffer: StepBuffer, name: str = name, pairs: Sequence[tuple[int, int]] = tuple(pairs)) -> None:
                try:
                    for labels, predictions in pairs:
                        gather_labels(name, self._flat(labels, step), self._flat(predictions, step), buffer)
                    buffer.settle(training=True)
                except BarographError as error:
                    # In another thread, because here it would take as long as the step.
                    integration.session.guard.report(str(error), cause="labels of JAX")

            if integration.due(Kind.LABEL, Kind.CONFUSION):
                integration.defer(count)

    def _codes(self, integration: ArrayIntegration, number: int, step: int) -> None:
        """Count the targets and predictions of a loss function when they are available."""
        mark = self._found[number].mark

        def count(buffer: StepBuffer) -> None:
            gather_codes(mark.path, mark.classes, self._flat(number, step), buffer)
            buffer.settle(training=True)

        if integration.due(Kind.LABEL, Kind.CONFUSION):
            integration.defer(count)

    def _number(self, integration: ArrayIntegration, number: int, step: int) -> None:
        mark = self._found[number].mark
        if mark.kind is Kind.LOSS:
            # The mean over micro-batches, and over devices with different parts.
            integration.loss(lambda: float(np.mean(self._flat(number, step))))
            return
        if mark.kind is Kind.LEARNING_RATE:
            integration.learning_rate(lambda: float(self._flat(number, step)[-1]), group_number(mark.path))
            return

        def put(buffer: StepBuffer) -> None:
            buffer.scalars[Key(mark.kind, mark.path)] = float(self._flat(number, step)[-1])

        integration.defer(put)

    def _flat(self, number: int, step: int) -> NDArray[Any]:
        return np.asarray(self._whole(number, step)).reshape(-1)

    def _whole(self, number: int, step: int) -> Any:
        item, value = self._found[number], self._values[number]
        return value if not item.axes else np.asarray(value)[self._index(item, value, step)]

    def _part(self, number: int, name: str, step: int) -> NDArray[Any]:
        """Return one statistics array of a tensor for a step, with the axes to merge."""
        item, statistics = self._found[number], self._values[number]
        if statistics is None:
            return cast("NDArray[Any]", np.asarray(self._joined[name])[self._version.places.rows(name)[number]])
        array: NDArray[Any] = np.asarray(statistics[name])
        if item.axes:
            array = array[self._index(item, statistics[name], step)]
        return array

    def _index(self, item: Found, value: Any, step: int) -> tuple[Any, ...]:
        """Return the index of a step: its iteration of the step loops, and one device for values that all share."""
        turns = [size for axis, size in zip(item.axes, value.shape, strict=False) if axis in self._path]
        places = list(np.unravel_index(step, turns)) if turns and math.prod(turns) == self._steps else [-1] * len(turns)
        index: list[Any] = []
        for axis in item.axes:
            if axis in self._path:
                index.append(places.pop(0))
            else:
                index.append(0 if axis == DEVICES and item.mark.kind not in _OF_EACH_DEVICE else slice(None))
        return tuple(index)


def group_number(path: str) -> int:
    """Return the number of a parameter group from its name.

    Example:
        >>> group_number("group2")
        2
    """
    return int(path.removeprefix("group"))


def _names(item: Found) -> _Names:
    return _NATIVE if item.is_native else _REDUCED


def _scans(item: Found) -> tuple[str, ...]:
    return tuple(axis for axis in item.axes if axis != DEVICES)
