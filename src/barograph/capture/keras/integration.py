"""The Keras integration: gives each trained model an `ArrayIntegration` and wraps its steps."""

from __future__ import annotations

import contextlib
import os
import weakref
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any, Protocol

import keras

from barograph.capture.entry_point import EntryPoint
from barograph.capture.keras.backends import backend_named
from barograph.capture.keras.checkpoint import save
from barograph.capture.keras.collector import Collector
from barograph.capture.keras.functions import Functions
from barograph.capture.keras.model import WatchedModel
from barograph.capture.keras.probe import KerasProbe
from barograph.capture.keras.recorder import KerasRecorder
from barograph.capture.keras.step_events import StepEvents
from barograph.capture.keras.tensorflow_loop import LoopEvaluation, TensorFlowLoop
from barograph.capture.keras.wrappers import Wrappers
from barograph.capture.orders import NotDone
from barograph.store.urls import store_from_url

if TYPE_CHECKING:
    from barograph.capture.array_integration import ArrayIntegration
    from barograph.capture.integrations import Listening
    from barograph.model.probe import ProbeSettings
    from barograph.model.selection import Selection
    from barograph.model.step import Mode


class Loop(Protocol):
    """Calls a function that makes one step."""

    def call(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Make the step; return the function's result."""


class Evaluation(Protocol):
    """Calls a function that is a part of an evaluation."""

    def call(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Call the function; return its result."""


class Loops(Protocol):
    """Creates the wrappers of custom training loops."""

    def new_loop(self, function: Any) -> Loop:
        """Return the wrapper of a custom loop's step."""

    def new_evaluation(self, function: Any) -> Evaluation:
        """Return the wrapper of a custom evaluation."""


class KerasIntegration(StepEvents):
    """The Keras integration of one recording.

    Args:
        recording: The recording.
    """

    def __init__(self, recording: Listening) -> None:
        super().__init__()
        self._recording = recording
        self._session = recording.session
        self._backend = backend_named(keras.backend.backend())
        self._is_torch = keras.backend.backend() == "torch"
        self._wrappers = Wrappers(self)
        self._integration_of_loop: ArrayIntegration | None = None
        self._evaluated_first: ArrayIntegration | None = None
        self._models: weakref.WeakKeyDictionary[Any, WatchedModel] = weakref.WeakKeyDictionary()
        wanted = self._session.settings.recorder
        self._recorder = None if wanted is None else KerasRecorder(self._session, wanted)
        self._entry = EntryPoint(self._session)
        self._probe = KerasProbe(self._session)
        settings, given = recording.observed
        if settings is not None:
            with self._entry.guarded("reading the samples of the probe"):
                self._probe.observe(settings, given)

    def install(self) -> None:
        """Put the wrappers in."""
        global _listening
        self._wrappers.install(tapes=keras.backend.backend() == "tensorflow")
        self._session.steering.offer_checkpoint(self._save_checkpoint)
        _listening = self

    # Requests of the recording

    def ask_for(self, selections: Iterable[Selection]) -> None:
        """Check the plan again."""
        for watched in self._models.values():
            watched.plan_changed()

    def observe(self, settings: ProbeSettings, given: Any) -> None:
        """Store outputs of a layer at evaluations; arguments and errors as of `Recording.observe`."""
        self._probe.observe(settings, given)

    def mode_changes(self, mode: Mode | None) -> None:
        """Do nothing: Keras reports its mode itself."""

    def remove(self) -> None:
        """Remove every wrapper, and restore the functions that Keras made."""
        global _listening
        _listening = None
        self._wrappers.undo()
        for model in list(self._models):
            for name in ("train_function", "test_function"):
                plain = getattr(getattr(model, name, None), "of_keras", None)
                if plain is not None:
                    setattr(model, name, plain)
        self._models.clear()

    # Events from the wrappers

    def function_made(self, make: Callable[..., Any], model: Any, args: Any, kwargs: Any, what: str) -> Any:
        """Let Keras make its function, and wrap its calls."""
        result = make(model, *args, **kwargs)
        plain = getattr(model, f"{what}_function")
        if self._session.closed or plain is None or getattr(plain, "of_keras", None) is not None:
            return result
        watched = self._watched(model)
        functions = Functions(make, model, what, self._backend, self.collecting,
                              lambda error: self._session.guard.caught(error, f"recording the {what} step of Keras"))
        call = watched.train if what == "train" else watched.test
        session = self._session

        # A plain function, like Keras's own: copying a model must not copy a recording.
        def function(*args: Any, **kwargs: Any) -> Any:
            if session.closed or kwargs:
                return plain(*args, **kwargs)
            with self._torch_aside():
                return call(functions, args)

        function.of_keras = plain  # type: ignore[attr-defined]
        setattr(model, f"{what}_function", function)
        return result

    def batch_called(self, method: Callable[..., Any], model: Any, args: Any, kwargs: Any) -> Any:
        """Disable the torch integration: Keras builds a model by calling it with tensors without data."""
        with self._torch_aside():
            return method(model, *args, **kwargs)

    def training_called(self, method: Callable[..., Any], model: Any, args: Any, kwargs: Any) -> Any:
        """Disable the torch integration while a model trains, and end an evaluation at its end."""
        with self._torch_aside():
            result = method(model, *args, **kwargs)
            watched = self._models.get(model)
            if watched is not None and self._probe.on and method.__name__ == "evaluate":
                with self._entry.guarded("recording the probe"):
                    data, targets = (*args, None, None)[:2]
                    self._probe.evaluated(model, watched.integration, kwargs.get("x", data), kwargs.get("y", targets))
        if watched is not None:
            watched.end_evaluation()
        return result

    def new_loop(self, function: Any) -> TensorFlowLoop:
        """Return the wrapper of a custom loop's step."""
        integration = self._evaluated_first or self._recording.new_array_integration()
        self._integration_of_loop, self._evaluated_first = integration, None
        loop = TensorFlowLoop(function, integration, self.collecting_of_replicas, self._recorder)
        self._is_recorded_by_ours()
        return loop

    def new_evaluation(self, function: Any) -> LoopEvaluation:
        """Return the wrapper of a custom evaluation, which belongs to the last loop before it, or else to the first
        loop after it."""
        if self._integration_of_loop is None:
            self._integration_of_loop = self._evaluated_first = self._recording.new_array_integration()
        return LoopEvaluation(function, self._integration_of_loop, self.collecting_of_replicas)

    # Within

    def _save_checkpoint(self) -> str:
        """Save the trained models into the run; return the location."""
        if self._session.worker.rank[0]:
            raise NotDone("the first worker saves the Keras checkpoint")
        url = self._recording.url
        name = save(store_from_url(url), [watched.standing for watched in self._models.values() if watched.is_trained],
                    attempt=self._recording.launch.attempt, steps=self._session.counts.of_busiest,
                    who=f"pid{os.getpid()}")
        return f"{url.rstrip('/')}/{name}"

    def _is_recorded_by_ours(self) -> None:
        if self._recorder is not None:
            self._session.seen.reasons.pop("the flight recorder", None)

    def _watched(self, model: Any) -> WatchedModel:
        if model not in self._models:
            integration = self._recording.new_array_integration()
            self._models[model] = WatchedModel(weakref.proxy(model), integration, self._backend, self._recorder)
            self._is_recorded_by_ours()
        return self._models[model]

    def values_unknown(self) -> None:
        """Report the recorder's settings that cannot be checked within a compiled step."""
        for name in self._recorder.uncheckable() if self._recorder is not None else ():
            self._session.seen.reasons[f"recorder.{name}"] = (
                f"recorder.{name} is not called: the step is compiled, so its values cannot be read "
                "(use run_eagerly=True, or the torch backend)")

    def may_pass(self, collector: Collector, fits: bool) -> bool:
        """Return whether gradients with known values may be used, according to the user's conditions."""
        if fits and self._recorder is not None:
            with self.catching_errors("checking whether to hold a step"):
                collector.verdict = self._recorder.asked(collector.seen, collector.paths)
        return fits and collector.verdict is None

    def catching_errors(self, doing: str) -> Any:
        """Return a context that catches errors of ours."""
        collector = self._collector
        if collector is not None and collector.reach.is_tracing():
            return self._of_compiling(doing)
        return self._entry.guarded(doing)

    @contextlib.contextmanager
    def _of_compiling(self, doing: str) -> Iterator[None]:
        """Return the context for tracing a step, which counts as compilation rather than cost of a step."""
        with self._entry.guarded(doing), self._session.startup.timed():
            yield

    def _torch_aside(self) -> contextlib.AbstractContextManager[None]:
        return self._recording.aside("torch") if self._is_torch else contextlib.nullcontext()


def listening() -> Loops | None:
    """Return the wrappers of custom loops in this process; None: loops run unwrapped."""
    return _listening


def listen_instead(loops: Loops) -> None:
    """Set the wrappers of custom loops for a replay."""
    global _listening
    _listening = loops


_listening: Loops | None = None
