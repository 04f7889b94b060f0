"""What differs between the backends of Keras: how a step is called, where its tensors live, who holds the variables."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

import keras
import numpy as np

from barograph.capture.keras.arrays import read_all_of
from barograph.capture.keras.at_once import AtOnce
from barograph.capture.keras.collector import Collector, Reach, Reads, Seen
from barograph.capture.keras.fetching import Reader
from barograph.capture.keras.leaving import come_out, leaving
from barograph.capture.keras.replicas import is_mirrored, values_of

if TYPE_CHECKING:
    from barograph.capture.array_tap import ArrayTap
    from barograph.capture.keras.names import Names

ValueOf = Callable[[Any], Any]


class Backend(Protocol):
    """One of them.

    Attributes:
        waits: Reading a number of the step that has just been called makes the training wait for it.
        several: A call of the function may make several steps.
        reader: As of `fetching.Fetching`.
    """

    waits: bool
    several: bool
    reader: Reader | None

    def reach(self, args: tuple[Any, ...]) -> Reach:
        """Return what tells which tensors can leave the step function that is called with these arguments."""

    def reads(self, tap: ArrayTap, names: Names) -> Reads | None:
        """Return what reads tensors of a call of a step while that runs; None: they have no values before its end."""

    def replicas(self, model: Any) -> int:
        """Return how many devices share a step of a model."""

    def is_mirrored(self, model: Any) -> bool:
        """Return whether a step of a model is made by replicas that can each be told of."""

    def prepared(self, args: tuple[Any, ...], *, executes: int, eager: bool) -> tuple[Any, ...]:
        """Return arguments of the whole function that it can be called with a second time, should the first fail."""

    def step(self, model: Any, original: Callable[..., Any], collector: Collector, args: tuple[Any, ...], *,
             training: bool) -> Any:
        """Call the model's own step, with what is picked up beside its result."""

    def seen_in(self, left: Any) -> Seen:
        """Return what was seen, of what a step has given out as that."""

    def parts(self, result: Any) -> tuple[Any, Any]:
        """Return what the whole function gave out: logs, or what stands there; and what Keras is to be given."""

    def returned(self, logs: Any, given: Any) -> Any:
        """Return what Keras is to be given."""

    def values(self, model: Any, state: Any, *, training: bool) -> ValueOf:
        """Return what tells the value of a variable of the model; `state` is an argument or a result."""

    def keep(self, model: Any, given: Any, *, training: bool) -> None:
        """Let the model have the variables of a step, as Keras would have done, where we raise before it does."""

    def put_back(self, model: Any, given: Any, before: Mapping[int, Any]) -> Any:
        """Give variables that are not trained the values of before, by their ids; return what Keras is to be given."""


class _Graph:
    """Where tensors of TensorFlow live: in the graph that is being traced, or in none."""

    def __init__(self, tensorflow: Any) -> None:
        self._tensorflow = tensorflow
        eager = tensorflow.executing_eagerly()
        self._graph = None if eager else tensorflow.compat.v1.get_default_graph()

    def is_tensor(self, value: Any) -> bool:
        return isinstance(value, self._tensorflow.Tensor) and (value.dtype.is_floating or value.dtype.is_integer
                                                               or value.dtype.is_bool or value.dtype.is_complex)

    def can_leave(self, tensor: Any) -> bool:
        # Of a compiled function within a step that is not, too, tensors cannot leave.
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
    """Variables are objects that are changed in place, a step is a `tf.function` of an iterator."""

    waits = False
    several = True
    reader: Reader | None = staticmethod(read_all_of)

    def __init__(self) -> None:
        self._tensorflow: Any = importlib.import_module("tensorflow")

    def reach(self, args: tuple[Any, ...]) -> Reach:
        return _Graph(self._tensorflow)

    def reads(self, tap: ArrayTap, names: Names) -> Reads | None:
        return None

    def replicas(self, model: Any) -> int:
        return int(model.distribute_strategy.num_replicas_in_sync)

    def is_mirrored(self, model: Any) -> bool:
        return is_mirrored(model.distribute_strategy)

    def prepared(self, args: tuple[Any, ...], *, executes: int, eager: bool) -> tuple[Any, ...]:
        # What fails while it is traced has asked the iterator for nothing.
        return (_Again(next(args[0])),) if eager and executes == 1 else args

    def step(self, model: Any, original: Callable[..., Any], collector: Collector, args: tuple[Any, ...], *,
             training: bool) -> Any:
        collector.begin(args[0], {path: variable.value for path, variable in collector.names.untrained.items()})
        with collector.listening_to(model):
            logs = original(*args)
        return {"logs": logs, "seen": self._left(collector)}

    def _left(self, collector: Collector) -> Any:
        # Of a replica its step is asked for what all have seen.
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
    """Where tensors of torch live: nowhere but in memory."""

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
    """Everything is eager: a step is a call."""

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

    def reads(self, tap: ArrayTap, names: Names) -> Reads | None:
        return AtOnce(self._torch, tap.new_readings(), names)

    def _left(self, collector: Collector) -> Any:
        return collector.seen

    def seen_in(self, left: Any) -> Seen:
        found: Seen = left
        return found


