"""The interface between a recording and the integrations of frameworks."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

if TYPE_CHECKING:
    from barograph.capture.steps import Steps
    from barograph.model.probe import ProbeSettings
    from barograph.model.selection import Selection
    from barograph.model.step import Mode


class Integration(Protocol):
    """Hooks into one framework and reports to the session."""

    def ask_for(self, selections: Iterable[Selection]) -> None:
        """Note additions to the plan, which all integrations of a recording share."""

    def mode_changes(self, mode: Mode | None) -> None:
        """Note a new activity of the script; None: unknown.

        The session still has the previous mode.
        """

    def remove(self) -> None:
        """Remove every hook and wrapper, so that nothing of Barograph remains in the framework. Called once, at the
        end."""


@runtime_checkable
class Observing(Protocol):
    """An integration that can store outputs of a layer at evaluations."""

    def observe(self, settings: ProbeSettings, given: Any) -> None:
        """Store outputs of a layer from now on; arguments and errors as of `Recording.observe`."""


class ScriptIntegration(Integration, Protocol):
    """An integration that also accepts data from the script."""

    @property
    def explicit_steps(self) -> bool:
        """Whether the script ends its steps itself, with `end_explicit_step`."""

    def save(self, name: str, tensor: Any) -> None:
        """Record a whole tensor of the script with the current step."""

    def save_predictions(self, targets: Any, predictions: Any, name: str) -> None:
        """Count targets and predictions in the current step or evaluation."""

    def end_explicit_step(self, loss: Any = None) -> None:
        """End a step on request of the script."""

    def steps_begin(self, steps: Steps) -> Iterator[int]:
        """Return an iterator over the steps of a loop."""
