"""The experiments of a catalog, and one experiment with its trials."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from barograph.experiments.catalog import Catalog
from barograph.experiments.item import Item
from barograph.experiments.table import ComponentTable
from barograph.experiments.tabulating import component_table
from barograph.model.items import ItemKind
from barograph.model.plain import plain

_FACTS = ("description", "hypothesis", "variables", "created_unix", "starred", "archived")


@dataclass(frozen=True, slots=True)
class ExperimentRow:
    """One experiment of a list.

    Attributes:
        item: The experiment.
        trials: Number of its trials.
        components: Number of components in its trials.
    """

    item: Item
    trials: int
    components: int

    def to_json(self) -> dict[str, Any]:
        """Return it as strict JSON data."""
        data: dict[str, Any] = plain({**_to_json(self.item), "trials": self.trials, "components": self.components})
        return data


@dataclass(frozen=True, slots=True)
class ExperimentPage:
    """One experiment.

    Attributes:
        item: The experiment.
        trials: Its trials.
        table: The components of its trials.
    """

    item: Item
    trials: tuple[Item, ...]
    table: ComponentTable

    def to_json(self) -> dict[str, Any]:
        """Return it as strict JSON data."""
        data: dict[str, Any] = plain({
            **_to_json(self.item), "notes": [note.text for note in self.item.notes],
            "trials": [{"name": trial.name, "uid": trial.uid, "variables": trial.facts["variables"]}
                       for trial in self.trials],
            "components": list(self.table.rows()),
        })
        return data


def experiments_of(catalog: Catalog, *, archived: bool = False) -> list[ExperimentRow]:
    """Return the experiments of a catalog.

    Args:
        catalog: The catalog.
        archived: Whether archived experiments are included.
    """
    found = [(item, catalog.trials_of(item.uid)) for item in catalog.of_kind(ItemKind.EXPERIMENT, archived=archived)]
    return [ExperimentRow(item, len(trials), _components(catalog, trials)) for item, trials in found]


def experiment_of(catalog: Catalog, name: str) -> ExperimentPage:
    """Return one experiment with its trials and a table of their components.

    Raises:
        UnknownItem: No experiment has that name.
    """
    item = catalog.item(name, ItemKind.EXPERIMENT)
    trials = catalog.trials_of(item.uid)
    with catalog.reading() as connection:
        table = component_table(connection, catalog.ids("", connection, experiment=item.uid))
    return ExperimentPage(item, tuple(trials), table)


def _components(catalog: Catalog, trials: Sequence[Item]) -> int:
    return len({member.uid for trial in trials for member in catalog.members_of(trial.uid)})


def _to_json(item: Item) -> dict[str, Any]:
    return {"name": item.name, "uid": item.uid, **{key: item.facts[key] for key in _FACTS}, "tags": dict(item.tags)}
