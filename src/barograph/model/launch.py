"""The environment variable by which `barograph run` configures the Python processes it starts."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass

from barograph.errors import SettingsError
from barograph.model.launch_variable import (
    COMMAND_NOTE_VARIABLE,
    LAUNCH_VARIABLE,
    InstalledIntegration,
    integrations_from_launch,
)
from barograph.model.resume import ResumeOrder
from barograph.model.selection import Selection
from barograph.model.settings import Settings, selection_from_mapping, selection_to_json, settings_from_mapping

__all__ = ["COMMAND_NOTE_VARIABLE", "LAUNCH_VARIABLE", "InstalledIntegration", "Launch", "integrations_from_launch",
           "launch_from_environment"]


@dataclass(frozen=True, slots=True)
class Launch:
    """How a process started by `barograph run` records itself.

    Attributes:
        settings: Settings; `to` is the URL of an existing run.
        attempt: Attempt of the run, from 0.
        needs: Records that the rules need.
        resume: Where to resume; None: start from the beginning.
        integrations: Those that the process that starts the training found, so that the training need not search the
            installed packages. None: the training searches.
    """

    settings: Settings
    attempt: int
    needs: tuple[Selection, ...] = ()
    resume: ResumeOrder | None = None
    integrations: tuple[InstalledIntegration, ...] | None = None

    def to_text(self) -> str:
        """Return one line of JSON."""
        needs = [selection_to_json(need) for need in self.needs]
        return json.dumps({"settings": self.settings.to_json(), "attempt": self.attempt, "needs": needs,
                           "resume": asdict(self.resume) if self.resume else None,
                           "integrations": self.integrations})


def launch_from_environment(environment: Mapping[str, str]) -> Launch | None:
    """Return the launch in `environment`; None if there is none.

    Raises:
        SettingsError: The variable does not hold a launch.
    """
    text = environment.get(LAUNCH_VARIABLE)
    if not text:
        return None
    try:
        data = json.loads(text)
        needs = tuple(selection_from_mapping("", need) for need in data["needs"])
        resume = ResumeOrder(**data["resume"]) if data.get("resume") else None
        return Launch(settings_from_mapping(data["settings"]), int(data["attempt"]), needs, resume,
                      integrations_from_launch(data))
    except (ValueError, KeyError, TypeError) as error:
        raise SettingsError(f"{LAUNCH_VARIABLE} was not written by `barograph run`: {error}") from error
