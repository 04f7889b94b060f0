"""One trial of a study as a job: submitted, followed while it trains, stopped if the study says so."""

from __future__ import annotations

import contextlib
import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from barograph.errors import DamagedChunk, JobRefused, NotARun, StoreError, UnknownJob, closest
from barograph.jobs.home import JobsHome
from barograph.jobs.job import request_stop
from barograph.jobs.job_log import SPEC, EventLog, instance_folder
from barograph.jobs.job_report import JobView
from barograph.jobs.spec import JobSpec
from barograph.jobs.state import Phase
from barograph.jobs.submitting import Submitted, submit
from barograph.queries.problems import problems_of
from barograph.runs.reading.metrics import metrics_in
from barograph.runs.reading.reader import RunReader
from barograph.store.urls import store_from_url
from barograph.tune.hopeless import reason_to_give_up
from barograph.tune.metric_values import MetricCurve, MetricValues, printed_names
from barograph.tune.packing import cores_used
from barograph.tune.parameter import Value
from barograph.tune.study import Study
from barograph.tune.trial import Cause, Trial
from barograph.tune.trial_plan import TrialPlan, text_of

Submit = Callable[..., Submitted]
_SHOWN_METRICS = 8
_LEAST_CHARACTERS = 4
_OF_SCRIPT = re.compile(r"^The script ended with exit code \d+: ")


@dataclass(frozen=True, slots=True)
class TrialProgress:
    """Progress of a trial's job.

    Attributes:
        doing: State of its job.
        step: Optimizer steps so far.
        reports: Values of the objective so far.
        value: The latest one; NaN if none.
        problem: What is wrong with its running job, such as a full disk; "" if nothing is.
        waits: Why its job has not started, such as a lost cluster; "" if it has, or if that is not known.
    """

    doing: str
    step: int
    reports: int
    value: float
    problem: str = ""
    waits: str = ""


class TrialJob:
    """A trial that a job trains. A job that exists already, from before a kill, is adopted.

    Args:
        study: The study.
        trial: The trial.
        plan: How trials are trained.
        home: Directory of the jobs.
        submit: Submits a job.
        view: Its job, submitted elsewhere; None: look for it, or submit it.
        cpus: CPUs of its job, if it is submitted; None: those of the plan.

    Raises:
        JobRefused: The job has problems, or another job has its name.
        RunError: The job cannot be read.
        StoreError: A store is unreachable.
    """

    def __init__(
        self, study: Study, trial: Trial, plan: TrialPlan, home: JobsHome, *, submit: Submit = submit,
        view: JobView | None = None, cpus: float | None = None,
    ) -> None:
        self.trial = trial
        self._study, self._plan = study, plan
        spec = plan.job_spec(trial.job, trial.parameters, names=study.space.names)
        found = view or adopted(home, trial.job)
        if found is not None and not runs(found, spec):
            raise JobRefused(f'There is a job named "{trial.job}" already, with another command. Use another --name.')
        self.view = found or submitted(spec if cpus is None else replace(spec, cpus=cpus), plan, home, submit)
        """The job."""
        self._names = [objective.name for objective in study.spec.objectives]
        self._metrics = MetricValues(self.view, self._names, plan.patterns)
        self._run: RunReader | None = None
        self._asked = False
        self.progress = TrialProgress("queued", 0, 0, math.nan)
        self.cores = math.nan
        """Mean number of cores that it used; NaN while it runs, or if unknown."""

    @property
    def url(self) -> str:
        """Where the job and its run are stored."""
        return self.view.store.url

    def turn(self) -> bool:
        """Read what the job did, and report it to the study; return whether the trial has ended.

        An unreachable store is tried again at the next turn.
        """
        try:
            report = self.view.report()
            values = self._values()
            complete = report.phase is Phase.FINISHED or (
                report.phase is Phase.STOPPED and has_trained_to_its_end(self.view))
        except StoreError:
            return False
        except DamagedChunk as error:
            self._study.tell(self.trial, failed=f"its job cannot be read: {error}")
            return True
        points = values[self._names[0]].points if self._names[0] in values else ()
        # Points of a long curve lie elsewhere at each turn: only those behind the last known one are new.
        known = max(self.trial.curve, default=0)
        for number, value in points:
            if number > known:
                self._study.report(self.trial, number, value)
        reports, latest = points[-1] if points else (0, math.nan)
        self.progress = TrialProgress(report.doing or str(report.phase), report.step, reports, latest,
                                      report.reason if report.doing and not report.is_over else "",
                                      report.reason if report.phase is Phase.QUEUED else "")
        if report.phase is Phase.STOPPED and not self._study.should_stop(self.trial):
            self._study.stop(self.trial, report.reason or "The job was stopped.", cause=Cause.USER)
        elif not report.is_over and self._study.spec.stopping.findings and not self._study.should_stop(self.trial):
            self._give_up_if_hopeless()
        if report.is_over:
            cost = report.bill.cost if report.bill and math.isfinite(report.bill.cost) else 0.0
            self._tell(report.phase, report.reason, values, cost, complete=complete)
            self.cores = cores_used(self.view) if self._plan.packs else math.nan
            return True
        if not self._asked and (reason := self._study.should_stop(self.trial)):
            request_stop(self.view, reason)
            self._asked = True
        return False

    def _values(self) -> dict[str, MetricCurve]:
        try:
            if self._run is None:
                self._run = RunReader(self.view.store)
            self._run.refresh()
        except NotARun:
            pass
        return self._metrics.read(self._run)

    def _give_up_if_hopeless(self) -> None:
        if self._run is None:
            return
        others = (other for other in self._study.trials if other is not self.trial)
        if reason := reason_to_give_up(problems_of(self._run.findings), self.trial, others, self._study.objective):
            self._study.stop(self.trial, reason, cause=Cause.FINDING)

    def _tell(
        self, phase: Phase | None, reason: str, values: Mapping[str, MetricCurve], cost: float, *, complete: bool
    ) -> None:
        if phase is Phase.FAILED:
            # The error that the script printed, if any: it groups failures better than the exit code.
            error = _OF_SCRIPT.sub("", reason) or reason
            self._study.tell(self.trial, failed=without_values(error, self.trial.parameters), cost=cost)
            return
        if missing := [name for name in self._names if name not in values]:
            self._study.tell(self.trial, failed=self._never_arrived(missing[0]), cost=cost)
            return
        self._study.tell(self.trial, [
            values[one.name].best(maximize=one.maximize) if self._plan.summary == "best" else values[one.name].last
            for one in self._study.spec.objectives], cost=cost, complete=complete)

    def _never_arrived(self, name: str) -> str:
        if name in self._plan.patterns:
            return f"{name} was never reported: no line of the output matches {self._plan.patterns[name]}"
        known, printed, meant = recorded_names(self._run), list[str](), ""
        with contextlib.suppress(StoreError):
            printed = [one for one in printed_names(self.view) if one not in (name, *known)]
        # It may have been printed in a way that is not read, or twice in a line.
        if near := closest(name, {*known, *printed} - {name}):
            meant = f' Did you mean "{near}"?'
        hint = f"The output has no line with one value of it, like '{name}: 0.5'. Else pass --metric '{name}=REGEX'"
        recorded = f"The run recorded: {_listed(known)}." if known else "The run recorded no metric."
        also = f" It printed: {_listed(printed)}." if printed else ""
        return f"{name} was never reported.{meant} {recorded}{also} {hint}"


