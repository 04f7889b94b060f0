"""Experiments, trials, components and runs, for programs that track them by hand.

Training under `barograph run` is tracked automatically. Use this for work without a training, for runs shared by
several programs, and for queries.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from barograph.late import importer

if TYPE_CHECKING:
    from barograph.experiments.active_run import ActiveRun
    from barograph.experiments.analytics import compare, curves, judge
    from barograph.experiments.component import Component
    from barograph.experiments.experiment import Experiment, Trial
    from barograph.experiments.lineage import Edge
    from barograph.experiments.lineage_ends import Action, Artifact, Context
    from barograph.experiments.run import Run, Tracker, list_runs, load_run
    from barograph.experiments.table import ComponentTable
    from barograph.experiments.tracked_run import TrackedRun
    from barograph.share.archives import check_archive, export_archive, import_archive

__all__ = ["Action", "ActiveRun", "Artifact", "Component", "ComponentTable", "Context", "Edge", "Experiment", "Run",
           "TrackedRun", "Tracker", "Trial", "check_archive", "compare", "curves", "export_archive", "import_archive",
           "judge", "list_runs", "load_run"]

# Each name is imported on first use, so that writing a run does not load the catalog.
__getattr__ = importer(__name__, {
    "Action": "barograph.experiments.lineage_ends",
    "ActiveRun": "barograph.experiments.active_run",
    "Artifact": "barograph.experiments.lineage_ends",
    "Component": "barograph.experiments.component",
    "ComponentTable": "barograph.experiments.table",
    "Context": "barograph.experiments.lineage_ends",
    "Edge": "barograph.experiments.lineage",
    "Experiment": "barograph.experiments.experiment",
    "Run": "barograph.experiments.run",
    "TrackedRun": "barograph.experiments.tracked_run",
    "Tracker": "barograph.experiments.run",
    "Trial": "barograph.experiments.experiment",
    "check_archive": "barograph.share.archives",
    "compare": "barograph.experiments.analytics",
    "curves": "barograph.experiments.analytics",
    "export_archive": "barograph.share.archives",
    "import_archive": "barograph.share.archives",
    "judge": "barograph.experiments.analytics",
    "list_runs": "barograph.experiments.run",
    "load_run": "barograph.experiments.run",
})


def __dir__() -> list[str]:
    return __all__
