"""`barograph submit`: run a training job on this machine or a cluster."""

from __future__ import annotations

import inspect
from typing import Annotated, Any

import typer

from barograph.cli.record import run
from barograph.cli.stray_options import BesideLaterScript

CLASS = BesideLaterScript

CONTEXT = {"allow_interspersed_args": False, "ignore_unknown_options": False}

_NOT_OF_JOBS = ("command", "to", "as_json", "checkpoint", "config")
"""Options of `barograph run` that a job has itself; `checkpoint` is another name of `checkpoint_every`."""


def _own(
    command: Annotated[
        list[str] | None,
        typer.Argument(metavar="COMMAND...", help="A script (train.py) or any command, with its own arguments; or a "
                                                  "job file (job.toml), with changes to its hyperparameters (lr=0.2); "
                                                  "or, after --algorithm, hyperparameters (max_depth=4)."),
    ] = None,
    data: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME=SOURCE", help="A channel of data: a directory, a file, a glob or "
                                                 "s3://bucket/prefix. Suffixes: :sharded, :lazy, :pipe, :shuffle. "
                                                 "The script finds it in SM_CHANNEL_NAME, or through {data.NAME} in "
                                                 "its arguments. Repeatable.")
    ] = None,
    algorithm: Annotated[
        str | None, typer.Option(help="Train a built-in algorithm instead of a script: xgboost, lightgbm, linear, mlp, "
                                      "image-classifier.")
    ] = None,
    target: Annotated[str | None, typer.Option(help="Column that the algorithm predicts.")] = None,
    name: Annotated[str | None, typer.Option(help="Name of the job. Default: the time and the script.")] = None,
    instances: Annotated[int | None, typer.Option(help="Number of instances. Default: 1.")] = None,
    processes: Annotated[
        int | None, typer.Option(help="Processes on each instance, started by the framework's launcher. Default: 1.")
    ] = None,
    cpus: Annotated[float | None, typer.Option(help="CPUs of each instance. Default: 1.")] = None,
    memory: Annotated[str | None, typer.Option(help="Memory of each instance: 4GiB. Default: no limit.")] = None,
    gpus: Annotated[int | None, typer.Option(help="GPUs of each instance. Default: 0.")] = None,
    engine: Annotated[
        str | None, typer.Option(help="local: this machine. ray: the Ray cluster at RAY_ADDRESS. Default: local.")
    ] = None,
    cluster: Annotated[
        str | None, typer.Option(metavar="FILE", help="Cluster file of Ray: create a cluster for this job, and "
                                                      "remove it afterwards.")
    ] = None,
    spot: Annotated[
        bool | None, typer.Option("--spot", help="Use instances that can be interrupted: save checkpoints, wait, "
                                                 "and resume.")
    ] = None,
    max_wait: Annotated[
        str | None, typer.Option(help="Time limit for the whole job, including waiting: 6h. Default: no limit.")
    ] = None,
    max_runtime: Annotated[
        str | None, typer.Option(help="Time limit for the training; then the job saves a checkpoint and stops.")
    ] = None,
    keep_alive: Annotated[
        str | None, typer.Option(help="Keep the instances after the job, for the next one that needs the same: 10m. "
                                      "Default: release them.")
    ] = None,
    max_restarts: Annotated[
        int | None, typer.Option(help="Restarts after lost instances. Default: no limit until --max-wait.")
    ] = None,
    retries: Annotated[int | None, typer.Option(help="Restarts after script errors. Default: 0.")] = None,
    price: Annotated[float | None, typer.Option(help="Price of an instance per hour, for the cost report.")] = None,
    spot_price: Annotated[float | None, typer.Option(help="Price of a spot instance per hour.")] = None,
    checkpoint_every: Annotated[
        str | None,
        typer.Option("--checkpoint-every", "--checkpoint", metavar="WHEN",
                     help="When to save checkpoints: auto (the interval that loses the least time), every=100 (steps), "
                          "10min. Default with --spot: auto.")
    ] = None,
    requirements: Annotated[
        str | None,
        typer.Option(metavar="FILE", help="Packages of the script. Default: uv.lock, pyproject.toml or "
                                          "requirements.txt beside it; none: those of this Python.")
    ] = None,
    env: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME", help="Pass this environment variable to the script. Its value is not stored. "
                                          "{env.NAME} in the arguments of the script becomes its value. Repeatable.")
    ] = None,
    env_file: Annotated[
        str | None,
        typer.Option(metavar="FILE", help="Pass the environment variables of this file to the script, one NAME=VALUE "
                                          "a line. Values are not stored.")
    ] = None,
    no_network: Annotated[
        bool | None, typer.Option("--no-network", help="Cut the script off from the network, except localhost.")
    ] = None,
    to: Annotated[
        str | None, typer.Option(help="Where to store the job and its run. Default: as for barograph run.")
    ] = None,
    config: Annotated[
        str | None, typer.Option(help="Settings file. Default: barograph.toml in this directory, if it exists.")
    ] = None,
    wait: Annotated[bool, typer.Option("--wait", help="Show the output and the state until the job ends.")] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Show what would run where with which data, and all problems. Starts "
                                             "nothing.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    pass


def command(**typed: Any) -> None:
    """Run a training as a job on this machine or a Ray cluster.

    Delivers code and data, runs the script, stores the model. Returns at once with the name of the job. A job is a run:
    recorded, analyzed and searchable.

    Exit code with --wait: 0 finished, 1 the script failed, 75 the infrastructure failed, 79 stopped.

    Examples:

      barograph submit train.py --lr 0.1

      barograph submit --data train=s3://bucket/digits --wait train.py

      barograph submit --engine ray --instances 4 --memory 4GiB train.py

      barograph submit --spot --max-wait 6h job.toml lr=0.2

      barograph submit --algorithm xgboost --data train=a.parquet --target price
    """
    # Loaded here, because --help needs none of it.
    from barograph.cli.jobs.submit_page import submit_typed

    submit_typed(typed)


def _signature() -> inspect.Signature:
    """Return the options of a job, then the recording options of `barograph run`."""
    ours = inspect.signature(_own, eval_str=True).parameters
    theirs = inspect.signature(run.command, eval_str=True).parameters
    shared = [item.replace(kind=inspect.Parameter.KEYWORD_ONLY) for name, item in theirs.items()
              if name not in ours and name not in _NOT_OF_JOBS]
    return inspect.Signature([item.replace(kind=inspect.Parameter.KEYWORD_ONLY) for item in ours.values()] + shared)


command.__signature__ = _signature()  # type: ignore[attr-defined]
command.__annotations__ = {name: item.annotation for name, item in _signature().parameters.items()}
