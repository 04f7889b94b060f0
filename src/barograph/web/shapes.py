"""Shapes of the responses, from which `GET api/schema` and the page's TypeScript types are generated.

A new response needs one line in `SHAPES`; then run `python building/page_types.py`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from barograph.jobs.job_report import JobReport
from barograph.model.finding import Evidence, Finding
from barograph.model.manifest import Heartbeat
from barograph.model.origin import Origin
from barograph.queries.bands import Band
from barograph.queries.chart import ChartLine
from barograph.queries.chart_names import ChartList, Tree
from barograph.queries.classes import Classes
from barograph.queries.distributions import Distribution
from barograph.queries.heat import HeatMap
from barograph.queries.latent import Latent, LatentFrame, ProbeSample
from barograph.queries.layers import LayerRow
from barograph.queries.learning_curves import LearningCurves
from barograph.queries.machine import Gauge, StepTime
from barograph.queries.output import WorkerOutput
from barograph.queries.predictions import Residuals, Roc
from barograph.queries.problems import Problem
from barograph.queries.recorded import RecordedSteps
from barograph.queries.recording_cost import RecordingCost
from barograph.queries.remedies import Remedy
from barograph.queries.ridges import Ridges
from barograph.queries.run_list import RunRow
from barograph.queries.saliency import SaliencyMap, SaliencyOverTime
from barograph.queries.step import StepAround, StepRow
from barograph.queries.summary import ActionTaken
from barograph.queries.tensor_history import ExponentMap
from barograph.runs.reading.around import Change
from barograph.runs.reading.layers import Trend
from barograph.tune.analysis import Contour
from barograph.tune.overview import StudyOverview, StudyRow
from barograph.web.schema import Finite, Shape

_Cell = float | Literal["NaN"] | None
"""A number that may be missing, see `answers.cell`."""
NUMBERS_OF_STEP = ("gradient_norm", "update_ratio", "learning_rate")
"""Fields of `StepRow` that may be missing."""


@dataclass(frozen=True, slots=True)
class Worker:
    """A worker of a run."""

    name: str
    attempt: int
    state: str
    reason: str
    host: str
    pid: int
    device: str
    world_size: int
    last: Heartbeat | None


@dataclass(frozen=True, slots=True)
class Held:
    """A step that the flight recorder saved."""

    step: int
    optimizer: str
    held: str
    text: str
    capsule: str


@dataclass(frozen=True, slots=True)
class Run:
    """A run: its state, its problems, and what was not recorded."""

    url: str
    name: str
    run_id: str
    state: str
    reason: str
    started_unix: float
    ended_unix: float
    secs: float
    command: tuple[str, ...]
    attempt: int
    steps: int
    loss: _Cell
    cost_share: float | None
    verdict: str
    judged: bool
    open_problems: int
    problems: tuple[Problem, ...]
    findings: tuple[Finding, ...]
    unseen: tuple[str, ...]
    incidents: tuple[str, ...]
    warnings: tuple[str, ...]
    not_evaluated: str
    workers: tuple[Worker, ...]
    held: tuple[Held, ...]
    actions: tuple[ActionTaken, ...]
    go_on_from: int | None
    damage: str
    recorded: int | None
    charts: tuple[str, ...]
    chart_count: int


@dataclass(frozen=True, slots=True)
class RunLines:
    """Lines of charts of a run, and the names that it lacks; or why it cannot be read."""

    lines: tuple[ChartLine, ...]
    missing: tuple[str, ...]
    error: str


@dataclass(frozen=True, slots=True)
class Bands:
    """Lines of groups of runs, and what is wrong with runs that cannot be read, by key."""

    groups: tuple[tuple[Band, ...], ...]
    problems: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Grouping:
    """Names that runs can be grouped by, and the group of each run."""

    choices: tuple[str, ...]
    groups: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Roots:
    """The served roots."""

    roots: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Search:
    """A page of the runs that match a search."""

    count: int
    columns: tuple[str, ...]
    rows: tuple[Mapping[str, Any], ...]
    hints: tuple[str, ...]
    indexing: Any


@dataclass(frozen=True, slots=True)
class Distributions:
    """Distributions of tensors over the steps."""

    distributions: tuple[Distribution, ...]
    left_out: int


@dataclass(frozen=True, slots=True)
class Time:
    """Where the time of steps goes, and what the machine did."""

    time: Mapping[str, float]
    parts: StepTime | None
    machine: tuple[Gauge, ...]


@dataclass(frozen=True, slots=True)
class Data:
    """Classes, confusion matrices, ROC curves, residuals."""

    classes: tuple[Classes, ...]
    rocs: tuple[Roc, ...]
    residuals: tuple[Residuals, ...]
    problems: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class OutputPart:
    """A part of what a worker printed."""

    stream: str
    text: str


@dataclass(frozen=True, slots=True)
class RunOrigin:
    """Code and environment of a run; `origin` is null if they were not recorded."""

    origin: Origin | None
    problem: str
    settings: Mapping[str, Any]
    versions: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Number:
    """A plain number of a run, thinned."""

    key: str
    mode: str
    optimizer: str
    count: int
    first: float
    last: float
    least: float
    least_step: int
    steps: tuple[int, ...]
    values: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class Studies:
    """The studies below all roots, and those of this user."""

    studies: tuple[StudyRow, ...]
    problems: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class StudyOfRun:
    """The study and trial that a run belongs to; null if it is no trial."""

    study: str | None
    name: str
    trial: int | None


@dataclass(frozen=True, slots=True)
class SampleValues:
    """An input of a sample, or its saliency map: its shape, and its values as a flat list."""

    shape: tuple[int, ...]
    values: tuple[Finite | None, ...]


@dataclass(frozen=True, slots=True)
class Inside:
    """Latent spaces and saliency maps that a run recorded."""

    evaluations: int
    saliency_methods: tuple[str, ...]
    saliency_samples: tuple[str, ...]
    tensors: tuple[str, ...]
    curves: LearningCurves


SHAPES: Mapping[str, type | Shape] = {
    "Roots": Roots, "Search": Search, "Run": Run,
    "Line": Shape(ChartLine, {
        "span": tuple[Finite, ...], "positions": tuple[Finite, ...], "nonfinite_at": tuple[tuple[Finite, Finite], ...],
        "mean_at": tuple[Finite, ...], "means": tuple[Finite | None, ...],
    }, optional=frozenset({"mean_at", "means", "mean_counts"})),
    "RunLines": Shape(RunLines, optional=frozenset({"lines", "missing", "error"})),
    "Band": Shape(Band, {"at": tuple[Finite, ...], "nonfinite_at": tuple[tuple[Finite, Finite], ...],
                         **dict.fromkeys(("mean", "error", "least", "greatest"), tuple[Finite | None, ...])}),
    "Bands": Bands, "Grouping": Grouping,
    "SampleValues": SampleValues, "Inside": Inside,
    "LearningCurves": Shape(LearningCurves, {"gaps": tuple[tuple[int, Finite, Finite], ...]}),
    "LatentFrame": Shape(LatentFrame, {"points": tuple[Finite | None, ...],
                                       "losses": tuple[Finite | None, ...] | None}),
    "Latent": Shape(Latent, {"extent": tuple[Finite, ...]}),
    "ProbeSample": Shape(ProbeSample, {"input": SampleValues | None}),
    "SaliencyMap": Shape(SaliencyMap, {"shape": tuple[int, ...], "values": tuple[Finite | None, ...]}),
    "SaliencyOverTime": Shape(SaliencyOverTime, {"input": SampleValues | None}),
    "Ridges": Shape(Ridges, {"negative": tuple[tuple[Finite, ...], ...], "positive": tuple[tuple[Finite, ...], ...],
                             "zeros": tuple[Finite, ...]}),
    "Recorded": Shape(RecordedSteps, {"shares": tuple[Finite | None, ...]}),
    "ChartList": ChartList, "Tree": Tree, "ExponentMap": ExponentMap, "RecordingCost": RecordingCost,
    "Heat": HeatMap,
    "Distributions": Distributions, "Time": Time, "Data": Data, "RunOrigin": RunOrigin, "Number": Number,
    "RunRow": Shape(RunRow, {"key": str, "starred": bool, "sentence": str, "loss": _Cell},
                    optional=frozenset({"starred"})),
    "Job": Shape(JobReport, {"is_over": bool, "loss": _Cell}),
    "Studies": Studies, "StudyRow": Shape(StudyRow, {"key": str}), "StudyOfRun": StudyOfRun, "Contour": Contour,
    "Study": Shape(StudyOverview, {"key": str, "runs_at": str | None}),
    "Problem": Shape(Problem, {"id": str, "findings": tuple[str, ...], "leads_to": tuple[str, ...]}),
    "Remedy": Shape(Remedy, {"direction": Literal["up", "down"] | None}),
    "Evidence": Shape(Evidence, {"key": str | None}),
    "Heartbeat": Shape(Heartbeat, {"cost_share": float}),
    "Layer": Shape(LayerRow, {"class": str, "figures": Mapping[str, Mapping[str, float]], "findings": tuple[str, ...],
                              "gradient_norms": Trend}, frozenset({"layer", "steps"})),
    "Step": Shape(StepRow, dict.fromkeys(NUMBERS_OF_STEP, _Cell), frozenset({"loss"})),
    "StepAround": StepAround,
    "Change": Shape(Change, {"key": str, "class": str, "compared_steps": int}, frozenset({"layer", "compared"})),
    "Output": Shape(WorkerOutput, {"texts": tuple[OutputPart, ...]}),
}
"""Dataclass of each answer and of its parts, by the name of its type."""
