"""`barograph export`: export runs to files and other programs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from barograph.cli.experiments.catalog_options import Root
from barograph.cli.record.watch import EXIT_INTERRUPTED
from barograph.cli.share.archive_group import group_of_plugins

_Run = Annotated[str, typer.Argument(metavar="RUN", help="Directory, URL or name of the run.")]


def command() -> None:
    """Export runs as an archive, or to TensorBoard or MLflow.

    "barograph export digits" means "barograph export archive digits".

    Examples:

      barograph export archive digits -o digits.zip

      barograph export chrome runs/first -o trace.json

      barograph export tensorboard runs/first -o tensorboard/first

      barograph export mlflow digits --to http://localhost:5000

      barograph export otel runs/first --endpoint http://localhost:4318

      barograph export otel runs/first --json metrics.jsonl
    """


def archive(
    names: Annotated[
        list[str], typer.Argument(metavar="NAME...", help="Names, IDs or paths of runs; or names or IDs of "
                                                          "experiments, trials or components.")
    ],
    out: Annotated[str, typer.Option("--out", "-o", metavar="FILE|URL", help="File or bucket object to write. An "
                                                                             "existing one is replaced atomically.")],
    checkpoints: Annotated[
        bool, typer.Option("--checkpoints", help="Include checkpoints. Without it, only their size is printed.")
    ] = False,
    capsules: Annotated[
        bool, typer.Option("--capsules", help="Include saved failing steps (capsules). Without it, only their size is "
                                              "printed.")
    ] = False,
    skip_running: Annotated[
        bool, typer.Option("--skip-running", help="Skip runs that are still running. Without it, they are an error.")
    ] = False,
    root: Root = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Write runs and experiments to one file.

    barograph import archive reads it. A run is exported with its records, findings, origin, output, parameters, tags,
    notes, lineage and artifacts; an experiment with its trials and everything in them. The file is an uncompressed ZIP
    with a digest per member; unzipped, it is a directory of runs. The same content gives the same bytes.

    Exit code 1: the file was written, but part of the content was damaged or missing.

    Examples:

      barograph export archive runs/first -o first.zip

      barograph export archive digits --checkpoints -o digits.zip

      barograph export archive digits --root s3://bucket/runs -o digits.zip
    """
    from barograph.cli.share.archive_page import export_and_print

    if not export_and_print(names, out, root, checkpoints=checkpoints, capsules=capsules, skip_running=skip_running,
                            as_json=as_json):
        raise typer.Exit(1)


def chrome(
    run: _Run,
    out: Annotated[
        Path | None, typer.Option("--out", "-o", metavar="FILE", help="File to write. Default: trace.json.")
    ] = None,
) -> None:
    """Write a trace for Perfetto or chrome://tracing.

    It contains the steps and their phases, losses, machine metrics and findings. Perfetto is at ui.perfetto.dev.

    Examples:

      barograph export chrome runs/first -o trace.json
    """
    # Loaded here, because --help needs none of it.
    from barograph.cli.share.export_page import export_chrome

    export_chrome(run, out or Path("trace.json"))


def otel(
    run: _Run,
    endpoint: Annotated[
        str | None,
        typer.Option(metavar="URL", help="OTLP endpoint, such as http://localhost:4318. Default: "
                                         "$OTEL_EXPORTER_OTLP_ENDPOINT."),
    ] = None,
    json_file: Annotated[
        Path | None, typer.Option("--json", metavar="FILE", help="Write OTLP JSON to this file instead of sending it.")
    ] = None,
    follow: Annotated[bool, typer.Option("--follow", help="Keep exporting until the run ends or you press "
                                                          "Ctrl-C.")] = False,
) -> None:
    """Send the metrics of a run to OpenTelemetry.

    Over OTLP/HTTP, or to a file with --json. Needs the extra: pip install 'barograph[otel]'. Every number keeps the
    time at which it was recorded.

    Examples:

      barograph export otel runs/first --endpoint http://localhost:4318

      barograph export otel runs/first --follow

      barograph export otel runs/first --json metrics.jsonl
    """
    from barograph.cli.share.export_page import export_otel

    if export_otel(run, endpoint, json_file, follow=follow):
        raise typer.Exit(EXIT_INTERRUPTED)


def tensorboard(
    run: _Run,
    out: Annotated[
        Path | None,
        typer.Option("--out", "-o", metavar="DIR", help="Output folder. Default: tensorboard/RUN-NAME."),
    ] = None,
    follow: Annotated[
        bool, typer.Option("--follow", help="Keep adding new data until the run ends or you press Ctrl-C.")
    ] = False,
    every: Annotated[
        float | None,
        typer.Option("--every", min=0.1, metavar="SECS", help="Seconds between updates with --follow. Default: 5.",
                     show_default=False),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Write TensorBoard event files.

    One folder per mode. Needs neither TensorFlow nor TensorBoard. Losses, learning rates, logged metrics, times and
    machine metrics become scalars, as do the statistics of each tensor (mean, norm, extremes, ...). Its histogram
    becomes a histogram, and findings become text. With several workers, each has its own folders: r0/train, r1/train.

    An earlier export of this run is replaced atomically. A folder with other events is refused.

    With --follow, the files grow during training, for a TensorBoard that stays open. After an interruption, the same
    command continues where it stopped; no step is written twice.

    Examples:

      barograph export tensorboard runs/first

      barograph export tensorboard runs/first --follow

      barograph export tensorboard runs/first -o logs/first

      barograph export tensorboard runs/first -o logs/first --json | jq .folders
    """
    from barograph.cli.share.tensorboard_page import FOLLOW_SECS, export_and_print, follow_and_print

    if every is not None and not follow:
        raise typer.BadParameter("--every needs --follow")
    if not follow:
        export_and_print(run, out, as_json=as_json)
    elif follow_and_print(run, out, every_secs=FOLLOW_SECS if every is None else every, as_json=as_json):
        raise typer.Exit(EXIT_INTERRUPTED)


def mlflow(
    name: Annotated[
        str, typer.Argument(metavar="RUN|EXPERIMENT", help="Name or path of a run, or name of an experiment, a trial "
                                                           "or a component.")
    ],
    to: Annotated[str, typer.Option("--to", metavar="URL", help="MLflow tracking server: http://HOST:PORT.")],
    root: Root = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Export a run or an experiment to an MLflow server.

    MLflow need not be installed here. Metrics keep their steps and times; parameters, tags, notes, commit, inputs and
    artifacts are exported too. Runs that came from MLflow are sent back unchanged. Existing runs are left alone, and
    incomplete ones are sent again. Set MLFLOW_TRACKING_TOKEN, or MLFLOW_TRACKING_USERNAME and MLFLOW_TRACKING_PASSWORD,
    to authenticate.

    Examples:

      barograph export mlflow runs/first --to http://localhost:5000

      barograph export mlflow digits --to http://localhost:5000
    """
    from barograph.cli.share.mlflow_export import export_and_print

    export_and_print(name, to, root, as_json=as_json)


# Last, because the entry points lead to the functions above.
GROUP = group_of_plugins("barograph.exporters", command)
