"""Empty sections of a report, with the reason and how to fill them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

from barograph.report.content import Missing, Report

_COMPUTE_A_LOSS = "Call backward on a scalar loss, or pass the loss yourself: run.step(loss)."
_STANDARD = 'Use the preset "standard" and a budget large enough to record tensors (--budget).'
_SAVE = 'run.save("targets", …) and run.save("predictions", …) in the same step'


def missing_in(report: Report, refused: Iterable[str] = ()) -> Report:
    """Return the report with its empty sections.

    Args:
        report: Report without them.
        refused: Sentences about saved predictions that cannot be shown.
    """
    return replace(report, missing=(*_missing(report), *(Missing("Predictions", text, "") for text in refused)))


def _missing(report: Report) -> Iterator[Missing]:
    if not report.run.steps and not report.losses and not report.numbers:
        yield Missing("Everything but the findings", "no steps recorded: no process trained.", "")
        return
    if not report.losses:
        yield Missing("Losses", "no loss recorded.", _COMPUTE_A_LOSS)
    of_trees = bool(report.importance or report.trees)
    if not of_trees:
        yield from _missing_tensors(report)
    yield from _missing_classes(report)
    if report.step_time is None:
        yield Missing("Step time by part", "not recorded.",
                      "It is measured twice a second: train for at least a few seconds.")
    if not report.machine:
        yield Missing("Machine use", "not recorded.",
                      "Set machine_hz above 0 and train for at least a few seconds.")
    if of_trees and not report.importance:
        yield Missing("Feature importance", "not recorded.", "")
    if of_trees and not report.trees:
        yield Missing("Trees", "no tree depths recorded.", "")
    yield from _missing_predictions(report, of_trees=of_trees)
    if report.background is not None and report.background.made is None:
        yield Missing("Provenance", "not recorded.", "Start the run with barograph run, without --no-origin.")


def _missing_tensors(report: Report) -> Iterator[Missing]:
    if not report.layers:
        yield Missing("Health by layer", "no tensors recorded.", _STANDARD)
    if not report.distributions:
        why = "no tensors recorded." if not report.layers else "no histograms recorded."
        yield Missing("Distributions", why, _STANDARD)


def _missing_classes(report: Report) -> Iterator[Missing]:
    if not report.classes:
        yield Missing("Labels and confusion", "no labels recorded.",
                      "Use a PyTorch loss that takes class numbers, or pass both: run.save_predictions(targets, "
                      "predictions).")
    elif not any(item.frames for item in report.classes):
        yield Missing("Confusion", "labels recorded, but no predictions.",
                      "Pass both: run.save_predictions(targets, predictions).")
    elif not any(item.mode == "eval" for item in report.classes):
        yield Missing("Confusion in evaluation", "no evaluation with labels recorded.",
                      "Evaluate within the run: call model.eval(), use torch.no_grad(), and compute the loss with a "
                      "PyTorch loss or call run.save_predictions.")


def _missing_predictions(report: Report, *, of_trees: bool) -> Iterator[Missing]:
    if not report.roc and (of_trees or report.classes):
        yield Missing("ROC", "no scores saved: only counts of predicted classes were recorded.",
                      f"Save class numbers and full scores: {_SAVE}.")
    if not report.residuals and not report.classes and not report.roc:
        yield Missing("Residuals", "no numeric predictions saved.", f"Save both in full: {_SAVE}.")
