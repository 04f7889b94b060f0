"""Hooks into Ignite engines, for training and evaluation."""

from __future__ import annotations

import contextlib
import weakref
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ignite import engine as engines

from barograph.capture.integrations import report_missing
from barograph.capture.trainers.loop import TrainerLoop
from barograph.model.step import Mode

if TYPE_CHECKING:
    from barograph.capture.integrations import Listening

_NEEDS = {
    "Engine.run": "metrics", "Engine.add_event_handler": "metrics", "Engine.terminate": "the end of a training",
}

_names: weakref.WeakKeyDictionary[Any, str] = weakref.WeakKeyDictionary()


def name_engine(engine: Any, name: str) -> None:
    """Set the prefix of an engine's metrics."""
    _names[engine] = name


def listen(recording: Listening) -> None:
    """Record every engine of this process."""
    if report_missing(recording.session, engines, _NEEDS):
        return
    loop = _Listener(recording, "Ignite")
    recording.add_integration(loop)
    loop.wrap(engines.Engine, "run", loop.runs)


class _Listener(TrainerLoop):
    """Receives each epoch of an engine.

    An engine trains if optimizers step while it runs, excluding steps in engines that it calls.
    """

    def __init__(self, recording: Listening, library: str) -> None:
        super().__init__(recording, library)
        self._evaluators: weakref.WeakKeyDictionary[Any, str] = weakref.WeakKeyDictionary()
        self._met = 0

    def runs(self, original: Callable[..., Any], args: Any, kwargs: Any) -> Any:
        """Run an engine, and observe its epochs; a stopped one terminates before the script is notified."""
        engine, events = args[0], engines.Events
        if self.silent:
            return original(*args, **kwargs)
        with contextlib.ExitStack() as stack:
            stack.enter_context(self.own_end(engine.terminate))
            epoch = _Epoch(self._steps())
            # These are its last handlers, so that handlers that compute metrics run before.
            for event, handler in ((events.EPOCH_STARTED, self._begins), (events.EPOCH_COMPLETED, self._ends)):
                stack.callback(engine.add_event_handler(event, handler, epoch).remove)
            return original(*args, **kwargs)

    def _begins(self, engine: Any, epoch: _Epoch) -> None:
        epoch.begins_after = self._steps()

    def _ends(self, engine: Any, epoch: _Epoch) -> None:
        state = engine.state
        if self._steps() > epoch.begins_after:
            self.log(lambda: {**state.metrics, "epoch": state.epoch, "iteration": state.iteration}, Mode.TRAIN)
        elif state.metrics:
            name = self._name_of(engine)
            self.log(lambda: {f"{name}{metric}": value for metric, value in state.metrics.items()}, Mode.EVAL)

    def _steps(self) -> int:
        return sum(self._session.counts.by_optimizer.values())

    def _name_of(self, engine: Any) -> str:
        """Return the metric prefix of an evaluating engine: a name, or "" for the first of them."""
        name = _names.get(engine)
        if name is not None:
            return f"{name}."
        if engine not in self._evaluators:
            self._met += 1
            self._evaluators[engine] = f"evaluator{self._met}." if self._met > 1 else ""
        return self._evaluators[engine]


@dataclass(slots=True)
class _Epoch:
    """The current epoch of an engine.

    Attributes:
        begins_after: Steps of all optimizers before it.
    """

    begins_after: int
