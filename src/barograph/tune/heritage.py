"""Warm start: trials of earlier studies that a study begins with."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from barograph.errors import TuneError
from barograph.tune.space import Space
from barograph.tune.spec import Objective, StudySpec
from barograph.tune.trial import Origin, Trial, TrialState

MOST_PARENTS = 5
_MOST_GIVEN = 5
_NEAR = 0.05
_TRANSFER = "To try only its best parameters first, add --transfer (transfer=True)"


class Parent(Protocol):
    """An earlier study."""

    @property
    def spec(self) -> StudySpec:
        """Its space and objectives."""
        ...

    @property
    def trials(self) -> Sequence[Trial]:
        """Its trials."""
        ...

    @property
    def url(self) -> str:
        """Where it is stored; "" if it is in memory."""
        ...


@dataclass(frozen=True, slots=True)
class Heritage:
    """Trials and parameters that a study takes from its parents.

    Attributes:
        trials: Trials that count as if the study had made them.
        given: Parameters that it tries first.
        dropped: Number of trials of the parents that do not fit the space and its constraints; of the best ones, if
            only their parameters are tried first.
    """

    trials: tuple[Trial, ...] = ()
    given: tuple[Mapping[str, Any], ...] = ()
    dropped: int = 0

    def to_json(self) -> dict[str, Any]:
        """Return JSON data."""
        trials = [{"parameters": dict(trial.parameters), "values": list(trial.values), "reason": trial.reason}
                  for trial in self.trials]
        return {"trials": trials, "given": [dict(one) for one in self.given], "dropped": self.dropped}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Heritage:
        """Return the heritage from its `to_json`."""
        return cls(tuple(_trial(one["parameters"], one["values"], one["reason"]) for one in data.get("trials", ())),
                   tuple(data.get("given", ())), int(data.get("dropped", 0)))


def heritage_of(parents: Sequence[Parent], spec: StudySpec, *, transfer: bool) -> Heritage:
    """Return what a study takes from its parents.

    Args:
        parents: At most five.
        spec: The new study.
        transfer: Whether they are of other data or another model.

    Raises:
        TuneError: There are more, or one has another objective or other parameters, or is listed twice.
    """
    if len(parents) > MOST_PARENTS:
        raise TuneError(f"A study has at most {MOST_PARENTS} parents, not {len(parents)}.")
    for number, parent in enumerate(parents):
        _check(parent, spec, transfer=transfer)
        if any(parent is other or (parent.url and parent.url == other.url) for other in parents[:number]):
            raise TuneError(f"A parent is listed twice: its trials would count twice{_at(parent)}.")
    if transfer:
        best = _best_of(parents, spec)
        given = [one for one in best if not spec.space.problem_of(one)]
        return Heritage(given=tuple(given[:_MOST_GIVEN]), dropped=len(best) - len(given))
    # If no trial of a parent finished, the script failed, not the parameters.
    ended = [trial for parent in parents if any(one.state is TrialState.FINISHED for one in parent.trials)
             for trial in parent.trials if trial.state in (TrialState.FINISHED, TrialState.FAILED)]
    fitting = [trial for trial in ended if not spec.space.problem_of(trial.parameters)]
    return Heritage(tuple(_trial(trial.parameters, trial.values, trial.reason) for trial in fitting),
                    dropped=len(ended) - len(fitting))


def _check(parent: Parent, spec: StudySpec, *, transfer: bool) -> None:
    theirs = parent.spec
    if theirs.objectives != spec.objectives:
        raise TuneError(f"A parent has another objective: {_texts(theirs.objectives)}; this study: "
                        f"{_texts(spec.objectives)}. Use the same objective, or another parent{_at(parent)}.")
    common = set(theirs.space.names) & set(spec.space.names)
    if not common:
        raise TuneError(f"A parent varies none of the parameters {', '.join(spec.space.names)}. Use another "
                        f"parent{_at(parent)}.")
    if transfer:
        return
    if other := set(theirs.space.names) ^ set(spec.space.names):
        raise TuneError("A parent does not vary the same parameters: only one of the two has "
                        f"{', '.join(sorted(other))}. {_TRANSFER}{_at(parent)}.")
    for name in spec.space.names:
        kinds = [type(one.space[name].domain) for one in (theirs, spec)]
        if kinds[0] is not kinds[1]:
            raise TuneError(f"{name} is {theirs.space[name].domain} in a parent, and {spec.space[name].domain} here. "
                            f"{_TRANSFER}{_at(parent)}.")


def _at(parent: Parent) -> str:
    return f" ({parent.url})" if parent.url else ""


def _best_of(parents: Sequence[Parent], spec: StudySpec) -> list[dict[str, Any]]:
    """Return the best parameters of the parents by turns, moved into the ranges of the space, without near repetitions.

    The best trials of a search that has converged are almost the same.
    """
    ranked = [sorted((trial for trial in parent.trials if trial.state is TrialState.FINISHED),
                     key=lambda trial: spec.objectives[0].loss(trial.value)) for parent in parents]
    found: list[dict[str, Any]] = []
    for place in range(_MOST_GIVEN):
        for trials in ranked:
            if place < len(trials):
                one = _moved(trials[place].parameters, spec.space)
                if not any(_are_near(one, other, spec.space) for other in found):
                    found.append(one)
    return found


def _moved(parameters: Mapping[str, Any], space: Space) -> dict[str, Any]:
    """Return the parameters in another space: values outside a range at its end, unknown ones in the middle."""
    found: dict[str, Any] = {}
    for parameter in space:
        if not parameter.applies(found):
            continue
        value, domain = parameters.get(parameter.name), parameter.domain
        if value is None:
            found[parameter.name] = domain.value(0.5)
        elif domain.allows(value):
            found[parameter.name] = value
        elif hasattr(domain, "low") and isinstance(value, int | float):
            found[parameter.name] = domain.value(0.0 if value < domain.low else 1.0)
        else:
            found[parameter.name] = domain.value(0.5)
    return found


def _are_near(one: Mapping[str, Any], other: Mapping[str, Any], space: Space) -> bool:
    units = zip(space, space.units(one), space.units(other), strict=True)
    return one.keys() == other.keys() and all(
        abs(here - there) < _NEAR if parameter.domain.is_ordered else here == there for parameter, here, there in units)


def _trial(parameters: Mapping[str, Any], values: Sequence[float], reason: str) -> Trial:
    return Trial(-1, parameters, Origin("parent"), TrialState.FINISHED if values else TrialState.FAILED,
                 tuple(map(float, values)), reason)


def _texts(objectives: Sequence[Objective]) -> str:
    return ", ".join(map(str, objectives))
