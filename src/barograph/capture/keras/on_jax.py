"""Keras on JAX: its steps are functions of all variables, and compiled.

In a step that is compiled, what is picked up of layers and gradients is marked, and the step is made anew, with
statistics of what is marked in the place of that, as steps of JAX itself are. Loops and branches stay as they are.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import jax
import keras
import numpy as np

from barograph.capture.jax import foreign
from barograph.capture.jax.harvest import Basket, Found, harvest, places_of
from barograph.capture.jax.marks import Mark, traced_anew
from barograph.capture.jax.reading import Readings
from barograph.capture.keras.asked import Asked, AskedByPlan
from barograph.capture.keras.backends import Again, ValueOf
from barograph.capture.keras.collector import Collector, Reach, Reads, Seen
from barograph.capture.keras.marking import Marking
from barograph.capture.keras.names import optimizer_states
from barograph.model.key import Kind

if TYPE_CHECKING:
    from barograph.capture.array_tap import ArrayTap
    from barograph.capture.keras.fetching import Reader
    from barograph.capture.keras.names import Names
    from barograph.capture.plan import Plan, Taking
    from barograph.model.step import Mode


class _Traces:
    """Where tensors of JAX live: in the trace of the step, or in that of its gradients within."""

    def __init__(self, args: Any) -> None:
        self._traces = {id(trace): trace for trace in map(_trace_of, jax.tree_util.tree_leaves(args))}

    def is_tensor(self, value: Any) -> bool:
        # In a step that is not compiled, Keras hands on what it was fed as it is.
        return isinstance(value, jax.Array) or (isinstance(value, np.ndarray) and value.dtype.kind in "biuf")

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
        self._readings = Readings()

    def reach(self, args: tuple[Any, ...]) -> Reach:
        return _Traces(args)

    def reads(self, tap: ArrayTap, names: Names) -> Reads | None:
        return None

    def tells(self, model: Any) -> bool:
        return bool(model.jit_compile) and not model.run_eagerly

    def asked(self, plan: Plan, mode: Mode) -> Asked | None:
        return AskedByPlan(plan, len(plan.selections), mode)

    def replicas(self, model: Any) -> int:
        distribution = keras.distribution.distribution()
        return 1 if distribution is None else int(distribution.device_mesh.devices.size)

    def is_mirrored(self, model: Any) -> bool:
        return False

    def prepared(self, args: tuple[Any, ...], *, executes: int, eager: bool) -> tuple[Any, ...]:
        if executes > 1:
            return args
        state, iterator = args
        return state, Again(next(iterator))

    def step(self, model: Any, original: Callable[..., Any], collector: Collector, args: tuple[Any, ...], *,
             training: bool) -> Any:
        asked = collector.wanted.asked
        if asked is None or not collector.reach.is_tracing():
            return self._step(model, original, collector, args, training=training)
        variables = _Variables(model, collector.names) if training else None
        return _told(lambda *args: self._step(model, original, collector, args, training=training), collector, asked,
                     variables, args)

    def _step(self, model: Any, original: Callable[..., Any], collector: Collector, args: tuple[Any, ...], *,
              training: bool) -> Any:
        value = dict(zip(map(id, model.non_trainable_variables), args[0][1], strict=True))
        collector.begin(args[1], {path: value[id(variable)] for path, variable in collector.names.untrained.items()})
        within = _Within(model, collector) if training and _is_keras_own(model) else None
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
        told = left.get("told")
        return left if told is None else {**left, "told": self._readings.of(told.version, told.values, told.joined)}

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


class _Version:
    """What a program gives out of what is marked in it.

    Attributes:
        found, places: As of `Returns`.
    """

    def __init__(self, found: Sequence[Found]) -> None:
        self.found = tuple(found)
        self.places = places_of(self.found)


@jax.tree_util.register_pytree_node_class
class _Told:
    """That of one call.

    Attributes:
        version: Says what it is.
        values, joined: As of `Reading`.
    """

    def __init__(self, version: _Version, values: Sequence[Any], joined: Mapping[str, Any]) -> None:
        self.version, self.values, self.joined = version, values, joined

    def tree_flatten(self) -> tuple[tuple[Any, ...], _Version]:
        """Return what is traced, and what is not."""
        return (self.values, self.joined), self.version

    @classmethod
    def tree_unflatten(cls, version: _Version, parts: tuple[Any, ...]) -> _Told:
        """Return it again."""
        return cls(version, *parts)


class _Variables:
    """What a step of training changes, by where it stands among what the step is given and returns.

    Args:
        model: Whose step.
        names: Of the model.
    """

    def __init__(self, model: Any, names: Names) -> None:
        self._weights = [names.path(variable) for variable in model.trainable_variables]
        kept = {id(state): path for path, state in optimizer_states(model.optimizer, names).items()}
        self._states = [kept.get(id(state), "") for state in model.optimizer.variables]

    @property
    def weights(self) -> frozenset[str]:
        """Paths of the weights."""
        return frozenset(self._weights)

    def mark(self, marking: Marking, before: Sequence[Any], after: Sequence[Any]) -> None:
        """Mark those in the state that a step returned; `before`: that it was given."""
        trainable, _, of_optimizer, *_ = after
        for path, tensor, earlier in zip(self._weights, trainable, before[0], strict=True):
            marking.mark(Kind.WEIGHT, path, tensor, earlier)
        for path, tensor in zip(self._states, of_optimizer, strict=True):
            if path:
                marking.mark(Kind.OPTIMIZER_STATE, path, tensor)


def _told(step: Callable[..., Any], collector: Collector, asked: Asked, variables: _Variables | None,
          args: tuple[Any, ...]) -> Any:
    """Return what a step returns, with statistics of what is picked up of gradients and layers in place of that.

    Args:
        step: Returns what the step does, and what was picked up: `JaxBackend._step`.
        collector: Of the step.
        asked: What is asked of what is picked up.
        variables: What the step changes; None: nothing that is told of.
        args: Being traced.
    """
    marking = collector.marks = Marking(collector.names)

    def marked(*args: Any) -> Any:
        with collector.within(_Traces(args)):
            left, state = step(*args)
        if variables is not None:
            variables.mark(marking, args[0], state)
        return left, state

    def wants(mark: Mark) -> Taking | None:
        return asked.taking(mark.kind, mark.path, mark.layer)

    with traced_anew("keras"):
        closed, shapes = jax.make_jaxpr(marked, return_shape=True)(*args)
    on_host = foreign.is_on_host()
    # Within loops the compiler would round otherwise for what is read there.
    basket = Basket(wants, on_host, on_host and foreign.is_there(), loops=False,
                    changes=frozenset() if variables is None else variables.weights)
    outs = harvest(closed.jaxpr, closed.consts, jax.tree.leaves(args), basket)
    left, state = jax.tree.unflatten(jax.tree.structure(shapes), outs)
    collector.lost |= marking.lost((item.mark for item in basket.found), wants)
    told = _Told(_Version(basket.found), *basket.handed_out())
    return {**left, "seen": {**left["seen"], "told": told}}, state


class _Within:
    """Carries what is picked up while gradients are computed out of that, among the variables that are returned."""

    def __init__(self, model: Any, collector: Collector) -> None:
        self._model = model
        self._collector = collector
        self._compute = model.compute_loss_and_updates
        self._shape: Any = None
        self._count = len(model.non_trainable_variables)

    def compute(self, *args: Any, **kwargs: Any) -> Any:
        """Call the model's own function; return what it returns, and more variables than it has."""
        collector = self._collector
        with collector.within(_Traces((args, kwargs))) as seen:
            loss, (unscaled, answers, variables, metrics) = self._compute(*args, **kwargs)
        values, self._shape = jax.tree_util.tree_flatten(seen)
        return loss, (unscaled, answers, [*variables, *values], metrics)

    def taken_out(self, state: Sequence[Any]) -> tuple[Any, ...]:
        """Take what was carried out of the state of a step."""
        trainable, carried, *rest = state
        if self._shape is not None:
            self._collector.seen.update(jax.tree_util.tree_unflatten(self._shape, carried[self._count:]))
        return trainable, carried[:self._count], *rest

def _trace_of(tensor: Any) -> Any:
    return getattr(tensor, "_trace", None)


def _is_keras_own(model: Any) -> bool:
    """Return whether the step of a model is Keras's own, whose inside is known."""
    return all(getattr(type(model), name) is getattr(keras.Model, name)
               for name in ("train_step", "compute_loss_and_updates"))
