"""The mode in which a step called its models and mode-dependent layers.

Keras has no persistent switch: each call passes `training=`, inherits the value of the outer call, or uses the default
of its signature; otherwise it is an evaluation.
"""

from __future__ import annotations

import inspect
from collections.abc import Container, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import keras

_DRAWING = (keras.layers.Dropout, keras.layers.SpatialDropout1D, keras.layers.SpatialDropout2D,
            keras.layers.SpatialDropout3D, keras.layers.GaussianDropout, keras.layers.GaussianNoise,
            keras.layers.AlphaDropout)
_WITH_DROPOUT = (keras.layers.LSTM, keras.layers.GRU, keras.layers.SimpleRNN)


class Modes(NamedTuple):
    """The modes recorded in a step.

    Attributes:
        layers: Number of mode-dependent layers.
        in_eval: Number of those that every call used in evaluation mode.
        whole_in_eval: All trained models were called in evaluation mode.
    """

    layers: int
    in_eval: int
    whole_in_eval: bool


@dataclass(slots=True, eq=False)
class _Root:
    """A layer that no other layer called, usually a model, in one step.

    Attributes:
        layer: The layer.
        in_eval: All its calls were in evaluation mode.
        layers: For each mode-dependent layer in it, by identity, whether all its calls were.
    """

    layer: Any
    in_eval: bool
    layers: dict[int, bool]


class StepModes:
    """Modes noted while one step runs or is traced."""

    def __init__(self) -> None:
        self._roots: dict[int, _Root] = {}
        self._now: _Root | None = None
        self._training: Any = None

    def called(self, layer: Any, kwargs: Mapping[str, Any], *, within: bool) -> None:
        """Note a call of a layer.

        Args:
            layer: The layer.
            kwargs: Keyword arguments of the call.
            within: Another layer calls it.
        """
        if not within:
            self._training = None
        # As in Keras, the mode of one layer also holds for the layers called after it.
        training = self._training = _told(layer, kwargs, self._training)
        in_eval = _is_false(training)
        if not within:
            self._now = self._roots.setdefault(id(layer), _Root(layer, True, {}))
            self._now.in_eval &= in_eval
        if self._now is not None and _minds(layer):
            self._now.layers[id(layer)] = self._now.layers.get(id(layer), True) and in_eval

    def of_trained(self, variables: Iterable[Any], parts: Container[int]) -> Modes | None:
        """Return how the models that own any of the trained variables were called; None: no model does.

        A model that only serves, such as a teacher or a target, may be called in evaluation mode.

        Args:
            variables: The trained variables.
            parts: Layers of the trained model, by identity. On JAX Keras calls these instead of the model.
        """
        trained = {id(variable) for variable in variables}
        models = [root for root in self._roots.values()
                  if any(id(variable) in trained for variable in root.layer.trainable_variables)]
        if not models:
            return None
        layers: dict[int, bool] = {}
        for root in self._roots.values():
            if root in models or (id(root.layer) in parts and id(root.layer) in root.layers):
                for layer, in_eval in root.layers.items():
                    layers[layer] = layers.get(layer, True) and in_eval
        return Modes(len(layers), sum(layers.values()), all(root.in_eval for root in models))


def _minds(layer: Any) -> bool:
    """Return whether a layer depends on the mode and is not frozen."""
    if isinstance(layer, keras.layers.BatchNormalization):
        return bool(layer.trainable)
    if isinstance(layer, _WITH_DROPOUT):
        return max(float(layer.dropout), float(layer.recurrent_dropout)) > 0
    if isinstance(layer, _DRAWING):
        return float(layer.stddev if isinstance(layer, keras.layers.GaussianNoise) else layer.rate) > 0
    return False


def _told(layer: Any, kwargs: Mapping[str, Any], around: Any) -> Any:
    """Return the mode of a layer's call: from its arguments, from the outer calls, or its default."""
    if "training" in kwargs or around is not None:
        return kwargs.get("training", around)
    parameter = inspect.signature(layer.call).parameters.get("training")
    return None if parameter is None or parameter.default is inspect.Parameter.empty else parameter.default


def _is_false(training: Any) -> bool:
    """Return whether a value means evaluation; a tensor does only if its value is known."""
    return training is None or (isinstance(training, bool | int) and not training)
