"""Labels and predictions: class frequencies, confusion and accuracy over time."""

from __future__ import annotations

import itertools
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from barograph.model.key import Kind
from barograph.model.plain import plain
from barograph.model.step import Mode
from barograph.queries.curves import Curve, CurveMaker
from barograph.runs.reading.counts import Counts, counts_of
from barograph.runs.reading.reader import RunReader
from barograph.runs.reading.windows import Windows, windows_of

MOST_CLASSES = 24
"""Maximum number of classes in a matrix."""

MOST_FRAMES = 6
"""Maximum number of matrices per loss and mode."""

_MOST_CONFUSED = 12
_SLOTS = {Mode.EVAL: 200, Mode.PREDICT: 200, Mode.TRAIN: 30}
_CLASSES = re.compile(r"^(.*)\[(\d+)(?:,(\d+))?\]$", re.DOTALL)


@dataclass(frozen=True, slots=True)
class ConfusionFrame:
    """A confusion matrix.

    Attributes:
        first_step, last_step: Range of steps.
        counts: A row per target, a column per prediction, both in the order of `classes`.
    """

    first_step: int
    last_step: int
    counts: tuple[tuple[float, ...], ...]

    def to_json(self) -> dict[str, Any]:
        """Return it as strict JSON data."""
        data: dict[str, Any] = plain(self)
        return data


@dataclass(frozen=True, slots=True)
class Classes:
    """Labels and predictions of one loss in one mode.

    Attributes:
        name: Name of the loss, or a name given by the script.
        mode: Its mode.
        classes: Numbers of the classes among targets and predictions, ascending; the most frequent, if there are very
            many.
        left_out: Number of classes left out.
        labels: Number of targets of each class, over all recorded steps.
        frames: Confusion matrices, oldest first.
        confused: Most confused pairs over all recorded steps: target, prediction, count, share of the target.
        accuracy: Accuracy over the steps; None without predictions.
        accuracy_by_class: Class to its accuracy over the steps.
        last_evaluation: Last step with an evaluation, which may be without predictions; -1 in training.
    """

    name: str
    mode: str
    classes: tuple[int, ...]
    left_out: int
    labels: tuple[float, ...]
    frames: tuple[ConfusionFrame, ...]
    confused: tuple[tuple[int, int, float, float], ...]
    accuracy: Curve | None
    accuracy_by_class: dict[int, Curve]
    last_evaluation: int = -1

    def to_json(self) -> dict[str, Any]:
        """Return it as strict JSON data."""
        data: dict[str, Any] = plain(self)
        return data


@dataclass
class _Seen:
    """Counts of one loss in one mode; `right` and `answered` by class and time slot."""

    labels: Counter[int] = field(default_factory=Counter)
    pairs: Counter[tuple[int, int]] = field(default_factory=Counter)
    by_frame: dict[int, Counter[tuple[int, int]]] = field(default_factory=lambda: defaultdict(Counter))
    right: dict[int, Counter[int]] = field(default_factory=lambda: defaultdict(Counter))
    answered: dict[int, Counter[int]] = field(default_factory=lambda: defaultdict(Counter))
    last_step: dict[int, int] = field(default_factory=dict)


def classes_in(run: RunReader) -> tuple[Classes, ...]:
    """Return labels and predictions of each loss, evaluations first.

    Raises:
        StoreError: The store cannot be read.
    """
    found: list[Classes] = []
    for mode in (Mode.EVAL, Mode.TRAIN, Mode.PREDICT):
        spans = windows_of(run, Kind.CONFUSION, mode=mode)
        frames = _frames(run, mode, spans)
        seen: dict[str, _Seen] = defaultdict(_Seen)
        _count_labels(run, mode, seen)
        _count_pairs(run, mode, spans, frames, seen)
        last = windows_of(run, Kind.LOSS, mode=mode).high if seen and mode is Mode.EVAL else -1
        found += [_classes(name, mode, item, frames, spans, last) for name, item in sorted(seen.items())]
    return tuple(found)


def loss_and_classes(path: str) -> tuple[str, tuple[int, ...]]:
    """Return the loss and the classes in a path of `LABEL` or `CONFUSION`; no classes if it has none.

    Example:
        >>> loss_and_classes("cross_entropy[3,5]"), loss_and_classes("cross_entropy[3]"), loss_and_classes("x")
        (('cross_entropy', (3, 5)), ('cross_entropy', (3,)), ('x', ()))
    """
    match = _CLASSES.match(path)
    if match is None:
        return path, ()
    return match[1], tuple(int(text) for text in match.groups()[1:] if text is not None)


