"""Rebuilds a traced Keras step with the statistics of marked values as additional results."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import jax

from barograph.capture.jax import foreign
from barograph.capture.jax.harvest import Basket, Found, harvest, places_of
from barograph.capture.jax.marks import Mark
from barograph.capture.keras.names import Names, optimizer_states
from barograph.capture.keras.on_jax.marking import Marking
from barograph.capture.keras.on_jax.traces import Traces
from barograph.model.key import Kind

if TYPE_CHECKING:
    from barograph.capture.keras.asked import Requests
    from barograph.capture.keras.collector import Collector
    from barograph.capture.plan import Taking


class _Version:
    """The additional results of a program.

    Attributes:
        found, places: See `Returns`.
    """

    def __init__(self, found: Sequence[Found]) -> None:
        self.found = tuple(found)
        self.places = places_of(self.found)


@jax.tree_util.register_pytree_node_class
class Additions:
    """The additional results of one call.

    Attributes:
        version: Describes them.
        values, joined: See `Reading`.
    """

    def __init__(self, version: _Version, values: Sequence[Any], joined: Mapping[str, Any]) -> None:
        self.version, self.values, self.joined = version, values, joined

    def tree_flatten(self) -> tuple[tuple[Any, ...], _Version]:
        """Return the traced and the static parts."""
        return (self.values, self.joined), self.version

    @classmethod
    def tree_unflatten(cls, version: _Version, parts: tuple[Any, ...]) -> Additions:
        """Rebuild the object."""
        return cls(version, *parts)


class Variables:
    """The variables that a training step changes, by position in its arguments and results.

    Args:
        model: The model.
        names: Names of the model.
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
        """Mark the variables in a step's returned state; `before`: its initial state."""
        trainable, _, of_optimizer, *_ = after
        for path, tensor, earlier in zip(self._weights, trainable, before[0], strict=True):
            marking.mark(Kind.WEIGHT, path, tensor, earlier)
        for path, tensor in zip(self._states, of_optimizer, strict=True):
            if path:
                marking.mark(Kind.OPTIMIZER_STATE, path, tensor)


def with_statistics(step: Callable[..., Any], collector: Collector, asked: Requests, variables: Variables | None,
                     args: tuple[Any, ...]) -> Any:
    """Return a step's results, with statistics of collected gradients and layers instead of the tensors.

    Args:
        step: Returns the step's results and the collected values: `JaxBackend._step`.
        collector: Collector of the step.
        asked: Statistics to record.
        variables: Variables that the step changes; None: not recorded.
        args: Traced arguments.
    """
    marking = collector.marks = Marking(collector.names)

    def marked(*args: Any) -> Any:
        try:
            with collector.within(Traces(args)):
                left, state = step(*args)
            if variables is not None:
                variables.mark(marking, args[0], state)
        finally:
            marking.let_go()
        return left, state

    def wants(mark: Mark) -> Taking | None:
        return asked.taking(mark.kind, mark.path, mark.layer)

    # JAX reuses earlier traces of the script's functions, as it would without us.
    closed, shapes = jax.make_jaxpr(marked, return_shape=True)(*args)
    on_host = foreign.is_on_host()
    # Reading values within loops would change the compiler's rounding.
    basket = Basket(wants, on_host, on_host and foreign.is_there(), loops=False,
                    changes=frozenset() if variables is None else variables.weights)
    outs = harvest(closed.jaxpr, closed.consts, jax.tree.leaves(args), basket)
    left, state = jax.tree.unflatten(jax.tree.structure(shapes), outs)
    collector.lost |= marking.lost((item.mark for item in basket.found), wants)
    in_place = Additions(_Version(basket.found), *basket.handed_out())
    return {**left, "seen": {**left["seen"], "statistics": in_place}}, state
