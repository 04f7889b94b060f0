"""Analysis of a study: importance of parameters, slices, contours, parallel coordinates, regions that fail.

Everything is data, for the terminal, pages, notebooks and tables to draw.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from barograph.errors import TuneError
from barograph.tune.history import losses_of
from barograph.tune.parameter import Choice, Value
from barograph.tune.space import Parameter
from barograph.tune.strategies.gaussian import fitted
from barograph.tune.strategies.gp import choice_of
from barograph.tune.strategies.positions import Floats, Positions
from barograph.tune.strategies.transforms import transformed
from barograph.tune.study import Study
from barograph.tune.trial import Cause, Trial, TrialState

_TOP_SHARE, _LEAST_TOP = 0.2, 4
_GRID = 50
_LEAST_RANKED = 10
_LEAST_TRIALS = 4
_LEAST_FAILED = 3
_SURFACE = 20
_MOST_FITTED = 150


@dataclass(frozen=True, slots=True)
class Importance:
    """Importance of a parameter: how much it decides whether a trial is among the best.

    Attributes:
        name: Name of the parameter.
        share: Its share of the total importance, from 0 to 1.
        best_low, best_high: Range of the values of the best fifth of the trials; None for a choice.
        best_values: For a choice, the values of the best fifth and how often each occurs.
    """

    name: str
    share: float
    best_low: float | None = None
    best_high: float | None = None
    best_values: tuple[tuple[Value, int], ...] = ()

    def to_json(self) -> dict[str, Any]:
        """Return JSON data."""
        return asdict(self)


def importance(study: Study) -> list[Importance]:
    """Return the importance of each parameter, the highest first; empty with fewer than ten finished trials.

    Compares the density of the best fifth of the trials with that of all, for each parameter alone.

    Source: Watanabe, Bansal & Hutter, "PED-ANOVA: Efficiently Quantifying Hyperparameter Importance in Arbitrary
    Subspaces", 2023.
    """
    finished = _finished(study)
    if len(finished) < _LEAST_RANKED:
        return []
    ranked = sorted(finished, key=lambda trial: study.objective.loss(trial.value))
    top = ranked[:max(_LEAST_TOP, math.ceil(_TOP_SHARE * len(ranked)))]
    found = {parameter.name: _divergence(parameter, top, ranked) for parameter in study.space}
    total = sum(found.values())
    shares = {name: value / total if total > 0 else 1 / len(found) for name, value in found.items()}
    return sorted((_described(study.space[name], share, top) for name, share in shares.items()),
                  key=lambda one: -one.share)


@dataclass(frozen=True, slots=True)
class Slice:
    """The values of one parameter and of the objective.

    Attributes:
        name: Name of the parameter.
        trials: Numbers of the trials.
        parameter_values, values: One for each trial.
        is_log: Whether the axis should be logarithmic.
    """

    name: str
    trials: tuple[int, ...]
    parameter_values: tuple[Value, ...]
    values: tuple[float, ...]
    is_log: bool

    def to_json(self) -> dict[str, Any]:
        """Return JSON data."""
        return asdict(self)


def slices(study: Study) -> list[Slice]:
    """Return the slice of each parameter."""
    found = []
    for parameter in study.space:
        having = [trial for trial in _finished(study) if parameter.name in trial.parameters]
        found.append(Slice(parameter.name, tuple(trial.number for trial in having),
                           tuple(trial.parameters[parameter.name] for trial in having),
                           tuple(trial.value for trial in having), _is_log(parameter)))
    return found


@dataclass(frozen=True, slots=True)
class Contour:
    """Predictions of a Gaussian process over two parameters, with all others as in the best trial.

    Attributes:
        x, y: Names of the parameters.
        x_values, y_values: Values along the axes.
        surface: Expected rank for each y and x, from 0 (as the best trial) to 1 (as the worst).
        points: (x, y, value of the objective) of each finished trial.
    """

    x: str
    y: str
    x_values: tuple[Value, ...]
    y_values: tuple[Value, ...]
    surface: tuple[tuple[float, ...], ...]
    points: tuple[tuple[Value, Value, float], ...]

    def to_json(self) -> dict[str, Any]:
        """Return JSON data."""
        return asdict(self)


def contour(study: Study, x: str, y: str) -> Contour:
    """Return the contour over two parameters.

    Raises:
        BadSpace: There is no such parameter.
        TuneError: Fewer than four trials have both.
    """
    axes = study.space[x], study.space[y]
    having = [trial for trial in _finished(study) if x in trial.parameters and y in trial.parameters]
    if len(having) < _LEAST_TRIALS:
        raise TuneError(f"A contour needs four finished trials with {x} and {y}; there are {len(having)}.")
    latest = having[-_MOST_FITTED:]
    positions = Positions(study.space)
    losses = np.array([losses_of(trial, study.spec.objectives)[0] for trial in latest])
    features = positions.features(positions.snapped(np.array([study.space.units(one.parameters) for one in latest])))
    scale, kernel = choice_of(features, losses, positions.groups)
    values = transformed(losses, scale).values
    process = fitted(features, values, kernel, groups=positions.groups)
    best = min(having, key=lambda trial: study.objective.loss(trial.value))
    xs, ys = (_axis(parameter) for parameter in axes)
    row = np.array(study.space.units(best.parameters))
    grid = np.tile(row, (len(xs) * len(ys), 1))
    places = [study.space.names.index(name) for name in (x, y)]
    grid[:, places[0]] = np.tile(xs, len(ys))
    grid[:, places[1]] = np.repeat(ys, len(xs))
    mean = process.predict(positions.features(positions.snapped(grid)))[0]
    ranks = np.searchsorted(np.sort(values), mean) / len(values)
    surface = np.clip(ranks, 0.0, 1.0).reshape(len(ys), len(xs))
    return Contour(x, y, tuple(axes[0].domain.value(one) for one in xs), tuple(axes[1].domain.value(one) for one in ys),
                   tuple(tuple(map(float, line)) for line in surface),
                   tuple((trial.parameters[x], trial.parameters[y], trial.value) for trial in having))


@dataclass(frozen=True, slots=True)
class ParallelCoordinates:
    """All trials as lines over parallel axes.

    Attributes:
        axes: Names of the parameters, the most important first, and of the objectives.
        lines: For each finished trial its number, and on each axis the position between 0 and 1; None where a parameter
            does not apply.
        lows, highs: Texts at the ends of the axes.
    """

    axes: tuple[str, ...]
    lines: tuple[tuple[int, tuple[float | None, ...]], ...]
    lows: tuple[str, ...]
    highs: tuple[str, ...]

    def to_json(self) -> dict[str, Any]:
        """Return JSON data."""
        return asdict(self)


def parallel_coordinates(study: Study) -> ParallelCoordinates:
    """Return the parallel coordinates of the finished trials."""
    finished = _finished(study)
    parameters = [study.space[one.name] for one in importance(study)] or list(study.space)
    columns = [[trial.values[place] for trial in finished] for place in range(len(study.spec.objectives))]
    ends = [(min(column, default=0.0), max(column, default=0.0)) for column in columns]
    lines = []
    for trial in finished:
        along: list[float | None] = [
            parameter.domain.unit(trial.parameters[parameter.name]) if parameter.name in trial.parameters else None
            for parameter in parameters]
        along += [(value - low) / (high - low) if high > low else 0.5
                  for value, (low, high) in zip(trial.values, ends, strict=True)]
        lines.append((trial.number, tuple(along)))
    texts = [(str(parameter.domain.value(0.0)), str(parameter.domain.value(1.0))) for parameter in parameters]
    texts += [(f"{low:.4g}", f"{high:.4g}") for low, high in ends]
    return ParallelCoordinates(
        (*(parameter.name for parameter in parameters), *(one.name for one in study.spec.objectives)), tuple(lines),
        tuple(low for low, _ in texts), tuple(high for _, high in texts))


@dataclass(frozen=True, slots=True)
class HopelessRegion:
    """A part of the space where all trials end badly for the same reason.

    Attributes:
        name: Name of the parameter.
        condition: The part, such as "≥ 0.3" or "= sgd".
        reason: The reason, up to its first colon or the end of its first sentence.
        count: Number of trials there.
    """

    name: str
    condition: str
    reason: str
    count: int

    def __str__(self) -> str:
        return f"{self.name} {self.condition}: {self.count} of {self.count}: {self.reason}"

    def to_json(self) -> dict[str, Any]:
        """Return JSON data."""
        return asdict(self)


def hopeless_regions(study: Study) -> list[HopelessRegion]:
    """Return, for each reason why trials failed or were stopped by a finding, the region that explains it best.

    A region is one value of a choice, or all values above or below a value of a range. At least three trials ended
    there, all of them for that reason.
    """
    ended = [trial for trial in study.trials if trial.state.is_over and not trial.excused]
    reasons = Counter(reason for trial in ended if (reason := _kind_of(trial)))
    found = []
    for reason, count in reasons.items():
        if count < _LEAST_FAILED:
            continue
        regions = [region for parameter in study.space for region in _regions(parameter, ended, reason)]
        if regions and (best := max(regions, key=lambda region: region.count)).count >= _LEAST_FAILED:
            found.append(best)
    return sorted(found, key=lambda region: -region.count)


def _regions(parameter: Parameter, ended: Sequence[Trial], reason: str) -> Iterator[HopelessRegion]:
    having = [trial for trial in ended if parameter.name in trial.parameters]
    if isinstance(parameter.domain, Choice):
        for value in parameter.domain.values:
            kinds = [_kind_of(trial) for trial in having if trial.parameters[parameter.name] == value]
            if kinds and len(kinds) < len(having) and set(kinds) == {reason}:
                yield HopelessRegion(parameter.name, f"= {value}", reason, len(kinds))
        return
    ordered = sorted(having, key=lambda trial: float(trial.parameters[parameter.name]))
    for sign, trials in (("≤", ordered), ("≥", ordered[::-1])):
        count = next((place for place, trial in enumerate(trials) if _kind_of(trial) != reason), len(trials))
        if 0 < count < len(trials):
            value = float(trials[count - 1].parameters[parameter.name])
            yield HopelessRegion(parameter.name, f"{sign} {value:.3g}", reason, count)


def _kind_of(trial: Trial) -> str:
    if trial.state is TrialState.FAILED or trial.cause is Cause.FINDING:
        return re.split(r":|\. ", trial.reason, maxsplit=1)[0]
    return ""


def _finished(study: Study) -> list[Trial]:
    return [trial for trial in study.trials if trial.state is TrialState.FINISHED]


def _divergence(parameter: Parameter, top: Sequence[Trial], every: Sequence[Trial]) -> float:
    """Return the Pearson divergence of the density of the best trials from that of all."""
    densities = []
    for trials in (top, every):
        units = [parameter.domain.unit(trial.parameters[parameter.name])
                 for trial in trials if parameter.name in trial.parameters]
        if not units:
            return 0.0
        densities.append(_density(parameter, np.array(units)))
    good, whole = densities
    having = sum(parameter.name in trial.parameters for trial in top) / len(top)
    return having * float((whole * (good / whole - 1.0) ** 2).sum())


def _density(parameter: Parameter, units: Floats) -> Floats:
    """Return the probabilities of the values of a choice, or of intervals of a range.

    One even observation is added: few trials say little.
    """
    if isinstance(parameter.domain, Choice):
        count = parameter.domain.levels
        found = np.bincount((units * count).astype(int), minlength=count) + 1.0 / count
    else:
        grid = (np.arange(_GRID) + 0.5) / _GRID
        width = max(1.06 * float(units.std()) * len(units) ** -0.2, 1.0 / _GRID)
        kernels = np.exp(-0.5 * ((grid[:, None] - units[None, :]) / width) ** 2)
        found = (kernels / kernels.sum(axis=0)).sum(axis=1) + 1.0 / _GRID
    return np.asarray(found / found.sum())


def _described(parameter: Parameter, share: float, top: Sequence[Trial]) -> Importance:
    values = [trial.parameters[parameter.name] for trial in top if parameter.name in trial.parameters]
    if isinstance(parameter.domain, Choice):
        return Importance(parameter.name, share, best_values=tuple(Counter(values).most_common()))
    numbers = [float(value) for value in values]
    return Importance(parameter.name, share, min(numbers, default=None), max(numbers, default=None))


def _axis(parameter: Parameter) -> list[float]:
    domain = parameter.domain
    if isinstance(domain, Choice):
        return [domain.unit(value) for value in domain.values]
    return [index / (_SURFACE - 1) for index in range(_SURFACE)]


def _is_log(parameter: Parameter) -> bool:
    domain = parameter.domain
    return not isinstance(domain, Choice) and domain.is_log
