"""Barograph's catalog and its run, in a folder."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import barograph
from barograph.experiments.catalog import Catalog
from barograph.experiments.tabulating import component_table
from barograph.experiments.writing import in_parts
from barograph.model.items import Entry, Verb
from barograph.tracking import Run
from benchmarks.askers.asker import CURVE, FILTER, SERIES, TABLE, Asker, components_of

_BATCH = 2_000


def open_asker(directory: str) -> Asker:
    """Return an empty catalog in `directory`."""
    return _Asker(directory)


class _Asker:
    def __init__(self, directory: str) -> None:
        self._directory = directory
        self._catalog = Catalog(directory)
        self._url = ""

    def fill(self, components: int) -> None:
        for some in in_parts(components_of(components), _BATCH):
            self._catalog.tell(
                entry for item in some for entry in (
                    Entry(item.name, Verb.CREATE, {"kind": "component", "name": item.name}),
                    Entry(item.name, Verb.PARAMETERS, item.parameters), Entry(item.name, Verb.TAG, item.tags),
                    Entry(item.name, Verb.METRICS, {
                        name: {"last": value, "min": value, "max": value, "mean": value, "std": 0.0, "count": 1,
                               "last_step": 0} for name, value in item.metrics.items()
                    }),
                )
            )

    def record(self, values: list[float]) -> None:
        with Run("series", root=self._directory) as run:
            for step, value in enumerate(values):
                run.log_metric("loss", value, step)
        self._url = run.url

    def questions(self) -> Mapping[str, Callable[[], int]]:
        return {TABLE: self._table, FILTER: self._filter,
                SERIES: lambda: len(barograph.open(self._url).series("scalar:loss")),
                CURVE: lambda: barograph.open(self._url).curve("scalar:loss", points=2000).count}

    def _table(self) -> int:
        with self._catalog.reading() as connection:
            table = component_table(connection, self._catalog.ids("kind = 'component'", connection))
        columns = dict(table.columns)  # columns of metrics are created on access
        return len(columns["uid"])

    def _filter(self) -> int:
        return len(self._catalog.find("metrics.val_loss < 0.3 and params.opt = 'adam' "
                                      "order by metrics.acc desc limit 100"))
