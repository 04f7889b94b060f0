"""A job on virtual instances: the controller's own decisions, over a trace, in virtual time."""

from __future__ import annotations

import math
from dataclasses import dataclass

from barograph.capture.cadence import Cadence
from barograph.jobs.decisions import End, Finish, Requeue, Start, decide
from barograph.jobs.failure_rate import checkpoints_of, learned
from barograph.jobs.job_log import Event
from barograph.jobs.simulation.trace import Trace
from barograph.jobs.spec import JobSpec
from barograph.jobs.state import JobState, Outcome, Phase, state_after
from barograph.model.checkpoints import checkpoints_from

_MOST_VAIN_ATTEMPTS = 500
"""Attempts one after another that save nothing: a job without checkpoints may need millions of them."""
_MOST_TIMES = 100.0
"""A job that takes so many times its work is not waited for."""
_LATER_SECS = 1e-3
"""Added to deadlines, so that a rounded sum has passed them."""


@dataclass(frozen=True, slots=True)
class Training:
    """Properties of a training for the simulation.

    Attributes:
        work_secs: Time that its steps take, without checkpoints, above 0.
        step_secs: Time of a step.
        start_secs: Time from the start of instances to the first step, at each start.
        checkpoint_secs: Time that a checkpoint takes from the training.
        notice_secs: Time from the notice of an interruption to the end of the instance; 0: none comes.
    """

    work_secs: float
    step_secs: float = 1.0
    start_secs: float = 120.0
    checkpoint_secs: float = 5.0
    notice_secs: float = 0.0

    @property
    def steps(self) -> int:
        """Number of steps of the whole training."""
        return max(1, round(self.work_secs / self.step_secs))


@dataclass(frozen=True, slots=True)
class Attempt:
    """Outcome of an attempt without interruption.

    Attributes:
        begin_secs: Its start.
        saved_secs: Work that was saved before.
        end_secs: Its end.
        outcome: How it ends.
    """

    begin_secs: float
    saved_secs: float
    end_secs: float
    outcome: Outcome


