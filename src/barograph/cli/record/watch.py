"""`barograph watch`: evaluate rules on a run, during training or later."""

from __future__ import annotations

from typing import Annotated

import typer


def command(
    run: Annotated[str, typer.Argument(metavar="RUN", help="Directory, URL or name of the run.")],
    rules: Annotated[
        str | None,
        typer.Option(help="Rules to evaluate, by code or name, separated by commas; all, none, or -NAME to exclude "
                          "one. Default: the run's rules."),
    ] = None,
    on_finding: Annotated[
        str | None,
        typer.Option(help="notify: report it. stop: also stop training at the first costly or breaking finding. Or "
                          "take an action: checkpoint-then-stop, lower-lr, skip-step, capsule. For an ended run, print "
                          "the action that would have been taken. Default: as for the run."),
    ] = None,
    notify: Annotated[
        list[str] | None,
        typer.Option(metavar="URL", help="Also send findings there: https://… receives a CloudEvent; mailto://…, "
                                         "slack://… and others go through Apprise; command:./notify.sh is executed. "
                                         "Write secrets as $NAME or ${file:PATH}. Repeatable."),
    ] = None,
    set_: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="RULE.PARAMETER=VALUE",
                     help="Set a parameter of a rule, or its severity, actions or enabled: G101.patience=5, "
                          "overfit.severity=note, lower-lr.factor=0.1. Repeatable."),
    ] = None,
    against: Annotated[
        str | None, typer.Option(metavar="OTHER", help="Also compare with this run, which should be identical (rule "
                                                       "similar-across-runs).")
    ] = None,
    findings_to: Annotated[
        str | None,
        typer.Option(metavar="FILE", help="Also append findings to this file, one JSON object per line.")
    ] = None,
    config: Annotated[
        str | None, typer.Option(help="Settings file (barograph.toml). It overrides the settings of the run.")
    ] = None,
    once: Annotated[
        bool, typer.Option("--once", help="Evaluate what has been recorded, then exit.")
    ] = False,
    fresh: Annotated[
        bool, typer.Option("--fresh", help="Start at the first step and write nothing into the run: to try other "
                                           "rules, or for read-only runs. Actions are only reported, unless "
                                           "--on-finding is given.")
    ] = False,
    brief: Annotated[
        bool, typer.Option("--brief", help="Print findings and the summary only, and leave Ctrl-C to the training. For "
                                           "a watcher beside a training.")
    ] = False,
    all_below: Annotated[
        bool, typer.Option("--all", help="RUN is a directory or a bucket: watch every run below it, at any depth, and "
                                         "new ones. With --once: evaluate what has been recorded, then exit.")
    ] = False,
    processes: Annotated[
        int, typer.Option(help="Number of processes. They share the rules of one run or, with --all, the runs.")
    ] = 1,
    engine: Annotated[
        str, typer.Option(help="Where the processes run. processes: on this machine. ray: on the Ray cluster of "
                               "RAY_ADDRESS or of this machine (needs barograph[ray]).")
    ] = "processes",
    part: Annotated[
        str, typer.Option(hidden=True, help="Which of several services this is, as --processes begins them.")
    ] = "",
    as_json: Annotated[
        bool, typer.Option("--json", help="Print the summary as JSON. Other messages go to standard error.")
    ] = False,
) -> None:
    """Watch a run from another process or another machine.

    Reports problems when they open and close, then prints a summary.

    A running run is watched until it ends or its writer process dies; an ended run is evaluated from its records, with
    the same findings. A restarted watcher continues where the last one stopped. Ctrl-C stops the watcher, not the
    training, and prints the summary so far.

    Examples:

      barograph watch runs/first

      barograph watch s3://bucket/runs/first --on-finding stop

      barograph watch runs/first --rules dead-relu,overfit --fresh

      barograph watch runs/first --notify 'command:./page-me.sh'

      barograph watch runs/second --against runs/first --fresh --rules R101

      barograph watch s3://bucket/runs --all --processes 4

      barograph watch s3://bucket/runs --all --processes 16 --engine ray
    """
    # Loaded here, because --help needs none of it.
    from barograph.cli.options import listed
    from barograph.cli.record.serving import serve
    from barograph.cli.record.watching import Options, watch_run

    options = Options(
        listed(rules), on_finding, findings_to, config, once=once, fresh=fresh, brief=brief, as_json=as_json,
        notify=tuple(notify or ()), set_=tuple(set_ or ()), processes=processes, engine=engine,
        against=against,
    )
    if serve(run, options, part) if all_below else watch_run(run, options):
        raise typer.Exit(EXIT_INTERRUPTED)


EXIT_INTERRUPTED = 130
"""Exit code after Ctrl-C, as in shells."""
