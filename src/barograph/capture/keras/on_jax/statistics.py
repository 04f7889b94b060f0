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
    from barograph.capture.keras.asked import Asked
    from barograph.capture.keras.collector import Collector
    from barograph.capture.plan import Taking


class _Version:
    """The additional results of a program.

    Attributes:
        found, places: As of `Returns`.
    """

    def __init__(self, found: Sequence[Found]) -> None:
        self.found = tuple(found)
        self.places = places_of(self.found)


@jax.tree_util.register_pytree_node_class
class Told:
    """The additional results of one call.

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
    def tree_unflatten(cls, version: _Version, parts: tuple[Any, ...]) -> Told:
        """Return it again."""
        return cls(version, *parts)


class Variables:
    """The variables that a training step changes, by position in its arguments and results.

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


def told(step: Callable[..., Any], collector: Collector, asked: Asked, variables: Variables | None,
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

    # What JAX has traced before of the script's own functions is taken as it is, as without us.
    closed, shapes = jax.make_jaxpr(marked, return_shape=True)(*args)
    on_host = foreign.is_on_host()
    # Within loops the compiler would round otherwise for what is read there.
    basket = Basket(wants, on_host, on_host and foreign.is_there(), loops=False,
                    changes=frozenset() if variables is None else variables.weights)
    outs = harvest(closed.jaxpr, closed.consts, jax.tree.leaves(args), basket)
    left, state = jax.tree.unflatten(jax.tree.structure(shapes), outs)
    collector.lost |= marking.lost((item.mark for item in basket.found), wants)
    in_place = Told(_Version(basket.found), *basket.handed_out())
    return {**left, "seen": {**left["seen"], "told": in_place}}, state