class VirtualJob:
    """A job on virtual instances.

    Args:
        spec: The job.
        trace: What happens to its instances.
        training: Its training.

    Raises:
        UnknownName, SettingsError: The settings of checkpoints are wrong.
    """

    def __init__(self, spec: JobSpec, trace: Trace, training: Training) -> None:
        self._spec, self._trace, self._training = spec, trace, training
        self._interval_secs = interval_of(spec, training)
        self._now = 0.0
        self._saved_secs = 0.0
        self._made_secs = 0.0
        self._vain_attempts = 0
        self._announced = -math.inf
        self._attempt = Attempt(0.0, 0.0, math.inf, Outcome.LOST)
        self.state = JobState()
        self._note("submitted")

    def run(self) -> bool:
        """Run the job until its controller ends it, or it gets no further; return whether it finished."""
        while not self.state.phase.is_over:
            if self._now > self._training.work_secs * _MOST_TIMES or self.gets_no_further:
                return False
            self._act()
        return self.state.phase is Phase.FINISHED

    @property
    def gets_no_further(self) -> bool:
        """Whether it was given up because its attempts save nothing."""
        return self._vain_attempts >= _MOST_VAIN_ATTEMPTS

    @property
    def duration_secs(self) -> float:
        """Time from the submission until now."""
        return self._now

    @property
    def cost(self) -> float:
        """Sum of the prices of all instances; NaN if the trace has no prices."""
        return sum((self._trace.paid(begin, self._now if math.isnan(end) else end)
                    for begin, end in self.state.intervals), 0.0)

    def _act(self) -> None:
        match decide(self.state, self._spec, self._now):
            case Start(attempt=attempt):
                self._start(attempt)
            case End(reason=reason):
                self._end(reason)
            case Requeue(cause=cause, reason=reason):
                self._note("requeued", cause=cause, reason=reason)
            case Finish(phase=phase, reason=reason):
                self._note("over", phase=phase, reason=reason)
            case None:
                self._wait()

    def _start(self, attempt: int) -> None:
        # Nobody gets an instance that is about to be taken away.
        free_secs = self._trace.next_free(self._now)
        if self._now < self._announced and self._trace.next_free(self._announced) > self._announced:
            free_secs = self._trace.next_free(self._announced)
        if free_secs > self._now:
            self._now = min(free_secs, self._past(self._spec.max_wait_secs))
            return
        self._note("starting", attempt=attempt)
        for index in range(self._spec.instances):
            self._note("started", index=index, handle={})
        if attempt:
            self._interval_secs = interval_of(self._spec, self._training, self.state)
        self._attempt = self._planned()
        made, saved = (int(secs / self._training.step_secs) for secs in (self._made_secs, self._saved_secs))
        if attempt:
            self._note("resumed", index=0, steps=saved, repeated=made - saved)

    def _planned(self) -> Attempt:
        training, begin = self._training, self._now
        left = training.work_secs - self._saved_secs
        # The end of the training needs no checkpoint.
        checkpoints = math.ceil(left / self._interval_secs) - 1 if math.isfinite(self._interval_secs) else 0
        done = begin + training.start_secs + left + checkpoints * training.checkpoint_secs
        # An interruption that was announced to the last instances does not concern these.
        taken = self._trace.next_taken(max(begin, self._announced))
        if done <= taken:
            return Attempt(begin, self._saved_secs, done, Outcome.FINISHED)
        # With a notice, the training saves a checkpoint and ends, and does not wait for the interruption.
        noticed = max(begin, taken - training.notice_secs)
        saved_at = noticed + training.checkpoint_secs
        if training.notice_secs and saved_at <= taken:
            self._announced = taken
            return Attempt(begin, self._saved_secs, saved_at, Outcome.INTERRUPTED)
        return Attempt(begin, self._saved_secs, taken, Outcome.LOST)

    def _wait(self) -> None:
        """Let time pass until something happens that the controller must see."""
        ends = [self._attempt.end_secs, self._past(self._spec.max_wait_secs),
                self._past(self.state.since_unix + self._spec.max_runtime_secs - self.state.trained_secs)]
        self._now = max(self._now, min(ends))
        if self._now >= self._attempt.end_secs:
            self._take_attempt(self._attempt.outcome)

    def _end(self, reason: str) -> None:
        """End the open instances: each saves a checkpoint, unless the first one is gone already."""
        self._note("stopping", reason=reason)
        if 0 in self.state.open_instances:
            self._now = min(self._now + self._training.checkpoint_secs, max(self._now, self._attempt.end_secs))
            self._take_attempt(Outcome.INTERRUPTED)
        for index in self.state.open_instances:
            self._note("ended", index=index, outcome=Outcome.INTERRUPTED)

    def _take_attempt(self, outcome: Outcome) -> None:
        """Note the end of the attempt: of all instances if it finished, of the first one if not."""
        saves = self._training.checkpoint_secs if outcome is Outcome.INTERRUPTED else 0.0
        made, saved = self._progress(self._now - saves - self._attempt.begin_secs - self._training.start_secs)
        if outcome is not Outcome.LOST:
            saved = made
        self._vain_attempts = 0 if saved else self._vain_attempts + 1
        # Work that was lost before is not lost again.
        self._made_secs, self._saved_secs = self._attempt.saved_secs + made, self._attempt.saved_secs + saved
        for index in range(self._spec.instances if outcome is Outcome.FINISHED else 1):
            self._note("ended", index=index, outcome=outcome, exit_code=0 if outcome is Outcome.FINISHED else None)

    def _progress(self, trained_secs: float) -> tuple[float, float]:
        """Return the work that a time of training makes, and what of it is in checkpoints."""
        if trained_secs <= 0:
            return 0.0, 0.0
        left = self._training.work_secs - self._attempt.saved_secs
        if math.isinf(self._interval_secs):
            return min(trained_secs, left), 0.0
        whole, rest = divmod(trained_secs, self._interval_secs + self._training.checkpoint_secs)
        saved = min(whole * self._interval_secs, left)
        return min(saved + min(rest, self._interval_secs), left), saved

    def _past(self, deadline_secs: float) -> float:
        return deadline_secs + _LATER_SECS

    def _note(self, kind: str, **data: object) -> None:
        self.state = state_after([Event(kind, self._now, data)], self.state)


def interval_of(spec: JobSpec, training: Training, state: JobState | None = None) -> float:
    """Return the seconds of training between two checkpoints of a job's next attempt, as its recording chooses them.

    Raises:
        UnknownName, SettingsError: The settings of checkpoints are wrong.

    Example:
        >>> spec = JobSpec(("train.py",), settings={"checkpoints": {"auto": True, "mtbf_hours": 2.0}})
        >>> round(interval_of(spec, Training(8 * 3600.0)))
        268
    """
    settings = checkpoints_of(checkpoints_from("checkpoints", spec.settings.get("checkpoints")), spec.checkpoint,
                              spot=spec.spot)
    if settings is None:
        return math.inf
    settings = learned(settings, spec, state or JobState())
    cadence = Cadence(settings, now_secs=0.0)
    cadence.took(0, 0.0, cost_secs=training.checkpoint_secs)
    by_steps = math.inf if settings.every_steps is None else settings.every_steps * training.step_secs
    return max(training.step_secs, min(cadence.interval_secs, by_steps))
