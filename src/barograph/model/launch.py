"""What `barograph run` tells the Python processes it starts, through one environment variable."""

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

AFTERWORD_VARIABLE = "BAROGRAPH_AFTERWORD"
"""Environment variable that says where a command that never trained leaves what it printed, and for which process.

`NUMBER:PATH`, of the process that started it and of the file."""


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
    """How a process started by `barograph run` is to record itself.

    Attributes:
        settings: With `to` the URL of a run that exists.
        attempt: Which life of the run this is, from 0.
        needs: What the rules that watch ask for.
        resume: From where the training goes on; None: it begins.
        integrations: Found by the process that starts the training, so that the training need not search the installed
            packages. None: the training searches.
    """

    settings: Settings
    attempt: int
    needs: tuple[Selection, ...] = ()
    resume: ResumeOrder | None = None
    integrations: tuple[InstalledIntegration, ...] | None = None

    def to_text(self) -> str:
        """Return it as one line of JSON."""
        needs = [selection_to_json(need) for need in self.needs]
        return json.dumps({"settings": self.settings.to_json(), "attempt": self.attempt, "needs": needs,
                           "resume": asdict(self.resume) if self.resume else None,
                           "integrations": self.integrations})


def launch_from_environment(environment: Mapping[str, str]) -> Launch | None:
    """Return what `barograph run` left in `environment`; None where it left nothing.

    Raises:
        SettingsError: What is there is no launch.
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
        raise SettingsError(f"{LAUNCH_VARIABLE} is not what `barograph run` writes: {error}") from error


def integrations_from_launch(data: Mapping[str, Any]) -> tuple[InstalledIntegration, ...] | None:
    """Return the integrations that a launch lists, from its parsed JSON; None if it lists none."""
    listed = data.get("integrations")
    return None if listed is None else tuple(InstalledIntegration(*item) for item in listed)
