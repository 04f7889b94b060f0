"""`barograph.ignite.attach`: has engines of Ignite recorded by one line, without `barograph run`.

Under `barograph run`, or once `barograph.attach` was called, every engine is recorded without it; it then gives names
to those that evaluate.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from barograph import attaching
from barograph.attached import AttachedRun
from barograph.capture.recording import current, launched
from barograph.capture.trainers.ignite import name_engine


def attach(evaluators: Mapping[str, Any] | None = None, **settings: Any) -> AttachedRun | None:
    """Begin a run, where this process is not being recorded already, and name engines that evaluate.

    Args:
        evaluators: Name to engine. Its metrics are recorded under that, as in `scalar:validation.accuracy`; those of an
            engine without a name under their own, from the second such engine on with `evaluator2.` before it.
        settings: As `barograph.attach` takes them: `to="runs/mine"`, `budget=None`, `recorder=True`, …

    Returns:
        The run that it has begun; None where there was one.

    Raises:
        SettingsError, StoreError, RunInUse: As `barograph.attach` raises them.
    """
    for name, engine in (evaluators or {}).items():
        name_engine(engine, name)
    if current() is None and launched() is None:
        return attaching.attach(**settings)
    return None
