"""`barograph run`: start a command, record the training in it, watch it, and say what goes wrong."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Any

import typer

from barograph.capture.presets import preset_named
from barograph.cli.child import check_command, end_like
from barograph.cli.launching import recorded
from barograph.cli.options import (
    DEFAULT_CONFIG,
    Live,
    SummaryAsJson,
    Trust,
    listed,
    replaced,
    settings_from_options,
    tables_set,
    tags_from,
    whole_path,
)
from barograph.errors import SettingsError
from barograph.model.checkpoints import with_cadence
from barograph.model.clock import SystemClock
from barograph.model.launch import Launch
from barograph.model.one_line import shown
from barograph.model.recorder import RecorderSettings, names_from
from barograph.model.settings import Settings
from barograph.provenance.secrets import Secrets
from barograph.rules.registry import actions_by_rule, check_capsule_on, needs_of, rules_from_settings
from barograph.runs.state.claim import claim_run
from barograph.runs.state.places import new_manifest, new_place
from barograph.store.urls import store_from_url

if TYPE_CHECKING:
    from barograph.watch.recipient import Recipient

CONTEXT = {"allow_interspersed_args": False, "ignore_unknown_options": False}


def command(
    command: Annotated[
        list[str],
        typer.Argument(metavar="COMMAND...", help="A script (train.py) or any command, with its own arguments."),
    ],
    to: Annotated[
        str | None,
        typer.Option(help="Where the run is kept: a directory or s3://bucket/prefix. A run that was killed there is "
                          "resumed. Default: a new place below what BAROGRAPH_ROOT says, else barograph-runs/."),
    ] = None,
    rules: Annotated[
        str | None, typer.Option(help="Rules to watch with, by code or name, separated by commas. Default: all.")
    ] = None,
    on_finding: Annotated[
        str | None,
        typer.Option(help="notify: tell. stop: also stop training at the first finding that is costly or breaking. "
                          "checkpoint-then-stop, lower-lr, skip-step, capsule: do that."),
    ] = None,
    allow: Annotated[
        str | None, typer.Option(help="Actions that may change what the training computes: lower-lr, skip-step.")
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
                          "overfit.severity=note, lower-lr.factor=0.1; or of the flight recorder or checkpoints: "
                          "recorder.loss_above=8, checkpoints.at_findings=true. May be given several times."),
    ] = None,
    budget: Annotated[
        str | None,
        typer.Option(help="Greatest share of training time that capture may cost: 1%, 0.01, or off. Default: 1%."),
    ] = None,
    preset: Annotated[
        str | None, typer.Option(help="What to record: free, standard, moments, sampled, exact, units, updates, "
                                      "everything. Default: standard.")
    ] = None,
    config: Annotated[
        str | None, typer.Option(help="Settings file. Default: barograph.toml in this directory, if there is one.")
    ] = None,
    record: Annotated[
        bool | None,
        typer.Option("--record", help="Hold a step that fails (a gradient that is not finite) before its update, save "
                                      "it whole, and stop: barograph replay makes it again. More: [recorder] in the "
                                      "settings file."),
    ] = None,
    capsule_on: Annotated[
        str | None,
        typer.Option(metavar="RULE,...", help="Have the step saved that a finding of these rules is of, or the next "
                                              "one, as --record saves a step that fails; with --set recorder.ring=10 "
                                              "the last ten steps are at hand."),
    ] = None,
    checkpoint: Annotated[
        str | None,
        typer.Option(metavar="WHEN", help="Save checkpoints that barograph resume goes on from: auto (as often as pays "
                                          "off), every=100 (steps), 10min. More: [checkpoints] in the settings file."),
    ] = None,
    trace: Annotated[
        bool | None,
        typer.Option("--trace/--no-trace", help="Take down which samples each step was fed: barograph trace tells "
                                                "them. Default: taken down."),
    ] = None,
    experiment: Annotated[
        str | None, typer.Option(help="Experiment that the run is for; created where it is new.")
    ] = None,
    trial: Annotated[
        str | None, typer.Option(help="Trial of it that the run belongs to. Default: one of its own, named as the run.")
    ] = None,
    tag: Annotated[
        list[str] | None, typer.Option(metavar="NAME=TEXT", help="Tag of the run. May be given several times.")
    ] = None,
    origin: Annotated[
        bool | None,
        typer.Option("--origin/--no-origin", help="Keep what made the run: code, packages, data, output; barograph "
                                                  "rerun makes it again. Default: kept.")
    ] = None,
    findings_to: Annotated[
        str | None,
        typer.Option(metavar="FILE", help="Also append what is told of findings to this file, one line of JSON for "
                                          "each event."),
    ] = None,
    strict: Annotated[
        bool | None, typer.Option("--strict", help="Raise Barograph's own errors in the script, for debugging.")
    ] = None,
    trust: Trust = False,
    live: Live = True,
    as_json: SummaryAsJson = False,
) -> None:
    """Run a training script unchanged and report what goes wrong.

    The script's output, arguments, signals and exit code stay its own; what Barograph says goes to standard
    error. A training that a finding stopped ends with exit code 79.

    Examples:

      barograph run train.py --lr 0.1

      barograph run --on-finding stop --to runs/first train.py

      barograph run --notify '$OPS_HOOK' --set dead-relu.actions=stop train.py

      barograph run torchrun --nproc-per-node 2 train.py
    """
    settings = settings_of({
        "to": to, "rules": rules, "on_finding": on_finding, "budget": budget, "preset": preset, "strict": strict,
        "findings_to": findings_to, "trace": trace, "origin": origin, "allow": allow, "notify": notify,
        "experiment": experiment, "trial": trial, "tag": tag, "set_": set_, "config": config, "record": record,
        "capsule_on": capsule_on, "checkpoint": checkpoint, "trust": trust,
    })
    settings_file = config or (DEFAULT_CONFIG if os.path.isfile(DEFAULT_CONFIG) else "")
    if settings.to.startswith("memory:"):
        raise SettingsError("A run in memory lives in one process, and this would be two; give --to a directory or "
                            "bucket.")
    preset_named(settings.preset)
    check_command(command)
    store = store_from_url(settings.to or new_place(_program(command)))
    # The whole place, since the script may change its directory.
    settings = replaced(settings, to=store.url, findings_to=whole_path(settings.findings_to))
    chosen = rules_from_settings(settings)
    actions_by_rule(settings)
    check_capsule_on(settings, chosen)
    recipients = recipients_for(settings)
    if settings_file and not as_json:
        print(f"barograph: settings from {shown(settings_file)}", file=sys.stderr, flush=True)
    words = Secrets(os.environ).hide_words(command)
    claim = claim_run(store, new_manifest(settings, command=words, clock=SystemClock()), clock=SystemClock())
    launch = Launch(settings, claim.attempt, needs_of(chosen))
    end_like(recorded(command, launch, store, chosen, live=live, as_json=as_json, recipients=recipients,
                      settings_file=whole_path(settings_file)))


def settings_of(typed: Mapping[str, Any]) -> Settings:
    """Return the settings that options of this command say, on top of those of the file.

    Args:
        typed: The options, by the names of the parameters of `command`.

    Raises:
        SettingsError: Something is wrong with one of them.
    """
    as_typed = ("to", "on_finding", "budget", "preset", "strict", "findings_to", "trace", "origin", "experiment",
                "trial")
    settings = settings_from_options({
        **{name: typed[name] for name in as_typed}, "rules": listed(typed["rules"]), "allow": listed(typed["allow"]),
        "notify": typed["notify"] or None, "tags": tags_from(typed["tag"]), **tables_set(typed["set_"]),
    }, typed["config"], trusts=bool(typed.get("trust")))
    if typed["checkpoint"] is not None:
        settings = replaced(settings, checkpoints=with_cadence(settings.checkpoints, typed["checkpoint"]))
    if typed["record"] and settings.recorder is None:
        settings = replaced(settings, recorder=RecorderSettings())
    if typed["capsule_on"] is not None:
        settings = replaced(settings, recorder=replace(settings.recorder or RecorderSettings(),
                                                       capsule_on=names_from(typed["capsule_on"])))
    return settings


def recipients_for(settings: Settings) -> Mapping[str, Recipient]:
    """Return all who are to be told, checked before anything starts; nothing of it is loaded where nobody is."""
    if not settings.notify:
        return {}
    from barograph.watch.addressing import recipients_of

    return recipients_of(settings)


def _program(command: list[str]) -> str:
    """Return the name of what is run: the script, where the command says one."""
    return next((word for word in command if word.endswith(".py")), os.path.basename(command[0]))
