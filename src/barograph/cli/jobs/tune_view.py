"""Live view of a study: a table in a terminal, a line for each event elsewhere."""

from __future__ import annotations

import contextlib
import math
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Self

from rich.console import Console, Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from barograph.tune.analysis import hopeless_regions
from barograph.tune.overview import value_text
from barograph.tune.study import Study
from barograph.tune.trial import Trial, TrialState
from barograph.tune.trial_job import TrialProgress
from barograph.tune.trial_plan import TrialPlan
from barograph.tune.tuner import Tuner
from barograph.watch.figures import count, duration, figure

_ENDED = 5
_STATE = 11
"""Characters of the longest state, "downloading"."""
_REGIONS = 3
_LONG_WAIT_SECS = 30.0
_GAP, _LONGEST_NAME, _LEAST_NOTE = 2, 14, 20
"""Characters between columns, of the longest name of a column, and the minimum for the progress or reason."""


class StudyView:
    """Shows a study while it runs, on standard error.

    Args:
        study: The study.
        plan: How its trials are trained.
        quiet: Show nothing.
        clock: Monotonic clock in seconds.
    """

    def __init__(
        self, study: Study, plan: TrialPlan, *, quiet: bool = False, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._study, self._plan, self._quiet, self._clock = study, plan, quiet, clock
        self._waiting_since: dict[tuple[int, str], float] = {}
        self._console = Console(stderr=True)
        self._live: Live | None = None
        self._outage = ""
        self._with_problem: set[int] = set()
        self._printed = {(trial.number, trial.state) for trial in study.trials if trial.state.is_over}

    def __enter__(self) -> Self:
        if self._console.is_terminal and not self._quiet:
            self._live = Live(console=self._console, refresh_per_second=4, transient=True)
            self._live.__enter__()
        return self

    def __exit__(self, *error: Any) -> None:
        if self._live is not None:
            with contextlib.suppress(OSError, ValueError):  # the terminal is gone
                self._live.__exit__(*error)

    def draw(self, tuner: Tuner) -> None:
        """Show what has changed."""
        if self._quiet:
            return
        if self._live is not None:
            with contextlib.suppress(OSError, ValueError):
                self._live.update(self._page(tuner))
            return
        if tuner.outage and not self._outage:
            print(f"barograph: {tuner.outage} Trying again.", file=sys.stderr, flush=True)
        self._outage = tuner.outage
        for trial in self._study.trials:
            if (trial.number, trial.state) not in self._printed:
                self._printed.add((trial.number, trial.state))
                print(f"barograph: {self._line(trial)}", file=sys.stderr, flush=True)
        problems = {number: text for number, job in tuner.jobs.items()
                    if (text := job.progress.problem or self._long_wait(number, job.progress.waits))}
        for number in problems.keys() - self._with_problem:
            print(f"barograph: trial {number}: {problems[number]}", file=sys.stderr, flush=True)
        self._with_problem = set(problems)

    def _long_wait(self, number: int, waits: str) -> str:
        """Return why a job waits if it has waited for half a minute; each waits for a moment."""
        since = self._waiting_since.setdefault((number, waits), self._clock())
        return waits if self._clock() - since >= _LONG_WAIT_SECS else ""

    def _line(self, trial: Trial) -> str:
        values = ", ".join(f"{name}={value_text(value)}" for name, value in trial.parameters.items())
        if trial.state is TrialState.RUNNING:
            return f"trial {trial.number} started: {values}"
        text = f"trial {trial.number} {trial.state}"
        if trial.values:
            text += ": " + ", ".join(f"{objective.name} {figure(value)}" for objective, value in zip(
                self._study.spec.objectives, trial.values, strict=True))
        return f"{text}. {trial.reason}" if trial.reason else text

    def _page(self, tuner: Tuner, width: int | None = None) -> Group:
        study, objective = self._study, self._study.objective
        ended = [trial for trial in study.trials if trial.state.is_over]
        finished = [trial for trial in ended if trial.state is TrialState.FINISHED]
        limit = study.limit
        head = (f"{self._plan.name}  {len(ended)}{f' of {limit}' if limit else ''} trials ended, "
                f"{len(tuner.jobs)} running, {duration(study.secs)}")
        if tuner.outage:
            head += f"\n{tuner.outage} Trying again."
        if finished:
            best = study.best
            head += f"\nbest  {objective.name} {figure(best.value)} (trial {best.number}: " + ", ".join(
                f"{name}={value_text(value)}" for name, value in best.parameters.items()) + ")"
        rows = [_Row(str(job.trial.number), job.progress.doing,
                     "" if math.isnan(job.progress.value) else figure(job.progress.value), self._values(job.trial),
                     _progress_text(job.progress)) for job in tuner.jobs.values()]
        for trial in sorted(ended, key=lambda trial: trial.ended_unix or 0.0)[-_ENDED:][::-1]:
            rows.append(_Row(str(trial.number), str(trial.state), figure(trial.value) if trial.values else "",
                             self._values(trial), trial.reason.partition("\n")[0], "dim"))
        table = _table(rows, objective.name, study.space.names, self._console.width if width is None else width)
        regions = [Text(str(region), "dim") for region in hopeless_regions(study)[:_REGIONS]]
        return Group(Text(head), table, *regions)

    def _values(self, trial: Trial) -> list[str]:
        return [value_text(trial.parameters[name]) if name in trial.parameters else ""
                for name in self._study.space.names]


@dataclass(frozen=True, slots=True)
class _Row:
    """A trial in the table."""

    number: str
    state: str
    value: str
    parameters: Sequence[str]
    note: str
    style: str = ""


def _table(rows: Sequence[_Row], metric: str, names: Sequence[str], width: int) -> Table:
    """Return the table with as many parameters as fit beside the number, state, value and note of a trial."""
    heads = [("trial", [row.number for row in rows]), ("state", ["x" * _STATE]), (metric, [row.value for row in rows])]
    wide = [max([min(len(head), _LONGEST_NAME), *map(len, cells)]) for head, cells in heads]
    left = width - sum(wide) - _GAP * len(wide) - _LEAST_NOTE
    for place, name in enumerate(names):
        wanted = max([min(len(name), _LONGEST_NAME), *(min(len(row.parameters[place]), _LONGEST_NAME) for row in rows)])
        if (left := left - wanted - _GAP) < 0:
            break
        wide.append(wanted)
    shown = len(wide) - len(heads)
    table = Table(box=None, pad_edge=False, padding=(0, _GAP, 0, 0), collapse_padding=True)
    for place, (name, size) in enumerate(zip((*(head for head, _ in heads), *names[:shown]), wide, strict=True)):
        table.add_column(Text(name), justify="left" if place == 1 else "right", no_wrap=True, overflow="ellipsis",
                         width=size)
    hidden = len(names) - shown
    table.add_column(Text(f"{count(hidden, 'parameter')} hidden" if hidden else ""), overflow="ellipsis", no_wrap=True,
                     max_width=max(width - sum(wide) - _GAP * len(wide), 1))
    for row in rows:
        # As text: what users write may look like markup.
        table.add_row(*map(Text, (row.number, row.state, row.value, *row.parameters[:shown], row.note)),
                      style=row.style)
    return table


def _progress_text(progress: TrialProgress) -> str:
    if progress.problem or progress.waits:
        return progress.problem or progress.waits
    return f"step {progress.step:,}, {count(progress.reports, 'value')}" if progress.step else ""
