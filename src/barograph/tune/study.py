"""A study: the search for the best values of parameters, trial by trial.

Its state is a log of numbered, immutable events in a store. An event is written before it takes effect, and only one
process can write a number, so a killed process loses nothing, and several processes can share a study.
"""

from __future__ import annotations

import importlib
import math
import os
import secrets
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, replace
from typing import Any, Self

from barograph.errors import BadSpace, StoreError, StudyExists, TuneError, UnknownStudy
from barograph.jobs.job_log import DAMAGED, Event, EventLog, NotLeading
from barograph.model.clock import Clock, SystemClock
from barograph.model.plain import plain
from barograph.store.base import Store
from barograph.store.urls import store_from_url
from barograph.tune.completion import failure_of_all, reason_to_end, tried_again
from barograph.tune.confirmation import Confirmation
from barograph.tune.heritage import Heritage, heritage_of
from barograph.tune.live_values import Latest, LiveValues
from barograph.tune.parameter import builtin
from barograph.tune.space import Space, space_from
from barograph.tune.spec import (
    Completion,
    Stopping,
    StudySpec,
    check_same,
    default_stopping,
    objectives_from,
)
from barograph.tune.stopping import RunningAverages, reason_to_stop
from barograph.tune.strategies.base import Proposal, Strategy
from barograph.tune.strategies.choosing import check_not_empty, strategy_of
from barograph.tune.strategies.threads import one_thread
from barograph.tune.study_events import Presence, event_log, event_name
from barograph.tune.study_state import StudyState
from barograph.tune.trial import Cause, Origin, Refitted, Trial, TrialState
from barograph.tune.trial_values import Values, values_from
from barograph.watch.figures import count

BY_USER = "requested by the user"
"""Why a study ended that a user stopped."""


