"""The state of a study: what its events add up to, and the results in it. It writes nothing."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from barograph.errors import TuneError
from barograph.jobs.job_log import DAMAGED, Event
from barograph.model.clock import Clock
from barograph.tune.about import about
from barograph.tune.completion import common_failure
from barograph.tune.confirmation import Confirmation, confirmation_from_json
from barograph.tune.heritage import Heritage
from barograph.tune.history import History
from barograph.tune.space import Space
from barograph.tune.spec import Objective, StudySpec, completion_from_json
from barograph.tune.table import StudyTable
from barograph.tune.trial import Cause, Origin, Refitted, Trial, TrialState


class StudyState:
    """Trials and results of a study.

    Args:
        spec: Specification.
        heritage: Trials of earlier studies to start from.
        clock: Clock.
    """

    def __init__(self, spec: StudySpec, heritage: Heritage, clock: Clock) -> None:
        self.spec, self.heritage = spec, heritage
        self._clock = clock
        self._history = self._new_history()
        self._given: list[Mapping[str, Any]] = list(heritage.given)
        self._stopping: dict[int, tuple[str, Cause]] = {}
        self._ended = ""
        self._exhausted = False
        self._confirmation: Confirmation | None = None
        self._refitted: Refitted | None = None
        self._refit_failed: tuple[int, str] | None = None
        self._secs = 0.0
        self._mark = clock.monotonic()
        self.events, self.damaged = 0, 0
        """Number of events that were read, and of those that are damaged."""

    @property
    def trials(self) -> Sequence[Trial]:
        """All trials, by number."""
        return self._history.trials

    @property
    def running(self) -> list[Trial]:
        """Trials that have not ended: running ones, and those whose process was killed."""
        return list(self._history.running.values())

    @property
    def space(self) -> Space:
        """The search space."""
        return self.spec.space

    @property
    def objective(self) -> Objective:
        """The first objective."""
        return self.spec.objectives[0]

    @property
    def limit(self) -> int | None:
        """Number of trials at which it ends, those included that do not count; None: no limit."""
        most = self.spec.completion.trials
        return None if most is None else most + sum(trial.excused for trial in self.trials)

    @property
    def secs(self) -> float:
        """Time that processes have spent on the study, by a monotonic clock."""
        return self._secs + self._clock.monotonic() - self._mark

    @property
    def best(self) -> Trial:
        """The finished trial with the best value of the first objective; the earliest one if several are equal.

        Raises:
            TuneError: No trial has finished.
        """
        finished = [trial for trial in self.trials if trial.state is TrialState.FINISHED]
        if not finished:
            failed = [trial.reason for trial in self.trials if trial.state is TrialState.FAILED]
            why = f" The last error: {failed[-1]}" if failed else ""
            raise TuneError(f"No trial of the study has finished.{why}")
        return min(finished, key=lambda trial: self.objective.loss(trial.value))

    @property
    def front(self) -> list[Trial]:
        """The Pareto front: finished trials that no other beats in all objectives, sorted by the first objective."""
        finished = [(self._losses(trial), trial) for trial in self.trials if trial.state is TrialState.FINISHED]
        found: list[tuple[tuple[float, ...], Trial]] = []
        # Whatever beats a trial in all objectives comes before it in this order.
        for losses, trial in sorted(finished, key=lambda one: one[0]):
            if not any(_dominates(other, losses) for other, _ in found):
                found.append((losses, trial))
        return [trial for _, trial in found]

    def table(self) -> StudyTable:
        """Return all trials as a table."""
        return StudyTable(self.spec, self.trials)

    def about(self) -> list[str]:
        """Return which strategies were used and why, what the seed does not guarantee, and which model was refitted."""
        found = about(self.spec, self.heritage, self.trials)
        if (refitted := self.refitted) is not None:
            rows = f"all {refitted.rows:,} rows" if refitted.rows else "all rows"
            found.append(f"The model of trial {refitted.trial} was refitted on {rows} ({refitted.job}).")
        elif self.refit_failed:
            found.append(self.refit_failed)
        return found

    @property
    def confirmation(self) -> Confirmation | None:
        """Whether the best trial is really better than the next, after repetitions with other seeds; None: unknown."""
        return self._confirmation

    @property
    def was_repeated(self) -> bool:
        """Whether a repetition of the best trials gave a value. If all failed, `confirmation` has the reasons."""
        return self._confirmation is not None and any(one.values for one in self._confirmation.repeated)

    @property
    def refitted(self) -> Refitted | None:
        """The model of the best trial, trained on all rows; None if it was not, or another trial is better now."""
        return self._refitted if self._refitted and self._is_best(self._refitted.trial) else None

    @property
    def refit_failed(self) -> str:
        """Why the best trial could not be trained on all rows; "" if nothing failed, or another trial is better now."""
        number, reason = self._refit_failed or (-1, "")
        return reason if self._is_best(number) else ""

    def _is_best(self, number: int) -> bool:
        try:
            return self.best.number == number
        except TuneError:
            return False

    def _trial(self, trial: Trial | int) -> Trial:
        number = trial if isinstance(trial, int) else trial.number
        if not 0 <= number < len(self.trials):
            raise TuneError(f"The study has no trial {number}; it has {len(self.trials)}.")
        return self.trials[number]

    def _losses(self, trial: Trial) -> tuple[float, ...]:
        return tuple(one.loss(value) for one, value in zip(self.spec.objectives, trial.values, strict=True))

    def _take(self, events: Iterable[Event]) -> None:
        for event in events:
            self._take_one(event)

    def _take_one(self, event: Event) -> None:
        data = event.data
        self.events += 1
        if event.kind == DAMAGED:
            self.damaged += 1
            return
        if (secs := float(data.get("secs", 0.0))) > self.secs:  # else another process, which counted less, wrote it
            self._secs, self._mark = secs, self._clock.monotonic()
        match event.kind:
            case "asked":
                self._take_asked(event)
            case "told":
                self._take_told(event)
            case "stopping":
                self._stopping[int(data["number"])] = data["reason"], Cause(data["cause"])
            case "given":
                self._given.append(data["parameters"])
            case "confirmed":
                self._confirmation = confirmation_from_json(data)
            case "refitted":
                self._refitted = Refitted(int(data["trial"]), str(data["job"]), int(data["rows"]))
                self._refit_failed = None
            case "refit-failed":
                self._refit_failed = int(data["trial"]), str(data["reason"])
            case "ended":
                self._ended = data["reason"]
            case "extended":
                self._ended, self._exhausted, self._refit_failed = "", False, None
                self.spec = replace(self.spec, completion=completion_from_json(data["completion"]))
                if common_failure(self.trials, 1):
                    self._excuse_failures()

    def _excuse_failures(self) -> None:
        """Let the search forget the trials that ended."""
        trials, self._history = self.trials, self._new_history()
        for trial in trials:
            trial.excused = trial.state.is_over
            self._history.add(trial)

    def _new_history(self) -> History:
        history = History(self.spec.space, self.spec.objectives)
        for trial in self.heritage.trials:
            history.inherit(trial)
        return history

    def _take_asked(self, event: Event) -> None:
        data = event.data
        self._fill(int(data["number"]))
        self._given = self._given[int(data["given"]):]
        self._history.add(Trial(
            int(data["number"]), data["parameters"], _origin(data["origin"]), job=data["job"],
            started_unix=event.time_unix, beside=len(self._history.running)))

    def _take_told(self, event: Event) -> None:
        data = event.data
        self._fill(int(data["number"]) + 1)
        trial = self.trials[int(data["number"])]
        if trial.state.is_over:
            return
        trial.state, trial.reason = TrialState(data["state"]), data["reason"]
        trial.cause = Cause(data["cause"]) if data["cause"] else None
        trial.values = tuple(map(float, data["values"]))
        trial.curve = {int(step): float(value) for step, value in data["curve"]}
        trial.cost, trial.ended_unix = float(data["cost"]), event.time_unix
        self._stopping.pop(trial.number, None)
        self._history.end(trial)

    def _fill(self, count: int) -> None:
        """Add trials whose events are damaged, so that the numbers of the others stay."""
        while len(self.trials) < count:
            self._history.add(Trial(len(self.trials), {}, Origin("lost"), TrialState.FAILED,
                                    reason="the record of its parameters is damaged"))


def _origin(data: Mapping[str, Any]) -> Origin:
    origin = Origin(**data)
    return origin if origin.scores else _shared(origin.proposer, origin.why, origin.bracket)


@functools.lru_cache
def _shared(proposer: str, why: str, bracket: int) -> Origin:
    """Return one object for the many trials of equal origin."""
    return Origin(proposer, why, bracket=bracket)


def _dominates(one: tuple[float, ...], other: tuple[float, ...]) -> bool:
    return one != other and all(mine <= its for mine, its in zip(one, other, strict=True))
