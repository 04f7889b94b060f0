"""What `barograph run` tells the Python processes it starts, through one environment variable."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass

from barograph.errors import SettingsError
from barograph.model.resume import ResumeOrder
from barograph.model.selection import Selection
from barograph.model.settings import Settings, selection_from_mapping, selection_to_json, settings_from_mapping

LAUNCH_VARIABLE = "BAROGRAPH_LAUNCH"
"""Environment variable that holds a `Launch` as JSON."""

AFTERWORD_VARIABLE = "BAROGRAPH_AFTERWORD"
"""Environment variable that says where a command that never trained leaves what it printed, and for which process.

`NUMBER:PATH`, of the process that started it and of the file."""


@dataclass(frozen=True, slots=True)
class Launch:
    """How a process started by `barograph run` is to record itself.

    Attributes:
        settings: With `to` the URL of a run that exists.
        attempt: Which life of the run this is, from 0.
        needs: What the rules that watch ask for.
        resume: From where the training goes on; None: it begins.
    """

    settings: Settings
    attempt: int
    needs: tuple[Selection, ...] = ()
    resume: ResumeOrder | None = None

    def to_text(self) -> str:
        """Return it as one line of JSON."""
        needs = [selection_to_json(need) for need in self.needs]
        return json.dumps({"settings": self.settings.to_json(), "attempt": self.attempt, "needs": needs,
                           "resume": asdict(self.resume) if self.resume else None})


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
        return Launch(settings_from_mapping(data["settings"]), int(data["attempt"]), needs, resume)
    except (ValueError, KeyError, TypeError) as error:
        raise SettingsError(f"{LAUNCH_VARIABLE} is not what `barograph run` writes: {error}") from error
