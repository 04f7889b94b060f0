"""What `barograph runs` prints."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from rich.text import Text

from barograph.cli.opening import nearest_folder, store_at
from barograph.cli.printing import Cell, Column, Printer
from barograph.cli.signs import severity_text, state_text
from barograph.errors import NotARun
from barograph.queries.recall import has_judged_all
from barograph.runs.reading.glance import Glance, RunState, glances, runs_below
from barograph.runs.state.places import root_place
from barograph.store.base import Store
from barograph.store.files import FileStore
from barograph.store.urls import store_from_url
from barograph.watch.figures import figure, local_time, share

_THREADS = 8
_GOING_ON = (RunState.RUNNING, RunState.STARTING, RunState.UNKNOWN)

_COLUMNS = (
    Column("name", spare=2), Column("state"), Column("started", spare=1), Column("steps", right=True),
    Column("loss", right=True), Column("open findings"), Column("cost", right=True, spare=3), Column("place"),
)


def print_runs(root: str, *, as_json: bool) -> None:
    """Print the runs below `root`.

    Raises:
        NotARun: There is no such directory, or it is a file.
        SettingsError, StoreError: The place cannot be read.
    """
    store, printer = store_at(root), Printer()
    _check(root, store)
    places = [_join(root, name) for name in runs_below(store)]
    stores = [store_from_url(place) for place in places]
    found = glances(stores)
    with ThreadPoolExecutor(_THREADS) as pool:
        judged = list(pool.map(_is_judged, stores, found))
    rows = sorted(zip(places, found, judged, strict=True), key=lambda row: (-_started(row[1]), row[0]))
    if as_json:
        printer.json([_to_json(*row) for row in rows])
    elif rows:
        printer.table(_COLUMNS, [_row(*row) for row in rows])
    else:
        printer.line(f"No runs below {root}. To start one:  barograph run train.py")


def open_findings(run: Glance, *, judged: bool) -> Text:
    """Return the open findings by severity; and where there are none, what that is worth."""
    if run.open_findings:
        found = run.open_findings.items()
        return Text(", ").join(severity_text(severity, f"{number} {severity.value}") for severity, number in found)
    if not run.watched:
        return Text("not watched", "dim")
    if run.state in _GOING_ON:
        return Text("none so far")
    if not judged:
        return Text("not judged to its end", "dim")
    if not run.covered or run.state is RunState.KILLED:
        return Text("none in what was seen")
    return Text("none", "green") if not run.findings else Text(f"none ({len(run.findings)} gone)")


def _is_judged(store: Store, run: Glance) -> bool:
    return run.watched and has_judged_all(store)


def _check(root: str, store: Store) -> None:
    if not isinstance(store, FileStore) or store.root.is_dir():
        return
    if store.root.exists():
        raise NotARun(f"{root} is a file; runs are listed below a directory.")
    if root != root_place():
        # Without the default folder nothing was recorded here yet, which is no mistake.
        raise NotARun(f"No runs at {root}: no such directory. {nearest_folder(store.root)}".rstrip())


def _join(root: str, name: str) -> str:
    return str(Path(root) / name) if "://" not in root else f"{root.rstrip('/')}/{name}".rstrip("/")


def _started(run: Glance) -> float:
    return run.manifest.created_unix if run.manifest else 0.0


def _row(place: str, run: Glance, judged: bool) -> Sequence[Cell]:
    state = state_text(run.state.value)
    if run.manifest is None:
        return [_name(place), state, "", "", "", "", "", place]
    return [
        run.manifest.name or _name(place), state, local_time(_started(run)), f"{run.steps}", figure(run.loss),
        open_findings(run, judged=judged), share(run.cost), place,
    ]


def _name(place: str) -> str:
    return place.rstrip("/").rpartition("/")[2]


def _to_json(place: str, run: Glance, judged: bool) -> dict[str, object]:
    manifest = run.manifest
    return {
        "name": manifest.name if manifest else _name(place), "run_id": manifest.run_id if manifest else None,
        "state": run.state, "started_unix": manifest.created_unix if manifest else None, "attempt": run.attempt,
        "steps": run.steps, "loss": run.loss, "open_findings": run.open_findings, "findings": len(run.findings),
        "watched": run.watched, "judged_all": judged, "covered": run.covered, "cost_share": run.cost,
        "place": place, "url": run.url, "command": manifest.command if manifest else [], "problems": run.problems,
    }
