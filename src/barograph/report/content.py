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
from barograph.queries.curves import Curve
from barograph.queries.problems import Problem
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
class Distribution:
    """Distribution of the magnitudes of a tensor over the steps.

    Attributes:
        key: Key of the tensor.
        layer: Class of its module.
        steps: Steps with a histogram.
        quantiles: For each step, the 5%, 25%, 50%, 75% and 95% quantiles of the nonzero magnitudes, within a factor
            of two.
        zeros: For each step, the share of zeros.
        nonfinite: For each step, the number of NaN and infinite elements.
    """

    key: str
    layer: str
    steps: tuple[int, ...]
    quantiles: tuple[tuple[float, ...], ...]
    zeros: tuple[float, ...]
    nonfinite: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class ConfusionFrame:
    """A confusion matrix.

    Attributes:
        first_step, last_step: Range of steps.
        counts: A row per target, a column per prediction, both in the order of `classes`.
    """

    first_step: int
    last_step: int
    counts: tuple[tuple[float, ...], ...]


@dataclass(frozen=True, slots=True)
class Classes:
    """Labels and predictions of one loss in one mode.

    Attributes:
        name: Name of the loss, or a name given by the script.
        mode: Its mode.
        classes: Class numbers, ascending; the most frequent, if there are very many.
        left_out: Number of classes left out.
        labels: Number of targets of each class, over all recorded steps.
        frames: Confusion matrices, oldest first.
        confused: Most confused pairs over all recorded steps: target, prediction, count, share of the target.
        accuracy: Accuracy over the steps; None without predictions.
        accuracy_by_class: Class to its accuracy over the steps.
    """

    name: str
    mode: str
    classes: tuple[int, ...]
    left_out: int
    labels: tuple[float, ...]
    frames: tuple[ConfusionFrame, ...]
    confused: tuple[tuple[int, int, float, float], ...]
    accuracy: Curve | None
    accuracy_by_class: dict[int, Curve]


@dataclass(frozen=True, slots=True)
class StepTime:
    """Step time by part.

    Attributes:
        secs: Mean seconds of a step, as "step", and of its parts.
        over_time: Part to its seconds over the steps.
    """

    secs: dict[str, float]
    over_time: dict[str, Curve]


@dataclass(frozen=True, slots=True)
class Gauge:
    """A metric of the machine over the run.

    Attributes:
        name: "cpu", "gpu[0]", "memory" and so on.
        unit: "percent", "bytes", "bytes a second", "count".
        mean, greatest, last: Of all values.
        secs: Seconds since the run started, reduced to what a chart can show.
        values: Values at these times.
    """

    name: str
    unit: str
    mean: float
    greatest: float
    last: float
    secs: tuple[float, ...]
    values: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class Importance:
    """Importance of a feature in a tree model.

    Attributes:
        feature: Name of the feature.
        share: Share of the total importance at the last recorded step.
        over_time: Importance over the rounds.
    """

    feature: str
    share: float
    over_time: Curve


@dataclass(frozen=True, slots=True)
class Roc:
    """ROC curve of a class.

    Attributes:
        name: Name of the saved scores.
        step: Step.
        label: The class.
        positives, negatives: Number of samples of the class, and of others.
        area: AUC: 0.5 is chance, 1 is perfect.
        false_positives, true_positives: Rates along the curve.
    """

    name: str
    step: int
    label: int
    positives: int
    negatives: int
    area: float
    false_positives: tuple[float, ...]
    true_positives: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class Residuals:
    """Residuals of a regression.

    Attributes:
        name: Name of the saved predictions.
        step: Step.
        count: Number of samples.
        nonfinite: Number of samples with NaN or infinite target or prediction, left out below.
        mean, std, mean_abs: Of prediction minus target.
        r2: Coefficient of determination, R².
        edges, counts: Histogram of the residuals.
        predictions, residuals: Some hundred evenly spaced samples.
    """

    name: str
    step: int
    count: int
    nonfinite: int
    mean: float
    std: float
    mean_abs: float
    r2: float
    edges: tuple[float, ...]
    counts: tuple[int, ...]
    predictions: tuple[float, ...]
    residuals: tuple[float, ...]


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

    def to_json(self) -> dict[str, Any]:
        """Return strict JSON data: NaN as None, infinities as "inf" and "-inf"."""
        data: dict[str, Any] = {item.name: plain(getattr(self, item.name)) for item in fields(self)
                                if item.name != "exhibits"}
        # Findings have a JSON form of their own, with keys as strings.
        data["exhibits"] = [item.to_json() for item in self.exhibits]
        data["judgement"]["problems"] = [plain(item.to_json()) for item in self.judgement.problems]
        data["judgement"]["findings"] = [plain(item.to_json()) for item in self.judgement.findings]
        return data
