"""Differences between Keras backends: how a step is called, where tensors live, who owns the variables."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Protocol

import keras

from barograph.capture.keras.arrays import read_all_of
from barograph.capture.keras.at_once import AtOnce
from barograph.capture.keras.collector import Collector, Reach, Reads, Seen
from barograph.capture.keras.fetching import Reader
from barograph.capture.keras.leaving import come_out, leaving
from barograph.capture.keras.replicas import is_mirrored, values_of

if TYPE_CHECKING:
    from barograph.capture.array_integration import ArrayIntegration
    from barograph.capture.keras.asked import Requests
    from barograph.capture.keras.names import Names
    from barograph.capture.plan import Plan
    from barograph.model.step import Mode

ValueOf = Callable[[Any], Any]


class Backend(Protocol):
    """A Keras backend.

    Attributes:
        waits: Reading a number of the last call makes the training wait for it.
        several: A call of the function may make several steps.
        reader: See `fetching.Fetching`.
    """

    waits: bool
    several: bool
    reader: Reader | None

    def reach(self, args: tuple[Any, ...]) -> Reach:
        """Return which tensors can leave the step function called with these arguments."""

    def reads(self, integration: ArrayIntegration, names: Names) -> Reads | None:
        """Return a reader of tensors during a call of a step; None: they have no values before its end."""

    def tells(self, model: Any) -> bool:
        """Return whether the compiled step of a model returns statistics, including those of its variables."""

    def asked(self, plan: Plan, mode: Mode) -> Requests | None:
        """Return the requested statistics that a step must return; None: it returns the tensors."""

    def replicas(self, model: Any) -> int:
        """Return the number of devices that share a step of a model."""

    def is_mirrored(self, model: Any) -> bool:
        """Return whether a step of a model runs in replicas that can be observed separately."""

    def prepared(self, args: tuple[Any, ...], *, executes: int, eager: bool) -> tuple[Any, ...]:
        """Return arguments for the function that can be used a second time if the first call fails."""

    def step(self, model: Any, original: Callable[..., Any], collector: Collector, args: tuple[Any, ...], *,
             training: bool) -> Any:
        """Call the model's own step, with the collected values besides its result."""

    def seen_in(self, left: Any) -> Seen:
        """Return the collected values from the form in which a step returns them."""

    def parts(self, result: Any) -> tuple[Any, Any]:
        """Return the results of the function: logs or the like; and the value for Keras."""

    def returned(self, logs: Any, given: Any) -> Any:
        """Return the value for Keras."""

    def values(self, model: Any, state: Any, *, training: bool) -> ValueOf:
        """Return a function for the values of the model's variables; `state` is an argument or a result."""

    def keep(self, model: Any, given: Any, *, training: bool) -> None:
        """Assign the variables of a step to the model, as Keras would have done, before we raise an exception."""

    def put_back(self, model: Any, given: Any, before: Mapping[int, Any]) -> Any:
        """Restore non-trainable variables by their IDs; return the value for Keras."""


class _Graph:
    """TensorFlow tensors belong to the graph being traced, or to none."""

    def __init__(self, tensorflow: Any) -> None:
        self._tensorflow = tensorflow
        eager = tensorflow.executing_eagerly()
        self._graph = None if eager else tensorflow.compat.v1.get_default_graph()

    def is_tensor(self, value: Any) -> bool:
        return isinstance(value, self._tensorflow.Tensor) and (value.dtype.is_floating or value.dtype.is_integer
                                                               or value.dtype.is_bool or value.dtype.is_complex)

    def can_leave(self, tensor: Any) -> bool:
        # Tensors cannot leave a compiled function within an eager step either.
        return getattr(tensor, "graph", None) is self._graph

    def is_known(self, tensor: Any) -> bool:
        return self._graph is None

    def is_tracing(self) -> bool:
        return self._graph is not None

    def dense(self, gradient: Any) -> Any:
        return self._tensorflow.convert_to_tensor(gradient)

    def of_replicas(self, value: Any) -> tuple[Any, ...]:
        return values_of(value)


