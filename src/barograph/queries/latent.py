"""The probe of a run: outputs of one layer for the same samples at each evaluation, projected to two dimensions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
from numpy.typing import NDArray

from barograph.errors import UnknownName, nearest
from barograph.measures.projection import neighbor_accuracy, neighbors, pca_axes, rotation
from barograph.measures.tsne import tsne
from barograph.model.key import Key, Kind
from barograph.model.plain import plain
from barograph.model.probe import (
    INPUT,
    INPUT_SAMPLES,
    LOSS,
    PREDICTION,
    SAMPLES,
    TARGET,
    subject_in,
)
from barograph.model.step import Mode
from barograph.runs.reading.reader import RunReader

Floats = NDArray[np.float64]

METHODS = ("pca", "tsne")
FITS = ("all", "last", "each")

MOST_FRAMES = 40
"""Frames of an animation; of more evaluations, evenly spaced ones are shown."""

MOST_SAMPLES = 1500
"""Samples of t-SNE and of a page; of a larger probe, evenly spaced ones are drawn."""

NEIGHBORS = 5
"""Neighbors that decide whether a sample lies among its own class."""

_UNKNOWN_CLASS = -1


@dataclass(frozen=True, slots=True)
class ProbeFrame:
    """The samples of the probe at one evaluation, as recorded. All frames of a run have the same rows.

    Attributes:
        step: Training steps made before the evaluation.
        layer: Name of the layer: its path, or "input of PATH".
        samples: Identities of the samples, shape (n,).
        outputs: Outputs of the layer, shape (n, features). NaN: the evaluation did not have the sample.
        targets: Class numbers, or values; None: the script called no loss function.
        predictions: Predicted classes, or values; None: unknown.
        losses: Loss of each sample; None: unknown.
    """

    step: int
    layer: str
    samples: NDArray[np.int64]
    outputs: Floats
    targets: NDArray[Any] | None
    predictions: NDArray[Any] | None
    losses: Floats | None

    @property
    def known(self) -> NDArray[np.bool_]:
        """Whether each sample was evaluated, with finite outputs."""
        found: NDArray[np.bool_] = np.all(np.isfinite(self.outputs), axis=1)
        return found

    def taken(self, rows: NDArray[np.intp]) -> ProbeFrame:
        """Return the frame with some of its rows."""
        columns = [None if column is None else column[rows]
                   for column in (self.targets, self.predictions, self.losses)]
        return ProbeFrame(self.step, self.layer, self.samples[rows], self.outputs[rows], *columns)

    @property
    def wrong(self) -> NDArray[np.bool_] | None:
        """Whether each sample is misclassified; None if there are no classes."""
        targets, predictions = self.targets, self.predictions
        if targets is None or predictions is None or not (_are_classes(targets) and _are_classes(predictions)):
            return None
        found: NDArray[np.bool_] = (targets != predictions) & (targets != _UNKNOWN_CLASS) & self.known
        return found


@dataclass(frozen=True, slots=True)
class LatentFrame:
    """Points of one evaluation.

    Attributes:
        step: Training steps made before it.
        points: Two coordinates per sample; NaN: not evaluated.
        predictions: Prediction of each sample; None: unknown.
        losses: Loss of each sample; None: unknown.
        neighbor_accuracy: Share of samples whose 5 nearest neighbors in the layer's own space are mostly of their
            class; NaN without classes.
        accuracy: Share of correct predictions among the samples; NaN without classes.
    """

    step: int
    points: Floats
    predictions: tuple[float, ...] | None
    losses: tuple[float, ...] | None
    neighbor_accuracy: float
    accuracy: float


@dataclass(frozen=True, slots=True)
class Latent:
    """The latent space over the training.

    Attributes:
        layer: Name of the layer.
        features: Number of its recorded outputs.
        method: "pca" or "tsne".
        fit: Frames that the principal axes are computed from.
        explained: Share of the variance along both axes; NaN for t-SNE.
        samples: Identities of the samples.
        samples_left_out: Number of samples without points, since there are too many.
        targets: Target of each sample; None: unknown.
        is_classes: The targets are class numbers.
        evaluations: Number of evaluations with the probe.
        frames: Points at each shown evaluation.
    """

    layer: str
    features: int
    method: str
    fit: str
    explained: tuple[float, float]
    samples: tuple[str, ...]
    samples_left_out: int
    targets: tuple[float, ...] | None
    is_classes: bool
    evaluations: int
    frames: tuple[LatentFrame, ...]

    def box(self) -> tuple[Floats, Floats]:
        """Return the middle of the box around the points of all frames, and half its sides."""
        whole = np.concatenate([frame.points for frame in self.frames])
        whole = whole[np.isfinite(whole).all(1)]
        if not len(whole):
            return np.zeros(2), np.ones(2)
        low, high = whole.min(0), whole.max(0)
        return (low + high) / 2, (high - low) / 2

    def to_json(self) -> dict[str, Any]:
        """Return strict JSON data. All points share one scale: the box around them is centered at 0.

        `extent` has half the width and the height of that box; the larger one is 1.
        """
        data = {item.name: plain(getattr(self, item.name)) for item in fields(self) if item.name != "frames"}
        middle, half = self.box()
        scale = float(half.max()) or 1.0
        data["extent"] = _rounded(half / scale)
        data["frames"] = [{
            "step": frame.step, "points": _rounded((frame.points - middle) / scale),
            "predictions": plain(frame.predictions),
            "losses": None if frame.losses is None else _rounded(np.array(frame.losses)),
            "neighbor_accuracy": plain(frame.neighbor_accuracy), "accuracy": plain(frame.accuracy),
        } for frame in self.frames]
        return data


@dataclass(frozen=True, slots=True)
class ProbeSample:
    """One sample of the probe.

    Attributes:
        sample: Its identity.
        target: Its target; None: unknown.
        input: Its input, reduced if it is large; None: not stored.
        steps, predictions, losses: What the model returned for it at each evaluation.
        neighbors: Identities of its nearest neighbors at the last evaluation, nearest first.
    """

    sample: str
    target: float | None
    input: NDArray[Any] | None
    steps: tuple[int, ...]
    predictions: tuple[float, ...]
    losses: tuple[float, ...]
    neighbors: tuple[str, ...]

    def to_json(self) -> dict[str, Any]:
        """Return strict JSON data, the input with its shape as a flat list."""
        data = {item.name: plain(getattr(self, item.name)) for item in fields(self) if item.name != "input"}
        data["input"] = None if self.input is None else image_to_json(self.input)
        return data


def probe_frames(run: RunReader, *, most: int | None = None) -> list[ProbeFrame]:
    """Return the frames of a run in order of time, with the same rows in each; [] without a probe.

    Args:
        run: The run.
        most: Maximum number of frames, evenly spaced, including the last one; None: all.

    Raises:
        DamagedChunk: A file is damaged or missing.
        StoreError: The store cannot be read.
    """
    steps = probe_steps(run)
    if not steps:
        return []
    if most is not None and len(steps) > most:
        steps = [steps[at] for at in np.unique(np.linspace(0, len(steps) - 1, most).round().astype(int)).tolist()]
    return _with_same_rows(_frames(run, steps))


def probe_steps(run: RunReader) -> list[int]:
    """Return the steps whose evaluations have a probe."""
    table = run.arrow(Kind.CUSTOM, SAMPLES.path, columns=("step", "tensor"))
    return sorted(set(table.filter(table["tensor"])["step"].to_pylist()))


def latent_in(
    run: RunReader, *, method: str = "pca", fit: str = "all", most_frames: int = MOST_FRAMES
) -> Latent | None:
    """Return the latent space over the training; None without a probe. Arguments and errors as for `latent`."""
    return latent(probe_frames(run, most=most_frames), method=method, fit=fit, evaluations=len(probe_steps(run)))


def latent(
    frames: Sequence[ProbeFrame], *, method: str = "pca", fit: str = "all", evaluations: int = 0,
    most_samples: int | None = None,
) -> Latent | None:
    """Return frames of a probe, projected to two dimensions; None without frames.

    Args:
        frames: Result of `probe_frames`.
        method: "pca" projects on the two principal axes; "tsne" keeps neighbors together, each frame continuing from
            the previous one. It takes some seconds.
        fit: For "pca", what the axes are computed from: "all" frames or the "last" one, so that positions are
            comparable over time; or "each" frame on its own, rotated towards the previous one.
        evaluations: Number of evaluations with the probe, if some are left out; 0: that of the frames.
        most_samples: Maximum number of points of a frame; None: all, or 1500 for t-SNE. The accuracies are those of all
            samples.

    Raises:
        UnknownName: No such method or fit.
    """
    for name, value, choices in (("method", method, METHODS), ("fit", fit, FITS)):
        if value not in choices:
            raise UnknownName(f'{name} is "{value}". {nearest(value, choices)}')
    if not frames:
        return None
    most = most_samples if most_samples is not None else MOST_SAMPLES if method == "tsne" else len(frames[0].samples)
    rows = np.arange(len(frames[0].samples))[:: max(1, -(-len(frames[0].samples) // most))]
    drawn = [frame.taken(rows) for frame in frames]
    points, explained = _tsne_points(drawn) if method == "tsne" else _pca_points(drawn, fit)
    last = drawn[-1]
    return Latent(
        last.layer, last.outputs.shape[1], method, fit, explained,
        samples=tuple(map(str, last.samples.tolist())), samples_left_out=len(frames[0].samples) - len(rows),
        targets=None if last.targets is None else tuple(last.targets.tolist()),
        is_classes=_are_classes(last.targets), evaluations=evaluations or len(frames),
        frames=tuple(_latent_frame(*item) for item in zip(frames, drawn, points, strict=True)))


def probe_sample(run: RunReader, sample: str, *, frames: Sequence[ProbeFrame] | None = None) -> ProbeSample:
    """Return one sample of the probe: its input, and what the model returned for it.

    Raises:
        UnknownName: The probe has no such sample.
        DamagedChunk: A file is damaged or missing.
        StoreError: The store cannot be read.
    """
    found = probe_frames(run, most=MOST_FRAMES) if frames is None else list(frames)
    known = [] if not found else found[-1].samples.tolist()
    if sample not in map(str, known):
        raise UnknownName(f'The probe of this run has no sample "{sample}". It has {len(known)}.')
    row, last = known.index(int(sample)), found[-1]
    near: tuple[str, ...] = ()
    if last.known[row]:
        rows = np.flatnonzero(last.known)
        of_it = neighbors(last.outputs[rows], NEIGHBORS)[int(np.searchsorted(rows, row))]
        near = tuple(str(known[rows[at]]) for at in of_it.tolist())
    return ProbeSample(
        sample, target=None if last.targets is None else last.targets[row].item(), input=probe_input(run, int(sample)),
        steps=tuple(frame.step for frame in found),
        predictions=tuple(frame.predictions[row].item() for frame in found if frame.predictions is not None),
        losses=tuple(float(frame.losses[row]) for frame in found if frame.losses is not None), neighbors=near)


def probe_input(run: RunReader, sample: int) -> NDArray[Any] | None:
    """Return the input of a sample; None if it is not stored."""
    for step, samples in run.tensors(INPUT_SAMPLES, mode=Mode.EVAL).items():
        if sample in samples:
            found: NDArray[Any] = run.tensor(INPUT, step, mode=Mode.EVAL)[samples.tolist().index(sample)]
            return found
    return None


def image_to_json(values: NDArray[Any]) -> dict[str, Any]:
    """Return an array as its shape and a flat list of numbers."""
    wide = values.astype(np.float64)
    return {"shape": list(values.shape), "values": _rounded(wide)}


# Reading


def _frames(run: RunReader, steps: Sequence[int]) -> list[ProbeFrame]:
    def read(key: Key) -> dict[int, NDArray[Any]]:
        return run.tensors(key, mode=Mode.EVAL, steps=frozenset(steps))

    outputs = {step: (layer, array) for key in run.keys(Kind.CUSTOM)
               if (layer := subject_in(key, "output")) is not None for step, array in read(key).items()}
    samples, targets, predictions, losses = (read(key) for key in (SAMPLES, TARGET, PREDICTION, LOSS))
    frames = []
    for step in steps:
        layer, array = outputs.get(step, ("", np.empty((0, 0))))
        if len(array) and len(array) == len(samples.get(step, ())):
            lost = losses.get(step)
            frames.append(ProbeFrame(step, layer, samples[step], array.astype(np.float64), targets.get(step),
                                     predictions.get(step), None if lost is None else lost.astype(np.float64)))
    return frames


def _with_same_rows(frames: Sequence[ProbeFrame]) -> list[ProbeFrame]:
    """Return the frames of the last one's layer, each with all samples, in the order in which they were chosen."""
    if not frames:
        return []
    last = frames[-1]
    alike = [frame for frame in frames
             if (frame.layer, frame.outputs.shape[1]) == (last.layer, last.outputs.shape[1])]
    samples = list(dict.fromkeys(sample for frame in alike for sample in frame.samples.tolist()))
    targets: dict[int, Any] = {}
    for frame in alike:
        if frame.targets is not None:
            targets.update(zip(frame.samples.tolist(), frame.targets, strict=True))
    return [_with_rows(frame, samples, targets) for frame in alike]


