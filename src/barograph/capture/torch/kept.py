"""References and small copies of the current step, with which it can be run again; no weights.

Forward and backward passes move no weights, so those need no copy: they are written only where the update is withheld.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import torch
from torch import nn

from barograph.capture.torch.graph import given_tensors
from barograph.capture.torch.names import ModelNames, Root, unwrapped
from barograph.capture.torch.random import RandomStates, random_states
from barograph.capture.torch.shards import part_of
from barograph.capture.torch.step_variables import Variables, VariableWatch
from barograph.capture.torch.values import tensors_in

if TYPE_CHECKING:
    from barograph.capture.torch.loader_pass import MadeOf

_MOST_BATCHES = 256
"""Batches and calls of one step that are kept: a script with more of them does not make steps as others do."""

_MOST_STEPS = 16
"""Steps of several optimizers that are kept."""


@dataclass(slots=True)
class Call:
    """One call of a model, or of a loss function.

    Attributes:
        what: Label and path of the module; or the name of the function.
        args, kwargs: What it was called with, by reference.
        versions: How often each tensor in them had been changed in place when it was called.
        autocast: The type that operations are cast to, by kind of device, where they are.
    """

    what: str
    args: tuple[Any, ...]
    kwargs: Mapping[str, Any]
    versions: tuple[int, ...] = ()
    autocast: Mapping[str, str] = field(default_factory=dict)

    @property
    def was_changed(self) -> bool:
        """Whether a tensor that it was called with has been changed in place since."""
        return versions_of(self.args, self.kwargs) != self.versions


@dataclass(slots=True)
class Kept:
    """The current step.

    Attributes:
        random: Random states right before the first forward pass; None: there was none yet.
        models: That were called in this step, by identity.
        buffers: Of each, as they were before it was first called in this step.
        gradients: Gradients that were there before the first backward pass, where the script adds up over steps.
        batches: What loaders gave, in order.
        made_of: Of each of these, which samples it was made of; None where that is not known.
        calls: Of models, in training.
        losses: Calls of loss functions of torch.
        roots: What backward passes started from, as plain numbers where they lie in memory.
        variables: What those of the script held right before the first forward pass.
        weights: As they were before the step, by identity, where its optimizer moves them between passes.
        complete: Nothing had to be left out.
    """

    random: RandomStates | None = None
    models: dict[int, Root] = field(default_factory=dict)
    buffers: dict[int, dict[str, torch.Tensor]] = field(default_factory=dict)
    gradients: dict[int, torch.Tensor] = field(default_factory=dict)
    batches: list[Any] = field(default_factory=list)
    made_of: list[MadeOf | None] = field(default_factory=list)
    calls: list[Call] = field(default_factory=list)
    losses: list[Call] = field(default_factory=list)
    roots: list[torch.Tensor] = field(default_factory=list)
    variables: list[Variables] = field(default_factory=list)
    weights: dict[int, torch.Tensor] = field(default_factory=dict)
    complete: bool = True


class Keeper:
    """Keeps the current step, and releases it at its end.

    Args:
        names: The models.
    """

    def __init__(self, names: ModelNames) -> None:
        self._names = names
        self.kept = Kept()
        self._backward_seen = False
        self._over = False
        self._drawn_in_training = True
        self._variables = VariableWatch()
        self._steps: list[tuple[str, Kept]] = []

    def batch_came(self, batch: Any, made_of: MadeOf | None = None) -> None:
        """Keep what a loader gave: perhaps it feeds this step.

        One that came while no gradients are computed belongs to an evaluation, unless no other came: some scripts draw
        ahead what they train on, and do that without gradients.
        """
        self._begin()
        kept, in_training = self.kept, torch.is_grad_enabled()
        if kept.batches and in_training != self._drawn_in_training:
            if not in_training:
                return
            kept.batches.clear()
            kept.made_of.clear()
        self._drawn_in_training = in_training
        self._append(kept.batches, batch)
        self._append(kept.made_of, made_of)

    def forward_begins(self, root: Root) -> None:
        """Keep how everything stands before a model is called."""
        self._begin()
        kept = self.kept
        if kept.random is None:
            kept.random = random_states()
            kept.variables = self._variables.now()
        whole = root.module()
        if whole is not None and id(whole) not in kept.models:
            kept.models[id(whole)] = root
            kept.buffers[id(whole)] = _copied(buffers_of(unwrapped(whole)))

    def forward_ended(self, module: nn.Module, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> None:
        """Keep what a model was called with."""
        name = self._names.module(module)
        if name is not None:
            what = self._names.path(name.root, name.path)
            self._append(self.kept.calls, Call(what, args, kwargs, versions_of(args, kwargs), _autocast()))

    def loss_returned(self, function: str, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> None:
        """Keep what a loss function was called with."""
        self._append(self.kept.losses, Call(function, args, kwargs, versions_of(args, kwargs)))

    def backward_begins(self, tensors: Any) -> None:
        """Keep what a backward pass starts from, and gradients that were there before the first of the step."""
        if not self._backward_seen:
            self._backward_seen = True
            there = [item for item in self._names.with_gradients()
                     if item.grad is not None and item.grad.layout is torch.strided]
            if there:
                norms = torch._foreach_norm([part_of(item.grad) for item in there if item.grad is not None])
                kept = zip(there, norms, strict=True)
                self.kept.gradients = {id(item): item.grad.clone() for item, norm in kept
                                       if item.grad is not None and bool(norm != 0)}
        self.kept.roots += [root.detach() for root in given_tensors(tensors)]

    def closure_begins(self, weights: Iterable[tuple[torch.Tensor, torch.Tensor]]) -> None:
        """Keep copies of the weights that an optimizer is about to move between passes."""
        self._begin()
        self.kept.weights = {id(parameter): before for parameter, before in weights}

    def step_ended(self, optimizer: str, *, alone: bool) -> None:
        """Let go of the step when the next one begins: until then another optimizer may use the same gradients.

        Args:
            optimizer: Whose step it was.
            alone: There is no other optimizer, which could use what was computed for this one.
        """
        self._over = True
        self._steps = [] if alone else [*self.others_since(optimizer), (optimizer, self.kept)][-_MOST_STEPS:]

    def others_since(self, optimizer: str) -> list[tuple[str, Kept]]:
        """Return the steps that others have made since this optimizer made its last."""
        own = [number for number, (label, _) in enumerate(self._steps) if label == optimizer]
        return self._steps[own[-1] + 1:] if own else list(self._steps)

    def _begin(self) -> None:
        if self._over:
            self.kept, self._backward_seen, self._over = Kept(), False, False

    def _append(self, items: list[Any], item: Any) -> None:
        if len(items) < _MOST_BATCHES:
            items.append(item)
        else:
            self.kept.complete = False


def buffers_of(module: nn.Module) -> dict[str, torch.Tensor]:
    """Return the buffers of a module and of all within it by path, as `named_buffers` does, in half of its time.

    Example:
        >>> list(buffers_of(nn.Sequential(nn.BatchNorm1d(2, affine=False))))
        ['0.running_mean', '0.running_var', '0.num_batches_tracked']
    """
    found: dict[str, torch.Tensor] = {}
    modules, buffers, waiting = set(), set(), [("", module)]
    while waiting:
        path, part = waiting.pop()
        if part in modules:
            continue
        modules.add(part)
        for name, buffer in part._buffers.items():
            if buffer is not None and buffer not in buffers:
                buffers.add(buffer)
                found[path + name] = buffer
        waiting += [(f"{path}{name}.", inner) for name, inner in reversed(part._modules.items()) if inner is not None]
    return found


def _copied(tensors: Mapping[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """Return copies of tensors: with one call for all plain ones, of which a model may have hundreds."""
    plain = [name for name, tensor in tensors.items() if type(tensor) is torch.Tensor and _clones is not None]
    with torch.no_grad():
        copies = dict(zip(plain, _clones([tensors[name] for name in plain]), strict=True)) if plain else {}
        return {name: copies[name] if name in copies else tensor.clone() for name, tensor in tensors.items()}


_clones: Any = getattr(torch, "_foreach_clone", None)


def loss_value(root: torch.Tensor) -> float:
    """Return what a backward pass started from as a number; waits for its device."""
    return float(root.double().mean())


def versions_of(args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> tuple[int, ...]:
    """Return how often each tensor in the arguments of a call has been changed in place."""
    return tuple(tensor._version for _, tensor in tensors_in((args, dict(kwargs))) if not tensor.is_inference())


def _autocast() -> dict[str, str]:
    kinds = ["cpu", *(["cuda"] if torch.cuda.is_initialized() else [])]  # type: ignore[no-untyped-call]
    return {kind: str(torch.get_autocast_dtype(kind)).removeprefix("torch.") for kind in kinds
            if torch.is_autocast_enabled(kind)}
