"""Replays a saved Keras step inside the user's script, in place of its first training step.

The script builds its model, optimizer and data as usual. Before its first step, weights, non-trainable variables and
optimizer variables are restored and the saved batch is fed. The step runs in the same program as the original. The
script then exits without an update.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from typing import Any

import keras

from barograph.capsule.arrays import handed_in
from barograph.capsule.circumstances import differences
from barograph.capsule.ending import end, ending_where_it_fails, failed
from barograph.capsule.failing import Failing, failing_by, guilty_here
from barograph.capsule.grading import graded
from barograph.capsule.guilty import Guilty
from barograph.capsule.keras.asked import SavedRequest
from barograph.capsule.keras.backends import HANDS
from barograph.capsule.keras.batch import CapturedBatch
from barograph.capsule.keras.layers import LayerSearch
from barograph.capsule.keras.state import CapturedState
from barograph.capsule.keras.steps import FitStep, LoopStep, Step
from barograph.capsule.order import BadOperation, ReplayOrder, ReplayResult
from barograph.capsule.own_function import result_of
from barograph.capture.keras import integration
from barograph.capture.keras.backends import backend_named
from barograph.capture.keras.collector import Collector, Seen, Wanted
from barograph.capture.keras.functions import Functions
from barograph.capture.keras.loop_functions import LoopFunctions
from barograph.capture.keras.recorder import identifying_values, update_seen
from barograph.capture.keras.replicas import CombinedStep
from barograph.capture.keras.step_events import StepEvents
from barograph.capture.keras.wrappers import Wrappers
from barograph.errors import ReplayFailed
from barograph.model.capsule import Held
from barograph.runs.state.capsules import read_capsule
from barograph.store.urls import store_from_url


class KerasReplayer(StepEvents):
    """Takes over the script for one step.

    Args:
        order: The step to replay, and the destination of the result.

    Raises:
        BarographError: The capsule cannot be read, or the script uses another Keras backend.
    """

    def __init__(self, order: ReplayOrder) -> None:
        super().__init__()
        self._order = order
        self._capsule = read_capsule(store_from_url(order.place), order.name)
        content = self._capsule.content
        then, now = str(content["backend"]), keras.backend.backend()
        if then != now:
            raise ReplayFailed(f"The step was recorded with Keras on {then}, but the script uses Keras on {now}.")
        self._backend = backend_named(now)
        self._state = CapturedState(content, self._capsule.tensors)
        self._batch = CapturedBatch(content, self._capsule.tensors)
        self._wanted = _wanted(content.get("wanted") or {"gate": True})
        self._is_of_loop = content["model"] is None

    def install(self) -> None:
        """Install the hooks."""
        Wrappers(self).install(tapes=keras.backend.backend() == "tensorflow")
        if self._is_of_loop:
            integration.listen_instead(self)

    # Events of the script

    def function_made(self, make: Callable[..., Any], model: Any, args: Any, kwargs: Any, what: str) -> Any:
        """Let Keras build its function, and replay the saved step when the function is called for a training step."""
        result = make(model, *args, **kwargs)
        plain = getattr(model, f"{what}_function")
        if what != "train" or self._is_of_loop or plain is None or getattr(plain, "of_keras", None) is not None:
            return result
        functions = Functions(make, model, what, self._backend, self.collecting, self._cannot)

        def function(*args: Any) -> Any:
            with ending_where_it_fails(self._order):
                hand = HANDS[keras.backend.backend()]()
                self._make_again(FitStep(functions, model, hand, args, self._state, self._batch),
                                 str(getattr(model, "loss", None) or "the loss"))

        function.of_keras = plain  # type: ignore[attr-defined]
        setattr(model, f"{what}_function", function)
        return result

    def training_called(self, method: Callable[..., Any], model: Any, args: Any, kwargs: Any) -> Any:
        """Call `fit`, `evaluate` or `predict`."""
        return method(model, *args, **kwargs)

    def new_loop(self, function: Any) -> _LoopAgain:
        """Return the replacement for a custom loop's step."""
        return _LoopAgain(function, self)

    def new_evaluation(self, function: Any) -> _Unheard:
        """Return an evaluation unchanged."""
        return _Unheard(function)

    def loop_called(self, function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """Replay the saved step instead of a custom loop's."""
        with ending_where_it_fails(self._order):
            functions = LoopFunctions(function, self.collecting_of_replicas)
            self._make_again(LoopStep(functions, args, kwargs, self._state, self._batch), "the loss")

    def may_pass(self, collector: Collector, fits: bool) -> bool:
        """Reject every update whose gradients are known."""
        return False

    # The replay

    def _make_again(self, step: Step, loss: str) -> None:
        step.prepare()
        seen, paths = step.make(self._wanted)
        head, content = self._capsule.head, self._capsule.content
        result = graded(content["seen"], identifying_values(seen, paths), held=head.held.value,
                        bound=head.numbers.get("bound"), notes=(*differences(content), *self._batch.notes))
        samples = self._batch.samples
        result = replace(self._judged(result, seen, paths, self._order.when), batches=(samples,) if samples else ())
        if not result.finite:
            result = self._blamed(step, result, loss)
        fails = failing_by(head, result, asked=bool(self._order.when))
        if self._order.samples and samples > 1 and fails(result):
            result = replace(result, guilty=self._guilty(step, result, fails))
        end(self._order, result)

    def _judged(self, result: ReplayResult, seen: Seen, paths: Sequence[str], when: str) -> ReplayResult:
        """Return the result with the gradient norm and the answer of the user's function."""
        update = update_seen(seen, paths, step=self._capsule.head.step)
        own = result_of(when, update, trusts=self._order.trusts) if when else None
        return replace(result, norm=update.norm, own=own)

    def _blamed(self, step: Step, result: ReplayResult, loss: str) -> ReplayResult:
        """Return the result with the cause, or with why it is unknown."""
        samples = self._batch.samples
        bad = handed_in((("batch", self._batch.arrays), ("weight", self._state.weights),
                         ("state", self._state.untrained), ("optimizer", self._state.optimizer)), samples)
        if bad is not None:
            return replace(result, bad_operation=bad)
        search = LayerSearch(step.names, self._backend.reach(()), samples)
        try:
            with self._looking(search):
                step.passes(search)
        except Exception as error:  # noqa: BLE001 - the script's step may raise anything, or require its compiler
            why = f"without a compiler, the step fails: {type(error).__name__}: {error}"
            return replace(result, notes=(*result.notes, f"The layer is not known: {why}"))
        bad = search.bad or search.loss(loss)
        return replace(result, bad_operation=bad) if bad else replace(
            result, notes=(*result.notes, _not_forward(search, result)))

    def _looking(self, search: LayerSearch) -> AbstractContextManager[None]:
        if keras.backend.backend() == "tensorflow":
            return self.collecting_of_replicas(CombinedStep(search))
        return self.collecting(search)

    def _guilty(self, step: Step, result: ReplayResult, fails: Failing) -> Guilty:
        asked = self._order.when if fails.held is Held.OWN else ""

        def make(rows: tuple[int, ...]) -> ReplayResult:
            seen, paths = step.make(self._wanted, rows)
            values = identifying_values(seen, paths)
            return self._judged(graded(values, values, held="not finite", bound=None), seen, paths, asked)

        return guilty_here(self._batch.samples, make, fails, _suspects(result.bad_operation))

    def _cannot(self, error: Exception) -> None:
        end(self._order, failed(error))


class _Unheard:
    """Calls an evaluation without recording it.

    Args:
        function: The evaluation.
    """

    def __init__(self, function: Any) -> None:
        self._function = function

    def call(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Call the function and return its result."""
        return self._function(*args, **kwargs)


class _LoopAgain:
    """Replaces the step of a custom loop."""

    def __init__(self, function: Any, replayer: KerasReplayer) -> None:
        self._function, self._replayer = function, replayer

    def call(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Replay the saved step; the script then exits."""
        self._replayer.loop_called(self._function, args, kwargs)


def _wanted(said: Mapping[str, Any]) -> Wanted:
    fields: dict[str, Any] = {name: frozenset(value) if isinstance(value, list) else value
                              for name, value in said.items() if name != "asked"}
    if said.get("asked") is not None:
        fields["asked"] = SavedRequest(said["asked"])
    return Wanted(**fields)


def _suspects(bad: BadOperation | None) -> Sequence[int]:
    return bad.rows if bad is not None else ()


def _not_forward(search: LayerSearch, result: ReplayResult) -> str:
    """Return a description for a failure outside the layers."""
    if not search.looked:
        return "The layer is not known: without the compiler, the step calls no layer."
    if "loss" not in search.seen:
        return f"The outputs of {search.looked} layer calls are finite; the loss was not recorded separately."
    paths = [item.path for item in result.gradients if item.norm_now != item.norm_now]
    return (f"The outputs of {search.looked} layer calls and the loss are finite. "
            f"The gradient of {', '.join(paths[:3])} becomes non-finite in the backward pass, where Keras "
            "has no hooks.")
