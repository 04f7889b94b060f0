"""Live view of a study: a table in a terminal, a line for each event elsewhere."""

from __future__ import annotations

import contextlib
import math
import sys
from typing import Any, Self

from rich.console import Console, Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from barograph.tune.analysis import hopeless_regions
from barograph.tune.study import Study
from barograph.tune.trial import Trial, TrialState
from barograph.tune.trial_plan import TrialPlan, text_of
from barograph.tune.tuner import Tuner
from barograph.watch.figures import count, duration, figure

_ENDED = 5
_STATE = 11
"""Characters of the longest state, "downloading"."""
_REGIONS = 3


class StudyView:
    """Shows a study while it runs, on standard error.

    Args:
        study: The study.
        plan: How its trials are trained.
        quiet: Show nothing.
    """

    def __init__(self, study: Study, plan: TrialPlan, *, quiet: bool = False) -> None:
        self._study, self._plan, self._quiet = study, plan, quiet
        self._console = Console(stderr=True)
        self._live: Live | None = None
        self._outage = ""
        self._printed: set[tuple[int, TrialState]] = set()

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

    def _line(self, trial: Trial) -> str:
        values = ", ".join(f"{name}={text_of(value)}" for name, value in trial.parameters.items())
        if trial.state is TrialState.RUNNING:
            return f"trial {trial.number} started: {values}"
        text = f"trial {trial.number} {trial.state}"
        if trial.values:
            text += ": " + ", ".join(f"{objective.name} {figure(value)}" for objective, value in zip(
                self._study.spec.objectives, trial.values, strict=True))
        return f"{text}. {trial.reason}" if trial.reason else text

    def _page(self, tuner: Tuner) -> Group:
        study, objective = self._study, self._study.objective
        ended = [trial for trial in study.trials if trial.state.is_over]
        finished = [trial for trial in ended if trial.state is TrialState.FINISHED]
        limit = study.spec.completion.trials
        head = (f"{self._plan.name}  {len(ended)}{f' of {limit}' if limit else ''} trials ended, "
                f"{len(tuner.jobs)} running, {duration(study.secs)}")
        if tuner.outage:
            head += f"\n{tuner.outage} Trying again."
        if finished:
            best = study.best
            head += f"\nbest  {objective.name} {figure(best.value)} (trial {best.number}: " + ", ".join(
                f"{name}={_short(value)}" for name, value in best.parameters.items()) + ")"
        table = Table(box=None, pad_edge=False)
        for name in ("trial", "state", objective.name, *study.space.names):
            table.add_column(name, justify="right" if name != "state" else "left", no_wrap=True,
                             min_width=_STATE if name == "state" else None)
        table.add_column("", overflow="ellipsis", no_wrap=True)
        for job in tuner.jobs.values():
            progress = job.progress
            table.add_row(str(job.trial.number), progress.doing,
                          "" if math.isnan(progress.value) else figure(progress.value), *self._values(job.trial),
                          f"step {progress.step:,}, {count(progress.reports, 'value')}" if progress.step else "")
        for trial in sorted(ended, key=lambda trial: trial.ended_unix or 0.0)[-_ENDED:][::-1]:
            table.add_row(str(trial.number), str(trial.state), figure(trial.value) if trial.values else "",
                          *self._values(trial), trial.reason, style="dim")
        regions = [Text(str(region), "dim") for region in hopeless_regions(study)[:_REGIONS]]
        return Group(Text(head), table, *regions)

    def _values(self, trial: Trial) -> list[str]:
        return [_short(trial.parameters[name]) if name in trial.parameters else "" for name in self._study.space.names]


def _short(value: float | str | bool) -> str:
    return figure(value) if isinstance(value, float) else text_of(value)
