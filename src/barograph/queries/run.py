"""One run: state, problems and metadata."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from barograph.errors import DamagedChunk
from barograph.model.exhibits import Exhibit
from barograph.model.finding import Finding, FindingState
from barograph.model.manifest import Heartbeat, Manifest
from barograph.model.origin import Origin
from barograph.model.plain import plain
from barograph.queries.chart import chart_lines
from barograph.queries.chart_names import known_series
from barograph.queries.layers import LayerRow, layer_rows
from barograph.queries.loss_name import training_loss
from barograph.queries.numbers import Number, numbers_of
from barograph.queries.recall import Recall, recalled
from barograph.queries.step_time import TimeOfSteps, step_time_of
from barograph.queries.summary import RunSummary
from barograph.queries.workers import figures_of
from barograph.runs.reading.glance import Glance, RunState, glance
from barograph.runs.reading.reader import RunReader
from barograph.runs.reading.roster import WorkerState
from barograph.runs.reading.view import group_of
from barograph.runs.state.checkpoints import steps_of_checkpoints
from barograph.runs.state.origins import read_origin


@dataclass(frozen=True, slots=True)
class RunNow:
    """A run as it stands: state, workers, problems, verdict.

    Attributes:
        url: Its path or URL.
        manifest: What it is.
        glance: State and workers.
        recall: What its last watcher found.
        worker: Name of the worker whose records are shown; None: all merged.
        figures: Which worker is shown, and which others there are; "" if all are merged or there is one.
    """

    url: str
    manifest: Manifest
    glance: Glance
    recall: Recall
    worker: str | None
    figures: str

    @property
    def state(self) -> RunState:
        """State of the newest attempt."""
        return self.glance.state

    @property
    def summary(self) -> RunSummary:
        """Problems, findings, coverage, actions."""
        return self.recall.summary

    @property
    def verdict(self) -> str:
        """The verdict in a sentence or two."""
        return self.recall.verdict

    @property
    def judged(self) -> bool:
        """Whether a watcher judged everything that was published, and its rules are known."""
        return self.recall.watched and self.recall.complete and not self.recall.problem

    @property
    def steps(self) -> int:
        """Optimizer steps of the newest attempt, as far as is known."""
        return max([self.glance.steps, *(item.published for item in self.summary.workers)])

    @property
    def open_problems(self) -> int:
        """Number of open problems."""
        return sum(item.state is FindingState.OPEN for item in self.summary.problems)

    @property
    def findings(self) -> list[Finding]:
        """Findings of the worker that is shown; all if all are merged."""
        return [item for item in self.summary.findings if self.worker is None or item.worker == group_of(self.worker)]

    @property
    def furthest(self) -> tuple[Heartbeat | None, int]:
        """Last heartbeat and steps of the worker that made the most steps; None and 0 if no worker sent one."""
        last = [(state.worker.name, state.last) for state in self.glance.newest_workers
                if state.last is not None and self.worker in (None, state.worker.name)]
        name, beat = max(last, key=lambda item: item[1].step, default=("", None))
        if beat is None:
            return None, 0
        published = next((item.published for item in self.summary.workers if item.name == name), 0)
        return beat, max(beat.step, published)

    @property
    def secs(self) -> float:
        """Seconds from its start to its last sign of life; NaN if there was none."""
        lasted = self.glance.ended_unix - self.manifest.created_unix
        return lasted if lasted >= 0 else math.nan

    @property
    def reason(self) -> str:
        """Why its only worker ended; "" if unknown or if there are several."""
        workers = self.glance.workers
        return workers[0].ending.reason if len(workers) == 1 and workers[0].ending else ""

    def hint(self, place: str) -> str:
        """Return how to have the rest of the run judged; "" if everything was.

        Args:
            place: Its path or URL, as a command takes it.
        """
        if self.recall.problem:
            return f"{self.recall.problem} To judge it anew: barograph watch {place} --fresh"
        if not self.recall.watched:
            return f"To have it judged: barograph watch {place}"
        if not self.recall.complete and self.state not in (RunState.RUNNING, RunState.STARTING):
            return f"Its last watcher did not get to the end. To go on: barograph watch {place}"
        return ""


@dataclass(frozen=True, slots=True)
class RunDetails:
    """Everything that `barograph show --json` prints.

    Attributes:
        now: State, problems, verdict.
        loss: Last training loss; None if there is none.
        origin: Code and environment; None if they were not saved or cannot be read.
        origin_problem: Why they cannot be read; "" if they can.
        time: Where the time of its steps went.
        numbers: Losses, logged numbers, learning rates.
        layers: Layers and their health.
        checkpoints: Steps after which a checkpoint was saved.
        exhibits: What it was given to show.
        damage: What could not be read.
    """

    now: RunNow
    loss: float | None
    origin: Origin | None
    origin_problem: str
    time: TimeOfSteps
    numbers: tuple[Number, ...]
    layers: tuple[LayerRow, ...]
    checkpoints: tuple[int, ...]
    exhibits: tuple[Exhibit, ...]
    damage: tuple[str, ...]

    def to_json(self) -> dict[str, Any]:
        """Return it as strict JSON data."""
        now, manifest, summary = self.now, self.now.manifest, self.now.summary
        data: dict[str, Any] = plain({
            "url": now.url, "name": manifest.name, "run_id": manifest.run_id, "state": now.state,
            "origin": self.origin.to_json() if self.origin else None,
            "started_unix": manifest.created_unix, "command": manifest.command, "versions": manifest.versions,
            "attempt": now.glance.attempt, "worker": now.worker, "figures": now.figures, "steps": now.steps,
            "loss": self.loss, "verdict": now.verdict, "watched": now.recall.watched,
            "judged_all": now.recall.complete, "open_problems": now.open_problems,
            "open_findings": sum(item.state is FindingState.OPEN for item in now.summary.findings),  # the older key
            "problems": [item.to_json() for item in summary.problems],
            "diagnosis": [asdict(item) for item in summary.diagnosis],
            "findings": [item.to_json() for item in summary.findings],
            "not_evaluated": summary.not_evaluated, "unseen": summary.unseen, "warnings": summary.warnings,
            "workers": [worker_to_json(state) for state in now.glance.workers], "time": self.time.to_json(),
            "numbers": [item.to_json() for item in self.numbers], "layers": [item.to_json() for item in self.layers],
            "held": summary.to_json()["held"], "checkpoints": self.checkpoints, "go_on_from": summary.go_on_from,
            "exhibits": [item.to_json() for item in self.exhibits], "damage": self.damage,
        })
        return data


def run_now(run: RunReader, worker: str | None = None) -> RunNow:
    """Return a run as it stands.

    Args:
        run: The run, as `workers.chosen` returns it.
        worker: The worker that is shown; None: all merged.

    Raises:
        StoreError: It cannot be read.
    """
    now = glance(run.store)
    run.open_files()
    return RunNow(run.url, run.manifest, now, recalled(run.store, run.damage), worker, figures_of(run, worker))


def run_details(run: RunReader, worker: str | None = None, *, exhibits: Sequence[Exhibit] = ()) -> RunDetails:
    """Return everything that is known of a run; arguments and errors as of `run_now`.

    Args:
        run: The run.
        worker: The worker that is shown.
        exhibits: What the run was given to show.
    """
    now = run_now(run, worker)
    origin, problem = origin_of(run)
    numbers, layers = numbers_of(run), layer_rows(run, now.findings, judged=now.judged)
    return RunDetails(now, last_loss(run, now), origin, problem, step_time_of(run), tuple(numbers), tuple(layers),
                      tuple(steps_of_checkpoints(run.store)), tuple(exhibits), tuple(run.damage))


def last_loss(run: RunReader, now: RunNow) -> float | None:
    """Return the last training loss, also one that the script logs under another name; None if there is none.

    Raises:
        StoreError: The store cannot be read.
    """
    if now.glance.loss is not None:
        return now.glance.loss
    return next((line.last for line in chart_lines(run, [training_loss(known_series(run))], points=2)), None)


def origin_of(run: RunReader) -> tuple[Origin | None, str]:
    """Return code and environment of a run, None if they were not saved; and why they cannot be read, "" if they can.

    Raises:
        StoreError: The store cannot be read.
    """
    try:
        return read_origin(run.store), ""
    except DamagedChunk as error:
        return None, str(error)


def worker_to_json(state: WorkerState) -> dict[str, Any]:
    """Return a worker as JSON data."""
    last = None if state.last is None else {**asdict(state.last), "cost_share": state.last.cost.share}
    return {
        "name": state.worker.name, "attempt": state.worker.attempt, "state": state.standing,
        "reason": state.ending.reason if state.ending else "", "host": state.worker.host, "pid": state.worker.pid,
        "device": state.worker.device, "world_size": state.worker.world_size, "last": last,
    }