class Study(StudyState):
    """A search for the best values of parameters. Use `Study.create` or `Study.open`.

    Args:
        spec: Specification.
        store: Where it is stored; None for a study in memory.
        log: Event log in the store.
        heritage: Trials of earlier studies to start from.
        clock: Clock.

    Example:
        >>> study = Study.create(None, {"x": (-1.0, 1.0)}, strategy="random", seed=1, trials=3)
        >>> while trial := study.ask():
        ...     study.tell(trial, trial.parameters["x"] ** 2)
        >>> len(study.trials), study.over
        (3, 'it reached its limit of 3 trials')
    """

    def __init__(
        self, spec: StudySpec, store: Store | None = None, log: EventLog | None = None, *,
        heritage: Heritage | None = None, clock: Clock | None = None,
    ) -> None:
        super().__init__(spec, heritage or Heritage(), clock or SystemClock())
        self._log, self.url = log, store.url if store else ""
        self._presence = Presence(store) if store else None
        self._live = LiveValues(store, self._clock)
        self._strategy: Strategy | None = None
        self._averages = RunningAverages()

    def __repr__(self) -> str:
        best = f", best {self.best.value:.6g}" if any(
            trial.state is TrialState.FINISHED for trial in self.trials) else ""
        return f"<study: {'; '.join(map(str, self.spec.objectives))}, {count(len(self.trials), 'trial')}{best}>"

    @classmethod
    def create(
        cls, where: str | os.PathLike[str] | Store | None, space: Space | Mapping[str, Any] | Iterable[str], *,
        maximize: bool | str | Sequence[str] = False, minimize: str | Sequence[str] = (), strategy: str = "auto",
        seed: int | None = None, trials: int | None = None, completion: Completion | None = None,
        stopping: Stopping | None = None, constraints: Iterable[str] = (), details: Mapping[str, Any] | None = None,
        parents: Sequence[Study | str | os.PathLike[str]] = (), transfer: bool = False,
        resume: bool = False, clock: Clock | None = None,
    ) -> Self:
        """Create a study.

        Args:
            where: Directory, URL or store for its state; None: memory.
            space: The search space, as in `Space.from_mapping` or `Space.from_texts`.
            maximize: Names of metrics to maximize; or, for one objective, whether high values are good.
            minimize: Names of metrics to minimize.
            strategy: "auto", "bayesian", "random", "grid" or "hyperband".
            seed: With it, a study that runs one trial at a time is reproducible.
            trials: Number of trials; a shortcut for `completion`.
            completion: When the study ends.
            stopping: Which trials are stopped early; None: by the median rule, with hyperband by ASHA.
            constraints: Conditions that every trial meets, such as "width * depth <= 1024".
            details: JSON data that is stored with the study, for use on resume.
            parents: Up to five earlier studies to start from, or their locations.
            transfer: Whether the parents used other data or another model: then their best parameters are tried
                first. Otherwise their trials count as if this study had made them.
            resume: Continue an existing study; one whose trials all failed tries again.
            clock: The time.

        Raises:
            BadSpace: The space is wrong.
            StudyExists: There is already a study.
            StudyChanged: There is one with another space, objective or strategy.
            TuneError: A parent does not fit, or a criterion is wrong.
            StoreError: The store is unreachable.
        """
        changes_end = completion is not None or trials is not None
        if not isinstance(completion := completion or Completion(), Completion):
            raise TuneError(f"completion is {completion!r}; pass a Completion.")
        if trials is not None:
            completion = replace(completion, trials=trials)
        spec = StudySpec(
            space_from(space, constraints), objectives_from(maximize, minimize), strategy,
            secrets.randbelow(2**31) if seed is None else seed, completion, stopping or default_stopping(strategy),
            dict(details or {}))
        store, clock = None if where is None else _store(where), clock or SystemClock()
        if store and resume and event_log(store, clock).new():
            found = cls.open(store, clock=clock)
            check_same(found.spec, replace(spec, seed=found.spec.seed if seed is None else seed), store.url)
            found.go_on(completion if changes_end else found.spec.completion)
            return found
        check_not_empty(spec)
        heritage = heritage_of([
            parent if isinstance(parent, Study) else Study.open(parent)
            for parent in ([parents] if isinstance(parents, Study | str | os.PathLike) else parents)
        ], spec, transfer=transfer)
        if store is None:
            return cls(spec, heritage=heritage, clock=clock)
        log = event_log(store, clock)
        try:
            log.append("created", **spec.to_json(), heritage=heritage.to_json())
        except NotLeading:
            raise StudyExists("A study already exists here. Resume it, or give this one another name "
                              f"({store.url}).") from None
        return cls(spec, store, log, heritage=heritage, clock=clock)

    @classmethod
    def open(cls, where: str | os.PathLike[str] | Store, *, clock: Clock | None = None) -> Self:
        """Return the study at a place, to read or to continue it.

        Raises:
            UnknownStudy: There is no study.
            TuneError: Its first file is damaged.
            StoreError: The store is unreachable.
        """
        store, clock = _store(where), clock or SystemClock()
        log = event_log(store, clock)
        events = log.new()
        if not events:
            raise UnknownStudy(f"There is no study ({store.url}).")
        if events[0].kind == DAMAGED:
            raise TuneError(f"The description of the study is damaged ({store.url}).")
        first = events[0].data
        study = cls(StudySpec.from_json(first), store, log, heritage=Heritage.from_json(first.get("heritage", {})),
                    clock=clock)
        study._take(events[1:])
        return study

    @property
    def following_event(self) -> str:
        """Name of the next event in the store: while it does not exist, the study has not changed."""
        return event_name(self.events + 1)

    def latest(self) -> dict[int, Latest]:
        """Return the last reported step and value of each running trial that has one, by its number.

        Values of trials that other processes train are up to two seconds old.
        """
        try:
            return self._live.read(self.running)
        except StoreError:
            return {}

    @property
    def over(self) -> str:
        """Why no more trials are started; "" if there may be more."""
        if self._ended:
            return self._ended
        return self._reason_to_end(self.spec.completion) or self._end_of_strategy

    @property
    def is_at_limit(self) -> bool:
        """Whether it is over, and would go on with more trials or more time."""
        return bool(self.over) and not (
            self._ended or self._end_of_strategy
            or self._reason_to_end(replace(self.spec.completion, trials=None, secs=None)))

    def _reason_to_end(self, completion: Completion) -> str:
        return reason_to_end(self.trials, self._history.ended, self.objective, completion, secs=self.secs)

    @property
    def was_stopped(self) -> bool:
        """Whether a user ended it."""
        return self._ended == BY_USER

    @property
    def _end_of_strategy(self) -> str:
        if self._exhausted:
            return "every combination was tried"
        if self.spec.completion.convergence and self._strategy and self._strategy.has_converged:
            return f"no improvement of {self.objective.name} is expected any more"
        return ""

    def show(self) -> Any:
        """Return the page of the study, for the last line of a notebook cell; see `barograph.notebook.show`."""
        return importlib.import_module("barograph.notebook").show(self)  # above this package

    def confirm(self, confirmation: Confirmation) -> None:
        """Store the result of repetitions of the best trials.

        Raises:
            StoreError: The store is unreachable.
        """
        self._note("confirmed", lambda: plain(confirmation))

    def set_refitted(self, refitted: Refitted) -> None:
        """Store that a model was trained on all rows.

        Raises:
            StoreError: The store is unreachable.
        """
        self._note("refitted", lambda: asdict(refitted))

    def set_refit_failed(self, reason: str) -> None:
        """Store why the best trial could not be trained on all rows, until the study is extended.

        Raises:
            StoreError: The store is unreachable.
        """
        self._note("refit-failed", lambda: {"trial": self.best.number, "reason": reason})

    def refresh(self) -> None:
        """Read the events of other processes.

        Raises:
            UnknownStudy: Its files were deleted.
            StoreError: The store is unreachable.
        """
        if self._log is not None:
            self._check_exists()
            self._take(self._log.new())

    def _check_exists(self) -> None:
        """Raise an error if its files were deleted: further ones would belong to no study, or to another."""
        if self._presence and self._presence.is_over():
            raise UnknownStudy(f"The study was deleted while it ran ({self.url}).")

    def give(self, parameters: Mapping[str, Any]) -> None:
        """Try these values next.

        Raises:
            BadSpace: They do not belong to the space.
        """
        parameters = {name: builtin(value) for name, value in parameters.items()}
        if problem := self.space.problem_of(parameters):
            raise BadSpace(f"These values cannot be tried. {problem}")
        self._note("given", lambda: {"parameters": dict(parameters)})

    def ask(self, *, job: str = "") -> Trial | None:
        """Return a new trial; None if the study is over (`over` says why).

        The trial is in the store when this returns: after a kill, `running` has it.

        Args:
            job: Name of the job that will train it; "{number}" stands for the number of the trial.

        Raises:
            StoreError: The store is unreachable.
        """
        def data() -> dict[str, Any] | None:
            if self.over:
                return None
            number = len(self.trials)
            if (proposal := self._proposal(number)) is None:
                self._exhausted = True
                return None
            return {
                "number": number, "parameters": proposal.parameters, "job": job.format(number=number),
                "origin": asdict(proposal.origin), "given": int(bool(self._given)),
            }

        if self._note("asked", data):
            return self.trials[-1]
        if not self._ended and (reason := self._end_of_strategy):
            self.end(reason)  # stored, because only this process knows it
        return None

    def add(
        self, parameters: Mapping[str, Any], values: Values | None = None, *, failed: str = "", stopped: str = "",
        curve: Mapping[int, float] | None = None, proposer: str = "given",
    ) -> Trial:
        """Add a trial that was made elsewhere.

        Args:
            parameters: Its parameters; some may be missing.
            values: As for `tell`, like `failed`.
            failed: Why it failed.
            stopped: Why it was stopped early.
            curve: Step to value of the first objective.
            proposer: Where it comes from.

        Raises:
            BadSpace: The parameters do not belong to the space.
        """
        parameters = {name: builtin(value) for name, value in parameters.items()}
        if problem := self.space.problem_of(parameters, partial=True):
            raise BadSpace(f"The trial does not fit the space. {problem}")
        self._note("asked", lambda: {
            "number": len(self.trials), "parameters": dict(parameters), "job": "", "given": 0,
            "origin": asdict(Origin(proposer))})
        trial = self.trials[-1]
        trial.curve = dict(curve or {})
        if stopped:
            self.stop(trial, stopped, cause=Cause.RULE)
        self.tell(trial, values, failed=failed)
        return trial

    def report(self, trial: Trial | int, step: int, value: float) -> str:
        """Report a value of the first objective during training; return why the trial should stop, "" to go on.

        Reports are stored when the trial ends. After a kill, report again: a step that is known is ignored.

        Args:
            trial: The trial or its number.
            step: Epochs or steps trained so far, from 1.
            value: The value.

        Raises:
            UnknownStudy: The files of the study were deleted.
            StoreError: The decision to stop the trial cannot be stored.
        """
        mine = self._trial(trial)
        if mine.state.is_over:
            return mine.reason
        if step not in mine.curve:
            if not math.isfinite(value):
                return self.should_stop(mine)  # no rule can compare it; a finding or the end of the trial decides
            is_last = all(step > known for known in mine.curve)
            mine.curve[step] = float(value)
            if is_last and not self.should_stop(mine) and (reason := reason_to_stop(
                    mine, (other for other in self.trials if other is not mine), self.objective, self.spec.stopping,
                    self._averages)):
                self.stop(mine, reason, cause=Cause.RULE)
        self._live.note(self.running, check=self._check_exists)
        return self.should_stop(mine)

    def stop(self, trial: Trial | int, reason: str, *, cause: Cause = Cause.FINDING) -> None:
        """Mark a trial to be stopped; the process that trains it stops it and calls `tell`."""
        number = self._trial(trial).number
        if number not in self._stopping:
            self._note("stopping", lambda: {"number": number, "reason": reason, "cause": str(cause)})

    def should_stop(self, trial: Trial | int) -> str:
        """Return why a trial should stop; "" if it should go on."""
        return self._stopping.get(self._trial(trial).number, ("", Cause.RULE))[0]

    def tell(
        self, trial: Trial | int, values: Values | None = None, *, failed: str = "", cost: float = 0.0,
        complete: bool = False,
    ) -> None:
        """Report the result of a trial. A trial that has already ended stays unchanged.

        A trial that `stop` or `report` decided to stop counts as stopped, unless it is `complete`.

        Args:
            trial: The trial or its number.
            values: Its value, or one for each objective in order or by name; None: it has none.
            failed: Why it failed.
            cost: What it cost.
            complete: It trained to its end, even if it should have stopped.

        Raises:
            TuneError: The number of values is wrong.
            StoreError: The store is unreachable.
        """
        mine = self._trial(trial)
        if mine.state.is_over:
            return
        found = None if values is None else values_from(values, self.spec.objectives)
        if not failed and found is not None and not all(map(math.isfinite, found)):
            bad = (one.name for one, value in zip(self.spec.objectives, found, strict=True) if not math.isfinite(value))
            failed, found = f"{', '.join(bad)} is not finite", None
        reason, cause = self._stopping.get(mine.number, ("", None))
        if complete and found is not None:
            reason, cause = "", None
        if reason:
            state = TrialState.STOPPED
        elif failed or found is None:
            state, reason = TrialState.FAILED, failed or f"{self.objective.name} was never reported"
        else:
            state = TrialState.FINISHED
        body = {"number": mine.number, "state": str(state), "values": list(found or ()), "reason": reason,
                "cause": cause and str(cause), "curve": list(map(list, mine.curve.items())), "cost": cost}
        self._note("told", lambda: None if mine.state.is_over else body)

    def end(self, reason: str = BY_USER) -> None:
        """Start no more trials; running ones continue."""
        self._note("ended", lambda: {"reason": reason})

    def extend(self, completion: Completion) -> None:
        """Continue with other completion criteria."""
        self._note("extended", lambda: {"completion": asdict(completion)})

    def go_on(self, completion: Completion, *, if_stopped: bool = False) -> None:
        """Continue with these completion criteria if they are new or all trials failed, and if a user stopped it."""
        again = if_stopped if self.was_stopped else bool(self.over and failure_of_all(self.trials))
        wanted = tried_again(completion, self.trials, was_over=again)
        if again or self.spec.completion != wanted:
            self.extend(wanted)

    def _excuse_failures(self) -> None:
        super()._excuse_failures()
        self._strategy = None  # it remembers what it has tried

    def _proposal(self, number: int) -> Proposal | None:
        if self._given:
            given = self._given[0]
            return Proposal(dict(given), Origin("parent" if given in self.heritage.given else "given"))
        if self._strategy is None:
            self._strategy = strategy_of(self.spec)
        with one_thread():
            return self._strategy.propose(self._history, number)

    def _note(self, kind: str, data: Callable[[], dict[str, Any] | None]) -> bool:
        """Write an event and let it take effect; return False if `data` finds nothing to write.

        If another process was first, its events are taken and `data` is asked again.
        """
        while (body := data()) is not None:
            body["secs"] = self.secs
            if self._log is None:
                self._take([Event(kind, self._clock.unix(), body)])
                return True
            self._check_exists()
            try:
                event = self._log.append(kind, **body)
            except NotLeading:
                self._take(self._log.new())
                continue
            self._take([event])
            return True
        return False

def _store(where: str | os.PathLike[str] | Store) -> Store:
    return store_from_url(where) if isinstance(where, str | os.PathLike) else where
