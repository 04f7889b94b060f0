"""Checks which mode-dependent layers are in training mode and which in evaluation mode."""

from __future__ import annotations

import weakref
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from torch import nn
from torch.nn.modules.batchnorm import _NormBase
from torch.nn.modules.dropout import _DropoutNd

from barograph.capture.torch.names import Root, unwrapped
from barograph.capture.torch.optimizer_entry import Entry
from barograph.model.facts import Fact

_FEW_STEPS = 5
"""Minimum number of steps between evaluations; more frequent forward passes without gradients are training."""


@dataclass(frozen=True, slots=True)
class Modes:
    """The mode of a model.

    Attributes:
        layers: Number of mode-dependent layers.
        in_eval: Number of them in evaluation mode.
        whole_in_eval: The model itself is in evaluation mode.
    """

    layers: int
    in_eval: int
    whole_in_eval: bool


class LayerModes:
    """The mode-dependent layers of each model."""

    def __init__(self) -> None:
        self._layers: dict[int, tuple[Root, int, tuple[weakref.ref[nn.Module], ...]]] = {}

    def of(self, root: Root) -> Modes:
        """Return the current mode of a model and its layers."""
        whole = root.module()
        if whole is None:
            return Modes(0, 0, False)
        layers = [layer for reference in self._found(root, whole) if (layer := reference()) is not None]
        asked = [layer for layer in layers if _minds(layer) and not _is_frozen(layer)]
        return Modes(len(asked), sum(not layer.training for layer in asked), not unwrapped(whole).training)

    def _found(self, root: Root, whole: nn.Module) -> Sequence[weakref.ref[nn.Module]]:
        known, looks, layers = self._layers.get(id(root), (None, 0, ()))
        # Layers may be added while a model trains, but that is rare.
        if known is not root or looks & (looks - 1) == 0:
            layers = tuple(weakref.ref(part) for part in whole.modules() if _may_mind(part))
            looks = looks if known is root else 0
        self._layers[id(root)] = root, looks + 1, layers
        return layers


class ModeFacts:
    """The modes of the models in the current step and evaluation."""

    def __init__(self) -> None:
        self._layers = LayerModes()
        self._training: dict[int, tuple[Root, Modes]] = {}
        self._evaluation: dict[int, tuple[Root, Modes]] = {}
        self._aside: set[int] = set()
        self._perhaps: Root | None = None
        self._evaluated_at: int | None = None

    def in_training(self, root: Root) -> None:
        """Note that a model is called in training."""
        self._training[id(root)] = root, self._layers.of(root)

    def perhaps_in_training(self, root: Root) -> None:
        """Note that a model is called; a backward pass would show that it trains."""
        self._perhaps = root

    def backward_begins(self, roots: Iterable[Root]) -> None:
        """Note the models that train, if no call was observed."""
        self._evaluation.clear()
        if not self._training:
            trained = [root for root in roots if root.trained] or [root for root in (self._perhaps,) if root]
            for root in trained:
                self.in_training(root)

    def in_evaluation(self, root: Root) -> None:
        """Note that a model is called in an evaluation."""
        if id(root) not in self._evaluation:
            self._evaluation[id(root)] = root, self._layers.of(root)

    def evaluation_observed(self) -> bool:
        """Return whether a model's call was observed in the current evaluation."""
        return bool(self._evaluation)

    def end_step(self, entry: Entry) -> dict[Fact, float]:
        """Return facts about the models that this optimizer trains; about all, if none is known to belong to it."""
        noted, self._training = list(self._training.values()), {}
        own = {id(root) for root in entry.roots}
        modes = [mode for root, mode in noted if id(root) in own] or [mode for _, mode in noted]
        if not modes:
            return {}
        return {
            Fact.LAYERS_IN_EVAL: _share(modes),
            Fact.MODEL_IN_EVAL: float(all(mode.whole_in_eval for mode in modes)),
        }

    def end_evaluation(self, steps_made: int, *, with_losses: bool) -> float | None:
        """Return the share of layers that were in training mode; None if it may not have been an evaluation.

        A forward pass without gradients may be part of training: a generator that feeds a discriminator, a target, a
        first guess. These come at nearly every step, and compute no loss.
        """
        noted, self._evaluation = list(self._evaluation.values()), {}
        since = steps_made if self._evaluated_at is None else steps_made - self._evaluated_at
        self._evaluated_at = steps_made
        if not with_losses and since <= 1:
            self._aside.update(id(root) for root, _ in noted)
        modes = [mode for root, mode in noted if id(root) not in self._aside]
        if not modes or not (with_losses or since >= _FEW_STEPS):
            return None
        layers = sum(mode.layers for mode in modes)
        return 1.0 - _share(modes) if layers else 0.0


def _share(modes: Sequence[Modes]) -> float:
    layers = sum(mode.layers for mode in modes)
    return sum(mode.in_eval for mode in modes) / layers if layers else 0.0


def _may_mind(module: nn.Module) -> bool:
    return isinstance(module, _DropoutNd | _NormBase | nn.RNNBase | nn.MultiheadAttention)


def _minds(module: nn.Module) -> bool:
    """Return whether a layer behaves differently in training and evaluation."""
    match module:
        case _DropoutNd():
            return float(module.p) > 0
        case _NormBase():
            return bool(module.track_running_stats) and module.running_mean is not None
        case nn.RNNBase():
            return module.dropout > 0 and module.num_layers > 1
        case nn.MultiheadAttention():
            return bool(module.dropout > 0)
    return False


def _is_frozen(module: nn.Module) -> bool:
    """Return whether a layer has parameters and all are frozen: then its mode is intended."""
    if isinstance(module, _DropoutNd):
        return False
    parameters = list(module.parameters(recurse=False))
    return bool(parameters) and not any(parameter.requires_grad for parameter in parameters)
