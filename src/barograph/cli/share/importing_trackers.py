"""`barograph import mlflow`, `wandb` and `aim`: import runs of other trackers."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

_Root = Annotated[
    str | None, typer.Option("--root", "-o", metavar="ROOT", help="Directory or URL to import the runs into. Default: "
                                                                  "$BAROGRAPH_ROOT, else barograph-runs.")
]
_Run = Annotated[
    list[str] | None, typer.Option("--run", metavar="RUN", help="Import only this run, by name or ID. Repeatable.")
]
_Experiment = Annotated[
    list[str] | None, typer.Option("--experiment", metavar="NAME", help="Import only runs of this experiment. "
                                                                        "Repeatable.")
]
_ByReference = Annotated[
    bool, typer.Option("--by-reference", help="Store links to artifacts instead of copies.")
]
_Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]


def mlflow(
    path: Annotated[
        str, typer.Argument(metavar="PATH|URI", help="File store (mlruns), database (mlflow.db, sqlite:///…, "
                                                     "postgresql://…) or tracking server (http://…).")
    ],
    root: _Root = None,
    experiment: _Experiment = None,
    run: _Run = None,
    by_reference: _ByReference = False,
    artifacts: Annotated[
        list[Path] | None, typer.Option("--artifacts", metavar="DIR", help="Another local folder that artifacts may be "
                                                                           "copied from.")
    ] = None,
    as_json: _Json = False,
) -> None:
    """Import MLflow experiments.

    Runs come with metrics, parameters, tags, notes and artifacts. MLflow need not be installed. Every metric keeps all
    its points with exact step, time and value. Nested runs stay linked to their parent. You can repeat the import:
    unchanged runs are skipped and changed ones are imported again. Set MLFLOW_TRACKING_TOKEN, or
    MLFLOW_TRACKING_USERNAME and MLFLOW_TRACKING_PASSWORD, to authenticate. Exit code 1: something could not be
    imported.

    Examples:

      barograph import mlflow mlruns

      barograph import mlflow sqlite:///mlflow.db --root runs --experiment digits

      barograph import mlflow http://localhost:5000 --by-reference
    """
    # Loaded here, because --help needs none of it.
    from barograph.cli.share.trackers_import import import_and_print
    from barograph.ingest.mlflow.opening import source_at
    from barograph.ingest.trackers.importing import Wanted

    wanted = Wanted(experiment or (), run or ())
    if not import_and_print(lambda: source_at(path, artifacts or ()), root, wanted=wanted, by_reference=by_reference,
                            as_json=as_json):
        raise typer.Exit(1)


def wandb(
    path: Annotated[
        str, typer.Argument(metavar="PATH", help="Folder wandb/, the folder of one run in it, or a file run-….wandb.")
    ],
    root: _Root = None,
    run: _Run = None,
    by_reference: _ByReference = False,
    as_json: _Json = False,
) -> None:
    """Import local Weights & Biases runs.

    Config, history, summary, tags, notes and files. Needs neither wandb nor its server: reads the local logs of offline
    and online runs and verifies their checksums. A log that ends within a record, because its run was killed, is not
    damage. You can repeat the import without getting duplicates. Exit code 1: something could not be imported.

    Examples:

      barograph import wandb wandb

      barograph import wandb wandb --root runs --json | jq '.runs[].run'
    """
    from barograph.cli.share.trackers_import import import_and_print
    from barograph.ingest.trackers.importing import Wanted
    from barograph.ingest.wandb.source import WandbSource

    if not import_and_print(lambda: WandbSource(Path(path)), root, wanted=Wanted((), run or ()),
                            by_reference=by_reference, as_json=as_json):
        raise typer.Exit(1)


def aim(
    path: Annotated[str, typer.Argument(metavar="PATH", help="Folder that contains .aim.")],
    root: _Root = None,
    experiment: _Experiment = None,
    run: _Run = None,
    python: Annotated[
        str, typer.Option("--python", metavar="PYTHON", help="Python interpreter that has Aim installed. Default: this "
                                                             "one.")
    ] = sys.executable,
    by_reference: _ByReference = False,
    as_json: _Json = False,
) -> None:
    """Import an Aim repository.

    Metrics with their contexts, parameters, tags, images, texts and commit. Needs a Python with Aim installed (`pip
    install aim`), because only Aim can read its database; it may be in another environment (--python). Images, audio,
    texts and figures become artifacts; distributions are skipped and counted. You can repeat the import without getting
    duplicates. Exit code 1: something could not be imported.

    Examples:

      barograph import aim .

      barograph import aim . --python ~/venvs/aim/bin/python --root runs
    """
    from barograph.cli.share.trackers_import import import_and_print
    from barograph.ingest.aim.source import AimSource
    from barograph.ingest.trackers.importing import Wanted

    if not import_and_print(lambda: AimSource(Path(path), python), root, wanted=Wanted(experiment or (), run or ()),
                            by_reference=by_reference, as_json=as_json):
        raise typer.Exit(1)
