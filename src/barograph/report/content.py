"""What a report says, as plain data: the page and `--json` are two ways to write it down.

Every series is reduced to what a chart can show: the least and the greatest value of each column of pixels, so that a
spike stays. Numbers beside it (count, first, last, least) are of the whole series.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any

from barograph.model.cause import Suspicion
from barograph.model.exhibits import Exhibit
from barograph.model.finding import Finding, NotEvaluated
from barograph.model.plain import plain
from barograph.queries.problems import Problem
from barograph.report.background import Background


@dataclass(frozen=True, slots=True)
class RunFacts:
    """What the run is.

    Attributes:
        name: For people.
        url: Where it is.
        run_id: Unique.
        state: "running", "finished", "stopped", "failed", "killed", "empty" and so on, as `barograph runs` says it.
        reason: Why it ended, where its worker said so.
        command: What was run, as typed.
        versions: Package or program to version.
        device: What the first worker trains on.
        started_unix, ended_unix: First and last sign of life, by the workers' clocks; NaN where there was none.
        secs: Seconds in which it trained, over all attempts.
        attempt: How often it had been started before.
        workers: Names of those that recorded something.
        shown: The worker whose figures are shown; "" where they are of all there are.
        steps: Optimizer steps made, as far as is known.
        steps_seen: Those whose tensors were recorded.
        capture_share: Greatest share of the training time that recording took from a worker; NaN where not known.
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
    """What the run's watcher found.

    Attributes:
        verdict: One sentence.
        watched: Somebody watched it.
        complete: All that was published was judged.
        problem: Why the watcher's state cannot be taken up; "" where it can.
        problems: What is wrong: the problems behind the findings, the worst first.
        diagnosis: What is most likely behind the findings, the likeliest first.
        findings: Open ones first, then the worst.
        not_evaluated: Rules that could not judge, in whole or in part.
        unseen: What was not recorded, a sentence each.
        warnings: What went wrong with the watching.
        actions: What was asked of the training, and what it did.
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
    """What stopping when the first breaking finding opened would have saved.

    Attributes:
        finding: Id of that finding; "" where there is none.
        code: Of its rule.
        step: At which it opened.
        opened_unix: When.
        secs: Seconds trained after that, over all attempts; 0 where there is none.
        share: Of all the time trained; NaN where that is not known.
        steps: Steps made after it.
        price_per_hour: Of the run as a whole; None where it was not said.
        currency: Of the price.
        cost: Of the whole run; None without a price.
        saved: What the seconds after it cost; None without a price.
        so_far: The run still goes on.
        text: All of it in one or two sentences.
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
class Curve:
    """A number over the steps.

    Attributes:
        key: Of what, "loss:total"; or a name of its own.
        mode: In which mode.
        optimizer: In whose steps; "" where the run has one.
        count: Points recorded.
        first, last: The first value and the last.
        least, greatest: Of the finite values; NaN where there is none.
        least_step, greatest_step: Where; -1 where there is none.
        nonfinite: Points that are NaN or infinite.
        steps, values: Reduced to what a chart can show.
    """

    key: str
    mode: str
    optimizer: str
    count: int
    first: float
    last: float
    least: float
    greatest: float
    least_step: int
    greatest_step: int
    nonfinite: int
    steps: tuple[int, ...]
    values: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class LayerHealth:
    """A layer as it was last seen.

    Attributes:
        path: Of the module; "" for the model itself.
        layer: Its class.
        health: "breaking", "costly", "doubtful", "note" by the worst open finding that names it; "not
            finite": none names it, and it holds NaN or infinities; "ok": judged and nothing found; "not judged".
        findings: Ids of those that name it.
        codes: Of their rules, those that are over in brackets.
        weight, gradient, update, output: Norm, standard deviation, share of zeros, and how many NaN or infinite
            elements, at the last step recorded; None where it was not.
        update_ratio: Norm of the update as a share of the weight's; NaN where either is missing.
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
    """A tensor in four numbers.

    Attributes:
        step: At which.
        norm: Euclidean.
        std: Standard deviation.
        zeros: Share of elements that are zero.
        nonfinite: Elements that are NaN or infinite.
    """

    step: int
    norm: float
    std: float
    zeros: float
    nonfinite: int


@dataclass(frozen=True, slots=True)
class Distribution:
    """How the magnitudes of a tensor were spread, over the steps.

    Attributes:
        key: Which tensor.
        layer: Class of the module it belongs to.
        steps: At which a histogram was taken.
        quantiles: For each of them, the magnitudes that 5, 25, 50, 75 and 95 % of the elements that are not zero lie
            below, within a factor of two.
        zeros: For each, the share of zeros.
        nonfinite: For each, how many elements are NaN or infinite.
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
        first_step, last_step: Of the steps it was counted in.
        counts: A row for each true class, a column for each answer, both in the order of the part's `classes`.
    """

    first_step: int
    last_step: int
    counts: tuple[tuple[float, ...], ...]


@dataclass(frozen=True, slots=True)
class Classes:
    """Labels and answers of one loss in one mode.

    Attributes:
        name: The loss, or the name that the script gave.
        mode: In which mode.
        classes: Class numbers that are told apart, rising; of very many the most frequent.
        left_out: How many classes more there are.
        labels: How often each was the truth, over all recorded steps.
        frames: Confusion matrices, from the first to the last.
        confused: The pairs most often confused, over all recorded steps: truth, answer, how often, share of the truth.
        accuracy: Share of right answers over the steps; None where no answers were counted.
        accuracy_by_class: Class to the share of its samples that were answered right, over the steps.
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
    """Where the time of a step goes.

    Attributes:
        secs: Mean seconds of a step, under "step", and of its parts.
        over_time: Part to its seconds over the steps.
    """

    secs: dict[str, float]
    over_time: dict[str, Curve]


