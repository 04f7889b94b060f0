"""The step of a training loop of TensorFlow that the script has written itself, with `tf.GradientTape`.

As with the step of a model, there are variants: what is wanted of a step leaves the function beside its own result. A
`tf.function` is made again of its own Python function for each, with its own options.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import keras

from barograph.capture.keras.arrays import array_of
from barograph.capture.keras.backends import TensorFlowBackend
from barograph.capture.keras.collector import Collector, Seen, Wanted
from barograph.capture.keras.names import LoopNames
from barograph.capture.keras.recorder import KerasRecorder, packed_step
from barograph.capture.keras.telling import Telling
from barograph.model.key import Key, Kind

if TYPE_CHECKING:
    from barograph.capture.array_tap import ArrayTap
    from barograph.capture.verdict import Verdict

_OF_THE_FUNCTION = (Kind.GRADIENT, Kind.OUTPUT, Kind.INPUT)


class TensorFlowLoop:
    """One function that makes a step each time that it is called.

    Args:
        function: It: a `tf.function`, or a plain one.
        tap: Where its steps go.
        collecting: Gives the context in which all wrappers tell a collector.
        recorder: Holds steps; None: none are held.
    """

    def __init__(self, function: Any, tap: ArrayTap, collecting: Callable[[Collector], Any],
                 recorder: KerasRecorder | None) -> None:
        self._function = function
        self._tap = tap
        self._collecting = collecting
        self._recorder = recorder
        self._telling = Telling(tap, waits=False)
        self._backend = TensorFlowBackend()
        self._names = LoopNames()
        self._light = Wanted() if recorder is None else Wanted(gate=True, norm_above=recorder.settings.norm_above)
        self._variants: dict[Wanted, Callable[..., Any]] = {}
        self._optimizer: Any = None
        self._paths: list[str] = []
        self._verdict: Verdict | None = None

    def call(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Make the step; return what the function returns."""
        tap, names = self._tap, self._names
        wanted = self._wanted() if tap.due(*_OF_THE_FUNCTION) else self._light
        if wanted not in self._variants:
            self._variants[wanted] = self._variant(wanted)
        with tap.guarded("reading weights before their update"):
            self._telling.before(names, _value)
        result, seen = self._variants[wanted](*args, **kwargs)
        with tap.guarded("recording a step of TensorFlow"):
            tap.declare(parameters=names.trainable, modules=names.leaves)
            self._telling.tensors(seen, names, "loss", False)
            if "loss" in seen:
                self._telling.loss(seen["loss"])
            self._telling.learning_rate(seen)
            self._telling.after(names, self._optimizer, _value)
        held = self._was_held(seen)
        finite = seen.get("finite")
        tap.end_step(skipped=held or (finite is not None and not bool(array_of(finite))))
        return result

    def _wanted(self) -> Wanted:
        plan, leaves = self._tap.session.plan, self._names.leaves
        everything = plan.everything()
        outputs, inputs = (
            frozenset(path for path, layer in leaves.items()
                      if plan.taking(everything, Key(kind, path), layer) is not None)
            for kind in (Kind.OUTPUT, Kind.INPUT))
        return Wanted(self._tap.asks_ever(Kind.GRADIENT), outputs, inputs, gate=self._light.gate,
                      norm_above=self._light.norm_above)

    def _variant(self, wanted: Wanted) -> Callable[..., Any]:
        tensorflow: Any = importlib.import_module("tensorflow")
        function = self._function
        plain = getattr(function, "python_function", None)
        body = function if plain is None else _converted(tensorflow, plain)

        def step(*args: Any, **kwargs: Any) -> tuple[Any, Seen]:
            collector = Collector(self._names, wanted, self._backend.reach(args))
            collector.begin_loop((*args, *kwargs.values()))
            with self._collecting(collector):
                result = body(*args, **kwargs)
            collector.end_loop()
            self._optimizer = collector.optimizer
            self._paths = collector.seen.pop("paths", self._paths)
            self._verdict = collector.verdict
            for path in collector.lost:
                self._tap.session.seen.reasons[f"keras within {path}"] = (
                    f"{path} is called within a loop or a branch of its own, from which its inputs and outputs cannot "
                    "be had")
            return result, collector.seen

        if plain is None:
            return step
        made: Callable[..., Any] = tensorflow.function(
            tensorflow.autograph.experimental.do_not_convert(step), input_signature=function.input_signature,
            jit_compile=getattr(function, "_jit_compile", None), reduce_retracing=True)
        return made

    def _was_held(self, seen: Seen) -> bool:
        recorder, names, verdict = self._recorder, self._names, self._verdict
        if recorder is None:
            return False
        if "withheld" not in seen:
            self._tap.session.seen.reasons["the flight recorder of a loop"] = (
                "the flight recorder: this step uses its gradients without an optimizer of Keras, and cannot be held")
            return False
        if verdict is None and not bool(array_of(seen["withheld"])):
            return False
        with self._tap.guarded("holding a step"):
            paths = self._paths
            recorder.hold(verdict or recorder.verdict(seen, paths), "", self._tap.step,
                          lambda: packed_step(None, self._optimizer, names, seen, _value, paths))
            for path, before in seen.get("before", {}).items():
                if path in names.untrained and before.dtype.is_floating:
                    names.untrained[path].assign(before)
        return True


def _converted(tensorflow: Any, function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a Python function with its `if` and `for` of tensors in the graph, as `tf.function` has them."""
    converted: Callable[..., Any] = tensorflow.autograph.to_graph(function)
    return converted


def _value(variable: Any) -> Any:
    return variable.value if isinstance(variable, keras.Variable) else variable
