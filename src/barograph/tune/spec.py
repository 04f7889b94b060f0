"""Specification of a study: space, objectives, completion and stopping."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from typing import Any

from barograph.errors import StudyChanged, TuneError, nearest
from barograph.tune.parameter import is_number
from barograph.tune.space import Space

STRATEGIES = ("auto", "bayesian", "random", "grid", "hyperband", "tpe", "cma-es")
RULES = ("asha", "median")


@dataclass(frozen=True, slots=True)
class Objective:
    """A metric to optimize.

    Attributes:
        name: Name of the metric.
        maximize: Whether high values are good.
    """

    name: str
    maximize: bool = False

    def loss(self, value: float) -> float:
        """Return a value such that lower is better."""
        return -value if self.maximize else value

    def __str__(self) -> str:
        return f"{'maximize' if self.maximize else 'minimize'} {self.name}"


@dataclass(frozen=True, slots=True)
class Completion:
    """When a study is complete: as soon as one criterion is met. None: no such criterion.

    Attributes:
        trials: Number of trials, without those that failed before the study was resumed if all had failed.
        secs: Time during which a process worked on the study.
        cost: Sum of the costs of its trials.
        target: Value of the first objective.
        patience: Number of trials in a row that ended without an improvement of `improvement`: finished, stopped or
            failed.
        improvement: Smallest improvement that counts, relative to the best value.
        convergence: Whether to end once the model of the strategy expects no improvement.
        failures: The study ends after this many trials if all of them failed.
    """

    trials: int | None = None
    secs: float | None = None
    cost: float | None = None
    target: float | None = None
    patience: int | None = None
    improvement: float = 0.01
    convergence: bool = False
    failures: int = 5

    def __post_init__(self) -> None:
        for name in ("trials", "patience", "failures"):
            value = getattr(self, name)
            if value is not None and not (is_number(value) and isinstance(value, int) and value > 0):
                raise TuneError(f"{name} is {value!r}; it must be an integer above 0.")
        for name in ("secs", "cost"):
            value = getattr(self, name)
            if value is not None and not (is_number(value) and value > 0):
                raise TuneError(f"{name} is {value!r}; it must be a number above 0.")
        if self.target is not None and not is_number(self.target):
            raise TuneError(f"The target is {self.target!r}; it must be a number.")


@dataclass(frozen=True, slots=True)
class Stopping:
    """Which trials are stopped early.

    Attributes:
        rules: Any of "median" and "asha".
        findings: Whether a finding stops a trial.
        min_step: First step at which a rule compares.
        factor: "asha" compares at `min_step` times powers of it, and keeps the best of that many.
        warmup_trials: Trials that "median" needs for a comparison.
    """

    rules: tuple[str, ...] = ("median",)
    findings: bool = True
    min_step: int = 1
    factor: int = 3
    warmup_trials: int = 5

    def __post_init__(self) -> None:
        rules: Any = self.rules
        if isinstance(rules, str):
            object.__setattr__(self, "rules", (rules,))
        for rule in self.rules:
            if rule not in RULES:
                raise TuneError(f'There is no rule "{rule}" that stops trials. {nearest(rule, RULES)}')
        if self.min_step < 1 or self.factor < 2:
            raise TuneError("min_step must be at least 1 and factor at least 2.")


def default_stopping(strategy: str, *, findings: bool = True) -> Stopping:
    """Return which trials a study stops if its user chose no rule.

    Example:
        >>> default_stopping("auto").rules, default_stopping("hyperband").rules
        (('median',), ('asha',))
    """
    return Stopping(("asha",) if strategy == "hyperband" else ("median",), findings=findings)


@dataclass(frozen=True, slots=True)
class StudySpec:
    """A study as it was created. Completion criteria may change later; nothing else does.

    Attributes:
        space: The search space.
        objectives: What to optimize; with several, the study looks for a Pareto front.
        strategy: One of `STRATEGIES`.
        seed: Makes the proposals of a study that runs one trial at a time reproducible.
        completion: When it ends.
        stopping: Which trials it stops.
        details: JSON data of the caller for use on resume, such as the command.
    """

    space: Space
    objectives: tuple[Objective, ...]
    strategy: str = "auto"
    seed: int = 0
    completion: Completion = field(default_factory=Completion)
    stopping: Stopping = field(default_factory=Stopping)
    details: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not self.objectives:
            raise TuneError("A study needs an objective: name a metric to maximize or to minimize.")
        names = [objective.name for objective in self.objectives]
        if len(set(names)) < len(names):
            raise TuneError(f"An objective is listed twice: {', '.join(names)}.")
        if self.strategy not in STRATEGIES:
            raise TuneError(f'There is no strategy "{self.strategy}". {nearest(str(self.strategy), STRATEGIES)}')
        if isinstance(self.seed, bool) or not isinstance(self.seed, int) or self.seed < 0:
            raise TuneError(f"The seed is {self.seed!r}; it must be an integer, at least 0.")
        if self.strategy == "hyperband" and "asha" not in self.stopping.rules:
            raise TuneError('The strategy hyperband is successive halving: it needs the rule "asha" '
                            '(Stopping(rules=("asha",)), --stop-rule asha).')

    def to_json(self) -> dict[str, Any]:
        """Return JSON data."""
        return {
            "space": self.space.to_json(), "objectives": [asdict(objective) for objective in self.objectives],
            "strategy": self.strategy, "seed": self.seed, "completion": asdict(self.completion),
            "stopping": {**asdict(self.stopping), "rules": list(self.stopping.rules)}, "details": dict(self.details),
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> StudySpec:
        """Return the specification from its `to_json`."""
        stopping = _known(Stopping, data["stopping"])
        return cls(
            Space.from_json(data["space"]), tuple(Objective(**_known(Objective, one)) for one in data["objectives"]),
            str(data["strategy"]), int(data["seed"]), completion_from_json(data["completion"]),
            Stopping(**{**stopping, "rules": tuple(stopping["rules"])}), dict(data["details"]))


def completion_from_json(data: Mapping[str, Any]) -> Completion:
    """Return completion criteria from JSON data; unknown entries are ignored."""
    known = _known(Completion, data)
    return Completion(**known)


def objectives_from(maximize: bool | str | Sequence[str], minimize: str | Sequence[str]) -> tuple[Objective, ...]:
    """Return the objectives that two options describe.

    Args:
        maximize: Names of metrics, or for a single one without a name whether high values are good.
        minimize: Names of metrics.

    Example:
        >>> objectives_from(True, ())
        (Objective(name='value', maximize=True),)
        >>> [str(objective) for objective in objectives_from("accuracy", "latency")]
        ['maximize accuracy', 'minimize latency']
    """
    if isinstance(maximize, bool) and not minimize:
        return (Objective("value", maximize),)
    return (*(Objective(name, maximize=True) for name in _names(maximize)),
            *(Objective(name) for name in _names(minimize)))


def _names(names: bool | str | Sequence[str]) -> tuple[str, ...]:
    if isinstance(names, bool):
        return ()
    return (names,) if isinstance(names, str) else tuple(names)


def _known(kind: type, data: Mapping[str, Any]) -> dict[str, Any]:
    return {item.name: data[item.name] for item in fields(kind) if item.name in data}


def check_same(found: StudySpec, asked: StudySpec, url: str) -> None:
    """Raise `StudyChanged` if a study cannot be continued as another specification says."""
    changes = [f"{name} {before}, now {after}" for name, before, after in (
        ("the space was", _texts(found.space), _texts(asked.space)),
        ("the constraints were", _constraints(found.space), _constraints(asked.space)),
        ("the objective was", _texts(found.objectives), _texts(asked.objectives)),
        ("the strategy was", found.strategy, asked.strategy), ("the seed was", found.seed, asked.seed),
    ) if before != after]
    if changes:
        raise StudyChanged(f"The study cannot be resumed, because it changed: {'; '.join(changes)}. Create another "
                           f"study with this one as a parent ({url}).")


def _texts(items: Iterable[object]) -> str:
    return "; ".join(map(str, items))


def _constraints(space: Space) -> str:
    return "; ".join(sorted(constraint.text for constraint in space.constraints)) or "none"
