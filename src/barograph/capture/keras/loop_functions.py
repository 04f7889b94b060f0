"""Variants of the step of a custom loop, with more or fewer additional results.

As with the step of a model, what is wanted of a step leaves the function beside its own result. A `tf.function` is made
again of its own Python function for each variant, with its own options.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import keras

from barograph.capture.keras.backends import TensorFlowBackend
from barograph.capture.keras.collector import Collector, Seen, Wanted
from barograph.capture.keras.merging import merged
from barograph.capture.keras.modes import Modes
from barograph.capture.keras.names import LoopNames
from barograph.capture.keras.replicas import SharedStep

if TYPE_CHECKING:
    from barograph.capture.verdict import Verdict


class LoopFunctions:
    """Creates each variant on first use.

    Args:
        function: Makes one step: a `tf.function`, or a plain one.
        collecting: Gives the context in which all wrappers tell the collectors of a step.

    Attributes:
        names: Of what the step calls; there are none before it was called.
        optimizer: The first that has used gradients.
        paths: Of the variables whose gradients a gate looks at, in order.
        verdict: Why the last step was held, where the step itself could not tell.
        lost: Paths of layers whose inputs and outputs cannot be had.
        modes: In which a step called the models that it trains; None: not known. Of a compiled step, as it was traced.
        losses: The losses of Keras that a step has called, by name.
        alone: What that of them is called whose value is the loss of the step; "": none is.
        unseen: Class of a strategy whose replicas share the step and cannot be told apart; "": there is none.
    """

    def __init__(self, function: Any, collecting: Callable[[SharedStep], Any]) -> None:
        self._function = function
        self._collecting = collecting
        self._backend = TensorFlowBackend()
        self._variants: dict[Wanted, Callable[..., Any]] = {}
        self.names = LoopNames()
        self.optimizer: Any = None
        self.paths: list[str] = []
        self.verdict: Verdict | None = None
        self.lost: set[str] = set()
        self.modes: Modes | None = None
        self.losses: dict[str, Any] = {}
        self.alone = ""
        self.unseen = ""

    @property
    def plain(self) -> Callable[..., Any]:
        """The function as the script wrote it, which nothing has compiled."""
        function: Callable[..., Any] = getattr(self._function, "python_function", self._function)
        return function

    def call(self, wanted: Wanted, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, Seen]:
        """Call a variant; return the function's own result, and what was picked up."""
        if wanted not in self._variants:
            self._variants[wanted] = self._variant(wanted)
        result, left = self._variants[wanted](*args, **kwargs)
        return result, merged(left, self.paths)

    def _variant(self, wanted: Wanted) -> Callable[..., Any]:
        tensorflow: Any = importlib.import_module("tensorflow")
        function = self._function
        plain = getattr(function, "python_function", None)
        body = function if plain is None else _converted(tensorflow, plain)

        def step(*args: Any, **kwargs: Any) -> tuple[Any, Seen]:
            whole = Collector(self.names, wanted, self._backend.reach(args))
            whole.begin_loop((*args, *kwargs.values()))
            # Whether replicas of a strategy make it is known when they begin.
            shared = SharedStep(whole)
            with self._collecting(shared):
                result = body(*args, **kwargs)
            for collector in (whole, *shared.collectors):
                collector.end_loop()
                self.losses.update(collector.losses)
            left = shared.leave()
            self.optimizer, self.unseen = whole.optimizer, shared.unseen
            self.alone = whole.alone
            self.paths, self.verdict = whole.paths or self.paths, whole.verdict
            self.lost |= whole.lost
            self.modes = whole.modes or self.modes
            return result, left

        if plain is None:
            return step
        made: Callable[..., Any] = tensorflow.function(
            tensorflow.autograph.experimental.do_not_convert(step), input_signature=function.input_signature,
            jit_compile=getattr(function, "_jit_compile", None), reduce_retracing=True)
        return made


def _converted(tensorflow: Any, function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a Python function with its `if` and `for` of tensors in the graph, as `tf.function` has them."""
    converted: Callable[..., Any] = tensorflow.autograph.to_graph(function)
    return converted


def value_of(variable: Any) -> Any:
    """Return the value of a variable, of Keras or of TensorFlow."""
    return variable.value if isinstance(variable, keras.Variable) else variable
