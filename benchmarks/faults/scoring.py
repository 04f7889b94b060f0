"""The scores of a program's trials: whether, how, and when the fault was caught; false alarms; cost.

*Caught*: a finding of severity doubtful or worse opened at or after the step at which the fault can be visible,
whatever it says: somebody will look. *Caught by a right rule*: such a finding suspects a right cause. *Named*: of all
causes that all findings of the run suspect, weighed together, the first problem's is a right one. *Problems per fault*
counts the problems in the summary: one fault is one problem, and more are consequences mistaken for causes.
*Contradicting remedies* are pairs in one run that change one setting in both directions or to different values.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean, median

from barograph.model.finding import Finding, Severity
from barograph.queries.remedies import contradicting
from benchmarks.faults.programs import Program
from benchmarks.faults.trial import Trial

COUNTED = frozenset({Severity.BREAKING, Severity.COSTLY, Severity.DOUBTFUL})
"""Severities of findings that require attention."""

GRAVE = frozenset({Severity.BREAKING, Severity.COSTLY})
"""Severities that no healthy run may have."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """The result for the fault in one trial.

    Attributes:
        seed: Seed of the trial.
        first: First finding that counts; None: the fault was not caught.
        right: First of them that suspects a right cause.
        named: Whether a right cause is ranked first.
        cause: The cause ranked first; "" if none is suspected.
        wasted: Steps from when the fault could be visible until `first` opened, as a share of the planned steps; 1 if
            it was not caught.
        early: Findings that count and opened before the fault could be visible: false alarms, not detections.
        problems: Number of problems into which the findings were grouped, without notes.
        contradicting: Pairs of their remedies that contradict each other.
    """

    seed: int
    first: Finding | None
    right: Finding | None
    named: bool
    cause: str
    wasted: float
    early: int
    problems: int
    contradicting: int


def verdict_of(program: Program, trial: Trial) -> Verdict:
    """Return the result for the fault planted in `program`."""
    counted = sorted((item for item in trial.findings if item.severity in COUNTED),
                     key=lambda item: (item.opened_step, item.id))  # fmt: skip
    timely = [item for item in counted if item.opened_step >= program.begins]
    first = timely[0] if timely else None
    right = next((item for item in timely if program.accepted & {str(cause.cause) for cause in item.causes}), None)
    found = trial.found
    cause = found[0].cause if found else ""
    wasted = min(1.0, (first.opened_step + 1 - program.begins) / program.steps) if first else 1.0
    return Verdict(trial.seed, first, right, bool(first) and cause in program.accepted, cause, wasted,
                   len(counted) - len(timely), sum(item.severity in COUNTED for item in found),
                   contradicting([item.remedy for item in found]))  # fmt: skip


@dataclass(frozen=True, slots=True)
class Score:
    """A program and all its results.

    Attributes:
        program: The program.
        trials: Successful trials, by seed.
        failed: Seed to the reason of the failure.
        bare_secs: Wall time without Barograph, with the first seed; None if it was not measured.
    """

    program: Program
    trials: tuple[Trial, ...]
    failed: Mapping[int, str]
    bare_secs: float | None

    @property
    def verdicts(self) -> tuple[Verdict, ...]:
        """One per trial; empty for a healthy program."""
        return () if self.program.healthy else tuple(verdict_of(self.program, trial) for trial in self.trials)

    @property
    def alarms(self) -> Counter[Severity]:
        """Findings of all trials by severity."""
        return Counter(item.severity for trial in self.trials for item in trial.findings)

    @property
    def cost(self) -> float:
        """Recording cost as a share of the training time, over all trials."""
        capture_secs = sum(trial.capture_secs for trial in self.trials)
        bare_secs = sum(trial.train_secs for trial in self.trials) - capture_secs
        return capture_secs / bare_secs if bare_secs > 0 else 0.0

    @property
    def wall_ratio(self) -> float | None:
        """Ratio of the median wall time under Barograph to that without, including start and end."""
        if not self.bare_secs or not self.trials:
            return None
        return median(trial.wall_secs for trial in self.trials) / self.bare_secs


@dataclass(frozen=True, slots=True)
class Totals:
    """The totals of the benchmark. A *run* is one program with one seed.

    Attributes:
        faulty, healthy: Programs of each kind with a result.
        faulty_runs, healthy_runs: Their runs.
        caught, right, named: Faulty runs that were caught; by a right rule; with a right cause first.
        caught_always: Faulty programs that were caught with every seed.
        wasted: Median over faulty runs, see `Verdict.wasted`; NaN without any.
        early: Findings before the fault could be visible.
        problems: Mean number of problems of caught runs; NaN without any.
        contradicting: Pairs of contradicting remedies within a run, over all runs including healthy ones.
        grave, alarmed: Healthy programs that had, with any seed, a costly or breaking finding; any finding.
        grave_runs, alarmed_runs: The same for healthy runs.
        alarms: Findings of healthy runs by severity.
        healthy_steps: Steps of healthy runs.
        cost: Recording cost as a share of total training time.
        cost_median, cost_worst: Median and maximum of the programs' costs.
        wall_ratio: Median of the programs' ratios; NaN if none was measured.
        failed: Runs without a result.
    """

    faulty: int
    healthy: int
    faulty_runs: int
    healthy_runs: int
    caught: int
    right: int
    named: int
    caught_always: int
    wasted: float
    early: int
    problems: float
    contradicting: int
    grave: int
    alarmed: int
    grave_runs: int
    alarmed_runs: int
    alarms: Mapping[Severity, int]
    healthy_steps: int
    cost: float
    cost_median: float
    cost_worst: float
    wall_ratio: float
    failed: int

    @property
    def alarms_per_thousand_steps(self) -> float:
        """Findings of healthy runs per 1,000 steps."""
        return 1000 * sum(self.alarms.values()) / self.healthy_steps if self.healthy_steps else 0.0


def totals_of(scores: Iterable[Score]) -> Totals:
    """Return the totals of some programs."""
    scores = tuple(scores)
    measured = [score for score in scores if score.trials]
    sick = [score for score in measured if not score.program.healthy]
    well = [score for score in measured if score.program.healthy]
    verdicts = [verdict for score in sick for verdict in score.verdicts]
    runs = [trial for score in well for trial in score.trials]
    everything = Score(measured[0].program, tuple(trial for score in measured for trial in score.trials), {}, None) \
        if measured else None
    ratios = [ratio for score in measured if (ratio := score.wall_ratio) is not None]
    return Totals(
        faulty=len(sick), healthy=len(well), faulty_runs=len(verdicts), healthy_runs=len(runs),
        caught=sum(verdict.first is not None for verdict in verdicts),
        right=sum(verdict.right is not None for verdict in verdicts),
        named=sum(verdict.named for verdict in verdicts),
        caught_always=sum(all(verdict.first for verdict in score.verdicts) for score in sick),
        wasted=_median([verdict.wasted for verdict in verdicts]),
        early=sum(verdict.early for verdict in verdicts),
        problems=fmean([verdict.problems for verdict in verdicts if verdict.first] or [float("nan")]),
        contradicting=sum(contradicting([item.remedy for item in trial.found])
                          for score in measured for trial in score.trials),
        grave=sum(any(score.alarms[severity] for severity in GRAVE) for score in well),
        alarmed=sum(bool(score.alarms.total()) for score in well),
        grave_runs=sum(any(item.severity in GRAVE for item in trial.findings) for trial in runs),
        alarmed_runs=sum(bool(trial.findings) for trial in runs),
        alarms=sum((score.alarms for score in well), Counter[Severity]()),
        healthy_steps=sum(trial.steps for trial in runs),
        cost=everything.cost if everything else 0.0,
        cost_median=_median([score.cost for score in measured]),
        cost_worst=max((score.cost for score in measured), default=float("nan")),
        wall_ratio=_median(ratios),
        failed=sum(len(score.failed) for score in scores),
    )  # fmt: skip


def _median(values: Sequence[float]) -> float:
    return median(values) if values else float("nan")
