"""Reads the event files of one directory, merged as in TensorBoard."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from barograph.errors import DamagedSource, ObjectNotFound
from barograph.ingest.tensorboard.alike import Alike, alike_in
from barograph.ingest.tensorboard.bars import summary_of_buckets, summary_of_message
from barograph.ingest.tensorboard.curve import Curve
from barograph.ingest.tensorboard.parameters import START_TAG, Parameter, parameters_from_content
from barograph.model.summary import Summary
from barograph.store.base import Store
from barograph.wire.events import Event, Value, event_from_message
from barograph.wire.framing import WRONG, WRONG_CHECKSUM, BrokenRecord, Sweep, payload_at, records_in, swept
from barograph.wire.tensor_proto import Texts, array_from_proto

_LARGEST_STEP = 1 << 62


@dataclass(frozen=True, slots=True)
class Bars:
    """A histogram at one step.

    Attributes:
        time_unix: Time of writing.
        summary: Summary of its elements.
        coarse: Whether the summary is estimated from a few buckets.
    """

    time_unix: float
    summary: Summary
    coarse: bool


@dataclass(slots=True)
class FolderContent:
    """Contents of a directory.

    Attributes:
        curves: Tag to points.
        histograms: Tag to histograms by step.
        texts: Tag to texts by step.
        parameters: Parameters, from the hyperparameters plugin.
        passed_over: Unsupported data with counts: images, graphs.
        again: Number of points left out because a restart repeated them.
        damage: What cannot be read, one sentence each.
    """

    curves: dict[str, Curve] = field(default_factory=dict)
    histograms: dict[str, dict[int, Bars]] = field(default_factory=dict)
    texts: dict[str, dict[int, tuple[float, Texts]]] = field(default_factory=dict)
    parameters: dict[str, Parameter] = field(default_factory=dict)
    passed_over: Counter[str] = field(default_factory=Counter)
    again: int = 0
    damage: list[str] = field(default_factory=list)


def content_of(store: Store, files: tuple[str, ...]) -> FolderContent:
    """Return the merged contents of the files of a directory.

    A later file supersedes earlier points of a tag from its first step on. A session-start event supersedes all tags.

    Args:
        store: Store of the files.
        files: Names, ordered by start time.

    Raises:
        StoreError: The place cannot be read.
    """
    whole = FolderContent()
    plugins: dict[str, str] = {}
    for name in files:
        try:
            data = store.get(name)
        except ObjectNotFound:
            whole.damage.append(f"{name}: the file no longer exists.")
            continue
        if not len(data):
            whole.damage.append(f"{name}: the file is empty.")
        _File(name, whole, plugins).read(data)
    return whole


class _File:
    def __init__(self, name: str, whole: FolderContent, plugins: dict[str, str]) -> None:
        self._name = name
        self._whole = whole
        self._plugins = plugins
        self._curves: dict[str, Curve] = {}

    def read(self, data: memoryview) -> None:
        at = 0
        while at < len(data):
            sweep = swept(data, at)
            self._read_sweep(data, sweep)
            at = sweep.end
            if not len(sweep.starts):
                break
        # After a record with an invalid length, the next one cannot be found.
        for broken in records_in(data[at:]):
            if isinstance(broken, BrokenRecord):
                self._tell(at + broken.start, broken.reason)
        for tag, curve in self._curves.items():
            known = self._whole.curves.get(tag)
            if known is None:
                self._whole.curves[tag] = curve
            else:
                self._whole.again += known.go_on(curve)

    def _read_sweep(self, data: memoryview, sweep: Sweep) -> None:
        waiting = alike_in(data, sweep, self._plugins)
        others = np.ones(len(sweep.starts), bool)
        for alike in waiting:
            others[alike.places] = False
        for place in np.flatnonzero(others).tolist():
            start, length = int(sweep.starts[place]), int(sweep.lengths[place])
            if sweep.states[place] == WRONG:
                self._tell(start, WRONG_CHECKSUM)
                continue
            try:
                event = event_from_message(payload_at(data, start, length))
            except DamagedSource as error:
                self._tell(start, str(error))
                continue
            if event.restarts or any(value.tag in self._tags(waiting) for value in event.values):
                waiting = self._take_before(waiting, place)
            try:
                self._take(event, start)
            except DamagedSource as error:
                self._tell(start, str(error))
        self._take_before(waiting, len(sweep.starts))

    def _tags(self, waiting: list[Alike]) -> set[str]:
        return {alike.tag for alike in waiting}

    def _take_before(self, waiting: list[Alike], place: int) -> list[Alike]:
        """Add the points before a record, in order; return those after it."""
        rest: list[Alike] = []
        by_tag: dict[str, list[Alike]] = {}
        for alike in waiting:
            count = int(np.searchsorted(alike.places, place))
            by_tag.setdefault(alike.tag, []).append(alike.part(0, count))
            if count < len(alike.places):
                rest.append(alike.part(count, len(alike.places)))
        for tag, parts in by_tag.items():
            order = np.argsort(np.concatenate([part.places for part in parts]))
            self._curves.setdefault(tag, Curve()).extend(
                np.concatenate([part.steps for part in parts])[order],
                np.concatenate([part.times for part in parts])[order],
                np.concatenate([part.values for part in parts])[order],
            )
        return rest

    def _take(self, event: Event, start: int) -> None:
        if event.restarts:
            self._drop_from(event.step)
        if event.other:
            self._whole.passed_over[event.other] += 1
        if event.values and not 0 <= event.step < _LARGEST_STEP:
            raise DamagedSource(f"an event has step {event.step}, which is invalid")
        for value in event.values:
            try:
                self._take_value(value, event)
            except DamagedSource as error:
                self._tell(start, f'{error} ("{value.tag}")')

    def _take_value(self, value: Value, event: Event) -> None:
        tag = value.tag
        if value.plugins:
            # Only the first value of a tag has it.
            self._plugins.setdefault(tag, next(iter(value.plugins)))
        plugin = self._plugins.get(tag, "")
        if value.number is not None:
            self._add(tag, event, value.number)
        elif value.histogram is not None:
            self._keep_bars(tag, event, summary_of_message(value.histogram), coarse=False)
        elif value.other:
            self._whole.passed_over[value.other] += 1
        elif plugin == "hparams":
            self._whole.parameters.update(
                parameters_from_content(value.plugins.get(plugin, b"")) if tag == START_TAG else {})
        elif value.tensor is not None:
            self._take_tensor(tag, plugin, event, value.tensor)

    def _take_tensor(self, tag: str, plugin: str, event: Event, message: memoryview) -> None:
        if plugin not in ("", "scalars", "histograms", "text"):
            self._whole.passed_over[plugin.removesuffix("s")] += 1
            return
        array = array_from_proto(message)
        if isinstance(array, list):
            if plugin == "text":
                self._whole.texts.setdefault(tag, {})[event.step] = (event.time_unix, array)
            else:
                self._whole.passed_over["other text"] += 1
        elif plugin == "histograms":
            self._keep_bars(tag, event, summary_of_buckets(array), coarse=True)
        elif array.size == 1:
            self._add(tag, event, _number(array))
        else:
            self._whole.passed_over["tensor"] += 1

    def _add(self, tag: str, event: Event, number: float) -> None:
        curve = self._curves.get(tag)
        if curve is None:
            curve = self._curves[tag] = Curve()
        curve.add(event.step, event.time_unix, number)

    def _keep_bars(self, tag: str, event: Event, summary: Summary, *, coarse: bool) -> None:
        self._whole.histograms.setdefault(tag, {})[event.step] = Bars(event.time_unix, summary, coarse)

    def _drop_from(self, step: int) -> None:
        whole = self._whole
        for curves in (whole.curves, self._curves):
            whole.again += sum([curve.drop_from(step) for curve in curves.values()])
        by_step: list[dict[int, Any]] = [*whole.histograms.values(), *whole.texts.values()]
        for known in by_step:
            for late in [number for number in known if number >= step]:
                del known[late]
                whole.again += 1

    def _tell(self, start: int, clause: str) -> None:
        self._whole.damage.append(f"{self._name}: at byte {start} {clause}.")


def _number(array: NDArray[Any]) -> float:
    if array.dtype.kind not in "fiub" and array.dtype.name != "bfloat16":
        raise DamagedSource(f"a scalar has type {array.dtype}")
    return float(np.asarray(array).reshape(()))
