"""Runs that a program writes itself: create, load and list them."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING, Self

from barograph.errors import RunFinished, RunInUse, SettingsError, UnknownItem
from barograph.experiments.active_run import ActiveRun
from barograph.experiments.artifacts import root_of
from barograph.experiments.tracked_run import TrackedRun, attempt_to_join
from barograph.model.clock import SystemClock
from barograph.model.items import ItemKind, Relation, checked_name
from barograph.model.launch import LAUNCH_VARIABLE, launch_from_environment
from barograph.model.settings import Settings
from barograph.runs.state.claim import claim_run
from barograph.runs.state.places import named_place, new_manifest, new_place, root_place
from barograph.runs.state.run_names import unique_name
from barograph.store.urls import store_from_url

if TYPE_CHECKING:
    from barograph.experiments.component import Component
    from barograph.experiments.handle import Listing
    from barograph.experiments.recorded_run import RecordedRun


class Run(TrackedRun):
    """A new run, written until it is closed or its `with` statement ends.

    Args:
        name: "": the name of its directory. If another run of the experiment has the name, it becomes `NAME-2`.
        experiment, trial: Names of its experiment and trial; created if they do not exist.
        tags: Tag name to value.
        to: Directory or URL of the run; "": a new directory in the root.
        part_of: Parent run; recorded as a "contributed_to" relation in the lineage of both.
        root: As in `Experiment.create`.

    Raises:
        RunInUse, RunFinished: There is already a run at `to`.
        SettingsError: A name is invalid.
        StoreError: The run cannot be written.

    Example:
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as root:
        ...     with Run("first", experiment="digits", root=root) as run:
        ...         run.log_parameters({"lr": 0.1})
        ...         for step in range(10):
        ...             run.log_metric("loss", 1 / (step + 1))
        ...     list_runs("params.lr = 0.1 and metrics.loss.min <= 0.1", root=root)
        [Component('first')]
    """

    def __init__(
        self, name: str = "", *, experiment: str = "", trial: str = "", tags: Mapping[str, str] | None = None,
        to: str | os.PathLike[str] = "", part_of: ActiveRun | None = None,
        root: str | os.PathLike[str] | None = None,
    ) -> None:
        for what, said in (("the run", name), ("the experiment", experiment), ("the trial", trial)):
            if said:
                checked_name(what, said)
        clock = SystemClock()
        # The catalog is not opened: writing a run does not need it.
        store = store_from_url(os.fspath(to) or new_place(name or "run", root=store_from_url(root_place(root)).url))
        if name and experiment:
            name = unique_name(root_of(store), experiment, name, store.url)
        settings = Settings(to=store.url, experiment=experiment, trial=trial, tags=dict(tags or {}))
        manifest = new_manifest(settings, command=tuple(sys.orig_argv), clock=clock, name=name)
        super().__init__(store, claim_run(store, manifest, clock=clock).attempt, clock=clock)
        if part_of is not None:
            self.relate(Relation.CONTRIBUTED_TO, part_of)

    @classmethod
    def load_or_create(
        cls, name: str, *, experiment: str = "", trial: str = "", root: str | os.PathLike[str] | None = None
    ) -> ActiveRun:
        """Return the run of that name to continue it; create it if it does not exist.

        Concurrent processes that ask for a new name get the same run.

        Args:
            name: Name of the run.
            experiment, trial: As in `Run`; ignored if the run exists.
            root: As in `Experiment.create`.

        Raises:
            SettingsError: A name is invalid.
            StoreError: The run cannot be written.
        """
        try:
            return load_run(checked_name("the run", name), root=root)
        except UnknownItem:
            pass
        # The place follows from the name, so that all processes find the same run.
        store = store_from_url(named_place(name, root=store_from_url(root_place(root)).url))
        try:
            return cls(name, experiment=experiment, trial=trial, to=store.url, root=root)
        except (RunInUse, RunFinished):
            clock = SystemClock()
            return TrackedRun(store, attempt_to_join(store, clock), clock=clock)


class Tracker(Run):
    """A `Run` with the names that SageMaker Experiments uses."""

    @classmethod
    def create(cls, display_name: str = "", *, root: str | os.PathLike[str] | None = None) -> Self:
        """Create a run."""
        return cls(display_name, root=root)

    @staticmethod
    def load(name: str = "", *, root: str | os.PathLike[str] | None = None) -> ActiveRun:
        """Return the run of that name; "": the run that records this process."""
        return load_run(name, root=root)


def load_run(name: str = "", *, root: str | os.PathLike[str] | None = None) -> ActiveRun:
    """Return a run to continue it, concurrently with other writers or after them.

    The run that records this process is written by its existing worker.

    Args:
        name: Name, ID or place of the run; "": the run that records this process.
        root: As in `Experiment.create`.

    Raises:
        UnknownItem: No run has that name; the message suggests the nearest.
        SettingsError: The name is empty, and no run records this process.
    """
    recorded = _recorded()
    if not name:
        return recorded if recorded is not None else _launched()
    if recorded is not None and name in (recorded.uid, recorded.name, recorded.url):
        return recorded
    clock = SystemClock()
    # Imported here, so that writing a run does not load the catalog.
    from barograph.experiments.handle import catalog_at

    catalog = catalog_at(root)
    catalog.feed()
    item = catalog.item(name, ItemKind.RUN)
    store = store_from_url(str(item.facts["place"]))
    if recorded is not None and recorded.url == store.url:
        return recorded
    run = TrackedRun(store, attempt_to_join(store, clock), clock=clock)
    # In a bucket, nothing else shows that a run that ended long ago continues.
    catalog.look_again([item.uid])
    return run


def _recorded() -> RecordedRun | None:
    if "barograph.capture.recording" not in sys.modules and not os.environ.get(LAUNCH_VARIABLE):
        return None
    # Imported here, so that a program that is not recorded does not load the recorder.
    from barograph.experiments.recorded_run import recorded_run

    return recorded_run()


def _launched() -> TrackedRun:
    """Return the run of `barograph run` in a process that it does not record, such as a fork."""
    launch = launch_from_environment(os.environ)
    if launch is None:
        raise SettingsError("load_run needs the name of a run, because this process is not being recorded. Start it "
                            "with `barograph run`, or call barograph.attach first.")
    return TrackedRun(store_from_url(launch.settings.to), launch.attempt, clock=SystemClock())


def list_runs(search: str = "", *, root: str | os.PathLike[str] | None = None) -> Listing[Component]:
    """Return the runs that a search finds; "": all, newest first.

    Raises:
        SearchError: The search is invalid.
    """
    from barograph.experiments.component import Component
    from barograph.experiments.handle import Listing, catalog_at

    catalog = catalog_at(root)
    catalog.feed()
    return Listing(Component(catalog, item) for item in catalog.find(search, kinds=(ItemKind.RUN,)))
