"""What the trials of a program come to: caught, by what, how late; false alarms; what it cost.

*Caught* is strict in one way and lenient in another: a finding of severity doubtful or worse must have opened
at or after the step at which the fault can show, but whatever it says, somebody will look. *Caught by a right
rule* asks for such a finding among whose causes a right one is. *Named* asks for more still: of all causes that
all findings of the run suspect, weighed together, the first problem's must be a right one. *Problems a fault* counts
what the summary names: one fault is one problem, and more are consequences taken for causes. *Contradicting remedies*
are pairs in one run that move one setting both ways or to different values.
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
"""Severities at which a finding asks for a look."""

GRAVE = frozenset({Severity.BREAKING, Severity.COSTLY})
"""Severities that no healthy run may show."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """What became of the fault in one trial.

    Attributes:
        seed: Of the trial.
        first: First finding that counts; None: the fault was not caught.
        right: First of them that suspects a right cause.
        named: Whether a right cause is ranked first.
        cause: The one ranked first; "" where none is suspected.
        wasted: Steps made since the fault could show until `first` had opened, as a share of those planned; 1 where
            it was not caught.
        early: Findings that count and opened before the fault could show: false alarms, and no catch.
        problems: How many problems the findings were grouped into, notes aside.
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
    """Return what became of the fault that was planted in `program`."""
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
    """A program and all that came of it.

    Attributes:
        program: Which.
        trials: Those that gave a result, by seed.
        failed: Seed to why it gave none.
        bare_secs: Wall time without Barograph, of the first seed; None where it was not measured.
    """

    program: Program
    trials: tuple[Trial, ...]
    failed: Mapping[int, str]
    bare_secs: float | None

    @property
    def verdicts(self) -> tuple[Verdict, ...]:
        """One a trial; none for a healthy program."""
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
        """Median wall time under Barograph by that without it: its start and end are in it."""
        if not self.bare_secs or not self.trials:
            return None
        return median(trial.wall_secs for trial in self.trials) / self.bare_secs


@dataclass(frozen=True, slots=True)
class Totals:
    """What the bench comes to. A *run* is one program with one seed.

    Attributes:
        faulty, healthy: Programs of either sort that gave a result.
        faulty_runs, healthy_runs: Their runs.
        caught, right, named: Faulty runs that were caught; by a right rule; with a right cause first.
        caught_always: Faulty programs that were caught with every seed.
        wasted: Median over faulty runs, see `Verdict.wasted`; NaN without any.
        early: Findings before the fault could show.
        problems: Of runs that were caught, how many problems on average; NaN without any.
        contradicting: Pairs of remedies of one run that contradict each other, over all runs, healthy ones included.
        grave, alarmed: Healthy programs that showed, with any seed, a finding that is costly or breaking; any at all.
        grave_runs, alarmed_runs: The same of healthy runs.
        alarms: Findings of healthy runs by severity.
        healthy_steps: Steps that healthy runs made.
        cost: Recording cost as a share of all training time together.
        cost_median, cost_worst: Of the programs' own.
        wall_ratio: Median of the programs'; NaN where none was measured.
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
        """Findings of healthy runs for every 1,000 steps they made."""
        return 1000 * sum(self.alarms.values()) / self.healthy_steps if self.healthy_steps else 0.0


def totals_of(scores: Iterable[Score]) -> Totals:
    """Return what some programs come to together."""
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
