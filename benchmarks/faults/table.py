"""The tables of the fault benchmark, and its results compared with their targets."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from statistics import median
from typing import Any

from barograph.model.finding import SEVERITY_ORDER, Severity
from benchmarks.faults.scoring import Score, Totals, totals_of
from benchmarks.tables import Table, note


@dataclass(frozen=True, slots=True)
class Figure:
    """One result and its target.

    Attributes:
        name: Its name.
        target: The target as text; "" without one.
        measured: The result as text.
        reached: Whether the target is reached; None without a target or result.
    """

    name: str
    target: str
    measured: str
    reached: bool | None = None


def print_part(scores: Sequence[Score]) -> None:
    """Print the faulty programs, the healthy ones, and their totals."""
    sick = [score for score in scores if not score.program.healthy]
    well = [score for score in scores if score.program.healthy]
    if sick:
        _sick_table(sick).print()
        print()
    if well:
        _well_table(well).print()
        print()
    table = Table("figure", "target", "measured", "")
    for figure in figures_of(totals_of(scores)):
        verdict = "" if figure.reached is None else "reached" if figure.reached else "MISSED"
        table.add(figure.name, figure.target, figure.measured, verdict)
    table.print()
    for score in scores:
        _notes(score)


def _sick_table(scores: Sequence[Score]) -> Table:
    table = Table("program", "planted", "caught", "right rule", "named first", "step", "wasted", "by", "first cause",
                  "capture", "wall")  # fmt: skip
    for score in scores:
        verdicts = score.verdicts
        runs = len(verdicts)
        first = [verdict.first for verdict in verdicts if verdict.first]
        right = [verdict.right for verdict in verdicts if verdict.right]
        table.add(
            score.program.name, score.program.planted,
            f"{len(first)}/{runs}", f"{len(right)}/{runs}", f"{sum(verdict.named for verdict in verdicts)}/{runs}",
            f"{median(item.opened_step for item in first):.0f}" if first else "–",
            f"{median(verdict.wasted for verdict in verdicts):.1%}" if verdicts else "–",
            _most([item.code for item in right or first]), _most([verdict.cause for verdict in verdicts]),
            *_price(score),
        )  # fmt: skip
    return table


def _well_table(scores: Sequence[Score]) -> Table:
    table = Table("healthy program", "runs", *(severity.value for severity in SEVERITY_ORDER), "by", "steps a run",
                  "a 1,000 steps", "capture", "wall")  # fmt: skip
    for score in scores:
        steps = sum(trial.steps for trial in score.trials)
        found = [item.code for trial in score.trials for item in trial.findings]
        table.add(
            score.program.name, str(len(score.trials)),
            *(str(score.alarms[severity] or "–") for severity in SEVERITY_ORDER),
            ", ".join(sorted(set(found))) or "–",
            f"{steps / len(score.trials):,.0f}" if score.trials else "–",
            f"{1000 * len(found) / steps:.2f}" if steps else "–",
            *_price(score),
        )  # fmt: skip
    return table


def _price(score: Score) -> tuple[str, str]:
    ratio = score.wall_ratio
    return f"{score.cost:.1%}" if score.trials else "–", "–" if ratio is None else f"×{ratio:.2f}"


def _most(names: Sequence[str]) -> str:
    """Return the most common name, with its frequency unless that is always."""
    if not any(names):
        return "–"
    (name, times), *_ = Counter(names).most_common(1)
    return (name or "none") + ("" if times == len(names) else f" ({times}/{len(names)})")


def figures_of(totals: Totals) -> list[Figure]:
    """Return the results of the benchmark with their targets."""
    per_severity = ", ".join(f"{totals.alarms[name]} {name}" for name in Severity if totals.alarms.get(name))
    return [
        _share("planted faults caught", totals.caught, totals.faulty_runs, "runs", least=0.95),
        Figure("… programs caught with every seed", "", f"{totals.caught_always} of {totals.faulty}"),
        _share("… caught by a right rule", totals.right, totals.faulty_runs, "runs"),
        _share("of those caught, a right cause named first", totals.named, totals.caught, "runs", least=0.85),
        Figure("problems a caught fault", "1.0 to 1.3",
               "–" if math.isnan(totals.problems) else f"{totals.problems:.2f}",
               None if math.isnan(totals.problems) else 1.0 <= totals.problems <= 1.3),
        Figure("contradicting remedies", "0", str(totals.contradicting), totals.contradicting == 0),
        _share("healthy programs with a costly or breaking finding", totals.grave, totals.healthy, "programs", most=0),
        _share("healthy programs with any finding", totals.alarmed, totals.healthy, "programs", most=0.05),
        _share("… healthy runs with any finding", totals.alarmed_runs, totals.healthy_runs, "runs"),
        Figure("… false alarms a 1,000 healthy steps", "",
               f"{totals.alarms_per_thousand_steps:.3f} in {totals.healthy_steps:,} steps"
               f"{f' ({per_severity})' if per_severity else ''}"),
        Figure("findings before the fault could show", "", str(totals.early)),
        Figure("steps wasted before the finding, median", "≤ 5 %", _percent(totals.wasted),
               None if math.isnan(totals.wasted) else totals.wasted <= 0.05),
        Figure("recording cost, share of the training time", "≤ 1 %",
               f"{_percent(totals.cost)} of all; of a program {_percent(totals.cost_median)} in the median, "
               f"{_percent(totals.cost_worst)} at worst", totals.cost <= 0.01),
        Figure("wall time of the whole script, start and end included", "",
               "–" if math.isnan(totals.wall_ratio) else f"×{totals.wall_ratio:.2f} in the median"),
        *([Figure("runs without a result", "0", str(totals.failed), False)] if totals.failed else []),
    ]  # fmt: skip


def _share(
    name: str, part: int, whole: int, of: str, *, least: float | None = None, most: float | None = None
) -> Figure:
    target = f"≥ {least:.0%}" if least is not None else "" if most is None else f"≤ {most:.0%}" if most else "0"
    measured = f"{part / whole:.1%} ({part} of {whole} {of})" if whole else "–"
    if not target or not whole:
        return Figure(name, target, measured)
    return Figure(name, target, measured, part / whole >= least if least is not None else part / whole <= (most or 0))


def _percent(share: float) -> str:
    return "–" if math.isnan(share) else f"{share:.2%}"


def _notes(score: Score) -> None:
    for seed, why in sorted(score.failed.items()):
        note(f"{score.program.name} with seed {seed} has no result: {why}")
    problems = Counter(problem for trial in score.trials for problem in trial.problems)
    for problem, times in problems.items():
        note(f"{score.program.name}, {times} of {len(score.trials)} runs: {problem}")
    planned, made = score.program.steps, {trial.steps for trial in score.trials if trial.exit_code == 0}
    if off := sorted(steps for steps in made if abs(steps - planned) > 0.02 * planned):
        note(f"{score.program.name} made {', '.join(map(str, off))} steps instead of {planned}")


def totals_to_json(totals: Totals) -> dict[str, Any]:
    """Return the totals as plain JSON data, NaN as None."""
    data = {name: None if isinstance(value, float) and math.isnan(value) else value
            for name, value in asdict(totals).items()}  # fmt: skip
    return {**data, "alarms": {severity.value: number for severity, number in totals.alarms.items()},
            "alarms_per_thousand_steps": totals.alarms_per_thousand_steps}  # fmt: skip
