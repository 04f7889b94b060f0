"""The samples of the probe, and the data of them that one evaluation collects. Independent of frameworks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from barograph.measures.pooling import reduced_sample
from barograph.model.probe import (
    INPUT,
    INPUT_SAMPLES,
    LOSS,
    PREDICTION,
    SALIENCY_SAMPLES,
    SAMPLES,
    TARGET,
    ProbeSettings,
    output_key,
    saliency_key,
)
from barograph.model.tensor import RawTensor

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from barograph.capture.buffer import StepBuffer

UNKNOWN_CLASS = -1
_LARGEST_HALF = 6e4
_SMALL_INTEGERS = ("uint8", "int8", "int16", "int32", "int64", "bool")


@dataclass(slots=True)
class ProbeRows:
    """Some samples of the probe in one evaluation, a row each.

    Attributes:
        samples: Digests of their content, int64.
        layer: Name of the recorded layer.
        outputs: Its outputs, shape (rows, features).
        inputs: Inputs, shape (rows, …); None: unknown.
        targets, predictions: Class numbers as integers, or values as floating-point numbers; None: unknown.
        losses: Loss of each sample; None: unknown.
        saliency: Method to the maps of the first rows, of the shape of the inputs.
    """

    samples: NDArray[np.int64]
    layer: str
    outputs: NDArray[Any]
    inputs: NDArray[Any] | None = None
    targets: NDArray[Any] | None = None
    predictions: NDArray[Any] | None = None
    losses: NDArray[Any] | None = None
    saliency: Mapping[str, NDArray[Any]] = field(default_factory=dict)
    saliency_rows: NDArray[np.intp] | None = None


class Probe:
    """The chosen samples. The first evaluation chooses them; later ones find them by their content.

    Args:
        settings: How many samples, and what is stored of them.
    """

    def __init__(self, settings: ProbeSettings) -> None:
        self.settings = settings
        self.places: dict[int, int] = {}
        self._stored_bytes = 0
        self._inputs_stored: set[int] = set()

    @property
    def chosen(self) -> bool:
        """Whether the samples are chosen."""
        return bool(self.places)

    def choose(self, samples: Sequence[int]) -> None:
        """Set the samples, each once."""
        for sample in samples:
            if len(self.places) < self.settings.samples:
                self.places.setdefault(sample, len(self.places))

    def takes_input(self, sample: int, size_bytes: int) -> bool:
        """Return whether the input of a sample is to be stored, and count its bytes."""
        if sample in self._inputs_stored or self._stored_bytes + size_bytes > self.settings.input_bytes:
            return False
        self._inputs_stored.add(sample)
        self._stored_bytes += size_bytes
        return True


class ProbePass:
    """The samples of the probe in one pass over data; a `Gathered` of the evaluation's buffer.

    Args:
        probe: The chosen samples.
    """

    def __init__(self, probe: Probe) -> None:
        self._probe = probe
        self._parts: list[ProbeRows] = []
        self._met: dict[int, int] = {}

    @property
    def full(self) -> bool:
        """Whether no more samples are needed."""
        wanted = len(self._probe.places) or self._probe.settings.samples
        return len(self._met) >= wanted

    @property
    def begun(self) -> bool:
        """Whether a sample was met."""
        return bool(self._met)

    def place_of(self, sample: int) -> int:
        """Return the number of a met sample."""
        return self._probe.places.get(sample, self._met.get(sample, 0))

    def wanted(self, digests: NDArray[np.int64]) -> NDArray[np.intp]:
        """Return the rows of a batch that belong to the probe and were not met in this pass, and note them."""
        rows = []
        for row, sample in enumerate(digests.tolist()):
            if self.full:
                break
            if sample not in self._met and (not self._probe.chosen or sample in self._probe.places):
                self._met[sample] = len(self._met)
                rows.append(row)
        return np.array(rows, np.intp)

    def add(self, rows: ProbeRows) -> None:
        """Add the data of rows that `wanted` returned."""
        self._parts.append(rows)

    def settle(self, buffer: StepBuffer, *, training: bool) -> None:
        """Drop what was collected: only the pass over the data that rules evaluate is written, by `write`."""
        self._parts = []

    def write(self, buffer: StepBuffer) -> None:
        """Write the frame of this evaluation to its buffer."""
        # Layers of other widths cannot be one frame: another model, or another layer, was called.
        parts = [part for part in self._parts if (part.layer, part.outputs.shape[1:]) == (
            self._parts[0].layer, self._parts[0].outputs.shape[1:])]
        self._parts = []
        if not parts:
            return
        samples = np.concatenate([part.samples for part in parts])
        self._probe.choose(samples.tolist())
        places = np.array([self._probe.places.get(sample, len(samples)) for sample in samples.tolist()])
        order = np.argsort(places, kind="stable")
        _put(buffer, SAMPLES, samples[order])
        _put(buffer, output_key(parts[0].layer), _compact(np.concatenate([part.outputs for part in parts]))[order])
        for key, name in ((TARGET, "targets"), (PREDICTION, "predictions")):
            column = _labels([getattr(part, name) for part in parts], [len(part.samples) for part in parts])
            if column is not None:
                _put(buffer, key, column[order])
        if any(part.losses is not None for part in parts):
            losses = [np.full(len(part.samples), np.nan) if part.losses is None else part.losses for part in parts]
            _put(buffer, LOSS, np.concatenate(losses).astype(np.float32)[order])
        self._put_inputs(buffer, parts)
        self._put_saliency(buffer, parts)

    def _put_inputs(self, buffer: StepBuffer, parts: Sequence[ProbeRows]) -> None:
        kept: list[NDArray[Any]] = []
        samples: list[int] = []
        for part in parts:
            for row, sample in enumerate(part.samples.tolist() if part.inputs is not None else []):
                assert part.inputs is not None
                small = _compact(reduced_sample(part.inputs[row]))
                if (not kept or small.shape == kept[0].shape) and self._probe.takes_input(sample, small.nbytes):
                    kept.append(small)
                    samples.append(sample)
        if kept:
            _put(buffer, INPUT, np.stack(kept))
            _put(buffer, INPUT_SAMPLES, np.array(samples, np.int64))

    def _put_saliency(self, buffer: StepBuffer, parts: Sequence[ProbeRows]) -> None:
        having = [part for part in parts if part.saliency and part.saliency_rows is not None]
        if not having:
            return
        for method in having[0].saliency:
            maps = [reduced_sample(item) for part in having for item in part.saliency.get(method, ())]
            _put(buffer, saliency_key(method), np.stack(maps).astype(np.float32))
        rows = [part.samples[part.saliency_rows] for part in having]
        _put(buffer, SALIENCY_SAMPLES, np.concatenate(rows))


def _labels(columns: Sequence[NDArray[Any] | None], rows: Sequence[int]) -> NDArray[Any] | None:
    """Return the targets or predictions of all parts; unknown ones are -1 or NaN. None: all are unknown."""
    known = [column for column in columns if column is not None]
    if not known:
        return None
    are_classes = all(column.dtype.kind in "iub" for column in known)
    kind, unknown = (np.int64, UNKNOWN_CLASS) if are_classes else (np.float32, np.nan)
    return np.concatenate([np.full(count, unknown, kind) if column is None else column.astype(kind)
                           for column, count in zip(columns, rows, strict=True)])


def _compact(values: NDArray[Any]) -> NDArray[Any]:
    """Return an array in the smallest type that represents it well: float16 if its range suffices."""
    if values.dtype.name in _SMALL_INTEGERS:
        return values
    wide = values.astype(np.float32)
    # NaN is not below it either.
    fits = bool(np.abs(wide).max(initial=0.0) < _LARGEST_HALF)
    return wide.astype(np.float16) if fits else wide


def _put(buffer: StepBuffer, key: Any, values: NDArray[Any]) -> None:
    whole = np.ascontiguousarray(values)
    buffer.tensors[key] = RawTensor(whole.dtype.name, whole.shape, whole.tobytes())
