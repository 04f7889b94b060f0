"""The runs below a root, a row for each."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from barograph.judging.progress import RateJump
from barograph.model.finding import Finding, FindingState, Severity
from barograph.model.plain import plain
from barograph.queries.problems import Problem, problems_of
from barograph.queries.recall import NOT_ALL_JUDGED, NOT_WATCHED, judged_and_jumps
from barograph.runs.reading.glance import Glance, RunState, glances, runs_below
from barograph.store.base import Store
from barograph.store.urls import store_from_url

_THREADS = 8

GOING_ON = frozenset({RunState.RUNNING, RunState.STARTING, RunState.UNKNOWN})
"""States in which a run may still record steps."""


PERMISSION_DENIED = "permission denied"


@dataclass(frozen=True, slots=True)
class RunRow:
    """One run of a list.

    Attributes:
        name: Its name, "" if it has none; the last part of its place if its manifest cannot be read.
        run_id: Unique; None if the manifest cannot be read.
        state: State of its newest attempt.
        started_unix: When it was created; None if the manifest cannot be read.
        attempt: The newest attempt, from 0.
        steps: Optimizer steps of that attempt.
        loss: Last loss; None if none was recorded.
        open_problems: Number of open problems by severity, worst first.
        gone_problems: Number of problems that are gone.
        open_findings: Number of open findings by severity, worst first: the older key in JSON.
        findings: Number of all findings, likewise.
        problem: Title of its first open problem, with the step since when; "" if there is none.
        watched: A watcher has judged it.
        judged_all: A watcher has judged everything that was published.
        covered: Everything was recorded, as far as its workers know.
        cost_share: Share of the training time that recording took; NaN if unknown or too short for one.
        place: Its path or URL, as the commands take it.
        url: Its path or URL, absolute.
        command: What was run.
        problems: What could not be read.
    """

    name: str
    run_id: str | None
    state: RunState
    started_unix: float | None
    attempt: int
    steps: int
    loss: float | None
    open_problems: Mapping[Severity, int]
    gone_problems: int
    open_findings: Mapping[Severity, int]
    findings: int
    problem: str
    watched: bool
    judged_all: bool
    covered: bool
    cost_share: float
    place: str
    url: str
    command: tuple[str, ...]
    problems: tuple[str, ...]

    @property
    def title(self) -> str:
        """Its name, or the last part of its place."""
        return self.name or _last_part(self.place)

    @property
    def unreadable(self) -> str:
        """Why its store cannot be read; "" if it can, also if what it holds is damaged."""
        return self.problems[0] if self.run_id is None and self.state is RunState.UNKNOWN else ""

    @property
    def no_open_problems(self) -> str:
        """Why no problem is open, in a few words; "" if one is.

        Example:
            >>> from barograph.runs.reading.glance import Glance
            >>> run_row("run", Glance("file:///run", RunState.FINISHED), judged_all=False).no_open_problems
            'not watched'
        """
        if self.open_problems:
            return ""
        if not self.watched:
            return "not watched"
        if self.state in GOING_ON:
            return "none so far"
        if not self.judged_all:
            return "not fully evaluated"
        if not self.covered or self.state is RunState.KILLED:
            return "none found"
        return f"none ({self.gone_problems} gone)" if self.gone_problems else "none"

    @property
    def sentence(self) -> str:
        """Its first open problem, or why none is known."""
        if self.problem:
            return self.problem
        if self.run_id is None and self.problems:
            return self.problems[0]
        if self.state in GOING_ON and not self.steps:
            return "No training steps yet."
        if not self.watched:
            return NOT_WATCHED
        if self.state in GOING_ON:
            return "No problems so far."
        if not self.judged_all:
            return NOT_ALL_JUDGED
        if not self.steps:
            return "No training steps recorded."
        return "No problems found." if self.covered else "No problems found in the recorded steps."

    def to_json(self) -> dict[str, Any]:
        """Return it as strict JSON data."""
        data: dict[str, Any] = plain(self)
        return data


def runs_in(store: Store, root: str) -> list[RunRow]:
    """Return the runs in a store, newest first. A run or folder that cannot be read says why in `problems`.

    Args:
        store: Contains the runs.
        root: Its path or URL, with which the place of each run begins.

    Raises:
        StoreError: The store cannot be read.
    """
    denied: list[str] = []
    places = [_below(root, name) for name in runs_below(store, on_denied=denied.append)]
    denied = [_below(root, name) for name in sorted(denied)]
    rows = runs_at(places)
    rows += [run_row(place, Glance(store_from_url(place).url, RunState.UNKNOWN, problems=(PERMISSION_DENIED,)),
                     judged_all=False) for place in denied]
    return newest_first(rows)


def runs_at(places: Sequence[str]) -> list[RunRow]:
    """Return the runs at these paths or URLs, in their order. A run that cannot be read says why in `problems`."""
    stores = [store_from_url(place) for place in places]
    found = glances(stores)
    with ThreadPoolExecutor(_THREADS) as pool:
        judged = pool.map(
            lambda store, run: judged_and_jumps(store) if run.watched or run.findings else (False, ()), stores, found)
        return [run_row(place, run, judged_all=run.watched and judged_all, jumps=jumps)
                for place, run, (judged_all, jumps) in zip(places, found, judged, strict=True)]


def newest_first(rows: Iterable[RunRow]) -> list[RunRow]:
    """Return runs by start time, newest first; those with an unreadable manifest come last."""
    return sorted(rows, key=lambda row: (-(row.started_unix or 0.0), row.place))


def run_row(place: str, run: Glance, *, judged_all: bool, jumps: Sequence[RateJump] = ()) -> RunRow:
    """Return the row of a run.

    Args:
        place: Its path or URL.
        run: Its state.
        judged_all: A watcher has judged everything that was published.
        jumps: Jumps of its learning rate.
    """
    manifest = run.manifest
    problems = problems_of(run.findings, jumps)
    still_open = [item for item in problems if item.state is FindingState.OPEN]
    return RunRow(
        name=manifest.name if manifest else _last_part(place),
        run_id=manifest.run_id if manifest else None, state=run.state,
        started_unix=manifest.created_unix if manifest else None, attempt=run.attempt, steps=run.steps, loss=run.loss,
        open_problems=_by_severity(still_open), gone_problems=len(problems) - len(still_open),
        open_findings=_by_severity(item for item in run.findings if item.state is FindingState.OPEN),
        findings=len(run.findings),
        problem=f"{still_open[0].title}, since step {still_open[0].since_step:,}" if still_open else "",
        watched=run.watched,
        judged_all=judged_all, covered=run.covered, cost_share=run.cost, place=place, url=run.url,
        command=tuple(manifest.command) if manifest else (), problems=tuple(run.problems),
    )


def _by_severity(found: Iterable[Problem] | Iterable[Finding]) -> dict[Severity, int]:
    number = Counter(item.severity for item in found)
    return {severity: number[severity] for severity in Severity if number[severity]}


def _below(root: str, name: str) -> str:
    return str(Path(root) / name) if "://" not in root else f"{root.rstrip('/')}/{name}".rstrip("/")


def _last_part(place: str) -> str:
    return place.rstrip("/").rpartition("/")[2]
