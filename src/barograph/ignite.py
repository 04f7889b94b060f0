"""`barograph.ignite.attach`: records Ignite engines with one line, without `barograph run`.

Under `barograph run`, or after `barograph.attach`, every engine is recorded without it; then this only names the
evaluators.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from barograph import attaching
from barograph.attached import AttachedRun
from barograph.capture.recording import current, launched
from barograph.capture.trainers.ignite import name_engine


def attach(evaluators: Mapping[str, Any] | None = None, **settings: Any) -> AttachedRun | None:
    """Start a run unless this process is already being recorded, and name the evaluators.

    Args:
        evaluators: Name to engine. An engine's metrics are recorded under its name, as in `scalar:validation.accuracy`.
            Metrics of an unnamed engine keep their own names; from the second unnamed engine on, with the prefix
            `evaluator2.`.
        settings: As for `barograph.attach`: `to="runs/mine"`, `budget=None`, `recorder=True`, …

    Returns:
        The run it started; None if the process was already being recorded.

    Raises:
        SettingsError, StoreError, RunInUse: As in `barograph.attach`.
    """
    for name, engine in (evaluators or {}).items():
        name_engine(engine, name)
    if current() is None and launched() is None:
        return attaching.attach(**settings)
    return None
