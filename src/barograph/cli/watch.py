"""`barograph watch`: judge a run, while it goes on or long after."""

from __future__ import annotations

from typing import Annotated

import typer


def command(
    run: Annotated[str, typer.Argument(metavar="RUN", help="Directory, URL or name of the run.")],
    rules: Annotated[
        str | None,
        typer.Option(help="Rules to watch with, by code or name, separated by commas; all, none, and -NAME to leave "
                          "one out. Default: those the run was started with."),
    ] = None,
    on_finding: Annotated[
        str | None,
        typer.Option(help="notify: tell. stop: also stop training at the first finding that is costly or breaking. "
                          "checkpoint-then-stop, lower-lr, skip-step, capsule: do that. Of a run that is over it is "
                          "said what would have been done. Default: as the run was started."),
    ] = None,
    notify: Annotated[
        list[str] | None,
        typer.Option(metavar="URL", help="Also tell of findings there: https://… gets a CloudEvent; mailto://…, "
                                         "slack://… and the like go through Apprise; command:./tell.sh is run. Secrets "
                                         "as $NAME or ${file:PATH}. May be given several times."),
    ] = None,
    set_: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="RULE.PARAMETER=VALUE",
                     help="Set a parameter of a rule, or its severity, actions or enabled: G101.patience=5, "
                          "overfit.severity=note, lower-lr.factor=0.1. May be given several times."),
    ] = None,
    against: Annotated[
        str | None, typer.Option(metavar="OTHER", help="Also compare with this run, which should be the same: the "
                                                       "rule similar-across-runs.")
    ] = None,
    findings_to: Annotated[
        str | None,
        typer.Option(metavar="FILE", help="Also append what is told of findings to this file, one line of JSON for "
                                          "each event.")
    ] = None,
    config: Annotated[
        str | None, typer.Option(help="Settings file (barograph.toml), on top of the settings the run was started "
                                      "with.")
    ] = None,
    once: Annotated[
        bool, typer.Option("--once", help="Judge what there is by now, and end; do not wait for more.")
    ] = False,
    fresh: Annotated[
        bool, typer.Option("--fresh", help="Begin at the first step and leave nothing in the run: for a look with "
                                           "other rules, or where the run may not be written. It meddles with "
                                           "no training unless --on-finding is typed, and says what it would have "
                                           "done.")
    ] = False,
    brief: Annotated[
        bool, typer.Option("--brief", help="Findings and the summary only. For a watcher that runs beside a training: "
                                           "an interrupt from the terminal is left to the training.")
    ] = False,
    all_below: Annotated[
        bool, typer.Option("--all", help="RUN is a directory or a bucket that runs lie below, at any depth: watch them "
                                         "all, and those that come. With --once: judge what there is by now, and end.")
    ] = False,
    processes: Annotated[
        int, typer.Option(help="Spread the work over so many processes: of one run its rules, with --all the runs.")
    ] = 1,
    engine: Annotated[
        str, typer.Option(help="Where these processes are. processes: on this machine. ray: on the machines of the Ray "
                               "cluster that RAY_ADDRESS names or that runs here (needs the extra barograph[ray]).")
    ] = "processes",
    part: Annotated[
        str, typer.Option(hidden=True, help="Which of several services this is, as --processes begins them.")
    ] = "",
    as_json: Annotated[
        bool, typer.Option("--json", help="Print the closing summary as JSON; what is told before goes to standard "
                                          "error.")
    ] = False,
) -> None:
    """Watch a run from another process or another machine.

    It tells of problems as they open and close, and sums up at the end.

    A run that goes on is watched until it has ended or its writer is dead; one that has ended is judged from its
    records, with the same findings. A watcher that is started again goes on where the last one was. Ctrl-C ends
    the watching, not the training, with the summary so far.

    Examples:

      barograph watch runs/first

      barograph watch s3://bucket/runs/first --on-finding stop

      barograph watch runs/first --rules dead-relu,overfit --fresh

      barograph watch runs/first --set overfit.patience=3 --notify 'command:./tell.sh'

      barograph watch runs/second --against runs/first --fresh --rules R101

      barograph watch s3://bucket/runs --all --processes 4

      barograph watch s3://bucket/runs --all --processes 16 --engine ray
    """
    # Loaded here, because --help needs none of it.
    from barograph.cli.options import listed
    from barograph.cli.serving import serve
    from barograph.cli.watching import Options, watch_run

    options = Options(
        listed(rules), on_finding, findings_to, config, once=once, fresh=fresh, brief=brief, as_json=as_json,
        notify=tuple(notify or ()), set_=tuple(set_ or ()), processes=processes, engine=engine,
        against=against,
    )
    if serve(run, options, part) if all_below else watch_run(run, options):
        raise typer.Exit(EXIT_INTERRUPTED)


EXIT_INTERRUPTED = 130
"""Exit code after Ctrl-C, as shells have it."""
