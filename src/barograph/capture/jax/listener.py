"""Installs the JAX hooks: state shared by all observed steps of a process, and its removal."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, Protocol

from barograph.capture import recording as recordings
from barograph.capture.array_integration import ArrayIntegration
from barograph.model.probe import ProbeSettings

if TYPE_CHECKING:
    from barograph.capture.integrations import Listening
    from barograph.capture.jax.evaluation_probe import EvaluationProbe
    from barograph.capture.jax.layers import LayerWrappers
    from barograph.capture.jax.optax import Wrappers
    from barograph.capture.jax.probe import JaxProbe
    from barograph.capture.jax.program import Compiled
    from barograph.capture.recording import Recording
    from barograph.model.selection import Selection
    from barograph.model.step import Mode


class JaxIntegration:
    """State shared by the observed steps of one recording.

    Nothing is installed in JAX before a step is observed: the script may use it for something else.
    """

    def __init__(self) -> None:
        self._wrappers: tuple[Wrappers, LayerWrappers] | None = None
        self.series: ArrayIntegration | None = None
        self._probe: JaxProbe | None = None
        self._automatic: EvaluationProbe | None = None

    def probe(self, recording: Recording, model: Callable[[Any], Any], inputs: Any, targets: Any) -> None:
        """Evaluate the samples of the probe; arguments and errors as of `barograph.jax.probe`."""
        from barograph.capture.jax.probe import JaxProbe

        if self.series is None:
            self.series = recording.array_integration()
        if self._automatic is not None:
            self._automatic.stop(self.series.evaluation_buffer)
        if self._probe is None:
            self._probe = JaxProbe(recording.session, recording.observed[0] or ProbeSettings(), inputs, targets)
        self._probe.evaluate(model, self.series)

    def automatic_probe(self, recording: Recording) -> EvaluationProbe | None:
        """Return the probe of observed evaluations; None: it is off, or the script calls `barograph.jax.probe`."""
        settings, given = recording.observed
        if self._automatic is None and settings is not None and given is None and self._probe is None:
            from barograph.capture.jax.evaluation_probe import EvaluationProbe

            self._automatic = EvaluationProbe(recording.session, settings)
        return self._automatic

    def wrappers(self) -> tuple[Wrappers, LayerWrappers]:
        """Install and return the wrappers that mark values of Optax, Flax and Equinox."""
        if self._wrappers is None:
            from barograph.capture.jax.layers import LayerWrappers
            from barograph.capture.jax.optax import Wrappers

            self._wrappers = Wrappers(), LayerWrappers()
        return self._wrappers

    def ask_for(self, selections: Iterable[Selection]) -> None:
        """Do nothing: the integrations of the steps handle it."""

    def mode_changes(self, mode: Mode | None) -> None:
        """Do nothing: the integrations of the steps handle it."""

    def remove(self) -> None:
        """Take out every wrapper."""
        for wrappers in self._wrappers or ():
            wrappers.remove()
        self._wrappers = None


_integrations: weakref.WeakKeyDictionary[Any, JaxIntegration] = weakref.WeakKeyDictionary()


def listen(recording: Listening) -> None:
    """Add the shared state of observed steps to the recording."""
    integration = _integrations[recording] = JaxIntegration()
    recording.add_integration(integration)


def shared(recording: Recording) -> JaxIntegration:
    """Return the shared state of a recording's observed steps."""
    if recording not in _integrations:
        listen(recording)
    return _integrations[recording]


class CallsInstead(Protocol):
    """Handles calls of observed steps during a replay, when nothing is recorded."""

    def call(self, compiled: Compiled, *, loss: Callable[[Any], Any] | None, evaluation: bool, args: tuple[Any, ...],
             kwargs: Mapping[str, Any]) -> Any:
        """Call a step and return its results."""


def call_instead(calls: CallsInstead | None) -> None:
    """Set the handler of observed steps' calls; None: call them directly."""
    global _instead
    _instead = calls


def called_instead() -> CallsInstead | None:
    """Return the handler of observed steps' calls when nothing is recorded; None: call them directly."""
    return _instead


_instead: CallsInstead | None = None


def recording_now() -> Recording | None:
    """Return the current recording of this process; None: nothing is recorded."""
    found = recordings.current() or recordings.launched()
    return None if found is None or found.session.closed else found
