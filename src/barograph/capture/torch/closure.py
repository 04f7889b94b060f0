"""A step whose gradients are computed in a closure: each call of the closure is checked.

Such an optimizer (L-BFGS) changes the weights between calls, so weights and optimizer state are copied before the step,
and restored if the step is withheld.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import torch

from barograph.capture.torch.optimizer_entry import Entry
from barograph.capture.torch.optimizers import parameters_of


@dataclass(slots=True)
class ClosureStep:
    """One step with a closure.

    Attributes:
        entry: Entry of the optimizer.
        optimizer: The optimizer.
        scaler: Gradient scaler; None without one.
        schedulers: Schedulers that have stepped.
        weights: Each parameter with its value before the step.
        state: State of the optimizer before the step, by parameter.
        looked_at: Number of checked losses.
        held: It must be undone.
    """

    entry: Entry
    optimizer: Any
    scaler: Any
    schedulers: Sequence[Any]
    weights: list[tuple[torch.Tensor, torch.Tensor]] = field(default_factory=list)
    state: dict[Any, Any] = field(default_factory=dict)
    looked_at: int = 0
    held: bool = False

    def copy(self) -> None:
        """Copy the current state."""
        self.weights = [(item, item.detach().clone()) for item in parameters_of(self.optimizer)]
        self.state = {key: _copied(value) for key, value in self.optimizer.state.items()}

    def undo(self) -> None:
        """Put weights and state back."""
        with torch.no_grad():
            for parameter, before in self.weights:
                parameter.copy_(before)
        self.optimizer.state.clear()
        self.optimizer.state.update(self.state)

    @contextmanager
    def as_before(self) -> Iterator[None]:
        """Show the optimizer's state from before the step."""
        now, self.optimizer.state = self.optimizer.state, self.state
        try:
            yield
        finally:
            self.optimizer.state = now


def closure_of(args: Sequence[Any], kwargs: Mapping[str, Any]) -> Callable[[], Any] | None:
    """Return the closure in the arguments of an optimizer's step; None without one.

    Args:
        args: Arguments as torch passes them to a hook: the optimizer first.
        kwargs: Keyword arguments.
    """
    closure = kwargs.get("closure") or (args[1] if len(args) > 1 else None)
    return closure if callable(closure) else None


def with_closure(
    args: Sequence[Any], kwargs: Mapping[str, Any], closure: Callable[[], Any]
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Return the arguments of an optimizer's step with another closure."""
    if kwargs.get("closure") is not None:
        return tuple(args), {**kwargs, "closure": closure}
    return (args[0], closure, *args[2:]), dict(kwargs)


def _copied(value: Any) -> Any:
    if isinstance(value, torch.Tensor):
        return value.detach().clone()
    if isinstance(value, dict):
        return {key: _copied(item) for key, item in value.items()}
    if type(value) in (list, tuple):
        return type(value)(_copied(item) for item in value)
    return value
