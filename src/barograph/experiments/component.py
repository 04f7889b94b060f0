"""Components: the parts of a trial, such as runs."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, ClassVar, Self

from barograph.errors import SettingsError
from barograph.experiments.artifacts import root_of
from barograph.experiments.bulk import created_together, summary_of
from barograph.experiments.exhibiting import Exhibiting
from barograph.experiments.handle import Handle, catalog_at
from barograph.experiments.item import Found
from barograph.experiments.item import Trial as TrialOf
from barograph.model.items import ArtifactLink, ItemKind, MetricSummary, Value, Verb, checked_name
from barograph.store.base import Store
from barograph.store.urls import store_from_url


class Component(Handle, Exhibiting["Component"]):
    """A part of a trial: a run, a dataset, or settings that several trials share."""

    kinds: ClassVar[tuple[ItemKind, ...]] = (ItemKind.COMPONENT, ItemKind.RUN)

    @classmethod
    def create(
        cls, name: str, *, description: str = "", tags: Mapping[str, str] | None = None,
        root: str | os.PathLike[str] | None = None, or_load: bool = False,
    ) -> Self:
        """Create a component that is not a run.

        Args:
            name: Unique within the root.
            description: Free text.
            tags: Tag name to value.
            root: As in `Experiment.create`.
            or_load: If a component has the name, return it.

        Raises:
            NameTaken: A component has that name.
        """
        catalog = catalog_at(root)
        fields = {"description": description} if description else {}
        made = cls(catalog, catalog.create(ItemKind.COMPONENT, name, fields=fields, or_load=or_load))
        return made.tag(**tags) if tags else made

    @classmethod
    def create_many(
        cls, rows: Iterable[Mapping[str, Any]], *, trial: Handle | None = None,
        root: str | os.PathLike[str] | None = None,
    ) -> int:
        """Create many components at once, about 30 times as fast as one by one; return how many.

        Args:
            rows: Each with `name` and, optionally, `description`, `parameters`, `metrics` (name to number) and `tags`.
            trial: Trial that all of them belong to.
            root: As in `Experiment.create`; the default is the root of `trial`, if given.

        Raises:
            NameTaken: A name exists or is given twice; then none is created. If two processes create the same name
                at the same time, they share one component.
            UnknownName: A row has an unknown field.
            SettingsError: A value is invalid; then none is created.
        """
        catalog = catalog_at(root) if trial is None else trial.catalog
        return created_together(catalog, rows, trial=trial.uid if trial is not None else "")

    @property
    def parameters(self) -> Mapping[str, Value]:
        """Parameters by name."""
        return self.item.parameters

    @property
    def metrics(self) -> Mapping[str, MetricSummary]:
        """Summaries of metrics by name; the run has the full series."""
        return self.item.metrics

    @property
    def inputs(self) -> Sequence[ArtifactLink]:
        """Artifacts that it read."""
        return self.item.inputs

    @property
    def outputs(self) -> Sequence[ArtifactLink]:
        """Artifacts that it wrote."""
        return self.item.outputs

    @property
    def trials(self) -> Sequence[TrialOf]:
        """Trials that it belongs to."""
        return self.item.trials

    @property
    def findings(self) -> Sequence[Found]:
        """Findings of rules."""
        return self.item.findings

    @property
    def state(self) -> str:
        """State; for a run, as shown by `barograph runs`."""
        return str(self.item.facts["state"])

    @property
    def place(self) -> str:
        """Path or URL of a run, accepted by `barograph.open`."""
        return str(self.item.facts["place"])

    def rename(self, name: str) -> Self:
        """Rename it; arguments and errors as in `Catalog.rename`."""
        self.catalog.rename(self.item, name)
        return self.refresh()

    def log_metric(self, name: str, value: float) -> Self:
        """Record a single number. For a series, use a `Run`.

        On a run, it replaces a recorded metric of the same name.

        Raises:
            SettingsError: It is not a number.
        """
        return self._tell(Verb.METRICS, {name: summary_of(name, value)})

    def log_state(
        self, state: str, message: str = "", *, started_unix: float | None = None, ended_unix: float | None = None
    ) -> Self:
        """Set state, start time and end time; what is not given stays unchanged.

        Raises:
            SettingsError: It is a run, which records this itself, or a time is invalid.
        """
        return self._set({"state": checked_name("the state", state), "message": message or None,
                          "started_unix": started_unix, "ended_unix": ended_unix})

    def log_source(
        self, *, job: str = "", command: str = "", repository: str = "", branch: str = "", commit: str = "",
        host: str = "",
    ) -> Self:
        """Set where it came from and its code; what is not given stays unchanged.

        Raises:
            SettingsError: It is a run, which records this itself.
        """
        return self._set({"job": job, "command": command, "repository": repository, "branch": branch,
                          "commit": commit, "host": host})

    def _set(self, said: Mapping[str, Any]) -> Self:
        if self.item.kind == ItemKind.RUN:
            raise SettingsError(f'"{self.name}" is a run; it records its state and origin itself.')
        return self._tell(Verb.SET, {name: value for name, value in said.items() if value not in (None, "")})

    @property
    def _root(self) -> Store:
        return self.catalog.store

    @property
    def _roots(self) -> Sequence[Store]:
        # A run in a nested directory keeps its artifacts there.
        return (self._root, root_of(store_from_url(self.place))) if self.place else (self._root,)

    def _links(self) -> Sequence[ArtifactLink]:
        return (*self.item.inputs, *self.item.outputs)
