"""Merges the directories of one run, and assigns each series to its place in the run."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import numpy as np

from barograph.ingest.tensorboard.clock import counted_as, counts_slower, steps_at
from barograph.ingest.tensorboard.curve import Line, line_of, rising
from barograph.ingest.tensorboard.files import Folder
from barograph.ingest.tensorboard.naming import Place, Tag, key_of_histogram, places_of
from barograph.ingest.tensorboard.parameters import Parameter
from barograph.ingest.tensorboard.reading import Bars, FolderContent
from barograph.model.key import Key, Kind
from barograph.model.step import Mode
from barograph.wire.tensor_proto import Texts

TRAINING_LOSS = Place(Mode.TRAIN, Key(Kind.LOSS, "total"))
_OF_STEPS = (Kind.LOSS, Kind.LEARNING_RATE)


@dataclass(slots=True)
class Gathered:
    """All data of one run.

    Attributes:
        of_steps: Series that are part of steps: losses and learning rates.
        logged: Other series that the script logged.
        histograms: Step to key to histogram, in training.
        texts: Key to texts by step.
        parameters: Parameters of the run.
        names: Place to its original name.
        recounted: Tags that counted epochs, converted to training steps.
        passed_over: What was left out, with counts.
        again: Number of replaced points.
        damage: Damage, one sentence each.
    """

    of_steps: dict[Place, Line] = field(default_factory=dict)
    logged: dict[Place, Line] = field(default_factory=dict)
    histograms: dict[int, dict[Key, Bars]] = field(default_factory=dict)
    texts: dict[Key, dict[int, tuple[float, Texts]]] = field(default_factory=dict)
    parameters: dict[str, Parameter] = field(default_factory=dict)
    names: dict[str, Place] = field(default_factory=dict)
    recounted: list[str] = field(default_factory=list)
    passed_over: Counter[str] = field(default_factory=Counter)
    again: int = 0
    damage: list[str] = field(default_factory=list)

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing to import."""
        return not (self.of_steps or self.logged or self.histograms or self.texts or self.parameters)


def gathered(contents: Mapping[Folder, FolderContent], top: str) -> Gathered:
    """Return the merged data of a run.

    Args:
        contents: Contents by directory.
        top: Path of the run's own directory.
    """
    whole = Gathered()
    lines: dict[Tag, Line] = {}
    for folder, content in contents.items():
        below = folder.path[len(top) :].strip("/")
        for name in [*content.curves]:
            lines[Tag(below, name, folder.mode)] = line_of(content.curves.pop(name))
        whole.parameters.update(content.parameters)
        whole.passed_over.update(content.passed_over)
        whole.again += content.again
        whole.damage += content.damage
    sort_lines(lines, whole)
    training = whole.of_steps.get(TRAINING_LOSS)
    for content in contents.values():
        for name, bars in content.histograms.items():
            _take_histograms(name, bars, training, whole)
        for name, texts in content.texts.items():
            whole.texts.setdefault(Key(Kind.CUSTOM, name.removesuffix("/text_summary")), {}).update(texts)
    return whole


def sort_lines(lines: Mapping[Tag, Line], whole: Gathered) -> None:
    """Assign series to their places in a run: `of_steps`, `logged`, `names`, `recounted` and `again`."""
    places = places_of(tag for tag, line in lines.items() if len(line))
    training = next((lines[tag] for tag, place in places.items() if place == TRAINING_LOSS), None)
    for tag, place in places.items():
        line = lines[tag]
        if place.key.kind in _OF_STEPS and training is not None and counts_slower(line, training):
            line = counted_as(line, training)
            whole.recounted.append(str(tag))
        elif place.key.kind is Kind.LEARNING_RATE and training is not None and counts_slower(training, line):
            # Many learning rates per loss: as steps they would come between losses that count epochs.
            place = replace(place, key=Key(Kind.SCALAR, tag.name))
        whole.again += line.again
        whole.names[str(tag)] = place
        (whole.of_steps if place.key.kind in _OF_STEPS else whole.logged)[place] = line


def _take_histograms(name: str, bars: dict[int, Bars], training: Line | None, whole: Gathered) -> None:
    if not bars:
        return
    numbers = sorted(bars)
    key = key_of_histogram(name, coarse=any(item.coarse for item in bars.values()))
    times = rising(np.array([bars[number].time_unix for number in numbers]))
    line = Line(np.array(numbers, np.int64), times, np.zeros(len(numbers)))
    if training is not None and counts_slower(line, training):
        whole.recounted.append(name)
        steps = steps_at(training, times).tolist()
    else:
        steps = numbers
    for number, step, time_unix in zip(numbers, steps, times.tolist(), strict=True):
        whole.histograms.setdefault(step, {})[key] = replace(bars[number], time_unix=time_unix)
