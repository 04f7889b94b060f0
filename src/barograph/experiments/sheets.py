"""Reads the packed metrics, parameters and tags of several items, one row per item."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from sqlalchemy import Connection, select

from barograph.experiments.packing import metrics_in, numbers_in, texts_in
from barograph.experiments.schema import METRIC_SHEETS, NAMES, SHEETS
from barograph.experiments.writing import parameter_value
from barograph.model.items import MetricSummary

_MOST_IN_ONE = 5000


@dataclass(frozen=True, slots=True)
class Named:
    """Parameters, tags and metrics of an item, sorted by name."""

    parameters: Mapping[str, Any]
    metrics: Mapping[str, MetricSummary]
    tags: Mapping[str, str]


def named_of(
    connection: Connection, ids: Sequence[int], *, metrics: Collection[str] | None = None
) -> dict[int, Named]:
    """Return parameters, tags and metrics of each item.

    Args:
        connection: Connection to the catalog.
        ids: Row numbers of the items, as many as fit into one statement.
        metrics: Names of the metrics to load; None: all.
    """
    parameters: dict[int, dict[int, Any]] = {}
    summaries: dict[int, dict[int, MetricSummary]] = {}
    tags: dict[int, dict[int, str]] = {}
    sheets = connection.execute(select(SHEETS).where(SHEETS.c.item_id.in_(ids))).all()
    for item, name, type_, number in numbers_in(sheet.numbers for sheet in sheets).tolist():
        parameters.setdefault(item, {})[name] = parameter_value(type_, number, None)
    for sheet, (others, tagged) in zip(sheets, texts_in([sheet.texts for sheet in sheets]), strict=True):
        parameters.setdefault(sheet.item_id, {}).update((int(name), value) for name, value in others.items())
        tags[sheet.item_id] = {int(name): text for name, text in tagged.items()}
    packed = connection.execute(select(METRIC_SHEETS.c.data).where(METRIC_SHEETS.c.item_id.in_(ids))).scalars()
    records = metrics_in(packed)
    if metrics is not None:
        wanted = connection.execute(select(NAMES.c.id).where(NAMES.c.text.in_(list(metrics)))).scalars().all()
        records = records[np.isin(records["name"], wanted)]
    for item, name, last, least, greatest, mean, std, count, first_step, last_step in records.tolist():
        summaries.setdefault(item, {})[name] = MetricSummary(
            last=last, min=least, max=greatest, mean=mean, std=std, count=count, first_step=first_step,
            last_step=last_step)
    texts = names_of(connection, {name for group in (parameters, summaries, tags) for named in group.values()
                                  for name in named})
    return {item: Named(*(_by_text(group.get(item, {}), texts) for group in (parameters, summaries, tags)))
            for item in ids}


def names_of(connection: Connection, numbers: Collection[int]) -> dict[int, str]:
    """Return names by their numbers; possibly more than requested, if very many are."""
    texts = select(NAMES.c.id, NAMES.c.text)
    if len(numbers) <= _MOST_IN_ONE:
        texts = texts.where(NAMES.c.id.in_(list(numbers)))
    with connection.execute(texts) as rows:
        # Raw rows of the driver: SQLAlchemy's rows would dominate the time for very many names.
        return dict(rows.cursor.fetchall() if rows.cursor is not None else ())


def _by_text(named: Mapping[int, Any], texts: Mapping[int, str]) -> dict[str, Any]:
    return {texts[number]: named[number] for number in sorted(named, key=texts.__getitem__)}
