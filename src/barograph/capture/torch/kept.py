"""References and small copies of the current step for replaying it; no weights.

Forward and backward passes do not change weights, so weights need no copy: they are written only if the update is
withheld.
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
"""Maximum number of batches and calls kept per step; scripts with more do not make usual steps."""

_MOST_STEPS = 16
"""Maximum number of kept steps of several optimizers."""


@dataclass(slots=True)
class Call:
    """One call of a model or of a loss function.

    Attributes:
        what: Label and path of the module; or the name of the function.
        args, kwargs: References to the arguments.
        versions: Number of in-place changes of each tensor in the arguments at the time of the call.
        autocast: Data type of autocast by kind of device, where it is on.
    """

    what: str
    args: tuple[Any, ...]
    kwargs: Mapping[str, Any]
    versions: tuple[int, ...] = ()
    autocast: Mapping[str, str] = field(default_factory=dict)

    @property
    def was_changed(self) -> bool:
        """Whether a tensor among the arguments has been changed in place since."""
        return versions_of(self.args, self.kwargs) != self.versions


@dataclass(slots=True)
class Kept:
    """The current step.

    Attributes:
        random: Random states before the first forward pass; None: no pass yet.
        models: Models called in this step, by identity.
        buffers: Buffers of each model before its first call in this step.
        gradients: Gradients before the first backward pass, if the script accumulates them over steps.
        batches: Batches from loaders, in order.
        made_of: Samples of each batch; None if unknown.
        calls: Calls of models in training.
        losses: Calls of PyTorch's loss functions.
        roots: Roots of backward passes, as numbers if they are in host memory.
        variables: Values of the script's variables before the first forward pass.
        weights: Weights before the step by identity, if the optimizer changes them between passes.
        complete: Nothing was left out.
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
        """Keep a batch from a loader, which may be an input of this step.

        A batch that arrives while gradients are off belongs to an evaluation, unless it is the only one: some scripts
        prefetch their training data with gradients off.
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
        """Keep the state before a model is called."""
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
        """Keep the arguments of a model's call."""
        name = self._names.module(module)
        if name is not None:
            what = self._names.path(name.root, name.path)
            self._append(self.kept.calls, Call(what, args, kwargs, versions_of(args, kwargs), _autocast()))

    def loss_returned(self, function: str, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> None:
        """Keep the arguments of a loss function."""
        self._append(self.kept.losses, Call(function, args, kwargs, versions_of(args, kwargs)))

    def backward_begins(self, tensors: Any) -> None:
        """Keep the roots of a backward pass, and gradients that existed before the first one of the step."""
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
        """Copy the weights that an optimizer will change between passes."""
        self._begin()
        self.kept.weights = {id(parameter): before for parameter, before in weights}

    def step_ended(self, optimizer: str, *, alone: bool) -> None:
        """Release the step when the next one starts: until then another optimizer may use the same gradients.

        Args:
            optimizer: Optimizer of the step.
            alone: There is no other optimizer that could use the same results.
        """
        self._over = True
        self._steps = [] if alone else [*self.others_since(optimizer), (optimizer, self.kept)][-_MOST_STEPS:]

    def others_since(self, optimizer: str) -> list[tuple[str, Kept]]:
        """Return the steps of other optimizers since the last step of this one."""
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
    """Return the buffers of a module and its submodules by path, like `named_buffers` in half of its time.

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
    """Return copies of tensors: with one call for all plain ones, since a model may have hundreds."""
    plain = [name for name, tensor in tensors.items() if type(tensor) is torch.Tensor and _clones is not None]
    with torch.no_grad():
        copies = dict(zip(plain, _clones([tensors[name] for name in plain]), strict=True)) if plain else {}
        return {name: copies[name] if name in copies else tensor.clone() for name, tensor in tensors.items()}


_clones: Any = getattr(torch, "_foreach_clone", None)


def loss_value(root: torch.Tensor) -> float:
    """Return the root of a backward pass as a number; waits for its device."""
    return float(root.double().mean())


def versions_of(args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> tuple[int, ...]:
    """Return the number of in-place changes of each tensor in the arguments of a call."""
    return tuple(tensor._version for _, tensor in tensors_in((args, dict(kwargs))) if not tensor.is_inference())


def _autocast() -> dict[str, str]:
    kinds = ["cpu", *(["cuda"] if torch.cuda.is_initialized() else [])]  # type: ignore[no-untyped-call]
    return {kind: str(torch.get_autocast_dtype(kind)).removeprefix("torch.") for kind in kinds
            if torch.is_autocast_enabled(kind)}