def _with_rows(frame: ProbeFrame, samples: Sequence[int], targets: dict[int, Any]) -> ProbeFrame:
    place = {sample: row for row, sample in enumerate(frame.samples.tolist())}
    rows = np.array([place.get(sample, -1) for sample in samples])

    def spread(column: NDArray[Any] | None) -> NDArray[Any] | None:
        if column is None:
            return None
        filled: NDArray[Any] = column[rows].copy()
        filled[rows < 0] = _UNKNOWN_CLASS if column.dtype.kind in "iu" else np.nan
        return filled

    outputs = spread(frame.outputs)
    assert outputs is not None
    unknown = _UNKNOWN_CLASS if all(isinstance(value, np.integer) for value in targets.values()) else np.nan
    known = None if not targets else np.array([targets.get(sample, unknown) for sample in samples])
    return ProbeFrame(frame.step, frame.layer, np.array(samples, np.int64), outputs, known, spread(frame.predictions),
                      spread(frame.losses))


# Projecting


def _pca_points(frames: Sequence[ProbeFrame], fit: str) -> tuple[list[Floats], tuple[float, float]]:
    if fit == "each":
        points: list[Floats] = []
        shares = np.full(2, np.nan)
        for frame in frames:
            if not frame.known.any():
                points.append(np.full((len(frame.samples), 2), np.nan))
                continue
            mean, axes, shares = pca_axes(frame.outputs[frame.known])
            points.append(_turned((frame.outputs - mean) @ axes.T, points[-1] if points else None))
        return points, (float(shares[0]), float(shares[1]))
    fitted = frames if fit == "all" else frames[-1:]
    whole = np.concatenate([frame.outputs[frame.known] for frame in fitted])
    if not len(whole):
        return [np.full((len(frame.samples), 2), np.nan) for frame in frames], (np.nan, np.nan)
    mean, axes, shares = pca_axes(whole)
    return [(frame.outputs - mean) @ axes.T for frame in frames], (float(shares[0]), float(shares[1]))


