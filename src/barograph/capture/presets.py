"""The presets: what to record, with their costs.

The prices come from `benchmarks/`, for a 10 M-parameter MLP on one thread, at every step, without a budget; steps that
take longer per parameter make them smaller.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from barograph.errors import UnknownName, nearest
from barograph.model.key import Kind
from barograph.model.selection import Histogram, Schedule, Selection, every
from barograph.model.step import Mode

_IN_TRAINING = Schedule(modes=frozenset({Mode.TRAIN}))
_FREE = Selection(
    name="free",
    kinds=frozenset({Kind.LOSS, Kind.LEARNING_RATE, Kind.SCALAR, Kind.CUSTOM, Kind.TIME, Kind.MACHINE}),
)
_MODEL = frozenset({Kind.WEIGHT, Kind.GRADIENT})
_TENSORS = _MODEL | {Kind.OUTPUT}


@dataclass(frozen=True, slots=True)
class Preset:
    """A named choice of what to record.

    Attributes:
        name: Name in the settings.
        price: Cost, for people.
        selections: Selections to record.
        rules: Whether to add what the rules need.
    """

    name: str
    price: str
    selections: tuple[Selection, ...]
    rules: bool


def _tensors(name: str, histogram: Histogram) -> Selection:
    return Selection(name=name, kinds=_TENSORS, schedule=_IN_TRAINING, histogram=histogram)


PRESETS: Mapping[str, Preset] = {
    preset.name: preset
    for preset in (
        Preset("free", "losses, learning rates, logged scalars; almost free", (_FREE,), False),
        Preset(
            "standard",
            "statistics of weights, gradients and layer outputs, a sampled histogram every tenth step, and what the "
            "rules need; meant for a budget",
            (
                _FREE,
                _tensors("moments", Histogram.NONE),
                Selection(name="histograms", kinds=_TENSORS, histogram=Histogram.SAMPLED,
                          schedule=Schedule(every=10, modes=frozenset({Mode.TRAIN}))),
                Selection(name="trees", kinds=frozenset({Kind.TREE, Kind.IMPORTANCE}), schedule=every(10)),
            ),
            True,
        ),
        Preset("moments", "statistics of weights, gradients and layer outputs, every step",
               (_FREE, _tensors("moments", Histogram.NONE)), False),
        Preset("sampled", "the same with a histogram of one element in eight",
               (_FREE, _tensors("sampled", Histogram.SAMPLED)), False),
        Preset("exact", "the same with a histogram of every element",
               (_FREE, _tensors("exact", Histogram.EXACT)), False),
        Preset(
            "units", "statistics, also for each unit of every layer's output",
            (_FREE, _tensors("moments", Histogram.NONE),
             Selection(name="units", kinds=frozenset({Kind.OUTPUT}), schedule=_IN_TRAINING, units=True)), False,
        ),
        Preset(
            "updates", "statistics, also of each weight's update",
            (_FREE, _tensors("moments", Histogram.NONE),
             Selection(name="updates", kinds=frozenset({Kind.UPDATE}), schedule=_IN_TRAINING)), False,
        ),
        Preset(
            "everything", "every kind of record, with exact histograms, every step; for a short look",
            (
                _FREE,
                Selection(name="everything", kinds=frozenset(Kind) - _FREE.kinds, histogram=Histogram.EXACT),
                Selection(name="units", kinds=frozenset({Kind.OUTPUT, Kind.INPUT}), schedule=every(10), units=True),
            ),
            True,
        ),
    )
}


def preset_named(name: str) -> Preset:
    """Return the preset with that name.

    Raises:
        UnknownName: The preset does not exist; the message suggests the closest.
    """
    if name not in PRESETS:
        raise UnknownName(f'"{name}" is not a preset. {nearest(name, PRESETS)}')
    return PRESETS[name]
