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
from barograph.capture.keras.recorder import KerasRecorder
from barograph.capture.keras.step_events import StepEvents
from barograph.capture.keras.tensorflow_loop import LoopEvaluation, TensorFlowLoop
from barograph.capture.keras.wrappers import Wrappers
from barograph.capture.orders import NotDone
from barograph.store.urls import store_from_url

if TYPE_CHECKING:
    from barograph.capture.array_integration import ArrayIntegration
    from barograph.capture.integrations import Listening
    from barograph.model.selection import Selection
    from barograph.model.step import Mode


class Loop(Protocol):
    """Calls a function that makes one step."""

    def call(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Make the step; return what the function returns."""


class Evaluation(Protocol):
    """Calls a function that makes one part of an evaluation."""

    def call(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Make it; return what the function returns."""


class Loops(Protocol):
    """Creates the wrappers of custom training loops."""

    def new_loop(self, function: Any) -> Loop:
        """Return what calls the step of a loop of the script's own."""

    def new_evaluation(self, function: Any) -> Evaluation:
        """Return what calls an evaluation of the script's own."""


class KerasIntegration(StepEvents):
    """The Keras integration of one recording.

    Args:
        recording: Whose integration this is.
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

    def install(self) -> None:
        """Put the wrappers in."""
        global _listening
        self._wrappers.install(tapes=keras.backend.backend() == "tensorflow")
        self._session.steering.offer_checkpoint(self._save_checkpoint)
        _listening = self

    # What the recording asks

    def ask_for(self, selections: Iterable[Selection]) -> None:
        """Look anew what is asked for."""
        for watched in self._models.values():
            watched.plan_changed()

    def mode_changes(self, mode: Mode | None) -> None:
        """Do nothing: Keras says itself what it does."""

    def remove(self) -> None:
        """Take out every wrapper, and put the functions back that Keras had made."""
        global _listening
        _listening = None
        self._wrappers.undo()
        for model in list(self._models):
            for name in ("train_function", "test_function"):
                plain = getattr(getattr(model, name, None), "of_keras", None)
                if plain is not None:
                    setattr(model, name, plain)
        self._models.clear()

    # What the wrappers tell

    def function_made(self, make: Callable[..., Any], model: Any, args: Any, kwargs: Any, what: str) -> Any:
        """Let Keras make its function, and have its calls pass through ours."""
        result = make(model, *args, **kwargs)
        plain = getattr(model, f"{what}_function")
        if self._session.closed or plain is None or getattr(plain, "of_keras", None) is not None:
            return result
        watched = self._watched(model)
        functions = Functions(make, model, what, self._backend, self.collecting,
                              lambda error: self._session.guard.caught(error, f"recording the {what} step of Keras"))
        call = watched.train if what == "train" else watched.test
        session = self._session

        # A plain function, as Keras's own: a model that is copied must not take a recording with it.
        def function(*args: Any, **kwargs: Any) -> Any:
            if session.closed or kwargs:
                return plain(*args, **kwargs)
            with self._torch_aside():
                return call(functions, args)

        function.of_keras = plain  # type: ignore[attr-defined]
        setattr(model, f"{what}_function", function)
        return result

    def batch_called(self, method: Callable[..., Any], model: Any, args: Any, kwargs: Any) -> Any:
        """Pause the torch integration: Keras builds a model by calling it with tensors that hold nothing."""
        with self._torch_aside():
            return method(model, *args, **kwargs)

    def training_called(self, method: Callable[..., Any], model: Any, args: Any, kwargs: Any) -> Any:
        """Have the integration of torch stand aside while a model trains, and end an evaluation where it ends."""
        with self._torch_aside():
            result = method(model, *args, **kwargs)
        watched = self._models.get(model)
        if watched is not None:
            watched.end_evaluation()
        return result

    def new_loop(self, function: Any) -> TensorFlowLoop:
        """Return what calls the step of a loop of the script's own."""
        integration = self._evaluated_first or self._recording.new_array_integration()
        self._integration_of_loop, self._evaluated_first = integration, None
        loop = TensorFlowLoop(function, integration, self.collecting_of_replicas, self._recorder)
        self._is_recorded_by_ours()
        return loop

    def new_evaluation(self, function: Any) -> LoopEvaluation:
        """Return what calls an evaluation of the script's own: of the loop that came last before it, or of
        the first that comes."""
        if self._integration_of_loop is None:
            self._integration_of_loop = self._evaluated_first = self._recording.new_array_integration()
        return LoopEvaluation(function, self._integration_of_loop, self.collecting_of_replicas)

    # Within

    def _save_checkpoint(self) -> str:
        """Save the models that are trained into the run; return where."""
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
        """Say what of the recorder's settings nobody asks within a step whose values are not known yet."""
        for name in self._recorder.unasked() if self._recorder is not None else ():
            self._session.seen.reasons[f"recorder.{name}"] = (
                f"recorder.{name} is not called: the step is compiled, so its values cannot be read "
                "(use run_eagerly=True, or the torch backend)")

    def may_pass(self, collector: Collector, fits: bool) -> bool:
        """Return whether gradients whose values are known may be used: what the user asked to hold is held, too."""
        if fits and self._recorder is not None:
            with self.told_of("checking whether to hold a step"):
                collector.verdict = self._recorder.asked(collector.seen, collector.paths)
        return fits and collector.verdict is None

    def told_of(self, doing: str) -> Any:
        """Return what guards the training against errors of ours."""
        collector = self._collector
        if collector is not None and collector.reach.is_tracing():
            return self._of_compiling(doing)
        return self._entry.guarded(doing)

    @contextlib.contextmanager
    def _of_compiling(self, doing: str) -> Iterator[None]:
        """Do likewise where a step is traced: that is done once, as compiling it is, and no part of a step's price."""
        with self._entry.guarded(doing), self._session.startup.timed():
            yield

    def _torch_aside(self) -> contextlib.AbstractContextManager[None]:
        return self._recording.aside("torch") if self._is_torch else contextlib.nullcontext()


def listening() -> Loops | None:
    """Return who calls the steps of loops in this process; None: they are called as they are."""
    return _listening


def listen_instead(loops: Loops) -> None:
    """Have the steps of loops called by another: one is made again, and none is recorded."""
    global _listening
    _listening = loops


_listening: Loops | None = None
