"""Tuning a Python function in this process."""

from __future__ import annotations

import contextlib
import inspect
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from barograph.errors import BarographError, TrainingStopped, TuneError
from barograph.store.base import Store
from barograph.tune.completion import failure_of_all
from barograph.tune.parameter import Value
from barograph.tune.space import Space
from barograph.tune.spec import Completion, Stopping
from barograph.tune.study import Study
from barograph.tune.trial import Cause, Trial
from barograph.tune.trial_values import values_from


class RunningTrial:
    """The trial that an objective receives as its second argument.

    Args:
        study: Its study.
        trial: The trial.
    """

    def __init__(self, study: Study, trial: Trial) -> None:
        self._study, self.trial = study, trial
        self.error: BarographError | None = None
        """Error of the study, which ends it; those of the objective only fail the trial."""

    @property
    def number(self) -> int:
        """Number of the trial, from 0."""
        return self.trial.number

    def report(self, step: int, value: float) -> bool:
        """Report a value of the objective during training; return whether the trial should stop.

        Args:
            step: Epochs or steps trained so far, from 1.
            value: The value.
        """
        with self._noted():
            return bool(self._study.report(self.trial, step, value))

    def stop(self, reason: str) -> None:
        """Stop the trial for a reason such as a diverged loss."""
        with self._noted():
            self._study.stop(self.trial, reason)

    @contextlib.contextmanager
    def _noted(self) -> Iterator[None]:
        try:
            yield
        except BarographError as error:
            self.error = error
            raise


class Tuned:
    """Result of tuning.

    Args:
        study: The study.
    """

    def __init__(self, study: Study) -> None:
        self.study = study

    @property
    def trial(self) -> Trial:
        """The best trial."""
        return self.study.best

    @property
    def parameters(self) -> Mapping[str, Value]:
        """Its parameters."""
        return self.trial.parameters

    @property
    def value(self) -> float:
        """Its value of the first objective."""
        return self.trial.value

    def __repr__(self) -> str:
        found = ", ".join(f"{name}={value}" for name, value in self.parameters.items())
        return f"<tuned: {self.study.objective.name} {self.value:.6g} with {found}, {len(self.study.trials)} trials>"


def tune(
    objective: Callable[..., Any], space: Space | Mapping[str, Any] | Iterable[str], *,
    maximize: bool | str | Sequence[str] = False, minimize: str | Sequence[str] = (), trials: int | None = 100,
    strategy: str = "auto", seed: int | None = None, completion: Completion | None = None,
    stopping: Stopping | None = None, constraints: Iterable[str] = (),
    where: str | os.PathLike[str] | Store | None = None,
) -> Tuned:
    """Find the parameters for which a function is best, in this process.

    Args:
        objective: Takes the parameters as a dictionary and returns the value: a number, or with several objectives
            a sequence or a dictionary. It may take a `RunningTrial` as a second argument. An exception is a failed
            trial, and so is `sys.exit` with an exit code other than 0; Ctrl-C and `sys.exit(0)` end the program.
        space: As for `Study.create`, like the other arguments.
        maximize: Names of the metrics to maximize, or whether high values are good.
        minimize: Names of the metrics to minimize.
        trials: Number of trials.
        strategy: "auto", "bayesian", "random", "grid" or "hyperband".
        seed: Makes the search reproducible.
        completion: Further criteria.
        stopping: Which trials are stopped early, if the function reports values; None: as `Study.create`.
        constraints: Conditions between parameters.
        where: Directory, URL or store for the state of the study; a study that is there is continued. None: memory.

    Raises:
        TuneError: No trial finished; the message has the common cause.
        BadSpace: The space is wrong.

    Example:
        >>> tune(lambda found: (found["x"] - 0.25) ** 2, {"x": ["0.1", "0.3"]}, strategy="grid").parameters
        Traceback (most recent call last):
        barograph.errors.TuneError: All 2 trials failed with: TypeError: unsupported operand type(s) for ...
        >>> tune(lambda found: (found["x"] - 0.25) ** 2, {"x": [0.1, 0.3]}, strategy="grid").parameters
        {'x': 0.3}
    """
    study = Study.create(
        where, space, maximize=maximize, minimize=minimize, strategy=strategy, seed=seed, trials=trials,
        completion=completion, stopping=stopping, constraints=constraints, resume=where is not None)
    takes_trial = _takes_trial(objective)
    for trial in study.running:  # the process was killed while they ran
        _run(study, trial, objective, takes_trial=takes_trial)
    while trial := study.ask():  # type: ignore[assignment]
        _run(study, trial, objective, takes_trial=takes_trial)
    if cause := failure_of_all(study.trials):
        raise TuneError(f"{cause[0].upper()}{cause[1:]}")
    return Tuned(study)


def _run(study: Study, trial: Trial, objective: Callable[..., Any], *, takes_trial: bool) -> None:
    running = RunningTrial(study, trial)
    try:
        values = objective(dict(trial.parameters), *((running,) if takes_trial else ()))
        if values is not None:
            values = values_from(values, study.spec.objectives)
    except TrainingStopped as stop:
        study.stop(trial, str(stop), cause=Cause.FINDING)
        study.tell(trial)
    except SystemExit as end:
        if not end.code:  # the user's wish to end the program, as in a handler of SIGTERM
            raise
        if running.error is not None:
            raise running.error from None
        study.tell(trial, failed=f"sys.exit({end.code!r})")
    except Exception as error:  # noqa: BLE001 - whatever the user's function raises is a failed trial
        if running.error is not None:
            raise running.error from None  # also if the objective caught it
        study.tell(trial, failed=str(error) if isinstance(error, TuneError) else f"{type(error).__name__}: {error}")
    else:
        if running.error is not None:
            raise running.error
        study.tell(trial, values)


def _takes_trial(objective: Callable[..., Any]) -> bool:
    try:
        parameters = inspect.signature(objective).parameters.values()
    except (TypeError, ValueError):
        return False
    return sum(parameter.kind in (parameter.POSITIONAL_ONLY, parameter.POSITIONAL_OR_KEYWORD)
               and parameter.default is parameter.empty for parameter in parameters) > 1
