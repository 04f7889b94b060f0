"""A command that is recorded and watched, from its start to the summary: what `run` and `resume` have in common."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from barograph.cli.child import Child
from barograph.model.launch import LAUNCH_VARIABLE, Launch
from barograph.rules.base import Rule
from barograph.store.base import Store

if TYPE_CHECKING:
    from barograph.watch.recipient import Recipient


def recorded(
    command: Sequence[str], launch: Launch, store: Store, rules: tuple[Rule, ...], *, live: bool, as_json: bool,
    recipients: Mapping[str, Recipient],
) -> int:
    """Run a command, watch what it records, tell the summary, and return the exit code to end with.

    Args:
        command: As typed.
        launch: How it is to record itself.
        store: The run's.
        rules: What to watch with.
        live: Draw the state at the bottom of the terminal.
        as_json: Tell the summary as JSON.
        recipients: Who else is told.

    Raises:
        SettingsError: The command cannot be run.
    """
    with Child(command, {LAUNCH_VARIABLE: launch.to_text()}) as child:
        # What watches is loaded now, while the child starts: nothing of it is needed before.
        from barograph.cli.supervision import Supervision

        supervision = Supervision(store, rules, launch.settings, launch.attempt, live=live, as_json=as_json,
                                  recipients=recipients)
        child.wait()
    supervision.close(child.exit_code)
    return supervision.exit_code(child.exit_code)
