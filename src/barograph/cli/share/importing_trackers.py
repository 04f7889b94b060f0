"""`barograph import mlflow`, `wandb` and `aim`: runs that another tracker has kept."""

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
    """Make runs of what MLflow has kept: its experiments, with metrics, parameters, tags, notes and artifacts.

    MLflow need not be installed. Every point of every metric keeps its step, time and value, to the last bit. A
    nested run is tied to the one that it is part of. Run it again at any time: what is unchanged is left alone, what
    has changed is made anew, and nothing is there twice. A server asks for MLFLOW_TRACKING_TOKEN, or
    MLFLOW_TRACKING_USERNAME and MLFLOW_TRACKING_PASSWORD. Exit code 1: something could not be imported.

    Examples:

      barograph import mlflow mlruns

      barograph import mlflow sqlite:///mlflow.db --root runs --experiment digits

      barograph import mlflow http://localhost:5000 --by-reference --json | jq .damage
    """
    # Loaded here, because --help needs none of it.
    from barograph.cli.share.trackers_import import import_and_tell
    from barograph.ingest.mlflow.opening import source_at
    from barograph.ingest.trackers.importing import Wanted

    wanted = Wanted(experiment or (), run or ())
    if not import_and_tell(lambda: source_at(path, artifacts or ()), root, wanted=wanted, by_reference=by_reference,
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
    """Make runs of what Weights & Biases has written to this machine: config, history, summary, tags, notes and files.

    Neither wandb nor its server is needed: the logs of offline runs, and of others where they are still there, are
    read as they are, their checksums verified. A log of a run that was killed may end in the middle of a record; that
    is no damage. Run it again at any time: nothing is there twice. Exit code 1: something could not be imported.

    Examples:

      barograph import wandb wandb

      barograph import wandb wandb/offline-run-20261123_010844-bibdrpuf --root runs --json | jq '.runs[].run'
    """
    from barograph.cli.share.trackers_import import import_and_tell
    from barograph.ingest.trackers.importing import Wanted
    from barograph.ingest.wandb.source import WandbSource

    if not import_and_tell(lambda: WandbSource(Path(path)), root, wanted=Wanted((), run or ()),
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
    """Make runs of a repository of Aim: metrics with their contexts, parameters, tags, images, texts, commit.

    Aim keeps them in a database that its own package alone reads, so a Python that has it (`pip install aim`) is
    asked; it may be of another environment. Run it again at any time: nothing is there twice. Images, audio, texts
    and figures become artifacts; distributions are counted, and passed over. Exit code 1: something could not be
    imported.

    Examples:

      barograph import aim .

      barograph import aim /data/experiments --python ~/venvs/aim/bin/python --root runs
    """
    from barograph.cli.share.trackers_import import import_and_tell
    from barograph.ingest.aim.source import AimSource
    from barograph.ingest.trackers.importing import Wanted

    if not import_and_tell(lambda: AimSource(Path(path), python), root, wanted=Wanted(experiment or (), run or ()),
                           by_reference=by_reference, as_json=as_json):
        raise typer.Exit(1)
