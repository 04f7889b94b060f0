"""Training and validation loss, and their diagnosis.

The verdict on overfitting and underfitting is that of the rules, and of the main finding of their problem, so it agrees
with the problems of the run. If no rule reports a fault of the losses, two faults of the split are looked for that no
rule reports: a validation set that is too small to tell evaluations apart, and one that is easier than the training
set.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from barograph.errors import UnknownKey
from barograph.model.finding import Finding, FindingState, Severity
from barograph.model.key import Kind
from barograph.model.plain import plain
from barograph.model.step import Mode
from barograph.queries.chart import ChartLine, chart_line
from barograph.queries.loss_name import training_loss
from barograph.queries.problems import lead_findings
from barograph.queries.run import RunNow, run_now
from barograph.rules.words import number, percent
from barograph.runs.reading.metrics import Metric, metrics_in
from barograph.runs.reading.reader import RunReader
from barograph.runs.reading.series import Series

if TYPE_CHECKING:
    from numpy.typing import NDArray

OVERFITTING, UNDERFITTING, SPLIT = "overfitting", "underfitting", "unrepresentative split"
FINE, UNKNOWN = "no fault found", "not enough data"
OTHER = "another fault"

_DIAGNOSES = {
    **dict.fromkeys(("L102", "D109"), OVERFITTING), **dict.fromkeys(("L108", "L106", "L101", "L107"), UNDERFITTING),
    **dict.fromkeys(("L105", "N101", "N102"), OTHER),
}
"""Diagnosis by the code of a rule on losses; the first rule with a finding counts."""
_WASTE_TIME = ("M", "P106")
"""Codes, or beginnings of codes, of rules that find what costs time and leaves the model as it is."""

_POINTS = 600
_LEAST_EVALUATIONS = 8
_FLUCTUATES = 0.5
"""Largest spread of the validation loss between evaluations, as a share of its whole improvement."""

_EASIER = 0.5
"""Share of the training loss below which a validation loss is remarkable."""

_HARDER_IN_TRAINING = ("Dropout", "Dropout1d", "Dropout2d", "Dropout3d", "AlphaDropout", "DropPath", "StochasticDepth",
                       "SpatialDropout1D", "SpatialDropout2D", "GaussianDropout")
_VALIDATION_NAME = re.compile(r"(?i)^(val|valid|validation|eval|dev|test)[_/. ]?loss$")


@dataclass(frozen=True, slots=True)
class LearningCurves:
    """Training and validation loss of a run, and their diagnosis.

    Attributes:
        training, validation: The curves; None: not recorded.
        gaps: At each evaluation: its step, the median training loss since the previous one, and the validation loss.
        diagnosis: "overfitting", "underfitting", "unrepresentative split", "another fault", "no fault found" or
            "not enough data".
        text: The diagnosis in a sentence or two.
        remedy: What to do; "" if nothing.
        findings: Identities of the findings that it rests on.
        best_step: Step of the lowest validation loss; None without one.
    """

    training: ChartLine | None
    validation: ChartLine | None
    gaps: tuple[tuple[int, float, float], ...]
    diagnosis: str
    text: str
    remedy: str
    findings: tuple[str, ...]
    best_step: int | None

    def to_json(self) -> dict[str, Any]:
        """Return strict JSON data."""
        return {
            "training": None if self.training is None else self.training.to_json(),
            "validation": None if self.validation is None else self.validation.to_json(), "gaps": plain(self.gaps),
            "diagnosis": self.diagnosis, "text": self.text, "remedy": self.remedy, "findings": list(self.findings),
            "best_step": self.best_step,
        }


def learning_curves(run: RunReader, *, now: RunNow | None = None) -> LearningCurves:
    """Return the learning curves of a run.

    Args:
        run: The run.
        now: Result of `run_now`, if the caller has it.

    Raises:
        StoreError: The store cannot be read.
    """
    pair = _pair(run)
    training = _line(run, pair[0])
    validation = _line(run, pair[1])
    gaps = _gaps(run, *pair)
    known = now or run_now(run)
    best = min(gaps, key=lambda item: item[2])[0] if gaps else None
    diagnosis, text, remedy, findings = _diagnosis(run, known, gaps, has_validation=validation is not None)
    return LearningCurves(training, validation, tuple(gaps), diagnosis, text, remedy, findings, best)


def _pair(run: RunReader) -> tuple[str, str]:
    """Return the names of the training and the validation loss; "": there is none."""
    known = metrics_in(run)
    losses = {metric.key.path: name for name, metric in known.items()
              if metric.key.kind is Kind.LOSS and metric.mode is Mode.TRAIN}
    evaluated = {metric.key.path: name for name, metric in known.items()
                 if metric.key.kind is Kind.LOSS and metric.mode is Mode.EVAL and not _is_part(metric)}
    common = next((path for path in evaluated if path in losses), None)
    if common is not None:
        return losses[common], evaluated[common]
    logged = [name for name, metric in known.items() if metric.key.kind is Kind.SCALAR]
    validation = next(iter(evaluated.values()), "") or next(filter(_VALIDATION_NAME.match, logged), "")
    training = losses.get("total") or next(iter(losses.values()), "") or training_loss(logged)
    return training, validation


def _is_part(metric: Metric) -> bool:
    # Losses of other data sets have the name of their set in front: "train.cross_entropy".
    return "." in metric.key.path


def _line(run: RunReader, name: str) -> ChartLine | None:
    try:
        return chart_line(run, name, points=_POINTS) if name else None
    except UnknownKey:
        return None


def _gaps(run: RunReader, training: str, validation: str) -> list[tuple[int, float, float]]:
    if not training or not validation:
        return []
    known = metrics_in(run)
    trained, evaluated = (_series(run, known[name]) for name in (training, validation))
    # An evaluation has the number of steps made before it; numbers that the script logs together have one step.
    late = int(known[validation].mode is Mode.TRAIN)
    found, since = [], 0
    for step, value in zip(evaluated.steps.tolist(), evaluated.values.tolist(), strict=True):
        within = (trained.steps >= since) & (trained.steps < step + late) & np.isfinite(trained.values)
        if within.any() and np.isfinite(value):
            found.append((step, float(np.median(trained.values[within])), float(value)))
            since = step + late
    return found


def _series(run: RunReader, metric: Metric) -> Series:
    return run.series(metric.key, mode=metric.mode, optimizer=metric.optimizer or None)


def _diagnosis(
    run: RunReader, now: RunNow, gaps: Sequence[tuple[int, float, float]], *, has_validation: bool
) -> tuple[str, str, str, tuple[str, ...]]:
    if (fault := next(iter((*_of(now.findings, [*_DIAGNOSES]), *filter(_breaks_a_model, now.findings))), None)):
        # A model that cannot learn may look like one that overfits.
        lead = lead_findings(now.summary.problems).get(fault.id, fault)
        name = _DIAGNOSES.get(lead.code, OTHER)
        alike = _of(now.findings, [code for code, of_code in _DIAGNOSES.items() if of_code == name])
        return name, lead.message, lead.remedy, tuple(dict.fromkeys(item.id for item in (lead, *alike)))
    if not has_validation or not gaps:
        return UNKNOWN, "No validation loss was recorded next to a training loss, so overfitting cannot be detected.", (
            "Evaluate the model on held-out data with the loss function of the training."), ()
    if (found := _split(run, gaps)) is not None:
        return SPLIT, *found, ()
    last = gaps[-1]
    if not now.judged:
        return UNKNOWN, _numbers(last) + " The rules have not evaluated the whole run.", "", ()
    if _is_mute(now, "L102"):
        return UNKNOWN, _numbers(last) + " The rule on overfitting needs more evaluations.", "", ()
    return FINE, f"{_numbers(last)} {_compared(now)}", "", ()


def _breaks_a_model(found: Finding) -> bool:
    """Return whether curves are not fine, whatever their shape."""
    return (found.state is FindingState.OPEN and found.severity in (Severity.BREAKING, Severity.COSTLY)
            and not found.code.startswith(_WASTE_TIME))


def _compared(now: RunNow) -> str:
    """Return what the silent rules compared: none of them finds a model that is merely too small."""
    level = ("The rule on underfitting needs more data" if _is_mute(now, "L108") else
             "The training loss does not stay at that of a constant prediction")
    return (f"The validation loss does not clearly rise while the training loss falls. {level}; whether a larger model "
            "or more training would lower it is not tested.")


def _of(findings: Iterable[Finding], codes: Sequence[str]) -> list[Finding]:
    """Return the open findings of some rules, those of the first code first; closed ones no longer apply."""
    found = [item for item in findings if item.code in codes and item.state is FindingState.OPEN]
    return sorted(found, key=lambda item: (codes.index(item.code), item.since_step))


def _is_mute(now: RunNow, code: str) -> bool:
    return any(item.code == code and not item.in_part for item in now.summary.not_evaluated)


def _numbers(last: tuple[int, float, float]) -> str:
    step, training, validation = last
    return f"At step {step:,}, the validation loss is {number(validation)} and the training loss {number(training)}."


def _split(run: RunReader, gaps: Sequence[tuple[int, float, float]]) -> tuple[str, str] | None:
    """Return the evidence of the curves against the split, and what to do; None if there is none."""
    if len(gaps) < _LEAST_EVALUATIONS:
        return None
    training, validation = (np.array(column) for column in list(zip(*gaps, strict=True))[1:])
    half = slice(len(gaps) // 2, None)
    improvement = float(validation[:3].mean() - np.sort(validation)[:3].mean())
    fluctuation = _fluctuation(validation[half])
    if improvement > 0 and fluctuation > _FLUCTUATES * improvement and (
            fluctuation > 2 * _fluctuation(training[half])):
        return (f"The validation loss changes by about {number(fluctuation)} from one evaluation to the next, while it "
                f"improved by {number(improvement)} overall and the training loss is steady: the validation set is "
                "too small, or its batches differ.",
                "Use a larger validation set, or average over several splits (cross-validation).")
    if (validation[half] < _EASIER * training[half]).all() and not _is_harder_in_training(run):
        share = float(np.median(1 - validation[half] / training[half]))
        return (f"The validation loss is {percent(share)} below the training loss: the validation data is easier than "
                "the training data, or the script makes training harder (augmentation, label smoothing, regularization "
                "in the loss).",
                "Compare how both sets were sampled. Unless training is harder on purpose, repeat the random split.")
    return None


def _fluctuation(values: NDArray[np.float64]) -> float:
    """Return how far values typically are from the mean of their neighbors; a steady trend has none."""
    return float(np.median(np.abs(values[1:-1] - (values[:-2] + values[2:]) / 2)))


def _is_harder_in_training(run: RunReader) -> bool:
    table = run.arrow(Kind.OUTPUT, columns=("layer",))
    return any(name in _HARDER_IN_TRAINING for name in table["layer"].unique().to_pylist())
