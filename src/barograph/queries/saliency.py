"""Saliency maps of a run: which input values moved the score of the predicted class, at each evaluation."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
from numpy.typing import NDArray

from barograph.errors import UnknownName, nearest
from barograph.measures.pooling import is_image
from barograph.model.key import Kind
from barograph.model.plain import plain
from barograph.model.probe import PREDICTION, SALIENCY_METHODS, SALIENCY_SAMPLES, SAMPLES, saliency_key, subject_in
from barograph.model.step import Mode
from barograph.queries.latent import image_to_json, probe_input
from barograph.runs.reading.reader import RunReader

MOST_MAPS = 12
"""Maps of one sample on a page; of more evaluations, evenly spaced ones are shown."""


@dataclass(frozen=True, slots=True)
class SaliencyMap:
    """The map of one sample at one evaluation.

    Attributes:
        step: Training steps made before it.
        prediction: Class whose score is explained; NaN if the model predicts no classes.
        values: The map, of the shape of the stored input. Positive values raised the score.
    """

    step: int
    prediction: float
    values: NDArray[Any]

    def to_json(self) -> dict[str, Any]:
        """Return strict JSON data."""
        return {"step": self.step, "prediction": plain(self.prediction), **image_to_json(self.values)}


@dataclass(frozen=True, slots=True)
class SaliencyOverTime:
    """The maps of one sample over the training.

    Attributes:
        sample: Its identity.
        method: Method of the maps.
        methods: All methods with maps in this run.
        input: The input; None: not stored.
        is_image: The input can be drawn as an image.
        maps: Maps in order of time.
    """

    sample: str
    method: str
    methods: tuple[str, ...]
    input: NDArray[Any] | None
    is_image: bool
    maps: tuple[SaliencyMap, ...]

    def to_json(self) -> dict[str, Any]:
        """Return strict JSON data."""
        data = {item.name: plain(getattr(self, item.name)) for item in fields(self)
                if item.name not in ("input", "maps")}
        data["input"] = None if self.input is None else image_to_json(self.input)
        return {**data, "maps": [item.to_json() for item in self.maps]}


def saliency_methods(run: RunReader) -> tuple[str, ...]:
    """Return the methods with maps in a run, in the order of `SALIENCY_METHODS`."""
    found = {method for key in run.keys(Kind.CUSTOM) if (method := subject_in(key, "saliency")) is not None}
    return tuple(method for method in SALIENCY_METHODS if method in found)


def saliency_samples(run: RunReader) -> tuple[str, ...]:
    """Return the identities of the samples with maps, in the order in which the probe chose them."""
    found: dict[str, None] = {}
    for samples in run.tensors(SALIENCY_SAMPLES, mode=Mode.EVAL).values():
        found.update(dict.fromkeys(map(str, samples.tolist())))
    return tuple(found)


def saliency_of(
    run: RunReader, sample: str, *, method: str = "", most_maps: int = MOST_MAPS
) -> SaliencyOverTime:
    """Return the maps of one sample over the training.

    Args:
        run: The run.
        sample: Identity of the sample, of `saliency_samples`.
        method: "gradient-input", "smoothgrad" or "integrated-gradients"; "": the last of these that the run has.
        most_maps: Maximum number of maps.

    Raises:
        UnknownName: The run has no maps of this sample or method.
        DamagedChunk: A file is damaged or missing.
        StoreError: The store cannot be read.
    """
    methods = saliency_methods(run)
    if not methods:
        raise UnknownName("This run has no saliency maps. Record them: barograph run --probe 500 --saliency 8.")
    method = method or methods[-1]
    if method not in methods:
        raise UnknownName(f'This run has no maps of "{method}". {nearest(method, methods)}')
    rows = {step: at for step, samples in run.tensors(SALIENCY_SAMPLES, mode=Mode.EVAL).items()
            if (at := _row(samples, sample)) is not None}
    if not rows:
        raise UnknownName(f'This run has no saliency maps of the sample "{sample}". Only the first samples of the '
                          "probe have some; --saliency sets how many.")
    chosen = _spread(list(rows), most_maps)
    values = run.tensors(saliency_key(method), mode=Mode.EVAL, steps=chosen)
    predictions = _predictions(run, sample, chosen)
    maps = tuple(SaliencyMap(step, predictions.get(step, float("nan")), array[rows[step]])
                 for step, array in values.items())
    return SaliencyOverTime(sample, method, methods, probe_input(run, int(sample)),
                            bool(maps) and is_image(maps[0].values.shape), maps)


def _row(samples: NDArray[np.int64], sample: str) -> int | None:
    found = [str(item) for item in samples.tolist()]
    return found.index(sample) if sample in found else None


def _predictions(run: RunReader, sample: str, steps: Sequence[int]) -> dict[int, float]:
    """Return the predicted class of a sample by step."""
    samples = run.tensors(SAMPLES, mode=Mode.EVAL, steps=steps)
    found = {}
    for step, predictions in run.tensors(PREDICTION, mode=Mode.EVAL, steps=steps).items():
        row = _row(samples[step], sample) if step in samples else None
        if row is not None and predictions.dtype.kind in "iu":
            found[step] = float(predictions[row])
    return found


def _spread(steps: Sequence[int], most: int) -> list[int]:
    at = np.unique(np.linspace(0, len(steps) - 1, min(most, len(steps))).round().astype(int))
    return [steps[place] for place in at.tolist()]
