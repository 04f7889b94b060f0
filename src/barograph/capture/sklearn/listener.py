"""Hooks into the iteratively trained estimators of scikit-learn, each once its module is imported."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import TYPE_CHECKING

from barograph.capture.imports import after_import, forget
from barograph.capture.integration_pool import IntegrationPool
from barograph.capture.patches import Patches

if TYPE_CHECKING:
    from barograph.capture.recording import Recording


def listen(recording: Recording) -> None:
    """Report the scikit-learn trainings of this process to the recording."""
    listener = _Listener(recording)
    recording.add_integration(listener)
    listener.wait()


class _Listener(Patches):
    """Wraps each family of estimators when it is imported."""

    def __init__(self, recording: Recording) -> None:
        super().__init__()
        self._recording = recording
        self._integrations = IntegrationPool(recording)
        self._waiting: list[Callable[[], None]] = []

    def wait(self) -> None:
        """Wrap loaded modules, and others when they are imported."""
        families = {"sklearn.ensemble": self._trees, "sklearn.neural_network": self._networks,
                    "sklearn.linear_model": self._linear}
        for name, wrap in families.items():
            action = functools.partial(self._guarded, wrap)
            self._waiting.append(action)
            after_import(name, action)

    def remove(self) -> None:
        """Remove all wrappers and pending import hooks."""
        for action in self._waiting:
            forget(action)
        super().remove()

    def _guarded(self, wrap: Callable[[], None]) -> None:
        session = self._recording.session
        if session.closed:
            return
        try:
            wrap()
        except Exception as error:  # noqa: BLE001 - the guard handles it; our errors must not fail a framework's import
            session.guard.caught(error, "hooking into sklearn")

    def _trees(self) -> None:
        from barograph.capture.sklearn.trees import wrap_trees

        wrap_trees(self, self._integrations, self._recording.session)

    def _networks(self) -> None:
        from barograph.capture.sklearn.networks import wrap_networks

        wrap_networks(self, self._integrations, self._recording.session)

    def _linear(self) -> None:
        from barograph.capture.sklearn.linear import wrap_linear

        wrap_linear(self, self._integrations, self._recording.session)
