"""Components, by hand: what trials are made of, runs among them."""

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
    """A piece of work that trials are made of: a run, a data set, the settings that several trials share."""

    kinds: ClassVar[tuple[ItemKind, ...]] = (ItemKind.COMPONENT, ItemKind.RUN)

    @classmethod
    def create(
        cls, name: str, *, description: str = "", tags: Mapping[str, str] | None = None,
        root: str | os.PathLike[str] | None = None, or_load: bool = False,
    ) -> Self:
        """Create a component that is no run.

        Args:
            name: No other such component of the root has it.
            description: What it is.
            tags: Name to text.
            root: As of `Experiment.create`.
            or_load: Return the one that has the name, where there is one.

        Raises:
            NameTaken: There is one of that name.
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
        """Create many components together, some thirty times as fast as one after the other; return how many.

        Args:
            rows: Of each its `name` and, where there is any, `description`, `parameters`, `metrics` (name to number)
                and `tags`, as of `create` and the verbs.
            trial: That all of them belong to.
            root: As of `Experiment.create`; where a trial is given, its own.

        Raises:
            NameTaken: There are some of these names, or a name is given twice; then none is created. Where two
                processes do it with one name at the same moment, both speak of one component.
            UnknownName: A row says something else.
            SettingsError: What it says cannot be kept; then none is created.
        """
        catalog = catalog_at(root) if trial is None else trial.catalog
        return created_together(catalog, rows, trial=trial.uid if trial is not None else "")

    @property
    def parameters(self) -> Mapping[str, Value]:
        """What it was made with."""
        return self.item.parameters

    @property
    def metrics(self) -> Mapping[str, MetricSummary]:
        """What came out; the series are in the run."""
        return self.item.metrics

    @property
    def inputs(self) -> Sequence[ArtifactLink]:
        """What it read."""
        return self.item.inputs

    @property
    def outputs(self) -> Sequence[ArtifactLink]:
        """What it made."""
        return self.item.outputs

    @property
    def trials(self) -> Sequence[TrialOf]:
        """The trials that it belongs to."""
        return self.item.trials

    @property
    def findings(self) -> Sequence[Found]:
        """What rules found in it."""
        return self.item.findings

    @property
    def state(self) -> str:
        """How it stands; of a run as `barograph runs` says."""
        return str(self.item.facts["state"])

    @property
    def place(self) -> str:
        """Where it is, of a run; what `barograph.open` takes."""
        return str(self.item.facts["place"])

    def rename(self, name: str) -> Self:
        """Give it another name; arguments and errors as of `Catalog.rename`."""
        self.catalog.rename(self.item, name)
        return self.refresh()

    def log_metric(self, name: str, value: float) -> Self:
        """Keep a number that came out, once for all. What comes as a series belongs in a `Run`.

        Of a run it stands beside what the run recorded; of the same name it counts in its place.

        Raises:
            SettingsError: It is no number.
        """
        return self._tell(Verb.METRICS, {name: summary_of(name, value)})

    def log_state(
        self, state: str, message: str = "", *, started_unix: float | None = None, ended_unix: float | None = None
    ) -> Self:
        """Say how it stands, since when, and until when; what is not said stays as it was.

        Raises:
            SettingsError: It is a run, which says that itself; or a time is none.
        """
        return self._set({"state": checked_name("the state", state), "message": message or None,
                          "started_unix": started_unix, "ended_unix": ended_unix})

    def log_source(
        self, *, job: str = "", command: str = "", repository: str = "", branch: str = "", commit: str = "",
        host: str = "",
    ) -> Self:
        """Say what made it, and of which code; what is not said stays as it was.

        Raises:
            SettingsError: It is a run, which says that itself.
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
        # A run in a folder of its own below the root keeps its artifacts there.
        return (self._root, root_of(store_from_url(self.place))) if self.place else (self._root,)

    def _links(self) -> Sequence[ArtifactLink]:
        return (*self.item.inputs, *self.item.outputs)
