"""Views of single steps from their rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import pyarrow as pa
import pyarrow.compute as pc

from barograph.runs.format.events import StepEvent, SubjectTables, events_of
from barograph.runs.reading.view import StepView, group_of


def view_from_rows(tables: Mapping[str, Sequence[pa.Table]]) -> StepView | None:
    """Return the view of the rows of one step; None if there are none.

    If a step was recorded more than once (two evaluations between the same steps), the last record is used.

    Args:
        tables: Worker to its rows, all columns of `SCHEMA`; workers of one group, the first one first.
    """
    shared = SubjectTables()
    events: dict[str, StepEvent] = {}
    attempts: list[int] = []
    for worker, parts in tables.items():
        table = pa.concat_tables(parts).unify_dictionaries().combine_chunks()
        if len(table):
            attempt = pc.max(table["attempt"]).as_py()
            attempts.append(attempt)
            newest = table.filter(pc.equal(table["attempt"], attempt)).combine_chunks()
            events[worker] = _joined(events_of(newest, shared))
    if not events:
        return None
    first = next(iter(events))
    rows = {worker: event.rows for worker, event in events.items()}
    return StepView(events[first].step, rows, group=group_of(first), attempt=max(attempts))


def _joined(events: Sequence[StepEvent]) -> StepEvent:
    """Return the last record of a step with all the numbers that were logged for it."""
    recorded = [event for event in events if not event.logged] or list(events)
    last = recorded[-1]
    scalars = {key: value for event in events if event.logged for key, value in event.rows.scalars.items()}
    return replace(last, rows=replace(last.rows, scalars={**scalars, **last.rows.scalars}))
