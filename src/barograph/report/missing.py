"""What a report has nothing to show of, why, and what would feed it: no section is left out in silence."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

from barograph.report.content import Missing, Report

_COMPUTE_A_LOSS = "Call backward on one number, or say it where steps end: run.step(loss)."
_STANDARD = 'Use the preset "standard", and a budget that lets tensors be recorded (--budget).'
_SAVE = 'run.save("targets", …) and run.save("predictions", …) in the same step'


def missing_in(report: Report, refused: Iterable[str] = ()) -> Report:
    """Return the report with the sections that have nothing to show.

    Args:
        report: Without them.
        refused: Sentences on predictions that were saved and cannot be shown.
    """
    return replace(report, missing=(*_missing(report), *(Missing("Predictions", text, "") for text in refused)))


def _missing(report: Report) -> Iterator[Missing]:
    if not report.run.steps and not report.losses and not report.numbers:
        yield Missing("Everything but the findings", "no step was recorded: no process trained.", "")
        return
    if not report.losses:
        yield Missing("Losses", "no loss was recorded.", _COMPUTE_A_LOSS)
    of_trees = bool(report.importance or report.trees)
    if not of_trees:
        yield from _missing_tensors(report)
    yield from _missing_classes(report)
    if report.step_time is None:
        yield Missing("Where the time of a step goes", "it was not told.",
                      "Train for some seconds at least: it is told twice a second.")
    if not report.machine:
        yield Missing("Use of the machine", "nothing was recorded of it.",
                      "Set machine_hz above 0, and train for some seconds at least.")
    if of_trees and not report.importance:
        yield Missing("Importance of features", "none was recorded.", "")
    if of_trees and not report.trees:
        yield Missing("Trees", "no depth of a tree was recorded.", "")
    yield from _missing_predictions(report, of_trees=of_trees)
    if report.background is not None and report.background.made is None:
        yield Missing("What made it", "it was not kept.", "barograph run keeps it, unless --no-origin says otherwise.")


def _missing_tensors(report: Report) -> Iterator[Missing]:
    if not report.layers:
        yield Missing("Health by layer", "no tensor was recorded.", _STANDARD)
    if not report.distributions:
        why = "no tensor was recorded." if not report.layers else "no histogram was taken."
        yield Missing("Distributions", why, _STANDARD)


def _missing_classes(report: Report) -> Iterator[Missing]:
    if not report.classes:
        yield Missing("Labels and confusion", "no labels were seen.",
                      "Use a loss of torch that takes class numbers, or name labels and answers: "
                      "run.save_predictions(targets, predictions).")
    elif not any(item.frames for item in report.classes):
        yield Missing("Confusion", "labels were seen, and no answers.",
                      "Name both: run.save_predictions(targets, predictions).")
    elif not any(item.mode == "eval" for item in report.classes):
        yield Missing("Confusion in evaluation", "no evaluation with labels was seen.",
                      "Evaluate within the run: a pass in model.eval() with torch.no_grad() whose loss is computed by "
                      "a loss function of torch, or with run.save_predictions.")


def _missing_predictions(report: Report, *, of_trees: bool) -> Iterator[Missing]:
    if not report.roc and (of_trees or report.classes):
        yield Missing("ROC", "no scores were saved: of answers only how often each was given is counted.",
                      f"Save class numbers and scores whole: {_SAVE}.")
    if not report.residuals and not report.classes and not report.roc:
        yield Missing("Residuals", "no predictions of a number were saved.", f"Save both whole: {_SAVE}.")
