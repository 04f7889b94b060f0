"""Which values of a parameter broke all trials that had them: "lr >= 0.3: 6 of 6"."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from barograph.tune.parameter import Value
from barograph.tune.space import Space
from barograph.tune.trial import Cause, Trial, TrialState

FEWEST = 3
"""Trials that a pattern needs."""


@dataclass(frozen=True, slots=True)
class Pattern:
    """Values of a parameter with which every trial broke.

    Attributes:
        condition: The values: "lr >= 0.3" or "optimizer = sgd".
        broken: Number of trials with such a value; each broke.
        reason: The most frequent reason, without numbers.
    """

    condition: str
    broken: int
    reason: str

    def __str__(self) -> str:
        return f"{self.condition}: {self.broken} of {self.broken} {self.reason}"


def is_broken(trial: Trial) -> bool:
    """Return whether a trial failed, or was stopped by a finding."""
    return trial.state is TrialState.FAILED or (trial.state is TrialState.STOPPED and trial.cause is Cause.FINDING)


def patterns_of(space: Space, trials: Iterable[Trial]) -> list[Pattern]:
    """Return the values that broke every trial that had them, the most trials first, one for each parameter.

    Only if some trial did not break: otherwise no parameter is to blame.
    """
    ended = [trial for trial in trials if trial.state.is_over]
    if all(map(is_broken, ended)):
        return []
    found = [pattern for parameter in space
             if (pattern := _of_parameter(parameter.name, parameter.domain.is_ordered, ended)) is not None]
    return sorted(found, key=lambda pattern: -pattern.broken)


def _of_parameter(name: str, is_ordered: bool, ended: Sequence[Trial]) -> Pattern | None:
    having = [(trial.parameters[name], trial) for trial in ended if name in trial.parameters]
    groups: list[tuple[str, list[Trial]]] = []
    if is_ordered:
        having.sort(key=lambda item: item[0])
        groups += [_tail(name, ">=", having[::-1]), _tail(name, "<=", having)]
    else:
        for value in dict.fromkeys(value for value, _ in having):
            mine = [trial for other, trial in having if other == value]
            groups.append((f"{name} = {value}", mine if all(map(is_broken, mine)) else []))
    condition, broken = max(groups, key=lambda group: len(group[1]), default=("", []))
    if len(broken) < FEWEST:
        return None
    return Pattern(condition, len(broken), _reason(broken))


def _tail(name: str, sign: str, having: Sequence[tuple[Value, Trial]]) -> tuple[str, list[Trial]]:
    """Return the trials from one end of a range on until the first that did not break."""
    broken: list[Trial] = []
    limit: Value = 0
    for value, trial in having:
        if not is_broken(trial):
            if broken and value == limit:  # another trial of the same value did not break
                broken = [other for other in broken if other.parameters[name] != value]
                limit = broken[-1].parameters[name] if broken else 0
            break
        broken.append(trial)
        limit = value
    return f"{name} {sign} {limit:.3g}" if isinstance(limit, int | float) else f"{name} {sign} {limit}", broken


def _reason(broken: Sequence[Trial]) -> str:
    reasons = [trial.reason.partition(" (since step")[0] for trial in broken]
    most = max(dict.fromkeys(reasons), key=reasons.count)
    return f"“{most}”" if reasons.count(most) * 2 > len(reasons) else "broke"