def stop_jobs(views: Iterable[JobView], reason: str) -> None:
    """Ask jobs to stop, except those whose files were deleted or whose store rejects the request."""
    for view in views:
        with contextlib.suppress(StoreError):
            view.store.get(SPEC)
            request_stop(view, reason)


def has_trained_to_its_end(view: JobView) -> bool:
    """Return whether the script had finished on each instance when the job was stopped, while its files were stored.

    Raises:
        StoreError: The store is unreachable.
    """
    logs = (EventLog(view.store, instance_folder(view.state.attempt, index))
            for index in range(view.submission.spec.instances))
    return all(any(event.data.get("has_finished") for event in log.new()) for log in logs)


def _listed(names: Sequence[str]) -> str:
    more = f" and {len(names) - _SHOWN_METRICS} more" if len(names) > _SHOWN_METRICS else ""
    return ", ".join(names[:_SHOWN_METRICS]) + more


def recorded_names(run: RunReader | None) -> list[str]:
    """Return the names of the metrics of a run."""
    return sorted(metrics_in(run)) if run is not None else []


def adopted(home: JobsHome, name: str) -> JobView | None:
    """Return the job of that name; None if there is none."""
    try:
        record = home.named(name)
    except UnknownJob:
        return None
    return JobView(record.name, store_from_url(record.url)) if record.name == name else None


def runs(view: JobView, spec: JobSpec) -> bool:
    """Return whether a job runs what a specification says; options may have another order."""
    return sorted(view.submission.spec.words) == sorted(spec.words)


def submitted(spec: JobSpec, plan: TrialPlan, home: JobsHome, submit: Submit = submit) -> JobView:
    """Submit a job of a study; return it."""
    with plan.in_directory():
        found = submit(spec, to=plan.url_of(spec.name), home=home)
    return JobView(found.name, found.store)


def without_values(reason: str, parameters: Mapping[str, Value]) -> str:
    """Return the reason of a failure with {name} instead of the trial's own values, so that equal ones are equal.

    Short values, as in "exit code 1", are only replaced if the reason has the name of the parameter.

    Example:
        >>> without_values("unrecognized arguments: --lr 0.03", {"lr": 0.03})
        'unrecognized arguments: --lr {lr}'
    """
    found = reason
    for name, value in parameters.items():
        text = text_of(value)
        if len(text) >= _LEAST_CHARACTERS or name in reason:
            found = re.sub(rf"(?<![\w.]){re.escape(text)}(?![\w.])", f"{{{name}}}", found)
    return found
