"""smdebug's custom `Rule`, and running it over a trial."""

from __future__ import annotations

import logging
import warnings
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, KeysView, ValuesView
from contextlib import contextmanager
from typing import Any

from barograph.debugger.exceptions import (
    RuleEvaluationConditionMet,
    StepUnavailable,
    TensorUnavailable,
    TensorUnavailableForStep,
)
from barograph.debugger.tensor import Tensor
from barograph.debugger.trial import Trial

_log = logging.getLogger("barograph.smdebug")


class RequiredTensors:
    """The tensors and steps that a rule needs before it evaluates a step."""

    def __init__(self, base_trial: Trial, other_trials: Iterable[Trial] | None = None) -> None:
        self.base_trial = base_trial
        self._steps: dict[int, dict[str, list[int]]] = {id(trial): {} for trial in (base_trial, *(other_trials or ()))}
        self._trials = {id(trial): trial for trial in (base_trial, *(other_trials or ()))}

    def add(
        self, name: str, steps: Iterable[int], trial: Trial | None = None, should_match_regex: bool = False
    ) -> None:
        """Require a tensor, or all with matching names, at these global steps.

        Raises:
            TensorUnavailable: There is none of that name.
        """
        whose = trial or self.base_trial
        for found in whose.tensor_names(regex=[name]) if should_match_regex else [name]:
            whose.tensor(found)
            self._steps[id(whose)].setdefault(found, []).extend(steps)

    def get(self, trial: Trial | None = None) -> ValuesView[Tensor]:
        """Return the required tensors."""
        whose = trial or self.base_trial
        return {name: whose.tensor(name) for name in self._steps[id(whose)]}.values()

    def get_names(self, trial: Trial | None = None) -> KeysView[str]:
        """Return the names of the required tensors."""
        return self._steps[id(trial or self.base_trial)].keys()

    def get_tensor_steps(self, name: str, trial: Trial | None = None) -> list[int]:
        """Return the steps at which a tensor is required."""
        return self._steps[id(trial or self.base_trial)][name]

    def clear(self) -> None:
        """Remove all requirements."""
        for wanted in self._steps.values():
            wanted.clear()

    def fetch(self) -> None:
        """Wait until all required tensors are available.

        Raises:
            StepUnavailable, NoMoreData, TensorUnavailableForStep: It is not there.
        """
        for number, wanted in self._steps.items():
            trial = self._trials[number]
            trial.wait_for_steps(sorted({step for steps in wanted.values() for step in steps}))
            for name, steps in wanted.items():
                for step in steps:
                    trial.tensor(name).value(step)


class Rule(ABC):
    """A rule: evaluates a global step, and returns whether its condition is met.

    Args:
        base_trial: What it looks at.
        action_str: What SageMaker was to do then. Nobody does it here, and a warning says so: see "having it act".
        other_trials: What it may compare with.
    """

    def __init__(
        self, base_trial: Trial, action_str: str | None = "", other_trials: Iterable[Trial] | None = None
    ) -> None:
        self.base_trial = base_trial
        self.other_trials = list(other_trials) if other_trials is not None else None
        self.trials = [base_trial, *(self.other_trials or ())]
        self.req_tensors = RequiredTensors(base_trial, self.other_trials)
        self.rule_name = type(self).__name__
        self.logger = _log
        self.report: dict[str, Any] = {
            "RuleTriggered": 0, "Violations": 0, "Details": {}, "Datapoints": 0, "RuleParameters": "",
        }
        if (action_str or "").strip():
            warnings.warn(f"{self.rule_name}: SageMaker's action {action_str} is ignored. Use barograph watch "
                          "--on-finding or --notify.", UserWarning, stacklevel=3)

    def set_required_tensors(self, step: int) -> None:  # noqa: B027 - a rule that needs nothing says nothing
        """Require the tensors of a step in `req_tensors`; override it if a rule needs any."""

    @abstractmethod
    def invoke_at_step(self, step: int) -> bool:
        """Return whether the condition is met at a global step."""

    def invoke(self, step: int) -> None:
        """Evaluate a global step when it is available.

        Raises:
            RuleEvaluationConditionMet: The condition is met.
            StepUnavailable, NoMoreData, TensorUnavailable, TensorUnavailableForStep: What it needs is not there.
        """
        self.base_trial.wait_for_steps([step])
        with no_refresh(self.trials):
            self.req_tensors.clear()
            self.set_required_tensors(step)
            self.req_tensors.fetch()
            met = self.invoke_at_step(step)
        if met:
            raise RuleEvaluationConditionMet(self.rule_name, step)


def invoke_rule(
    rule_obj: Rule, start_step: int | None = 0, end_step: int | None = None, raise_eval_cond: bool = False
) -> None:
    """Evaluate a rule at successive global steps, skipping those that were not saved.

    Args:
        rule_obj: The rule.
        start_step: The first step.
        end_step: The step before which it ends; None: it ends with the training, by `NoMoreData`.
        raise_eval_cond: Raise where the condition is met, and end.

    Raises:
        NoMoreData: The training is over.
        RuleEvaluationConditionMet: As `raise_eval_cond` says.
    """
    step = start_step or 0
    while end_step is None or step < end_step:
        try:
            rule_obj.invoke(step)
        except (TensorUnavailableForStep, StepUnavailable, TensorUnavailable) as error:
            _log.debug("%s", error)
        except RuleEvaluationConditionMet as error:
            if raise_eval_cond:
                raise
            _log.info("%s", error)
            if error.end_of_rule:
                return
        step += 1


@contextmanager
def no_refresh(trials: Trial | list[Trial]) -> Iterator[Trial | list[Trial]]:
    """Do not refresh trials within a block, so that it sees constant data."""
    with _refreshing(trials, False):
        yield trials


@contextmanager
def refresh(trials: Trial | list[Trial]) -> Iterator[Trial | list[Trial]]:
    """Refresh trials within a block."""
    with _refreshing(trials, True):
        yield trials


@contextmanager
def _refreshing(trials: Trial | list[Trial], wanted: bool) -> Iterator[None]:
    each = trials if isinstance(trials, list) else [trials]
    before = [trial.dynamic_refresh for trial in each]
    for trial in each:
        trial.dynamic_refresh = wanted
    try:
        yield
    finally:
        for trial, had in zip(each, before, strict=True):
            trial.dynamic_refresh = had