def _turned(points: Floats, reference: Floats | None) -> Floats:
    """Return points rotated towards those of the previous frame, by the rows that both have."""
    if reference is None:
        return points
    both = np.isfinite(points).all(1) & np.isfinite(reference).all(1)
    if both.sum() < 2:
        return points
    return points @ rotation(points[both], reference[both])


def _tsne_points(frames: Sequence[ProbeFrame]) -> tuple[list[Floats], tuple[float, float]]:
    points: list[Floats] = []
    before: Floats | None = None
    for frame in frames:
        known = frame.known
        start = None
        if before is not None:
            # A sample that the previous frame lacks starts in the middle.
            start = np.nan_to_num(before[known])
        found = np.full((len(known), 2), np.nan)
        found[known] = tsne(frame.outputs[known], start=start)
        points.append(found)
        before = found if known.any() else before
    return points, (np.nan, np.nan)


def _latent_frame(frame: ProbeFrame, drawn: ProbeFrame, points: Floats) -> LatentFrame:
    accuracy = near = np.nan
    known = frame.known
    if _are_classes(frame.targets):
        assert frame.targets is not None
        labeled = known & (frame.targets != _UNKNOWN_CLASS)
        near = neighbor_accuracy(frame.outputs[labeled], frame.targets[labeled], NEIGHBORS)
        if frame.wrong is not None and labeled.any():
            accuracy = float(1 - frame.wrong[labeled].mean())
    return LatentFrame(
        frame.step, points, None if drawn.predictions is None else tuple(drawn.predictions.tolist()),
        None if drawn.losses is None else tuple(drawn.losses.tolist()), near, accuracy)


def _are_classes(values: NDArray[Any] | None) -> bool:
    return values is not None and values.dtype.kind in "iu"


def _rounded(values: Floats) -> list[Any]:
    """Return the values as a flat list with five significant digits; NaN and infinite ones are null."""
    return [float(f"{value:.5g}") if np.isfinite(value) else None for value in values.reshape(-1).tolist()]
