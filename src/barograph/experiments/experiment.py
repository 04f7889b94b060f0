"""Experiments and trials."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Self

from barograph.experiments.component import Component
from barograph.experiments.handle import Handle, Listing, catalog_at
from barograph.experiments.table import ComponentTable
from barograph.experiments.tabulating import component_table
from barograph.model.items import STATISTICS, Entry, ItemKind, Verb, checked_value, flattened


class Experiment(Handle):
    """A goal or a hypothesis, with its trials."""

    kinds: ClassVar[tuple[ItemKind, ...]] = (ItemKind.EXPERIMENT,)

    @classmethod
    def create(
        cls, name: str, *, description: str = "", hypothesis: str = "", variables: Mapping[str, Any] | None = None,
        tags: Mapping[str, str] | None = None, root: str | os.PathLike[str] | None = None, or_load: bool = False,
    ) -> Self:
        """Create an experiment.

        Args:
            name: Unique within the root.
            description: Markdown.
            hypothesis: What the experiment is to show.
            variables: Variable name to the values to try.
            tags: Tag name to value.
            root: Directory or URL of the runs; None: `BAROGRAPH_ROOT`, else `barograph-runs/`.
            or_load: If an experiment has the name, return it.

        Raises:
            NameTaken: An experiment has that name.
            SettingsError: The name or a variable is invalid.
        """
        catalog = catalog_at(root)
        fields = {"description": description, "hypothesis": hypothesis, "variables": plain(variables)}
        fields = {field: value for field, value in fields.items() if value}
        made = cls(catalog, catalog.create(ItemKind.EXPERIMENT, name, fields=fields, or_load=or_load))
        return made.tag(**tags) if tags else made

    @classmethod
    def load_or_create(cls, name: str, *, root: str | os.PathLike[str] | None = None) -> Self:
        """Return the experiment of that name; create it if it does not exist."""
        return cls.create(name, root=root, or_load=True)

    @property
    def hypothesis(self) -> str:
        """Hypothesis of the experiment."""
        return str(self.item.facts["hypothesis"])

    def create_trial(
        self, name: str, *, variables: Mapping[str, Any] | None = None, description: str = "", or_load: bool = False
    ) -> Trial:
        """Create a trial in the experiment; arguments and errors as in `create`."""
        fields = {"description": description, "variables": plain(variables)}
        item = self.catalog.create(ItemKind.TRIAL, name, parent=self.uid, or_load=or_load,
                                   fields={field: value for field, value in fields.items() if value})
        return Trial(self.catalog, item)

    def trial(self, name: str) -> Trial:
        """Return the trial of that name.

        Raises:
            UnknownItem: The experiment has no such trial.
        """
        return Trial(self.catalog, self.catalog.item(name, ItemKind.TRIAL, parent=self.uid))

    def trials(self) -> Listing[Trial]:
        """Return the trials, oldest first."""
        self.catalog.feed()
        return Listing(Trial(self.catalog, item) for item in self.catalog.trials_of(self.uid))

    def table(self, search: str = "", *, statistics: Sequence[str] = STATISTICS) -> ComponentTable:
        """Return components and runs as a table, one per row.

        Args:
            search: Selects and orders the rows; "": all, newest first.
            statistics: Statistics of each metric to include.
        """
        self.catalog.feed()
        with self.catalog.reading() as connection:
            return component_table(connection, self.catalog.ids(search, connection, experiment=self.uid),
                                   statistics=statistics)


class Trial(Handle):
    """One set of variables in an experiment, with its components."""

    kinds: ClassVar[tuple[ItemKind, ...]] = (ItemKind.TRIAL,)

    @classmethod
    def create(
        cls, name: str, *, experiment: str | Experiment, variables: Mapping[str, Any] | None = None,
        description: str = "", tags: Mapping[str, str] | None = None, root: str | os.PathLike[str] | None = None,
        or_load: bool = False,
    ) -> Self:
        """Create a trial.

        Args:
            name: Unique within the experiment.
            experiment: An experiment, or its name; it is created if it does not exist.
            variables: Variable name to value.
            description: Markdown.
            tags: Tag name to value.
            root: As in `Experiment.create`; the default is the root of `experiment`, if it is an object.
            or_load: If a trial has the name, return it.

        Raises:
            NameTaken: A trial has that name.
            SettingsError: A name or a variable is invalid.
        """
        above = Experiment.load_or_create(experiment, root=root) if isinstance(experiment, str) else experiment
        made = above.create_trial(name, variables=variables, description=description, or_load=or_load)
        trial = cls(made.catalog, made.item)
        return trial.tag(**tags) if tags else trial

    @property
    def variables(self) -> Mapping[str, Any]:
        """Variables by name."""
        return dict(self.item.facts["variables"])

    def add_component(self, component: Handle) -> Self:
        """Add a component; it may belong to several trials."""
        self.catalog.tell([Entry(component.uid, Verb.JOIN, {"trial": self.uid})])
        return self

    def remove_component(self, component: Handle) -> Self:
        """Remove a component from the trial; the component itself stays."""
        self.catalog.tell([Entry(component.uid, Verb.LEAVE, {"trial": self.uid})])
        return self

    add_trial_component = add_component
    remove_trial_component = remove_component

    def components(self) -> Listing[Component]:
        """Return the components of the trial, oldest first."""
        self.catalog.feed()
        return Listing(Component(self.catalog, item) for item in self.catalog.members_of(self.uid))


def plain(variables: Mapping[str, Any] | None) -> dict[str, Any]:
    """Return variables in the form in which they are stored.

    Raises:
        SettingsError: A value cannot be stored.
    """
    return {name: checked_value(name, value) for name, value in flattened(variables or {}).items()}
