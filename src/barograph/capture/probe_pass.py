"""A separate forward pass over fixed samples, for frameworks that compile the script's evaluation."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from barograph.capture.attribution import attribution
from barograph.capture.probe import Probe, ProbePass, ProbeRows
from barograph.errors import SettingsError
from barograph.model.probe import ProbeSettings

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from barograph.capture.buffer import StepBuffer

_BATCH = 128
_NEAR = 1e-3
"""Probabilities in half precision do not sum up to 1 exactly."""


@dataclass(frozen=True, slots=True)
class Called:
    """Results of a model for some samples.

    Attributes:
        scores: Output of the model, a row per sample.
        layer: Name of the recorded layer.
        outputs: Its outputs, a row per sample.
    """

    scores: NDArray[Any]
    layer: str
    outputs: NDArray[Any]


class ProbedModel(Protocol):
    """A model as the probe calls it. Calls do not change it."""

    def call(self, inputs: NDArray[Any]) -> Called:
        """Return what the model returns in an evaluation."""

    def gradient(self, inputs: NDArray[Any], classes: NDArray[np.int64]) -> NDArray[Any]:
        """Return the gradient of the score of each sample's class."""

    def results(self, scores: NDArray[Any], targets: NDArray[Any] | None) -> Results:
        """Return targets, predictions and losses of samples."""


@dataclass(frozen=True, slots=True)
class Results:
    """Results of some samples; attributes as of `ProbeRows`."""

    targets: NDArray[Any] | None = None
    predictions: NDArray[Any] | None = None
    losses: NDArray[Any] | None = None


@dataclass(slots=True)
class FixedSamples:
    """Samples that the probe evaluates.

    Attributes:
        inputs: Shape (n, …).
        targets: Shape (n, …); None: unknown.
        digests: Identity of each sample.
    """

    inputs: NDArray[Any]
    targets: NDArray[Any] | None
    digests: NDArray[np.int64] = field(init=False)

    def __post_init__(self) -> None:
        self.digests = digests_of(self.inputs)


class OwnProbe:
    """Stores results of a model for a fixed set of samples.

    Args:
        settings: How many samples, and what is stored of them.
        say: Notes why something is not recorded: what, and the reason.
    """

    def __init__(self, settings: ProbeSettings, say: Callable[[str, str], None]) -> None:
        self.settings = settings
        self._say = say
        self._probe = Probe(settings)
        self._samples: FixedSamples | None = None

    @property
    def chosen(self) -> bool:
        """Whether the samples are known."""
        return self._samples is not None

    def choose(self, inputs: Any, targets: Any = None) -> None:
        """Set the samples: the first rows.

        Raises:
            SettingsError: They are not arrays with a row per sample.
        """
        self._samples = fixed_samples(inputs, targets, self.settings.samples)
        self._probe = Probe(self.settings)

    def write(self, model: ProbedModel, buffer: StepBuffer) -> None:
        """Evaluate the samples, and write the results to the buffer of an evaluation."""
        samples = self._samples
        assert samples is not None
        collected = ProbePass(self._probe)
        for start in range(0, len(samples.inputs), _BATCH):
            part = slice(start, start + _BATCH)
            rows = collected.wanted(samples.digests[part])
            if len(rows):
                collected.add(self._rows(model, collected, samples, rows + start))
        collected.write(buffer)

    def _rows(self, model: ProbedModel, collected: ProbePass, samples: FixedSamples,
              rows: NDArray[np.intp]) -> ProbeRows:
        inputs = samples.inputs[rows]
        called = model.call(inputs)
        results = model.results(called.scores, None if samples.targets is None else samples.targets[rows])
        places = np.array([collected.place_of(sample) for sample in samples.digests[rows].tolist()])
        explained = np.flatnonzero(places < self.settings.saliency)
        maps: dict[str, NDArray[Any]] = {}
        if len(explained) and inputs.dtype.kind != "f":
            self._say("saliency", "saliency maps: the inputs are integers, which have no gradient")
        elif len(explained):
            classes = classes_of(results.predictions, explained)
            maps = {method: attribution(model.gradient, inputs[explained], classes, method)
                    for method in self.settings.saliency_methods}
        return ProbeRows(
            samples.digests[rows], called.layer, called.outputs.reshape(len(rows), -1), inputs=inputs,
            targets=results.targets, predictions=results.predictions, losses=results.losses, saliency=maps,
            saliency_rows=explained if maps else None)


