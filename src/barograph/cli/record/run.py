"""`barograph run`: start a command, record its training, watch it, and report problems."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Any

import typer

from barograph.cli.options import (
    Live,
    SummaryAsJson,
    Trust,
    default_config,
    listed,
    replaced,
    settings_from_options,
    tables_set,
    tags_from,
    whole_path,
)
from barograph.cli.stray_options import BesideScript
from barograph.errors import SettingsError
from barograph.model.checkpoints import with_cadence
from barograph.model.clock import SystemClock
from barograph.model.launch import Launch
from barograph.model.one_line import shown
from barograph.model.probe import probe_from
from barograph.model.recorder import RecorderSettings, names_from
from barograph.model.settings import Settings
from barograph.provenance.secrets import Secrets
from barograph.rules.registry import actions_by_rule, check_capsule_on, needs_of, rules_from_settings
from barograph.runs.state.claim import claim_run
from barograph.runs.state.places import new_manifest, new_place
from barograph.store.urls import store_from_url

if TYPE_CHECKING:
    from barograph.watch.recipient import Recipient

CLASS = BesideScript

CONTEXT = {"allow_interspersed_args": False, "ignore_unknown_options": False}


def command(
    command: Annotated[
        list[str],
        typer.Argument(metavar="COMMAND...", help="A script (train.py) or any command, with its own arguments."),
    ],
    to: Annotated[
        str | None,
        typer.Option(help="Where to store the run: a directory or s3://bucket/prefix. A killed run there is resumed. "
                          "Default: a new directory in $BAROGRAPH_ROOT, else in barograph-runs/."),
    ] = None,
    rules: Annotated[
        str | None, typer.Option(help="Rules to evaluate, by code or name, separated by commas. Default: all.")
    ] = None,
    on_finding: Annotated[
        str | None,
        typer.Option(help="notify: report it. stop: also stop training at the first costly or breaking finding. Or "
                          "take an action: checkpoint-then-stop, lower-lr, skip-step, capsule."),
    ] = None,
    allow: Annotated[
        str | None, typer.Option(help="Allow actions that change the training: lower-lr, skip-step.")
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
                          "overfit.severity=note, lower-lr.factor=0.1; or of the flight recorder or checkpoints: "
                          "recorder.loss_above=8, checkpoints.at_findings=true. Repeatable."),
    ] = None,
    budget: Annotated[
        str | None,
        typer.Option(help="Maximum share of training time spent on recording: 1%, 0.01, or off. Default: 1%."),
    ] = None,
    preset: Annotated[
        str | None, typer.Option(help="What to record: free, standard, moments, sampled, exact, units, updates, "
                                      "everything. Default: standard.")
    ] = None,
    config: Annotated[
        str | None, typer.Option(help="Settings file. Default: barograph.toml in this directory, if it exists.")
    ] = None,
    record: Annotated[
        bool | None,
        typer.Option("--record", help="Before a bad update (NaN or infinite gradients), save the whole step and stop. "
                                      "barograph replay repeats the step. More options: [recorder] in the settings "
                                      "file."),
    ] = None,
    capsule_on: Annotated[
        str | None,
        typer.Option(metavar="RULE,...", help="Save the step that triggers one of these rules, or the next one, as "
                                              "--record does. With --set recorder.ring=10, the last ten steps are "
                                              "available."),
    ] = None,
    checkpoint: Annotated[
        str | None,
        typer.Option(metavar="WHEN", help="Save checkpoints for barograph resume: auto (as often as it pays off), "
                                          "every=100 (steps), 10min. More options: [checkpoints] in the settings "
                                          "file."),
    ] = None,
    probe: Annotated[
        int | None,
        typer.Option(metavar="SAMPLES", help="At each evaluation, store the outputs of one layer for this many samples "
                                             "of the evaluation data (PyTorch, Keras). More options: [probe] in the "
                                             "settings file."),
    ] = None,
    probe_layer: Annotated[
        str | None,
        typer.Option(metavar="PATH", help="Layer whose outputs --probe stores. Default: the input of the last linear "
                                          "layer."),
    ] = None,
    saliency: Annotated[
        int | None,
        typer.Option(metavar="SAMPLES", help="Also compute saliency maps of the first samples of the probe at each "
                                             "evaluation, with additional forward and backward passes. At most 64."),
    ] = None,
    trace: Annotated[
        bool | None,
        typer.Option("--trace/--no-trace", help="Record which samples each step received, for barograph trace. "
                                                "Default: on."),
    ] = None,
    experiment: Annotated[
        str | None, typer.Option(help="Experiment of the run. Created if it does not exist.")
    ] = None,
    trial: Annotated[
        str | None, typer.Option(help="Trial of the run. Default: a trial of its own, named after the run.")
    ] = None,
    tag: Annotated[
        list[str] | None, typer.Option(metavar="NAME=TEXT", help="Add a tag to the run. Repeatable.")
    ] = None,
    origin: Annotated[
        bool | None,
        typer.Option("--origin/--no-origin", help="Save code, packages, data and output of the run, for barograph "
                                                  "rerun. Default: on.")
    ] = None,
    findings_to: Annotated[
        str | None,
        typer.Option(metavar="FILE", help="Also append findings to this file, one JSON object per line."),
    ] = None,
    strict: Annotated[
        bool | None, typer.Option("--strict", help="Let Barograph's own errors raise in the script, for debugging.")
    ] = None,
    studio: Annotated[
        bool, typer.Option("--studio", help="Print a link to the run in the browser. Starts barograph studio for its "
                                            "directory unless one is already running.")
    ] = False,
    trust: Trust = False,
    live: Live = True,
    as_json: SummaryAsJson = False,
) -> None:
    """Run a training script unchanged and report what goes wrong.

    Output, arguments, signals and exit code of the script are unchanged; Barograph writes to standard error. A training
    stopped by a finding exits with code 79.

    Examples:

      barograph run train.py --lr 0.1

      barograph run --on-finding stop --to runs/first train.py

      barograph run --notify '$OPS_HOOK' --set dead-relu.actions=stop train.py

      barograph run torchrun --nproc-per-node 2 train.py
    """
    # Loaded here, because `barograph submit` has these options, too.
    from barograph.capture.presets import preset_named
    from barograph.cli.child import check_command, end_like
    from barograph.cli.record.launching import recorded

    settings = settings_of({
        "to": to, "rules": rules, "on_finding": on_finding, "budget": budget, "preset": preset, "strict": strict,
        "findings_to": findings_to, "trace": trace, "origin": origin, "allow": allow, "notify": notify,
        "experiment": experiment, "trial": trial, "tag": tag, "set_": set_, "config": config, "record": record,
        "capsule_on": capsule_on, "checkpoint": checkpoint, "trust": trust, "probe": probe,
        "probe_layer": probe_layer, "saliency": saliency,
    })
    settings_file = config or default_config()
    if studio and as_json:
        raise typer.BadParameter("--studio and --json cannot be combined: the link would break the JSON output")
    if settings.to.startswith("memory:"):
        raise SettingsError("A run in memory cannot be shared by two processes. Give --to a directory or a bucket.")
    preset_named(settings.preset)
    check_command(command)
    store = store_from_url(settings.to or new_place(_program(command)))
    # Absolute, since the script may change its directory.
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
    if studio:
        start_studio(store.url)
    end_like(recorded(command, launch, store, chosen, live=live, as_json=as_json, recipients=recipients,
                      settings_file=whole_path(settings_file)))


def settings_of(typed: Mapping[str, Any], of_job: Mapping[str, Any] | None = None) -> Settings:
    """Return the settings from this command's options, on top of those of the file.

    Args:
        typed: The options, by the names of the parameters of `command`.
        of_job: Settings of a job file, on top of those of the file.

    Raises:
        SettingsError: A setting is invalid.
    """
    as_typed = ("to", "on_finding", "budget", "preset", "strict", "findings_to", "trace", "origin", "experiment",
                "trial")
    settings = settings_from_options({
        **{name: typed[name] for name in as_typed}, "rules": listed(typed["rules"]), "allow": listed(typed["allow"]),
        "notify": typed["notify"] or None, "tags": tags_from(typed["tag"]), **tables_set(typed["set_"]),
    }, typed["config"], trusts=bool(typed.get("trust")), of_job=of_job)
    if typed["checkpoint"] is not None:
        settings = replaced(settings, checkpoints=with_cadence(settings.checkpoints, typed["checkpoint"],
                                                                  name="--checkpoint"))
    if typed["record"] and settings.recorder is None:
        settings = replaced(settings, recorder=RecorderSettings())
    if typed["capsule_on"] is not None:
        settings = replaced(settings, recorder=replace(settings.recorder or RecorderSettings(),
                                                       capsule_on=names_from(typed["capsule_on"])))
    asked = {"samples": typed.get("probe"), "layer": typed.get("probe_layer"), "saliency": typed.get("saliency")}
    asked = {name: value for name, value in asked.items() if value is not None}
    if asked:
        base = settings.probe.to_json() if settings.probe else {}
        settings = replaced(settings, probe=probe_from("probe", {**base, **asked}))
    return settings


def recipients_for(settings: Settings) -> Mapping[str, Recipient]:
    """Return all recipients of notifications, validated before anything starts; imports nothing without recipients."""
    if not settings.notify:
        return {}
    from barograph.watch.addressing import recipients_of

    return recipients_of(settings)


def start_studio(url: str) -> None:
    from barograph.companions import start_studio_at

    try:
        start_studio_at(url, 2)
    except OSError as error:
        print(f"barograph: no studio: {error}", file=sys.stderr, flush=True)


def _program(command: list[str]) -> str:
    """Return the name of the program: the script, if the command has one."""
    return next((word for word in command if word.endswith(".py")), os.path.basename(command[0]))
