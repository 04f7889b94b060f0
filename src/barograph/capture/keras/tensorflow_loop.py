"""The step of a custom TensorFlow training loop with `tf.GradientTape`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from barograph.capture.evaluation_means import EvaluationMeans
from barograph.capture.keras.arrays import array_of, read_all_of
from barograph.capture.keras.collector import Seen, Wanted
from barograph.capture.keras.loop_functions import LoopFunctions, value_of
from barograph.capture.keras.loss_terms import Losses
from barograph.capture.keras.random import RandomStates
from barograph.capture.keras.recorder import KerasRecorder, packed_step
from barograph.capture.keras.replicas import SharedStep
from barograph.capture.keras.results import ResultRecorder
from barograph.capture.returned import loss_among
from barograph.model.key import Key, Kind

if TYPE_CHECKING:
    from barograph.capture.array_integration import ArrayIntegration

_DATA = (Kind.TARGET, Kind.LABEL, Kind.CONFUSION)
_OF_THE_FUNCTION = (Kind.GRADIENT, Kind.OUTPUT, Kind.INPUT, *_DATA)


class LoopEvaluation:
    """A function of a custom loop; each call is part of an evaluation.

    Args:
        function: A `tf.function`, or a plain one.
        integration: Integration of the loop.
        collecting: Returns the context in which all wrappers report to the collectors of a step.
    """

    def __init__(self, function: Any, integration: ArrayIntegration, collecting: Callable[[SharedStep], Any]) -> None:
        self._function = function
        self._integration = integration
        self._telling = ResultRecorder(integration, waits=False)
        self._functions = LoopFunctions(function, collecting)
        self._means = EvaluationMeans()
        self._was_called = self._is_broken = False

    def call(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Call the function; record arguments of its losses and its numeric results; return its result."""
        integration = self._integration
        with integration.guarded("starting a TensorFlow evaluation"):
            if not integration.evaluating:
                integration.begin_evaluation()
        result, seen = self._called(args, kwargs)
        with integration.guarded("recording a TensorFlow evaluation"):
            self._telling.lost(self._functions.lost)
            self._telling.tensors(seen, self._functions.names, Losses(self._functions.losses))
            self._take(result)
        return result

    def _called(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, Seen]:
        """Call the function, observed if due; return its result and the collected values.

        If the first call of our variant fails, and the script's function works, the fault is ours: it is reported, and
        from then on the latter is called.
        """
        if self._is_broken or not self._integration.due(*_DATA):
            return self._function(*args, **kwargs), {}
        try:
            found = self._functions.call(Wanted(data=True), args, kwargs)
            self._was_called = True
            return found
        except Exception as error:
            if self._was_called:
                raise
            failed = error
        result, self._is_broken = self._function(*args, **kwargs), True
        self._integration.session.guard.caught(failed, "adding statistics to a TensorFlow evaluation")
        return result, {}

    def _take(self, result: Any) -> None:
        loss, metrics = numbers_of(result)
        if loss is not None:
            self._integration.loss(loss)
        for name, value in metrics.items():
            self._means.add(self._integration, Key(Kind.SCALAR, name), value)


def numbers_of(result: Any) -> tuple[float | None, dict[str, float]]:
    """Return the loss (see `loss_among`) and the metrics among the results of an evaluation.

    Of several unnamed ones the first counts; values other than single numbers are ignored.
    """
    parts = result.items() if isinstance(result, Mapping) else (
        ("", item) for item in (result if isinstance(result, list | tuple) else [result]))
    numbers: dict[str, float] = {}
    for name, value in parts:
        array = np.asarray(value if isinstance(value, int | float) else array_of(value))
        if array.size == 1 and array.dtype.kind in "fiu":
            numbers.setdefault(str(name), float(array.reshape(())))
    loss = loss_among(numbers)
    return numbers.pop(loss) if loss is not None else None, {name: value for name, value in numbers.items() if name}


class TensorFlowLoop:
    """A function of a custom loop; each call is a step.

    Args:
        function: A `tf.function`, or a plain one.
        integration: Records its steps.
        collecting: Returns the context in which all wrappers report to the collectors of a step.
        recorder: Flight recorder; None: off.
    """

    def __init__(self, function: Any, integration: ArrayIntegration, collecting: Callable[[SharedStep], Any],
                 recorder: KerasRecorder | None) -> None:
        self._integration = integration
        self._recorder = recorder
        self._telling = ResultRecorder(integration, waits=False, reader=read_all_of)
        self._functions = LoopFunctions(function, collecting)
        self._names = self._functions.names
        self._light = Wanted() if recorder is None else Wanted(gate=True, norm_above=recorder.settings.norm_above)

    def call(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Make the step; return the function's result."""
        integration, names = self._integration, self._names
        if integration.evaluating:
            integration.end_evaluation()
        wanted = self._wanted() if integration.due(*_OF_THE_FUNCTION) else self._light
        with integration.guarded("reading weights before their update"):
            self._telling.before(names, value_of)
        random = RandomStates() if self._recorder is not None else None
        result, seen = self._functions.call(wanted, args, kwargs)
        with integration.guarded("recording a TensorFlow step"):
            integration.declare(parameters=names.trainable, modules=names.leaves)
            self._telling.lost(self._functions.lost)
            if self._functions.unseen:
                integration.session.seen.reasons["replicas of a loop"] = (
                    f"values inside the replicas of a {self._functions.unseen} are not "
                    "recorded")
            self._telling.tensors(seen, names, Losses(self._functions.losses))
            if "loss" in seen:
                self._telling.loss(seen["loss"], self._functions.alone)
            self._telling.learning_rate(seen)
            self._telling.parameters(names, self._functions.modes, value_of)
            self._telling.after(names, self._functions.optimizer, value_of)
        held = self._was_held(seen, wanted, random)
        finite = seen.get("finite")
        integration.end_step(skipped=held or (finite is not None and not bool(array_of(finite))))
        return result

    def _wanted(self) -> Wanted:
        plan, leaves = self._integration.session.plan, self._names.leaves
        everything = plan.everything()
        outputs, inputs = (
            frozenset(path for path, layer in leaves.items()
                      if plan.taking(everything, Key(kind, path), layer) is not None)
            for kind in (Kind.OUTPUT, Kind.INPUT))
        return Wanted(self._integration.asks_ever(Kind.GRADIENT), outputs, inputs,
                      data=self._integration.asks_ever(*_DATA, Kind.FACT), modes=self._integration.asks_ever(Kind.FACT),
                      gate=self._light.gate, norm_above=self._light.norm_above)

    def _was_held(self, seen: Seen, wanted: Wanted, random: RandomStates | None) -> bool:
        recorder, names, functions = self._recorder, self._names, self._functions
        verdict, paths = functions.verdict, functions.paths
        if recorder is None:
            return False
        if "withheld" not in seen:
            self._integration.session.seen.reasons["the flight recorder of a loop"] = (
                "the flight recorder: this step applies its gradients without a Keras optimizer, so it "
                "cannot be held")
            return False
        if verdict is None and not bool(array_of(seen["withheld"])):
            return False
        with self._integration.guarded("holding a step"):
            recorder.hold(verdict or recorder.verdict(seen, paths), "", self._integration.step,
                          lambda: packed_step(None, functions.optimizer, names, seen, value_of, paths, wanted,
                                              random))
            for path, before in seen.get("before", {}).items():
                if path in names.untrained and before.dtype.is_floating:
                    names.untrained[path].assign(before)
        return True
