"""Runs a command with recording and watching, from its start to the summary; shared by `run` and `resume`."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from barograph.capture.integrations import installed_integrations
from barograph.cli.child import Child
from barograph.errors import StoreError
from barograph.model.launch import COMMAND_NOTE_VARIABLE, LAUNCH_VARIABLE, Launch
from barograph.model.question import question_now
from barograph.rules.base import Rule
from barograph.runs.state.places import away_from
from barograph.runs.writing.gathering import OriginThread
from barograph.store.base import Store

if TYPE_CHECKING:
    from barograph.cli.record.supervision import Supervision
    from barograph.watch.recipient import Recipient


def recorded(
    command: Sequence[str], launch: Launch, store: Store, rules: tuple[Rule, ...], *, live: bool, as_json: bool,
    recipients: Mapping[str, Recipient], settings_file: str = "", derived_from: str = "",
    quiet: bool = False,
) -> int:
    """Run a command, watch its run, print the summary, and return the exit code.

    Args:
        command: The command line.
        launch: Recording configuration.
        store: Store of the run.
        rules: Rules to evaluate.
        live: Show the state at the bottom of the terminal.
        as_json: Print the summary as JSON.
        recipients: External recipients of notifications.
        settings_file: Path of the settings file; "": none.
        derived_from: ID of the run that this one repeats; "": none.
        quiet: Hide the command's output.

    Raises:
        SettingsError: The command cannot be run.
    """
    # Searched here, so that no process of the training has to search the installed packages.
    found, problems = installed_integrations()
    launch = replace(launch, integrations=found)
    # Captured before the command can change files, concurrently because it takes time.
    question = question_now(command, away=away_from(store.url), settings_file=settings_file, derived_from=derived_from)
    with (tempfile.TemporaryDirectory(prefix="barograph-note-", ignore_cleanup_errors=True) as scratch,
          Child(command, {LAUNCH_VARIABLE: launch.to_text(), COMMAND_NOTE_VARIABLE: f"{os.getpid()}:{scratch}/note"},
                quiet=quiet) as child):
        origin = OriginThread(store, launch.attempt, question) if launch.settings.origin else None
        # Import the watcher while the child starts, which does not need it.
        from barograph.cli.record.supervision import Supervision

        supervision = Supervision(store, rules, launch.settings, launch.attempt, live=live, as_json=as_json,
                                  recipients=recipients)
        for problem in problems:
            supervision.tell(problem)
        child.wait()
        _take_in_command_note(store, launch.attempt, Path(scratch, "note"), supervision)
    if origin and (trouble := origin.finish()):
        supervision.tell(trouble)
    supervision.close(child.exit_code)
    return supervision.exit_code(child.exit_code)


def _take_in_command_note(store: Store, attempt: int, path: Path, supervision: Supervision) -> None:
    if not path.exists():
        return
    from barograph.runs.writing.command_note import take_in

    try:
        take_in(store, attempt, path)
    except StoreError as error:
        supervision.tell(f"the output of the command was not saved: {error}")
