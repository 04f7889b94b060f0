"""The integrations of a framework whose trainings run in sequence, and in parallel threads."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from barograph.capture.array_integration import ArrayIntegration
    from barograph.capture.integrations import Listening


class IntegrationPool:
    """Provides an integration for each training, so that there are only as many as concurrent trainings.

    Args:
        recording: The recording.
    """

    def __init__(self, recording: Listening) -> None:
        self._recording = recording
        self._idle: list[ArrayIntegration] = []

    def take(self) -> ArrayIntegration:
        """Return an integration for a new training, which calls `begin_training`."""
        return self._idle.pop() if self._idle else self._recording.new_array_integration()

    def give_back(self, integration: ArrayIntegration) -> None:
        """Note that a training is over."""
        self._idle.append(integration)