def _frames(run: RunReader, mode: Mode, spans: Windows) -> list[tuple[int, int]]:
    """Return the first and last step of each matrix: some evaluations, and training in a few parts."""
    if spans.high < spans.low:
        return []
    if mode is Mode.TRAIN:
        edges = np.unique(np.linspace(spans.low, spans.high + 1, MOST_FRAMES + 1).round().astype(int)).tolist()
        return [(first, stop - 1) for first, stop in itertools.pairwise(edges)]
    steps = np.unique(run.arrow(Kind.CONFUSION, mode=mode, columns=("step",))["step"].to_numpy())
    chosen = np.unique(np.linspace(0, len(steps) - 1, min(MOST_FRAMES, len(steps))).round().astype(int))
    return [(int(steps[at]), int(steps[at])) for at in chosen]


def _count_labels(run: RunReader, mode: Mode, seen: Mapping[str, _Seen]) -> None:
    for start, stop in windows_of(run, Kind.LABEL, mode=mode):
        for counts in counts_of(run, Kind.LABEL, mode=mode, start=start, stop=stop):
            name, classes = loss_and_classes(counts.key.path)
            if len(classes) == 1:
                seen[name].labels[classes[0]] += int(counts.counts.sum())


def _count_pairs(
    run: RunReader, mode: Mode, spans: Windows, frames: Iterable[tuple[int, int]], seen: Mapping[str, _Seen]
) -> None:
    for start, stop in spans:
        for counts in counts_of(run, Kind.CONFUSION, mode=mode, start=start, stop=stop):
            name, classes = loss_and_classes(counts.key.path)
            if len(classes) == 2:
                _add_pair(seen[name], (classes[0], classes[1]), counts, frames)
                _add_predictions(seen[name], (classes[0], classes[1]), counts, _slots(counts.steps, mode, spans))


def _slots(steps: NDArray[np.int64], mode: Mode, spans: Windows) -> NDArray[np.int64]:
    """Return the time slot of each step; single batches are too small for an accuracy."""
    slots: NDArray[np.int64] = (steps - spans.low) * _SLOTS[mode] // (spans.high - spans.low + 1)
    return slots


def _add_pair(seen: _Seen, pair: tuple[int, int], counts: Counts, frames: Iterable[tuple[int, int]]) -> None:
    seen.pairs[pair] += int(counts.counts.sum())
    for number, (first, last) in enumerate(frames):
        inside = int(counts.counts[(counts.steps >= first) & (counts.steps <= last)].sum())
        if inside:
            seen.by_frame[number][pair] += inside


def _add_predictions(seen: _Seen, pair: tuple[int, int], counts: Counts, slots: NDArray[np.int64]) -> None:
    target, prediction = pair
    for slot, step, times in zip(slots.tolist(), counts.steps.tolist(), counts.counts.tolist(), strict=True):
        seen.last_step[slot] = max(step, seen.last_step.get(slot, step))
        seen.answered[target][slot] += int(times)
        if target == prediction:
            seen.right[target][slot] += int(times)


def _classes(
    name: str, mode: Mode, seen: _Seen, frames: list[tuple[int, int]], spans: Windows, last_evaluation: int
) -> Classes:
    every = seen.labels if seen.labels else Counter({target: seen.answered[target].total() for target in seen.answered})
    # A predicted class without targets has a column, too: the samples of a row would not add up without it.
    every = Counter({**{prediction: 0 for _, prediction in seen.pairs}, **every})
    kept = sorted(sorted(every, key=lambda number: (-every[number], number))[:MOST_CLASSES])
    asked = [
        ((target, prediction), times)
        for (target, prediction), times in seen.pairs.most_common()
        if target != prediction
    ]
    return Classes(
        name, mode.value, tuple(kept), len(every) - len(kept), tuple(float(every[number]) for number in kept),
        frames=tuple(_frame(first, last, seen.by_frame[number], kept)
                     for number, (first, last) in enumerate(frames) if number in seen.by_frame),
        confused=tuple((target, prediction, float(times), times / seen.answered[target].total())
                       for (target, prediction), times in asked[:_MOST_CONFUSED]),
        accuracy=_accuracy("accuracy", mode, seen, list(seen.answered), spans) if seen.pairs else None,
        accuracy_by_class={number: _accuracy(f"accuracy[{number}]", mode, seen, [number], spans)
                           for number in kept if number in seen.answered},
        last_evaluation=last_evaluation,
    )


def _frame(first: int, last: int, pairs: Mapping[tuple[int, int], int], kept: list[int]) -> ConfusionFrame:
    return ConfusionFrame(first, last, tuple(tuple(float(pairs.get((target, prediction), 0)) for prediction in kept)
                                             for target in kept))


def _accuracy(name: str, mode: Mode, seen: _Seen, classes: Iterable[int], spans: Windows) -> Curve:
    total: Counter[int] = Counter()
    right: Counter[int] = Counter()
    for number in classes:
        total.update(seen.answered[number])
        right.update(seen.right.get(number, {}))
    slots = sorted(total)
    maker = CurveMaker(name, mode, "", low=spans.low, high=spans.high)
    maker.add(np.array([seen.last_step[slot] for slot in slots], np.int64),
              np.array([right[slot] / total[slot] for slot in slots]))
    return maker.curve()