@dataclass(frozen=True, slots=True)
class Gauge:
    """A figure of the machine over the run.

    Attributes:
        name: "cpu", "gpu[0]", "memory" and so on.
        unit: "percent", "bytes", "bytes a second", "count".
        mean, greatest, last: Of all that was told.
        secs: Seconds since the run started, reduced.
        values: As many.
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
    """What a feature counts for in a model of trees.

    Attributes:
        feature: Its name.
        share: Of all importance, at the last step recorded.
        over_time: The importance over the rounds.
    """

    feature: str
    share: float
    over_time: Curve


@dataclass(frozen=True, slots=True)
class Roc:
    """How well scores tell a class from the others.

    Attributes:
        name: Under which the scores were saved.
        step: At which.
        label: The class.
        positives, negatives: Samples of it, and of the others.
        area: Under the curve: 0.5 is chance, 1 is perfect.
        false_positives, true_positives: The curve, as shares.
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
    """How far predictions of a number are from the truth.

    Attributes:
        name: Under which the predictions were saved.
        step: At which.
        count: Samples.
        nonfinite: Those of them whose target or prediction is NaN or infinite, which are left out below.
        mean, std, mean_abs: Of prediction minus target.
        r2: Share of the targets' variance that the predictions explain.
        edges, counts: Histogram of the residuals.
        predictions, residuals: Some hundreds of samples, evenly taken.
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
    """A section that has nothing to show.

    Attributes:
        section: Its title.
        reason: Why.
        feed: What would feed it; "" where nothing would.
    """

    section: str
    reason: str
    feed: str


@dataclass(frozen=True, slots=True)
class Report:
    """A run, reported.

    Attributes:
        made_unix: When the report was made.
        barograph: Version that made it.
        run: What the run is.
        judgement: What was found.
        background: What made it and what was said of it; None where nobody asked.
        savings: What stopping at the first breaking finding would have saved.
        losses: Every loss, in every mode.
        numbers: What the script logged, and learning rates.
        numbers_left_out: How many more there are.
        layers: Health by layer; where there are very many, those that findings name and the first.
        layers_left_out: How many more there are.
        distributions: Of weights, gradients, updates and outputs.
        distributions_left_out: How many tensors more there are.
        classes: Labels and answers.
        step_time: Where the time of a step goes; None where it was not told.
        machine: How much of the machine was used.
        importance: What features count for, the heaviest first.
        importance_left_out: How many features more there are.
        trees: Depth and leaves of trees over the rounds.
        roc: Of the scores that the script saved.
        residuals: Of the predictions that the script saved.
        exhibits: What the run was given to show: matrices, curves, tables, pictures.
        missing: Sections that have nothing to show, and why.
        damage: What of the run could not be read, a sentence each.
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
        """Return it as strict JSON data, entry by entry: NaN as None, infinities as "inf" and "-inf"."""
        data: dict[str, Any] = {item.name: plain(getattr(self, item.name)) for item in fields(self)
                                if item.name != "exhibits"}
        # A finding has a form of its own, in which keys are texts.
        data["exhibits"] = [item.to_json() for item in self.exhibits]
        data["judgement"]["problems"] = [plain(item.to_json()) for item in self.judgement.problems]
        data["judgement"]["findings"] = [plain(item.to_json()) for item in self.judgement.findings]
        return data
