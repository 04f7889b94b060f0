"""Output of `barograph runs`."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from rich.text import Text

from barograph.cli.jobs.job_line import state_of_job
from barograph.cli.opening import nearest_folder, print_unreadable, store_at
from barograph.cli.printing import Cell, Column, Printer
from barograph.cli.signs import severity_text, state_text
from barograph.errors import NotARun
from barograph.experiments.hiding import hidden_in
from barograph.queries.run_list import RunRow, runs_in
from barograph.runs.reading.glance import RunState
from barograph.runs.state.places import root_place
from barograph.store.base import Store
from barograph.store.files import FileStore
from barograph.watch.figures import figure, local_time, share

_COLUMNS = (
    Column("name", spare=2), Column("state"), Column("started", spare=1), Column("steps", right=True),
    Column("loss", right=True), Column("problems"), Column("cost", right=True, spare=3), Column("place"),
)


def print_runs(root: str, *, as_json: bool, archived: bool = False) -> None:
    """Print the runs below `root`, without deleted ones.

    Args:
        root: Path or URL.
        as_json: Print JSON.
        archived: Print archived runs, too.

    Raises:
        NotARun: The directory does not exist, or is a file.
        SettingsError, StoreError: `root` cannot be read.
    """
    store, printer = store_at(root), Printer()
    _check(root, store)
    hidden = hidden_in(store, note=_say)
    shown = ("", "archived") if archived else ("",)
    rows = [row for row in runs_in(store, root) if hidden.get(row.run_id or "", "") in shown]
    if as_json:
        printer.json([row.to_json() for row in rows])
        return
    unreadable = {row.place: row.unreadable for row in rows if row.unreadable}
    if len(rows) > len(unreadable):
        printer.table(_COLUMNS, [_row(row) for row in rows if not row.unreadable])
    elif not rows:
        printer.line(f"No runs below {root}. To start one:  barograph run train.py")
    print_unreadable(unreadable)


def _say(problem: str) -> None:
    print(f"barograph: archived or deleted runs may be listed: {problem}", file=sys.stderr)


def _check(root: str, store: Store) -> None:
    if not isinstance(store, FileStore) or store.root.is_dir():
        return
    if store.root.exists():
        raise NotARun(f"{root} is a file; runs are listed below a directory.")
    if root != root_place():
        # A missing default folder only means that nothing was recorded yet.
        raise NotARun(f"No runs at {root}: no such directory. {nearest_folder(store.root)}".rstrip())


def _row(run: RunRow) -> Sequence[Cell]:
    # A job has a state even if its script has recorded nothing.
    job_state = state_of_job(store_at(run.place)) if run.state in (RunState.EMPTY, RunState.STARTING) else ""
    state = state_text(job_state or run.state.value)
    if run.started_unix is None:
        return [run.title, state, "", "", "", "", "", run.place]
    return [run.title, state, local_time(run.started_unix), f"{run.steps:,}", figure(run.loss), _problems(run),
            share(run.cost_share), run.place]


def _problems(run: RunRow) -> Text:
    """Return the open problems by severity, or why there are none."""
    if run.open_problems:
        found = run.open_problems.items()
        return Text(", ").join(severity_text(severity, f"{number} {severity.value}") for severity, number in found)
    text = run.no_open_problems
    return Text(text, {"none": "green", "not watched": "dim", "not fully evaluated": "dim"}.get(text, ""))
