"""Content of a report as plain data, from which the page and `--json` are made.

Every series is reduced to what a chart can show: the minimum and maximum of each pixel column, so that spikes remain.
Numbers beside it (count, first, last, least) cover the whole series.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any

from barograph.model.cause import Suspicion
from barograph.model.exhibits import Exhibit
from barograph.model.finding import Finding, NotEvaluated
from barograph.model.plain import plain
from barograph.queries.classes import Classes
from barograph.queries.curves import Curve
from barograph.queries.distributions import Distribution
from barograph.queries.latent import Latent
from barograph.queries.learning_curves import LearningCurves
from barograph.queries.machine import Gauge, StepTime
from barograph.queries.predictions import Residuals, Roc
from barograph.queries.problems import Problem
from barograph.queries.trees import Importance
from barograph.report.background import Background


@dataclass(frozen=True, slots=True)
class RunFacts:
    """Facts about the run.

    Attributes:
        name: Name.
        url: URL.
        run_id: Unique ID.
        state: "running", "finished", "stopped", "failed", "killed", "empty" and so on, as in `barograph runs`.
        reason: Why it ended, if recorded.
        command: The command.
        versions: Package or program to version.
        device: Device of the first worker.
        started_unix, ended_unix: First and last heartbeat, by the workers' clocks; NaN if there was none.
        secs: Training time over all attempts.
        attempt: Number of earlier attempts.
        workers: Names of workers with records.
        shown: Worker whose values are shown; "" if all are.
        steps: Number of optimizer steps, as far as known.
        steps_seen: Number of steps with recorded tensors.
        capture_share: Recording cost as a share of the training time, of the costliest worker; NaN if unknown.
    """

    name: str
    url: str
    run_id: str
    state: str
    reason: str
    command: tuple[str, ...]
    versions: dict[str, str]
    device: str
    started_unix: float
    ended_unix: float
    secs: float
    attempt: int
    workers: tuple[str, ...]
    shown: str
    steps: int
    steps_seen: int
    capture_share: float


@dataclass(frozen=True, slots=True)
class Judgement:
    """Results of watching the run.

    Attributes:
        verdict: Summary in one sentence.
        watched: Whether the run was watched.
        complete: Whether all published records were evaluated.
        problem: Why the watcher's state is unusable; "" if it is usable.
        problems: Problems behind the findings, worst first.
        diagnosis: Likely causes of the findings, likeliest first.
        findings: Open ones first, then by severity.
        not_evaluated: Rules that were not or only partly evaluated.
        unseen: What was not recorded, one sentence each.
        warnings: Problems of the watcher.
        actions: Actions requested from the training, and their outcome.
    """

    verdict: str
    watched: bool
    complete: bool
    problem: str
    problems: tuple[Problem, ...]
    diagnosis: tuple[Suspicion, ...]
    findings: tuple[Finding, ...]
    not_evaluated: tuple[NotEvaluated, ...]
    unseen: tuple[str, ...]
    warnings: tuple[str, ...]
    actions: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Savings:
    """Savings if the run had stopped when the first breaking finding opened.

    Attributes:
        finding: ID of that finding; "" if there is none.
        code: Code of its rule.
        step: Its opening step.
        opened_unix: Its opening time.
        secs: Training time after that, over all attempts; 0 without such a finding.
        share: That time as a share of the training time; NaN if unknown.
        steps: Number of steps after it.
        price_per_hour: Price of the run on all machines; None if not given.
        currency: Currency of the price.
        cost: Cost of the run; None without a price.
        saved: Cost of the time after the finding; None without a price.
        so_far: Whether the run is still active.
        text: Summary in one or two sentences.
    """

    finding: str
    code: str
    step: int
    opened_unix: float
    secs: float
    share: float
    steps: int
    price_per_hour: float | None
    currency: str
    cost: float | None
    saved: float | None
    so_far: bool
    text: str


@dataclass(frozen=True, slots=True)
class LayerHealth:
    """Last state of a layer.

    Attributes:
        path: Path of the module; "": the model itself.
        layer: Its class.
        health: "breaking", "costly", "doubtful" or "note" by the worst open finding that names it; "not finite":
            no finding, but NaN or infinite values; "ok": evaluated without findings; "not judged".
        findings: IDs of findings that name it.
        codes: Codes of their rules; closed ones in brackets.
        weight, gradient, update, output: Norm, standard deviation, share of zeros, and number of NaN and infinite
            elements at the last recorded step; None if not recorded.
        update_ratio: Norm of the update relative to the weight; NaN if either is missing.
        gradient_norms: Norm of the gradient over the steps.
    """

    path: str
    layer: str
    health: str
    findings: tuple[str, ...]
    codes: tuple[str, ...]
    weight: TensorFigures | None
    gradient: TensorFigures | None
    update: TensorFigures | None
    output: TensorFigures | None
    update_ratio: float
    gradient_norms: Curve | None


@dataclass(frozen=True, slots=True)
class TensorFigures:
    """Statistics of a tensor.

    Attributes:
        step: Step.
        norm: Euclidean norm.
        std: Standard deviation.
        zeros: Share of zeros.
        nonfinite: Number of NaN and infinite elements.
    """

    step: int
    norm: float
    std: float
    zeros: float
    nonfinite: int


@dataclass(frozen=True, slots=True)
class Missing:
    """A section without content.

    Attributes:
        section: Its title.
        reason: Why it is empty.
        feed: How to fill it; "" if it cannot be filled.
    """

    section: str
    reason: str
    feed: str


@dataclass(frozen=True, slots=True)
class Report:
    """Report of a run.

    Attributes:
        made_unix: Time at which the report was created.
        barograph: Version of Barograph that created it.
        run: Facts about the run.
        judgement: Results of the rules.
        background: Metadata; None if not requested.
        savings: Savings from stopping at the first breaking finding.
        losses: Every loss in every mode.
        numbers: Logged scalars and learning rates.
        numbers_left_out: Number of scalars left out.
        layers: Health by layer; if there are very many, those in findings and the first.
        layers_left_out: Number of layers left out.
        distributions: Distributions of weights, gradients, updates and outputs.
        distributions_left_out: Number of tensors left out.
        classes: Labels and predictions.
        step_time: Step time by part; None if not recorded.
        machine: Machine use.
        importance: Feature importance, greatest first.
        importance_left_out: Number of features left out.
        trees: Depth and leaves of trees over the rounds.
        roc: ROC curves of saved scores.
        residuals: Residuals of saved predictions.
        exhibits: Logged matrices, curves, tables and figures.
        missing: Empty sections, with the reason.
        damage: What cannot be read, one sentence each.
        learning_curves: Training and validation loss, and their diagnosis; None without losses.
        latent: Outputs of a layer at evaluations, in two dimensions; None without a probe.
    """

    made_unix: float
    barograph: str
    run: RunFacts
    judgement: Judgement
    background: Background | None
    savings: Savings
    losses: tuple[Curve, ...]
    numbers: tuple[Curve, ...]
    numbers_left_out: int
    layers: tuple[LayerHealth, ...]
    layers_left_out: int
    distributions: tuple[Distribution, ...]
    distributions_left_out: int
    classes: tuple[Classes, ...]
    step_time: StepTime | None
    machine: tuple[Gauge, ...]
    importance: tuple[Importance, ...]
    importance_left_out: int
    trees: tuple[Curve, ...]
    roc: tuple[Roc, ...]
    residuals: tuple[Residuals, ...]
    exhibits: tuple[Exhibit, ...]
    missing: tuple[Missing, ...]
    damage: tuple[str, ...]
    learning_curves: LearningCurves | None = None
    latent: Latent | None = None

    def to_json(self) -> dict[str, Any]:
        """Return strict JSON data: NaN as None, infinities as "inf" and "-inf"."""
        data: dict[str, Any] = {item.name: plain(getattr(self, item.name)) for item in fields(self)
                                if item.name not in ("exhibits", "latent", "learning_curves")}
        # Findings have a JSON form of their own, with keys as strings.
        data["latent"] = None if self.latent is None else self.latent.to_json()
        data["learning_curves"] = None if self.learning_curves is None else self.learning_curves.to_json()
        data["exhibits"] = [item.to_json() for item in self.exhibits]
        data["judgement"]["problems"] = [plain(item.to_json()) for item in self.judgement.problems]
        data["judgement"]["findings"] = [plain(item.to_json()) for item in self.judgement.findings]
        return data