class _Traces:
    """Where tensors of JAX live: in the trace of the step, or in that of its gradients within."""

    def __init__(self, jax: Any, args: Any) -> None:
        self._jax = jax
        self._traces = {id(trace): trace for trace in map(_trace_of, jax.tree_util.tree_leaves(args))}

    def is_tensor(self, value: Any) -> bool:
        # In a step that is not compiled, Keras hands on what it was fed as it is.
        return isinstance(value, self._jax.Array) or (isinstance(value, np.ndarray) and value.dtype.kind in "biuf")

    def can_leave(self, tensor: Any) -> bool:
        trace = _trace_of(tensor)
        return trace is None or id(trace) in self._traces

    def is_known(self, tensor: Any) -> bool:
        return _trace_of(tensor) is None

    def is_tracing(self) -> bool:
        return bool(self._traces.keys() - {id(None)})

    def dense(self, gradient: Any) -> Any:
        return keras.ops.convert_to_tensor(gradient)

    def of_replicas(self, value: Any) -> tuple[Any, ...]:
        return ()


class JaxBackend:
    """A step is a function of all variables that returns them, compiled; its gradients are a function within."""

    waits = True
    several = True
    reader: Reader | None = None

    def __init__(self) -> None:
        self._jax: Any = importlib.import_module("jax")

    def reach(self, args: tuple[Any, ...]) -> Reach:
        return _Traces(self._jax, args)

    def reads(self, tap: ArrayTap, names: Names) -> Reads | None:
        return None

    def replicas(self, model: Any) -> int:
        distribution = keras.distribution.distribution()
        return 1 if distribution is None else int(distribution.device_mesh.devices.size)

    def is_mirrored(self, model: Any) -> bool:
        return False

    def prepared(self, args: tuple[Any, ...], *, executes: int, eager: bool) -> tuple[Any, ...]:
        if executes > 1:
            return args
        state, iterator = args
        return state, _Again(next(iterator))

    def step(self, model: Any, original: Callable[..., Any], collector: Collector, args: tuple[Any, ...], *,
             training: bool) -> Any:
        value = dict(zip(map(id, model.non_trainable_variables), args[0][1], strict=True))
        collector.begin(args[1], {path: value[id(variable)] for path, variable in collector.names.untrained.items()})
        within = _Within(self._jax, model, collector) if training and _is_keras_own(model) else None
        with collector.listening_to(model):
            if within is None:
                logs, state = original(*args)
            else:
                vars(model)["compute_loss_and_updates"] = within.compute
                try:
                    logs, state = original(*args)
                finally:
                    del vars(model)["compute_loss_and_updates"]
                state = within.taken_out(state)
        return {"logs": logs, "seen": collector.seen}, state

    def seen_in(self, left: Any) -> Seen:
        found: Seen = left
        return found

    def parts(self, result: Any) -> tuple[Any, Any]:
        logs, state = result
        return logs, state

    def returned(self, logs: Any, given: Any) -> Any:
        return logs, given

    def values(self, model: Any, state: Any, *, training: bool) -> ValueOf:
        owners = (model.trainable_variables, model.non_trainable_variables,
                  *((model.optimizer.variables,) if training else ()), model.metrics_variables)
        held = {id(variable): value for variables, values in zip(owners, state, strict=True)
                for variable, value in zip(variables, values, strict=True)}
        return lambda variable: held[id(variable)]

    def keep(self, model: Any, given: Any, *, training: bool) -> None:
        names = ("trainable_variables", "non_trainable_variables", *(("optimizer_variables",) if training else ()),
                 "metrics_variables")
        model._jax_state = dict(zip(names, given, strict=True))

    def put_back(self, model: Any, given: Any, before: Mapping[int, Any]) -> Any:
        trainable, untrained, *rest = given
        known = zip(model.non_trainable_variables, untrained, strict=True)
        return trainable, [before.get(id(variable), value) for variable, value in known], *rest


class _Within:
    """Carries what is picked up while gradients are computed out of that, among the variables that are returned."""

    def __init__(self, jax: Any, model: Any, collector: Collector) -> None:
        self._jax = jax
        self._model = model
        self._collector = collector
        self._compute = model.compute_loss_and_updates
        self._shape: Any = None
        self._count = len(model.non_trainable_variables)

    def compute(self, *args: Any, **kwargs: Any) -> Any:
        """Call the model's own function; return what it returns, and more variables than it has."""
        collector = self._collector
        with collector.within(_Traces(self._jax, (args, kwargs))) as seen:
            loss, (unscaled, answers, variables, metrics) = self._compute(*args, **kwargs)
        values, self._shape = self._jax.tree_util.tree_flatten(seen)
        return loss, (unscaled, answers, [*variables, *values], metrics)

    def taken_out(self, state: Sequence[Any]) -> tuple[Any, ...]:
        """Take what was carried out of the state of a step."""
        trainable, carried, *rest = state
        if self._shape is not None:
            self._collector.seen.update(self._jax.tree_util.tree_unflatten(self._shape, carried[self._count:]))
        return trainable, carried[:self._count], *rest


class _Again:
    """An iterator that gives one batch each time that it is asked: a call that failed is made once more."""

    def __init__(self, batch: Any) -> None:
        self._batch = batch

    def __iter__(self) -> _Again:
        return self

    def __next__(self) -> Any:
        return self._batch


BACKENDS: Mapping[str, Callable[[], Backend]] = {
    "tensorflow": TensorFlowBackend, "torch": TorchBackend, "jax": JaxBackend}


def own_value(variable: Any) -> Any:
    """Return the value that a variable holds itself: between two calls of Keras's functions that is the newest."""
    return variable.value


def _trace_of(tensor: Any) -> Any:
    return getattr(tensor, "_trace", None)


def _is_keras_own(model: Any) -> bool:
    """Return whether the step of a model is Keras's own, whose inside is known."""
    return all(getattr(type(model), name) is getattr(keras.Model, name)
               for name in ("train_step", "compute_loss_and_updates"))