class TensorFlowBackend:
    """Variables are mutable objects, and a step is a `tf.function` of an iterator."""

    waits = False
    several = True
    reader: Reader | None = staticmethod(read_all_of)

    def __init__(self) -> None:
        self._tensorflow: Any = importlib.import_module("tensorflow")

    def reach(self, args: tuple[Any, ...]) -> Reach:
        return _Graph(self._tensorflow)

    def reads(self, integration: ArrayIntegration, names: Names) -> Reads | None:
        return None

    def tells(self, model: Any) -> bool:
        return False

    def asked(self, plan: Plan, mode: Mode) -> Requests | None:
        return None

    def replicas(self, model: Any) -> int:
        return int(model.distribute_strategy.num_replicas_in_sync)

    def is_mirrored(self, model: Any) -> bool:
        return is_mirrored(model.distribute_strategy)

    def prepared(self, args: tuple[Any, ...], *, executes: int, eager: bool) -> tuple[Any, ...]:
        # A step that fails during tracing has not used the iterator.
        return (Again(next(args[0])),) if eager and executes == 1 else args

    def step(self, model: Any, original: Callable[..., Any], collector: Collector, args: tuple[Any, ...], *,
             training: bool) -> Any:
        collector.begin(args[0], {path: variable.value for path, variable in collector.names.untrained.items()})
        with collector.listening_to(model):
            logs = original(*args)
        return {"logs": logs, "seen": self._left(collector)}

    def _left(self, collector: Collector) -> Any:
        # Read the step of one replica, which has the values of all.
        return collector.seen if collector.shared is not None else leaving(collector.seen)

    def seen_in(self, left: Any) -> Seen:
        return come_out(left)

    def parts(self, result: Any) -> tuple[Any, Any]:
        return result, None

    def returned(self, logs: Any, given: Any) -> Any:
        return logs

    def values(self, model: Any, state: Any, *, training: bool) -> ValueOf:
        return own_value

    def keep(self, model: Any, given: Any, *, training: bool) -> None:
        pass

    def put_back(self, model: Any, given: Any, before: Mapping[int, Any]) -> Any:
        for variable in model.non_trainable_variables:
            if id(variable) in before:
                variable.assign(before[id(variable)])
        return given


class _Tensors:
    """PyTorch tensors always have values."""

    def __init__(self, kind: type) -> None:
        self._kind = kind

    def is_tensor(self, value: Any) -> bool:
        return isinstance(value, self._kind)

    def can_leave(self, tensor: Any) -> bool:
        return True

    def is_known(self, tensor: Any) -> bool:
        return True

    def is_tracing(self) -> bool:
        return False

    def dense(self, gradient: Any) -> Any:
        return keras.ops.convert_to_tensor(gradient)

    def of_replicas(self, value: Any) -> tuple[Any, ...]:
        return ()


class TorchBackend(TensorFlowBackend):
    """Everything is eager: a step is a plain call."""

    several = False
    reader: Reader | None = None

    def __init__(self) -> None:
        self._torch: Any = importlib.import_module("torch")

    def replicas(self, model: Any) -> int:
        return 1

    def is_mirrored(self, model: Any) -> bool:
        return False

    def prepared(self, args: tuple[Any, ...], *, executes: int, eager: bool) -> tuple[Any, ...]:
        return args

    def reach(self, args: tuple[Any, ...]) -> Reach:
        return _Tensors(self._torch.Tensor)

    def reads(self, integration: ArrayIntegration, names: Names) -> Reads | None:
        return AtOnce(self._torch, integration.new_readings(), names)

    def _left(self, collector: Collector) -> Any:
        return collector.seen

    def seen_in(self, left: Any) -> Seen:
        found: Seen = left
        return found


class Again:
    """An iterator that repeats one batch, to retry a failed call."""

    def __init__(self, batch: Any) -> None:
        self._batch = batch

    def __iter__(self) -> Again:
        return self

    def __next__(self) -> Any:
        return self._batch


def backend_named(name: str) -> Backend:
    """Return a backend by Keras's name for it."""
    if name == "jax":
        # Loads JAX.
        found: Backend = importlib.import_module("barograph.capture.keras.on_jax.backend").JaxBackend()
        return found
    return {"tensorflow": TensorFlowBackend, "torch": TorchBackend}[name]()


def own_value(variable: Any) -> Any:
    """Return the value in a variable itself: between two calls of Keras's functions it is the newest."""
    return variable.value

