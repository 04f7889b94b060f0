"""`barograph export`: hand runs on to other people and programs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from barograph.cli.archive_group import ArchiveGroup
from barograph.cli.catalog_options import Root
from barograph.cli.watch import EXIT_INTERRUPTED

GROUP = typer.Typer(cls=ArchiveGroup, rich_markup_mode=None, no_args_is_help=True)

_Run = Annotated[str, typer.Argument(metavar="RUN", help="Directory, URL or name of the run.")]


@GROUP.callback()
def command() -> None:
    """Export runs as an archive, or to TensorBoard or MLflow.

    The word "archive" may be left out.

    Examples:

      barograph export archive digits -o digits.zip

      barograph export chrome runs/first -o trace.json

      barograph export tensorboard runs/first -o tensorboard/first

      barograph export mlflow digits --to http://localhost:5000

      barograph export otel runs/first --endpoint http://localhost:4318

      barograph export otel runs/first --json metrics.jsonl
    """


@GROUP.command()
def archive(
    names: Annotated[
        list[str], typer.Argument(metavar="NAME...", help="Runs, experiments, trials or components: names or "
                                                          "identities, or places of runs.")
    ],
    out: Annotated[str, typer.Option("--out", "-o", metavar="FILE|URL", help="File to write, or object in a bucket; "
                                                                             "one that is there is replaced, whole "
                                                                             "or not at all.")],
    checkpoints: Annotated[
        bool, typer.Option("--checkpoints", help="Also checkpoints. How large they are is said without it.")
    ] = False,
    capsules: Annotated[
        bool, typer.Option("--capsules", help="Also the steps that the flight recorder held. Likewise.")
    ] = False,
    skip_running: Annotated[
        bool, typer.Option("--skip-running", help="Leave out runs that are still written, which else are refused.")
    ] = False,
    root: Root = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Write runs and experiments to one file, which barograph import archive brings into another root.

    With a run goes all that is known of it: records, findings, what made it, what it printed, parameters, tags, notes,
    lineage, and its artifacts; with an experiment its trials and everything in them, what several share once. The
    file is a ZIP whose members are stored as they are, each with its digest; unpacked, it is a root of runs. The same
    content is the same file, byte for byte.

    Exit code 1: it was written, and something in it was damaged before, or is no longer kept.

    Examples:

      barograph export archive runs/first -o first.zip

      barograph export archive digits --checkpoints -o digits.zip

      barograph export archive digits --root s3://bucket/runs -o s3://bucket/archives/digits.zip
    """
    from barograph.cli.archive_page import export_and_tell

    if not export_and_tell(names, out, root, checkpoints=checkpoints, capsules=capsules, skip_running=skip_running,
                           as_json=as_json):
        raise typer.Exit(1)


@GROUP.command()
def chrome(
    run: _Run,
    out: Annotated[
        Path | None, typer.Option("--out", "-o", metavar="FILE", help="File to write. Default: trace.json.")
    ] = None,
) -> None:
    """Write a trace that chrome://tracing and Perfetto (ui.perfetto.dev) open.

    It holds the steps and their parts, curves of losses and of the use of the machine, and the findings.

    Examples:

      barograph export chrome runs/first -o trace.json
    """
    # Loaded here, because --help needs none of it.
    from barograph.cli.export_page import export_chrome

    export_chrome(run, out or Path("trace.json"))


@GROUP.command()
def otel(
    run: _Run,
    endpoint: Annotated[
        str | None,
        typer.Option(metavar="URL", help="Where to send, as in http://localhost:4318. Default: what "
                                         "OTEL_EXPORTER_OTLP_ENDPOINT says."),
    ] = None,
    json_file: Annotated[
        Path | None, typer.Option("--json", metavar="FILE", help="Write OTLP's JSON to this file instead of sending.")
    ] = None,
    follow: Annotated[bool, typer.Option("--follow", help="Go on until the run has ended. Ctrl-C ends it.")] = False,
) -> None:
    """Send a run's numbers as OpenTelemetry metrics, by OTLP over HTTP, or write them to a file.

    Needs the extra: pip install 'barograph[otel]'. Every number keeps the time at which it was recorded.

    Examples:

      barograph export otel runs/first --endpoint http://localhost:4318

      barograph export otel runs/first --follow

      barograph export otel runs/first --json metrics.jsonl
    """
    from barograph.cli.export_page import export_otel

    if export_otel(run, endpoint, json_file, follow=follow):
        raise typer.Exit(EXIT_INTERRUPTED)


@GROUP.command()
def tensorboard(
    run: _Run,
    out: Annotated[
        Path | None,
        typer.Option("--out", "-o", metavar="DIR", help="Folder to write to. Default: tensorboard/NAME-OF-THE-RUN."),
    ] = None,
    follow: Annotated[
        bool, typer.Option("--follow", help="Go on until the run has ended, adding what is new. Ctrl-C ends it.")
    ] = False,
    every: Annotated[
        float | None,
        typer.Option("--every", min=0.1, metavar="SECS", help="With --follow: how often to look. Default: 5.",
                     show_default=False),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Write event files that TensorBoard shows: curves, histograms and findings, in a folder for each mode.

    Neither TensorFlow nor TensorBoard is needed. Losses, learning rates, logged numbers, times and figures of the
    machine are scalars; so are mean, norm, extremes and the like of each tensor, and its histogram is a histogram.
    Findings are texts. Where several workers recorded, each has folders of its own: r0/train, r1/train.

    What was written of this run before is replaced, all at once; a folder that holds other events is refused.

    With --follow the files grow while the training goes on, for a TensorBoard that is kept open. No step is written
    twice: when it is interrupted, or killed, the same command goes on where it was.

    Examples:

      barograph export tensorboard runs/first

      barograph export tensorboard runs/first --follow

      barograph export tensorboard runs/first -o logs/first && tensorboard --logdir logs

      barograph export tensorboard runs/first -o logs/first --json | jq .folders
    """
    from barograph.cli.tensorboard_page import FOLLOW_SECS, export_and_tell, follow_and_tell

    if every is not None and not follow:
        raise typer.BadParameter("--every says how often to look with --follow; add it")
    if not follow:
        export_and_tell(run, out, as_json=as_json)
    elif follow_and_tell(run, out, every_secs=FOLLOW_SECS if every is None else every, as_json=as_json):
        raise typer.Exit(EXIT_INTERRUPTED)


@GROUP.command()
def mlflow(
    name: Annotated[
        str, typer.Argument(metavar="RUN|EXPERIMENT", help="Name or place of a run; or name of an experiment, a trial "
                                                           "or a component.")
    ],
    to: Annotated[str, typer.Option("--to", metavar="URL", help="MLflow's tracking server, http://HOST:PORT.")],
    root: Root = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Tell MLflow's tracking server of a run, or of all runs of an experiment.

    MLflow need not be installed here. Every number that was logged goes with its step and time; parameters, tags,
    notes, commit, inputs and artifacts go along. What came from MLflow goes back as it was. What is there already is
    left alone, and what was left in the middle is sent anew. The server asks for MLFLOW_TRACKING_TOKEN, or
    MLFLOW_TRACKING_USERNAME and MLFLOW_TRACKING_PASSWORD.

    Examples:

      barograph export mlflow runs/first --to http://localhost:5000

      barograph export mlflow digits --to http://localhost:5000 --json | jq '.runs[].told'
    """
    from barograph.cli.mlflow_export import export_and_tell

    export_and_tell(name, to, root, as_json=as_json)
