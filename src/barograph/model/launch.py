"""The environment variable by which `barograph run` configures the Python processes it starts."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, NamedTuple

from barograph.errors import SettingsError
from barograph.model.resume import ResumeOrder
from barograph.model.selection import Selection
from barograph.model.settings import Settings, selection_from_mapping, selection_to_json, settings_from_mapping

LAUNCH_VARIABLE = "BAROGRAPH_LAUNCH"
"""Environment variable that holds a `Launch` as JSON."""

COMMAND_NOTE_VARIABLE = "BAROGRAPH_COMMAND_NOTE"
"""Environment variable with the file for the output of a command that does not train.

Its value is `NUMBER:PATH`: the number of the process that started it, and the file.
"""


class InstalledIntegration(NamedTuple):
    """An installed integration of a framework.

    Attributes:
        module: Module whose import activates it.
        listener: Function that installs its hooks, as `module:function`. It takes the recording.
        package: Package that declares it; "": ours.
    """

    module: str
    listener: str
    package: str = ""

    @property
    def framework(self) -> str:
        """The top-level module of the framework."""
        return self.module.partition(".")[0]


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


def integrations_from_launch(data: Mapping[str, Any]) -> tuple[InstalledIntegration, ...] | None:
    """Return the integrations that a launch lists, from its parsed JSON; None if it lists none."""
    listed = data.get("integrations")
    return None if listed is None else tuple(InstalledIntegration(*item) for item in listed)
