"""The terms of a Keras model's loss: for each output its loss function, targets and predictions."""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import keras


class OfLoss(NamedTuple):
    """One loss function and its arguments.

    Attributes:
        path: Path in the record: the name of the loss; for a model with several outputs, the output.
        function: Keras's name of the loss function.
        from_logits: It takes logits, not probabilities.
        target, predictions: Targets and predictions.
    """

    path: str
    function: str
    from_logits: bool
    target: Any
    predictions: Any

    @property
    def of_classes(self) -> bool:
        """Whether its targets are classes."""
        return "crossentropy" in self.function


@dataclass(frozen=True, slots=True)
class Losses:
    """The loss of a compiled model.

    Attributes:
        given: The loss as compiled: a name, a function, an object; for several outputs a list or a dictionary of those,
            or one for all.
        outputs: Names of a functional model's outputs, in order.
    """

    given: Any = None
    outputs: tuple[str, ...] = ()

    @property
    def alone(self) -> str:
        """Name of the only loss; "loss" if unknown."""
        return "loss" if self.given is None or isinstance(self.given, list | tuple | dict) else called(self.given)

    def over(self, data: Mapping[str, Any]) -> Iterator[OfLoss]:
        """Yield each loss with its arguments.

        Args:
            data: Arguments of the loss by name and item: `y`, `y_pred[out]`, `y[0]`.
        """
        if "y" in data and "y_pred" in data:
            given = next(iter(_parts(self.given)), None)
            yield _of(self.alone if given is None or given is self.given else called(given), given, data["y"],
                      data["y_pred"])
            return
        # A dictionary has one per name, a list one per index.
        names = self.outputs or tuple(name[7:-1] for name in data if name.startswith("y_pred["))
        for number, name in enumerate(names):
            target, predictions = (
                data.get(f"{kind}[{name}]", data.get(f"{kind}[{number}]")) for kind in ("y", "y_pred")
            )
            given = self._of_output(name, number)
            if target is not None and predictions is not None and given is not None:
                yield _of(name if not name.isdigit() else f"output{name}", given, target, predictions)

    def _of_output(self, name: str, number: int) -> Any:
        if isinstance(self.given, dict):
            return self.given.get(name)
        if isinstance(self.given, list | tuple):
            return self.given[number] if number < len(self.given) else None
        return self.given


def losses_of(model: Any) -> Losses:
    """Return how a model was compiled."""
    names = getattr(model, "output_names", None) or ()
    return Losses(getattr(model, "loss", None), tuple(map(str, names)))


def _of(path: str, given: Any, target: Any, predictions: Any) -> OfLoss:
    return OfLoss(path, _function(given), bool(getattr(given, "from_logits", False)), target, predictions)


def _parts(given: Any) -> list[Any]:
    if isinstance(given, dict):
        return list(given.values())
    return list(given) if isinstance(given, list | tuple) else [given]


def called(given: Any) -> str:
    """Return the name of a loss: for a built-in loss Keras's name, even if the script renamed it.

    Example:
        >>> called(keras.losses.CategoricalCrossentropy(name="mine")), called("mse"), called(keras.losses.Huber())
        ('categorical_crossentropy', 'mse', 'huber_loss')
    """
    if isinstance(given, str):
        return given
    kind: Any = type(given)
    return _own_name(kind) or str(
        getattr(given, "name", None) or getattr(given, "__name__", None) or (
            kind.__name__ if isinstance(given, keras.losses.Loss) else "loss"))


@functools.cache
def _own_name(kind: type) -> str:
    """Return Keras's name of a built-in loss class; "" for custom classes and overridden `call` methods."""
    theirs = next((base for base in kind.__mro__ if base.__module__.partition(".")[0] == "keras"), None)
    if theirs is None or getattr(kind, "call", None) is not getattr(theirs, "call", None):
        return ""
    try:
        return str(theirs().name)
    except Exception:  # noqa: BLE001 - an abstract base class of losses raises when called
        return ""


def _function(given: Any) -> str:
    return _full(given) if isinstance(given, str) else "loss" if given is None else called(given)


@functools.cache
def _full(name: str) -> str:
    """Return Keras's name of a loss function for its alias or class name."""
    return called(keras.losses.get(name))