def fixed_samples(inputs: Any, targets: Any, most: int) -> FixedSamples:
    """Return the first rows.

    Raises:
        SettingsError: They are not arrays with a row per sample.
    """
    try:
        x = _copied(inputs[:most])
        y = None if targets is None else _copied(targets[:most])
    except (TypeError, ValueError, IndexError, KeyError):
        raise SettingsError(f"probe is {type(inputs).__name__}; it must be a number of samples, a table, an array, or "
                            "a pair (inputs, targets) of arrays.") from None
    if not x.ndim or not len(x) or x.dtype.kind not in "fiub" or (y is not None and (not y.ndim or len(y) != len(x))):
        raise SettingsError(f"probe has inputs of shape {x.shape}"
                            + (f" and targets of shape {y.shape}" if y is not None else "")
                            + "; pass one row, and one target, per sample.")
    return FixedSamples(x, y)


def _copied(rows: Any) -> NDArray[Any]:
    """Return a copy in host memory of rows of a table, an array, or a tensor on any device."""
    if hasattr(rows, "detach"):  # NumPy has no bfloat16, and converts no tensor that requires a gradient or is on a GPU
        rows = rows.detach().cpu()
        rows = (rows.float() if str(rows.dtype) == "torch.bfloat16" else rows).numpy()
    return np.array(rows)


def class_results(scores: NDArray[Any], targets: NDArray[Any] | None, losses: NDArray[Any] | None) -> Results:
    """Return the results of a model that returns a score per class, or one number.

    Args:
        scores: Output of the model.
        targets: Class numbers, one-hot rows or rows of probabilities, or numbers. Of other rows, such as those of a
            regression with several outputs, there are neither targets nor predictions.
        losses: Loss of each sample; None: unknown.
    """
    count = len(scores)
    flat = scores.reshape(count, -1)
    if scores.ndim == 2 and flat.shape[1] > 1:
        labels = None if targets is None else _labels(targets, scores)
        return Results(losses=losses) if labels is None and targets is not None else Results(
            labels, flat.argmax(1), losses)
    if flat.shape[1] != 1:
        return Results(losses=losses)
    known = None if targets is None or targets.size != count else targets.reshape(count).astype(np.float32)
    return Results(known, flat[:, 0].astype(np.float32), losses)


def _labels(targets: NDArray[Any], scores: NDArray[Any]) -> NDArray[np.int64] | None:
    """Return the class of each sample; None if the targets name no classes."""
    found: NDArray[np.int64] | None = None
    if targets.shape == scores.shape and (targets >= 0).all() and np.allclose(targets.sum(1), 1.0, atol=_NEAR):
        found = targets.argmax(1)
    elif targets.size == len(scores) and (
            targets.dtype.kind != "f" or (targets == np.floor(targets)).all()):
        found = targets.reshape(-1).astype(np.int64)
    return found


def classes_of(predictions: NDArray[Any] | None, rows: NDArray[np.intp]) -> NDArray[np.int64]:
    """Return the predicted classes of rows; 0 if they are unknown."""
    if predictions is None or predictions.dtype.kind not in "iu":
        return np.zeros(len(rows), np.int64)
    found: NDArray[np.int64] = predictions[rows].astype(np.int64)
    return found


def digests_of(rows: NDArray[Any]) -> NDArray[np.int64]:
    """Return the identity of each row, by its content."""
    return np.array([_digest(row) for row in rows], np.int64)


def _digest(row: NDArray[Any]) -> int:
    content = hashlib.blake2b(np.ascontiguousarray(row).tobytes(), digest_size=8).digest()
    return int.from_bytes(content, "little", signed=True)
