"""In which mode a step called its models, and the layers that do something else in training than in evaluation.

Keras has no switch that stays: each call says `training=`, hands on what the call around it was told, or takes the
default of its own signature, and where nobody says anything it is an evaluation.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import keras

_DRAWING = (keras.layers.Dropout, keras.layers.SpatialDropout1D, keras.layers.SpatialDropout2D,
            keras.layers.SpatialDropout3D, keras.layers.GaussianDropout, keras.layers.GaussianNoise,
            keras.layers.AlphaDropout)
_WITH_DROPOUT = (keras.layers.LSTM, keras.layers.GRU, keras.layers.SimpleRNN)


class Modes(NamedTuple):
    """What a step tells of it.

    Attributes:
        layers: Layers that mind the mode.
        in_eval: Those of them that every call had in evaluation.
        whole_in_eval: All models that are trained were called so.
    """

    layers: int
    in_eval: int
    whole_in_eval: bool


@dataclass(slots=True)
class _Root:
    """A layer that no other one called, a model mostly, in one step.

    Attributes:
        layer: It.
        in_eval: All calls of it were in evaluation.
        layers: Of each layer within that minds the mode, by identity, whether all its calls were.
    """

    layer: Any
    in_eval: bool
    layers: dict[int, bool]


class StepModes:
    """What is noted while one step runs, or is traced."""

    def __init__(self) -> None:
        self._roots: dict[int, _Root] = {}
        self._now: _Root | None = None

    def root_called(self, layer: Any, kwargs: Mapping[str, Any]) -> None:
        """Note that a layer is called that no other one calls."""
        in_eval = _is_false(_said_or_default(layer, kwargs))
        root = self._roots.setdefault(id(layer), _Root(layer, True, {}))
        root.in_eval &= in_eval
        self._now = root

    def called(self, layer: Any, kwargs: Mapping[str, Any], *, within: bool) -> None:
        """Note that the call of a layer is over.

        Args:
            layer: It.
            kwargs: That it was called with.
            within: Another layer has called it.
        """
        if self._now is None or not _minds(layer):
            return
        # What a layer was called with is what it left for those after it: Keras hands that on.
        training = getattr(layer._get_call_context(), "training", None) if within else _said_or_default(layer, kwargs)
        self._now.layers[id(layer)] = self._now.layers.get(id(layer), True) and _is_false(training)

    def of_trained(self, variables: Iterable[Any]) -> Modes | None:
        """Return how the models were called that own any of the variables which are trained; None: none does.

        A model that only serves, as a teacher or a target, may well be called in evaluation.
        """
        trained = {id(variable) for variable in variables}
        roots = [root for root in self._roots.values()
                 if any(id(variable) in trained for variable in root.layer.trainable_variables)]
        if not roots:
            return None
        layers: dict[int, bool] = {}
        for root in roots:
            for layer, in_eval in root.layers.items():
                layers[layer] = layers.get(layer, True) and in_eval
        return Modes(len(layers), sum(layers.values()), all(root.in_eval for root in roots))


def _minds(layer: Any) -> bool:
    """Return whether a layer does something else in training than in evaluation, and nobody has frozen it."""
    if isinstance(layer, keras.layers.BatchNormalization):
        return bool(layer.trainable)
    if isinstance(layer, _WITH_DROPOUT):
        return max(layer.dropout, layer.recurrent_dropout) > 0
    if isinstance(layer, _DRAWING):
        return float(layer.stddev if isinstance(layer, keras.layers.GaussianNoise) else layer.rate) > 0
    return False


def _said_or_default(layer: Any, kwargs: Mapping[str, Any]) -> Any:
    if kwargs.get("training") is not None:
        return kwargs["training"]
    parameter = inspect.signature(layer.call).parameters.get("training")
    return None if parameter is None or parameter.default is inspect.Parameter.empty else parameter.default


def _is_false(training: Any) -> bool:
    """Return whether that says evaluation; a tensor says it only when it has its value."""
    return training is None or (isinstance(training, bool | int) and not training)
