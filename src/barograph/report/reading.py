"""Builds the report of a run."""

from __future__ import annotations

from collections.abc import Sequence

from barograph.errors import DamagedChunk
from barograph.model.clock import Clock
from barograph.model.exhibits import Exhibit
from barograph.model.key import Kind
from barograph.model.manifest import CAUGHT
from barograph.queries.classes import classes_in
from barograph.queries.curves import Curve, curves_of
from barograph.queries.distributions import distributions_in
from barograph.queries.latent import Latent, latent_in
from barograph.queries.learning_curves import learning_curves
from barograph.queries.machine import machine_in, step_time_in
from barograph.queries.predictions import predictions_in
from barograph.queries.recall import Recall
from barograph.queries.run import RunNow, run_now
from barograph.queries.summary import steps_made_and_seen
from barograph.queries.trees import importance_in, trees_in
from barograph.queries.workers import chosen
from barograph.report.background import Background
from barograph.report.content import Judgement, Report, RunFacts
from barograph.report.layers import layers_in
from barograph.report.missing import missing_in
from barograph.report.page_inside import MOST_FRAMES
from barograph.report.savings import Price, savings_of, trained_secs
from barograph.runs.reading.bundle import series_names
from barograph.runs.reading.glance import RunState
from barograph.runs.reading.one_worker import workers_in
from barograph.runs.reading.reader import RunReader
from barograph.version import __version__

MOST_NUMBERS = 60
"""Most logged numbers and learning rates that a report holds."""

_NUMBERS = (Kind.SCALAR, Kind.LEARNING_RATE)

UNDER_WAY = frozenset({RunState.RUNNING, RunState.STARTING})
"""States of an active run."""


def report_of(
    run: RunReader, *, price: Price | None = None, background: Background | None = None,
    exhibits: Sequence[Exhibit] = (), clock: Clock,
) -> Report:
    """Return the report of the current state of a run; nothing is written.

    If several processes trained independently, the values are those of the first, the findings those of all.

    Args:
        run: The run.
        price: Price per hour; None: unknown.
        background: Its metadata; None: left out.
        exhibits: Its exhibits.
        clock: Clock.

    Raises:
        StoreError: The store cannot be read.
    """
    shown, default = chosen(run)
    now = run_now(run, default)
    facts = _facts(run, now, default)
    findings, own, judged = now.summary.findings, now.findings, now.judged
    # Of 100,000 names, only those shown are read.
    names = [name for kind in _NUMBERS for name in series_names(shown, kind)]
    kept = {name.key for name in names[:MOST_NUMBERS]}
    numbers = [curve for kind in _NUMBERS for curve in curves_of(shown, kind, kept)]
    layers, layers_left_out = layers_in(shown, own, judged=judged)
    distributions, distributions_left_out = distributions_in(shown, own)
    importance, importance_left_out = importance_in(shown)
    roc, residuals, refused = predictions_in(shown)
    losses = _totals_first(curves_of(shown, Kind.LOSS))
    latent, lost = _latent(run)
    report = Report(
        made_unix=clock.unix(), barograph=__version__, run=facts, judgement=_judgement(now.recall),
        background=background,
        savings=savings_of(findings, now.glance.workers, price, steps=facts.steps, judged=judged,
                           so_far=now.state in UNDER_WAY),
        losses=losses, numbers=tuple(numbers[:MOST_NUMBERS]),
        numbers_left_out=max(0, len(names) - MOST_NUMBERS), layers=layers, layers_left_out=layers_left_out,
        distributions=distributions, distributions_left_out=distributions_left_out, classes=classes_in(shown),
        step_time=step_time_in(shown), machine=machine_in(shown), importance=importance,
        importance_left_out=importance_left_out, trees=trees_in(shown), roc=roc, residuals=residuals,
        exhibits=tuple(exhibits), missing=(),
        damage=tuple(dict.fromkeys((*run.damage, *shown.damage, *(background.damage if background else ()), *lost))),
        learning_curves=learning_curves(shown, now=now) if losses else None, latent=latent,
    )
    return missing_in(report, refused)


def _facts(run: RunReader, now: RunNow, default: str | None) -> RunFacts:
    manifest, glance = run.manifest, now.glance
    newest = glance.newest_workers
    made, seen = steps_made_and_seen(now.summary.workers)
    reasons = [state.ending.reason for state in newest if state.ending and state.ending.reason]
    return RunFacts(
        name=manifest.name, url=run.url, run_id=manifest.run_id, state=now.state.value,
        reason=reasons[0].removesuffix(CAUGHT) if reasons else "", command=tuple(manifest.command),
        versions=dict(manifest.versions), device=next((state.worker.device for state in newest), ""),
        started_unix=manifest.created_unix, ended_unix=glance.ended_unix, secs=trained_secs(glance.workers),
        attempt=glance.attempt, workers=tuple(workers_in(run)), shown=default or "", steps=max(now.steps, made),
        steps_seen=seen, capture_share=glance.cost,
    )


def _judgement(recall: Recall) -> Judgement:
    summary = recall.summary
    return Judgement(
        verdict=recall.verdict, watched=recall.watched, complete=recall.complete, problem=recall.problem,
        problems=summary.problems, diagnosis=summary.diagnosis, findings=summary.findings,
        not_evaluated=summary.not_evaluated, unseen=summary.unseen, warnings=summary.warnings,
        actions=tuple(str(item) for item in summary.actions),
    )


def _latent(run: RunReader) -> tuple[Latent | None, tuple[str, ...]]:
    """Return the latent space, and what of it is damaged."""
    try:
        return latent_in(run, most_frames=MOST_FRAMES), ()
    except DamagedChunk as error:
        return None, (str(error),)


def _totals_first(losses: list[Curve]) -> tuple[Curve, ...]:
    return tuple(sorted(losses, key=lambda curve: curve.key != "loss:total"))
