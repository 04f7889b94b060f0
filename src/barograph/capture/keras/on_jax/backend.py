"""Keras on JAX: steps are compiled functions of all variables.

In a compiled step, collected values of layers and gradients are marked, and the step is rebuilt with their statistics
instead, as for steps of JAX itself. Loops and branches stay unchanged.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import jax
import keras

from barograph.capture.jax.reading import Readings
from barograph.capture.keras.asked import PlanRequests, Requests
from barograph.capture.keras.backends import Again, ValueOf
from barograph.capture.keras.collector import Collector, Reach, Reads, Seen
from barograph.capture.keras.on_jax.statistics import Variables, with_statistics
from barograph.capture.keras.on_jax.traces import Traces

if TYPE_CHECKING:
    from barograph.capture.array_integration import ArrayIntegration
    from barograph.capture.keras.fetching import Reader
    from barograph.capture.keras.names import Names
    from barograph.capture.plan import Plan
    from barograph.model.step import Mode


class JaxBackend:
    """A step is a compiled function from all variables to all variables, with the gradients inside."""

    waits = True
    several = True
    reader: Reader | None = None

    def __init__(self) -> None:
        self._readings = Readings()

    def reach(self, args: tuple[Any, ...]) -> Reach:
        return Traces(args)

    def reads(self, integration: ArrayIntegration, names: Names) -> Reads | None:
        return None

    def tells(self, model: Any) -> bool:
        return bool(model.jit_compile) and not model.run_eagerly and not jax.config.jax_disable_jit

    def asked(self, plan: Plan, mode: Mode) -> Requests | None:
        return PlanRequests(plan, len(plan.selections), mode)

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
        variables = Variables(model, collector.names) if training else None
        try:
            return with_statistics(
                lambda *args: self._step(model, original, collector, args, training=training),
                collector, asked, variables, args)
        except Exception as error:  # noqa: BLE001 - an error of the script is raised again by its step
            collector.marks = None
            result = self._step(model, original, collector, args, training=training)
            collector.failed = error
            return result

    def _step(self, model: Any, original: Callable[..., Any], collector: Collector, args: tuple[Any, ...], *,
              training: bool) -> Any:
        value = dict(zip(map(id, model.non_trainable_variables), args[0][1], strict=True))
        collector.begin(args[1], {path: value[id(variable)] for path, variable in collector.names.untrained.items()})
        within = _Within(model, collector) if training and _is_keras_own(model) else None
        with collector.listening_to(model):
            if within is None:
                logs, state = original(*args)
            else:
                with within.in_place():
                    logs, state = original(*args)
                state = within.taken_out(state)
        return {"logs": logs, "seen": collector.seen}, state

    def seen_in(self, left: Any) -> Seen:
        found = left.get("statistics")
        seen: Seen = left
        if found is not None:
            seen = {**left, "statistics": self._readings.of(found.version, found.values, found.joined)}
        return seen

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
    """Carries values out of the gradient function, among the returned variables."""

    def __init__(self, model: Any, collector: Collector) -> None:
        self._model = model
        self._collector = collector
        self._compute = model.compute_loss_and_updates
        self._shape: Any = None
        self._count = len(model.non_trainable_variables)
        # Until 3.11 the step itself has Keras look where each variable lies, one by one with the model's own: what is
        # carried behind them is taken out before.
        self._enforce: Callable[..., Any] | None = getattr(model, "_enforce_jax_state_sharding", None)

    @contextmanager
    def in_place(self) -> Iterator[None]:
        """Make the step call this instead of the model's own functions."""
        own: dict[str, Callable[..., Any]] = {"compute_loss_and_updates": self._computed}
        if self._enforce is not None:
            own["_enforce_jax_state_sharding"] = functools.partial(self._enforced, self._enforce)
        vars(self._model).update(own)
        try:
            yield
        finally:
            for name in own:
                del vars(self._model)[name]

    def taken_out(self, state: Sequence[Any]) -> tuple[Any, ...]:
        """Remove the carried values from the state of a step."""
        trainable, carried, *rest = state
        return trainable, self._cut_off(carried), *rest

    def _computed(self, *args: Any, **kwargs: Any) -> Any:
        """Call the model's own function; return its results with additional variables."""
        collector = self._collector
        with collector.within(Traces((args, kwargs))) as seen:
            loss, (unscaled, predictions, variables, metrics) = self._compute(*args, **kwargs)
        values, self._shape = jax.tree_util.tree_flatten(seen)
        return loss, (unscaled, predictions, [*variables, *values], metrics)

    def _enforced(self, enforce: Callable[..., Any], trainable_variables: Any = None,
                  non_trainable_variables: Any = None, *args: Any, **kwargs: Any) -> Any:
        return enforce(trainable_variables, self._cut_off(non_trainable_variables), *args, **kwargs)

    def _cut_off(self, carried: Any) -> Any:
        """Return the model's own variables, and pass the additional ones to the collector."""
        if carried is None or self._shape is None:
            return carried
        self._collector.seen.update(jax.tree_util.tree_unflatten(self._shape, carried[self._count:]))
        self._shape = None
        return carried[:self._count]


def _is_keras_own(model: Any) -> bool:
    """Return whether the step of a model is Keras's own, whose structure is known."""
    return all(getattr(type(model), name) is getattr(keras.Model, name)
               for name in ("train_step", "compute_loss_and_updates"))
