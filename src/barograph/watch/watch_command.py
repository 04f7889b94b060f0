"""The command that watches a run from another process."""

from __future__ import annotations

import json

from barograph.model.launch import LAUNCH_VARIABLE
from barograph.model.notify import notify_to_json
from barograph.model.settings import Settings
from barograph.processes.command import Command, environment_without, own_module

NOTIFY_VARIABLE = "BAROGRAPH_NOTIFY"
"""Environment variable with the receivers of notifications. A command line would show them to every user."""


def watch_command(url: str, settings: Settings) -> Command:
    """Return the command that watches a run with the settings that it started with.

    Rules and the file of findings are arguments: a watcher loads rules that are not installed, and writes files, only
    on request.
    """
    arguments = ["watch", url, "--brief", "--rules", ",".join(settings.rules) or "none"]
    if settings.findings_to:
        arguments += ["--findings-to", settings.findings_to]
    return own_module("barograph", *arguments, environment={
        **environment_without([LAUNCH_VARIABLE]), **notify_environment(settings)})


def notify_environment(settings: Settings) -> dict[str, str]:
    """Return the environment variable that hands the receivers of notifications to a watcher; empty without any."""
    if not settings.notify:
        return {}
    return {NOTIFY_VARIABLE: json.dumps([notify_to_json(item) for item in settings.notify])}
