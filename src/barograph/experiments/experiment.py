"""Experiments and trials, by hand."""

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
    """A goal or a hypothesis, and the trials that were made for it."""

    kinds: ClassVar[tuple[ItemKind, ...]] = (ItemKind.EXPERIMENT,)

    @classmethod
    def create(
        cls, name: str, *, description: str = "", hypothesis: str = "", variables: Mapping[str, Any] | None = None,
        tags: Mapping[str, str] | None = None, root: str | os.PathLike[str] | None = None, or_load: bool = False,
    ) -> Self:
        """Create an experiment.

        Args:
            name: No other experiment of the root has it.
            description: What it is about, in Markdown.
            hypothesis: What it is to show.
            variables: What is varied, name to the values that are tried.
            tags: Name to text.
            root: Directory or URL of the runs; None: what `BAROGRAPH_ROOT` says, else `barograph-runs/`.
            or_load: Return the one that has the name, where there is one.

        Raises:
            NameTaken: There is one of that name.
            SettingsError: The name or a variable cannot be kept.
        """
        catalog = catalog_at(root)
        fields = {"description": description, "hypothesis": hypothesis, "variables": plain(variables)}
        fields = {field: value for field, value in fields.items() if value}
        made = cls(catalog, catalog.create(ItemKind.EXPERIMENT, name, fields=fields, or_load=or_load))
        return made.tag(**tags) if tags else made

    @classmethod
    def load_or_create(cls, name: str, *, root: str | os.PathLike[str] | None = None) -> Self:
        """Return the experiment of that name, which is created where there is none."""
        return cls.create(name, root=root, or_load=True)

    @property
    def hypothesis(self) -> str:
        """What it is to show."""
        return str(self.item.facts["hypothesis"])

    def create_trial(
        self, name: str, *, variables: Mapping[str, Any] | None = None, description: str = "", or_load: bool = False
    ) -> Trial:
        """Create a trial in it; arguments and errors as of `create`."""
        fields = {"description": description, "variables": plain(variables)}
        item = self.catalog.create(ItemKind.TRIAL, name, parent=self.uid, or_load=or_load,
                                   fields={field: value for field, value in fields.items() if value})
        return Trial(self.catalog, item)

    def trial(self, name: str) -> Trial:
        """Return its trial of that name.

        Raises:
            UnknownItem: There is none.
        """
        return Trial(self.catalog, self.catalog.item(name, ItemKind.TRIAL, parent=self.uid))

    def trials(self) -> Listing[Trial]:
        """Return its trials, oldest first."""
        self.catalog.feed()
        return Listing(Trial(self.catalog, item) for item in self.catalog.trials_of(self.uid))

    def table(self, search: str = "", *, statistics: Sequence[str] = STATISTICS) -> ComponentTable:
        """Return its components and runs as a table, a row each.

        Args:
            search: Which of them, and in which order; "": all, the newest first.
            statistics: Of metrics that are wanted.
        """
        self.catalog.feed()
        with self.catalog.reading() as connection:
            return component_table(connection, self.catalog.ids(search, connection, experiment=self.uid),
                                   statistics=statistics)


class Trial(Handle):
    """One set of variables in an experiment, and what belongs to it."""

    kinds: ClassVar[tuple[ItemKind, ...]] = (ItemKind.TRIAL,)

    @classmethod
    def create(
        cls, name: str, *, experiment: str | Experiment, variables: Mapping[str, Any] | None = None,
        description: str = "", tags: Mapping[str, str] | None = None, root: str | os.PathLike[str] | None = None,
        or_load: bool = False,
    ) -> Self:
        """Create a trial.

        Args:
            name: No other trial of the experiment has it.
            experiment: That it belongs to; one of that name is created where there is none.
            variables: What is tried in it.
            description: What it is about, in Markdown.
            tags: Name to text.
            root: As of `Experiment.create`; of an experiment that was loaded, its own.
            or_load: Return the one that has the name, where there is one.

        Raises:
            NameTaken: There is one of that name.
            SettingsError: A name or a variable cannot be kept.
        """
        above = Experiment.load_or_create(experiment, root=root) if isinstance(experiment, str) else experiment
        made = above.create_trial(name, variables=variables, description=description, or_load=or_load)
        trial = cls(made.catalog, made.item)
        return trial.tag(**tags) if tags else trial

    @property
    def variables(self) -> Mapping[str, Any]:
        """What is tried in it."""
        return dict(self.item.facts["variables"])

    def add_component(self, component: Handle) -> Self:
        """Let a component belong to it; others may have it, too."""
        self.catalog.tell([Entry(component.uid, Verb.JOIN, {"trial": self.uid})])
        return self

    def remove_component(self, component: Handle) -> Self:
        """Let a component no longer belong to it; it stays by itself."""
        self.catalog.tell([Entry(component.uid, Verb.LEAVE, {"trial": self.uid})])
        return self

    add_trial_component = add_component
    remove_trial_component = remove_component

    def components(self) -> Listing[Component]:
        """Return what belongs to it, oldest first."""
        self.catalog.feed()
        return Listing(Component(self.catalog, item) for item in self.catalog.members_of(self.uid))


def plain(variables: Mapping[str, Any] | None) -> dict[str, Any]:
    """Return variables as they are kept.

    Raises:
        SettingsError: One of them cannot be.
    """
    return {name: checked_value(name, value) for name, value in flattened(variables or {}).items()}
