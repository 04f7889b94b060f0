"""A portfolio of models: an even start, then for each trial the model that has predicted best so far.

Before a trial begins, each model says which share of the trials so far it expects to be better. When the trial ends,
the share that is better in fact shows how far off each was.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from barograph.tune.history import History
from barograph.tune.strategies.base import Proposal, drawn, generator
from barograph.tune.strategies.models import Data, Model
from barograph.tune.strategies.outlook import Outlook
from barograph.tune.strategies.positions import Floats, Positions
from barograph.tune.strategies.start import Start, start_count
from barograph.tune.trial import Origin

_LEAST_FINITE = 3
_WINDOW = 15
_LEAST_JUDGED = 5
_MOST_TRIALS, _STRIDE = 500, 250
_DECIMALS = 4
_MARGIN = 0.03
"""By how much another model must have predicted better than the first one."""


class Portfolio:
    """See the module.

    Args:
        seed: Seed of the study.
        models: The models; the first one is used until enough trials judge them.
    """

    def __init__(self, seed: int, models: Sequence[Model]) -> None:
        self._seed, self._models = seed, tuple(models)
        self._positions: Positions | None = None
        self._start: Start | None = None
        self._outlook = Outlook()
        self._last: Model | None = None
        self._seen: set[bytes] = set()
        self._seen_count = 0

    @property
    def has_converged(self) -> bool:
        """See `Strategy.has_converged`."""
        return self._last is not None and self._last.has_converged

    def propose(self, history: History, number: int) -> Proposal | None:
        """See `Strategy.propose`."""
        space = history.space
        if self._positions is None:
            self._positions = Positions(space)
        random = np.random.default_rng([self._seed, number])
        self._last = None
        data, losses = self._data(history, random)
        asked = history.ended_count + len(history.running)
        most = space.combinations
        if most and len(self._seen) + len(history.running) >= most and len(self._seen | data.running) >= most:
            return None
        if asked < start_count(len(space)) or np.isfinite(losses).sum() < _LEAST_FINITE:
            return self._first(data, number)
        fitting = [model for model in self._models if model.least <= asked <= model.most]
        models, why = _ranked(fitting, errors_of(history, losses))
        for model in fitting:
            model.fit(data)
        for model in models:
            row = model.proposal(random)
            if row is not None:
                self._last = model
                reason = "; ".join(filter(None, [why if model is models[0] else "", model.why]))
                return Proposal(space.values(list(row)), Origin(model.name, reason, _predicted(fitting, data, row)))
        return self._random(data, number, Origin("random", "no model found a combination that was not tried"))

    def _first(self, data: Data, number: int) -> Proposal:
        """Return a position of the even start; a random one if it cannot be tried."""
        if self._start is None:
            self._start = Start(data.positions.space, self._seed)
        row = data.positions.snapped(self._start.position(number)[None])[0]
        if data.may_be_tried(row):
            return Proposal(data.positions.space.values(list(row)), Origin("start"))
        return self._random(data, number, Origin("start"))

    def _random(self, data: Data, number: int, origin: Origin) -> Proposal:
        """Return a random position, one that was not tried if there is one."""
        space = data.positions.space
        random = np.random.default_rng([self._seed, number, 1])
        every = data.positions.every(_MOST_TRIALS)
        rows = data.positions.snapped(random.random((_MOST_TRIALS, len(space)))) if every is None else \
            random.permutation(every)
        for row in rows:
            if data.may_be_tried(row):
                return Proposal(space.values(list(row)), origin)
        draw = generator(self._seed, number).random
        return Proposal(drawn(space, lambda: [draw() for _ in range(len(space))]), origin)

    def _data(self, history: History, random: np.random.Generator) -> tuple[Data, Floats]:
        """Return what the models learn from, and one loss for each trial that ended."""
        assert self._positions is not None
        positions, size = self._positions, len(history.space)
        fresh = positions.snapped(np.array(history.units(self._seen_count)).reshape(-1, size))
        self._seen.update(positions.keys(fresh))
        self._seen_count += len(fresh)
        running = positions.snapped(np.array([history.space.units(trial.parameters)
                                              for trial in history.running.values()]).reshape(-1, size))
        losses = _weighted(np.array(history.losses()).reshape(-1, len(history.objectives)), random)
        expected = self._expected(history)
        for trial, place in history.stopped:
            losses[place] = expected.get(trial.number, losses[place])
        under_way = np.array([expected.get(number, np.nan) for number in history.running], np.float64)
        first = max(0, (len(losses) - _MOST_TRIALS) // _STRIDE * _STRIDE)
        units, latest = positions.snapped(np.array(history.units(first)).reshape(-1, size)), losses[first:]
        finite = np.isfinite(latest)
        # A trial that failed counts like the worst one.
        latest = np.where(finite, latest, latest[finite].max() if finite.any() else 0.0)
        known = np.isfinite(under_way)
        units, latest = np.vstack([units, running[known]]), np.concatenate([latest, under_way[known]])
        return Data(
            positions, units, latest, running[~known], self._seen, frozenset(positions.keys(running))), losses

    def _expected(self, history: History) -> Mapping[int, float]:
        """Return number to expected loss of the latest trials, if trials are stopped early or running ones report."""
        if len(history.objectives) > 1 or not history.has_curves:
            return {}
        return self._outlook.expected_losses(history.trials[-_MOST_TRIALS - _STRIDE:], history.objectives[0])


def _weighted(table: Floats, random: np.random.Generator) -> Floats:
    """Return one loss for each trial: with several objectives weighted by random weights, drawn for each proposal.

    Source: Knowles, "ParEGO", 2006.
    """
    if table.shape[1] == 1:
        return np.asarray(table[:, 0])
    finite: NDArray[np.bool_] = np.asarray(np.isfinite(table).all(axis=1))
    if not finite.any():
        return np.full(len(table), math.inf)
    low, high = table[finite].min(axis=0), table[finite].max(axis=0)
    scaled = (np.where(finite[:, None], table, low) - low) / np.where(high > low, high - low, 1.0)
    weighted = random.dirichlet(np.ones(table.shape[1])) * scaled
    return np.where(finite, weighted.max(axis=1) + 0.05 * weighted.sum(axis=1), math.inf)


def _predicted(models: Sequence[Model], data: Data, row: Floats) -> dict[str, float]:
    """Return for each model which share of the trials it expects to be better than a position."""
    if len(models) < 2:
        return {}
    found = {}
    for model in models:
        scores = model.scores(np.vstack([data.units, row[None]]))
        found[model.name] = round(float((scores[:-1] < scores[-1]).mean()), _DECIMALS)
    return found


def _ranked(models: Sequence[Model], errors: Sequence[Mapping[str, float]]) -> tuple[list[Model], str]:
    """Return the models, the one that has predicted best first, and the reason."""
    judged = [error for error in errors if all(model.name in error for model in models)]
    if len(models) < 2 or len(judged) < _LEAST_JUDGED:
        return list(models), ""
    mean = {model.name: sum(error[model.name] for error in judged) / len(judged) for model in models}
    ranked = sorted(models, key=lambda model: mean[model.name] - _MARGIN * (model is models[0]))
    return ranked, "predicted ranks off by " + ", ".join(f"{mean[model.name]:.0%} ({model.name})" for model in ranked)


def errors_of(history: History, losses: Floats) -> list[Mapping[str, float]]:
    """Return for the latest trials with predictions how far off each model was, in the order in which they ended."""
    found: list[Mapping[str, float]] = []
    for trial, place in history.judged[-_WINDOW:]:
        before = losses[:place]
        share = float((before < losses[place]).mean()) if place else 0.0
        found.append({name: abs(score - share) for name, score in trial.origin.scores.items()})
    return found
