"""Hooks into Ignite engines, for training and evaluation."""

from __future__ import annotations

import contextlib
import weakref
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ignite import engine as engines

from barograph.capture.integrations import say_missing
from barograph.capture.trainers.loop import TrainerLoop
from barograph.model.step import Mode

if TYPE_CHECKING:
    from barograph.capture.integrations import Listening

_NEEDS = {
    "Engine.run": "metrics", "Engine.add_event_handler": "metrics", "Engine.terminate": "the end of a training",
}

_names: weakref.WeakKeyDictionary[Any, str] = weakref.WeakKeyDictionary()


def name_engine(engine: Any, name: str) -> None:
    """Let the metrics of an engine begin with a name."""
    _names[engine] = name


def listen(recording: Listening) -> None:
    """Have every engine of this process told to the recording."""
    if say_missing(recording.session, engines, _NEEDS):
        return
    loop = _Listener(recording, "Ignite")
    recording.add_integration(loop)
    loop.wrap(engines.Engine, "run", loop.runs)


class _Listener(TrainerLoop):
    """Receives each epoch of an engine.

    An engine trains if optimizers step while it runs, but for those that step in engines that it runs in turn.
    """

    def __init__(self, recording: Listening, library: str) -> None:
        super().__init__(recording, library)
        self._evaluators: weakref.WeakKeyDictionary[Any, str] = weakref.WeakKeyDictionary()
        self._met = 0

    def runs(self, original: Callable[..., Any], args: Any, kwargs: Any) -> Any:
        """Let an engine run, and hear its epochs; one that is stopped terminates before the script is told."""
        engine, events = args[0], engines.Events
        if self.silent:
            return original(*args, **kwargs)
        with contextlib.ExitStack() as stack:
            stack.enter_context(self.own_end(engine.terminate))
            epoch = _Epoch(self._steps())
            # They are its last handlers, so that those that compute metrics have been called before.
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
        """Return what the metrics of an engine begin with that evaluates: a name, or nothing for the first of them."""
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
        begins_after: Steps of all optimizers that were made before.
    """

    begins_after: int
