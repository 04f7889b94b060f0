"""Variants of the step of a custom loop, with more or fewer additional results.

As for the step of a model, the function returns requested values besides its own result. For each variant, a
`tf.function` is made again from its Python function, with its options.
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
        collecting: Returns the context in which all wrappers report to the collectors of a step.

    Attributes:
        names: Names of what the step calls; empty before its first call.
        optimizer: The first optimizer that used gradients.
        paths: Paths of the variables whose gradients a gate checks, in order.
        verdict: Why the last step was withheld, if the step itself cannot report the reason.
        lost: Paths of layers whose inputs and outputs cannot be recorded.
        modes: Modes in which a step called the trained models; None: unknown. For a compiled step, at tracing.
        losses: Keras losses that a step called, by name.
        alone: Name of the one whose value is the loss of the step; "": none.
        unseen: Class of a strategy whose replicas cannot be observed separately; "": none.
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
        """The script's function, not compiled."""
        function: Callable[..., Any] = getattr(self._function, "python_function", self._function)
        return function

    def call(self, wanted: Wanted, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, Seen]:
        """Call a variant; return the function's own result, and the collected values."""
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
            # Whether a strategy's replicas make it is known when they start.
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
    """Return a Python function with tensor-dependent `if` and `for` converted to graph operations, as `tf.function`
    does."""
    converted: Callable[..., Any] = tensorflow.autograph.to_graph(function)
    return converted


def value_of(variable: Any) -> Any:
    """Return the value of a Keras or TensorFlow variable."""
    return variable.value if isinstance(variable, keras.Variable) else variable
