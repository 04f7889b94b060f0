"""`barograph tune`: find the best hyperparameters of a training."""

from __future__ import annotations

import inspect
import os
import shutil
from collections.abc import Iterable
from typing import Annotated, Any

import typer
import typer.core

from barograph.cli.jobs import submit
from barograph.cli.stray_options import BesideScript, WithHints
from barograph.errors import UnknownName, closest, nearest

_NOT_OF_TUNE = ("command", "name", "to", "wait", "dry_run", "as_json", "experiment", "trial", "studio",
                "live")
_DEFAULT = "start"
_ALIKE = 0.75  # lsit and list are 0.75, fit and list 0.57


class _TuneGroup(typer.core.TyperGroup):
    """Runs `start` if no subcommand is named: `barograph tune train.py …`."""

    default = _DEFAULT
    """Subcommand that is run if none is named."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        if args and args[0] not in self.commands and args[0] not in ("-h", "--help"):
            if not _may_be_run(args[0]) and not ctx.resilient_parsing:
                _check_is_program(args[0], self.commands, is_alone=len(args) == 1)
            args = [self.default, *args]
        words: list[str] = super().parse_args(ctx, args)
        return words


def _may_be_run(word: str) -> bool:
    return word.startswith("-") or "/" in word or word.endswith((".py", ".sh", ".toml")) or (
        os.path.isfile(word) or shutil.which(word) is not None)


def _check_is_program(word: str, commands: Iterable[str], *, is_alone: bool) -> None:
    """Refuse a word that is a study or a misspelled subcommand. With arguments it may be a program elsewhere."""
    from barograph.jobs.home import JobsHome
    from barograph.tune.study_home import StudyHome

    if StudyHome(JobsHome()).has(word):
        raise UnknownName(f"{word} is a study. To show it:  barograph tune show {word}")
    if is_alone or closest(word, commands, least=_ALIKE):
        raise UnknownName(f'There is no subcommand "{word}". {nearest(word, commands)}')


GROUP = typer.Typer(cls=_TuneGroup, no_args_is_help=True, rich_markup_mode=None, help="""\
Find the best hyperparameters of a training with few trials.

    Each trial is a job. Hopeless trials are stopped early, for a stated reason.

    Examples:

      barograph tune train.py --vary lr=1e-5..1e-1:log --maximize val_acc

      barograph tune tune.toml

      barograph tune resume train-ab12

    All options, such as --json:  barograph tune start --help
    """)


def _own(
    command: Annotated[
        list[str] | None,
        typer.Argument(metavar="COMMAND...", help="A script (train.py) or any command with its own arguments, in which "
                                                  "{lr} becomes the value of lr; or a file (tune.toml). Put "
                                                  "arguments that are also options of this command after --."),
    ] = None,
    vary: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME=VALUES", help="What varies: lr=1e-5..1e-1:log, width=16..256:int, "
                                                 "optimizer=adam,sgd. Scales: log, reverse-log, linear. "
                                                 "Repeatable.")
    ] = None,
    constraint: Annotated[
        list[str] | None, typer.Option(help="Condition that every trial meets: 'width * depth <= 1024'. Repeatable.")
    ] = None,
    maximize: Annotated[
        list[str] | None, typer.Option(metavar="METRIC", help="Metric to maximize. Repeatable: several objectives.")
    ] = None,
    minimize: Annotated[
        list[str] | None, typer.Option(metavar="METRIC", help="Metric to minimize. Repeatable.")
    ] = None,
    metric: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME=REGEX", help="Read a metric from the output: 'val_acc=accuracy: ([0-9.]+)'. "
                                                "Default: metrics that the run records. Repeatable.")
    ] = None,
    value: Annotated[str | None, typer.Option(help="Value of a trial: last or best. Default: last.")] = None,
    jobs: Annotated[int | None, typer.Option(help="Number of trials. Default: 20.")] = None,
    parallel: Annotated[int | None, typer.Option(help="Number of trials at the same time. Default: 1.")] = None,
    strategy: Annotated[
        str | None, typer.Option(help="auto, bayesian, random, grid or hyperband. Default: auto.")
    ] = None,
    seed: Annotated[
        int | None, typer.Option(help="Seed of the search. With it and --parallel 1, the study is reproducible.")
    ] = None,
    stop_rule: Annotated[
        list[str] | None,
        typer.Option(help="Rule that stops trials that fall behind: median (worse than half of the others), asha (not "
                          "among the best third after 1, 3, 9 … values of the metric) or none. Default: median; "
                          "with hyperband, asha. Repeatable.")
    ] = None,
    stop_on_findings: Annotated[
        bool | None, typer.Option("--stop-on-findings/--no-stop-on-findings",
                                  help="Stop trials that are broken, dead, diverged or not learning. Default: yes.")
    ] = None,
    target_value: Annotated[
        float | None, typer.Option(help="End when a trial reaches this value of the first metric.")
    ] = None,
    max_time: Annotated[str | None, typer.Option(help="End after this time: 2h.")] = None,
    max_cost: Annotated[float | None, typer.Option(help="End at this total cost of all trials; needs --price.")] = None,
    patience: Annotated[
        int | None, typer.Option(help="End after this many trials without an improvement of 1%.")
    ] = None,
    convergence: Annotated[
        bool | None, typer.Option("--convergence", help="End when the model of the search expects no improvement.")
    ] = None,
    parent: Annotated[
        list[str] | None, typer.Option(metavar="STUDY", help="Start from the trials of an earlier study of the same "
                                                             "data and model. Repeatable, up to 5.")
    ] = None,
    transfer: Annotated[
        bool | None, typer.Option("--transfer", help="The parents used other data or another model: try their best "
                                                     "parameters first.")
    ] = None,
    confirm: Annotated[
        int | None, typer.Option(help="At the end, repeat the best two trials this many times with other seeds "
                                      "(--seed N of the script), and say whether the winner is really better.")
    ] = None,
    refit: Annotated[
        bool | None, typer.Option("--refit/--no-refit",
                                  help="At the end, train the best trial of a built-in algorithm again on all rows, "
                                       "those for validation included. Default: yes, unless --data has a validation "
                                       "channel or there are several metrics.")
    ] = None,
    name: Annotated[
        str | None, typer.Option(help="Name of the study. Default: the script and a random suffix.")
    ] = None,
    to: Annotated[
        str | None, typer.Option(help="Directory or URL for the study and its runs. Default: barograph-runs.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the result as JSON.")] = False,
) -> None:
    pass


def start(**typed: Any) -> None:
    """Tune a script or a built-in algorithm.

    Each trial is a job: all options of barograph submit apply to it. Values arrive as options of the script (--lr 0.1)
    and in SM_HP_LR. Ctrl-C or a crash loses nothing: barograph tune resume continues the study.

    Exit code: 0 a trial finished, 1 all trials failed, 130 interrupted.

    Examples:

      barograph tune train.py --vary lr=1e-5..1e-1:log --maximize val_acc

      barograph tune tune.toml --jobs 40 --parallel 4

      barograph tune --algorithm xgboost --data train=a.parquet --target price
    """
    # Loaded here, because --help needs none of it.
    from barograph.cli.jobs.tune_page import start_typed

    start_typed(typed)


def _signature() -> inspect.Signature:
    """Return the options of a study, then those of its jobs."""
    ours = inspect.signature(_own, eval_str=True).parameters
    theirs = inspect.signature(submit.command).parameters
    shared = [item for name, item in theirs.items() if name not in ours and name not in _NOT_OF_TUNE]
    return inspect.Signature([item.replace(kind=inspect.Parameter.KEYWORD_ONLY) for item in (*ours.values(), *shared)])


start.__signature__ = _signature()  # type: ignore[attr-defined]
start.__annotations__ = {name: item.annotation for name, item in _signature().parameters.items()}
GROUP.command(_DEFAULT, cls=BesideScript, context_settings={"ignore_unknown_options": True})(start)

_StudyName = Annotated[str, typer.Argument(metavar="STUDY", help="Name of the study, or its directory or URL.")]
_Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]


@GROUP.command("resume", cls=WithHints)
def resume(
    study: _StudyName,
    jobs: Annotated[int | None, typer.Option(help="New number of trials.")] = None,
    parallel: Annotated[int | None, typer.Option(help="New number of trials at the same time.")] = None,
    max_time: Annotated[str | None, typer.Option(help="New time limit of the whole study: 2h.")] = None,
    as_json: _Json = False,
) -> None:
    """Continue a study.

    Also one that you stopped, or that is complete: --jobs and --max-time set new limits.

    Examples:

      barograph tune resume train-ab12

      barograph tune resume train-ab12 --jobs 80
    """
    from barograph.cli.jobs.tune_page import resume_named

    resume_named(study, jobs=jobs, parallel=parallel, max_time=max_time, as_json=as_json)


@GROUP.command("show", cls=WithHints)
def show(study: _StudyName, as_json: _Json = False) -> None:
    """Show the trials of a study and the best one.

    Also prints the importance of parameters, and how values were chosen.

    Examples:

      barograph tune show train-ab12
    """
    from barograph.cli.jobs.tune_page import show_named

    show_named(study, as_json=as_json)


@GROUP.command("stop", cls=WithHints)
def stop(study: _StudyName, as_json: _Json = False) -> None:
    """Stop a study and its running trials.

    Examples:

      barograph tune stop train-ab12
    """
    from barograph.cli.jobs.tune_page import stop_named

    stop_named(study, as_json=as_json)


@GROUP.command("list", cls=WithHints)
def list_(as_json: _Json = False) -> None:
    """List the studies of this machine, the newest first.

    Examples:

      barograph tune list
    """
    from barograph.cli.jobs.tune_page import list_all

    list_all(as_json=as_json)
