"""Facts about parameters: which are trained, in which optimizer, and reached by the loss."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import torch

from barograph.capture.session import Session
from barograph.capture.thread_clock import cpu_secs
from barograph.capture.torch.gathered import wholes_of
from barograph.capture.torch.graph import Walk, operation
from barograph.capture.torch.heads import Heads
from barograph.capture.torch.names import ModelNames, Root
from barograph.capture.torch.optimizer_entry import Entry, Slot
from barograph.capture.torch.optimizers import OptimizerBook
from barograph.capture.torch.read import local
from barograph.capture.torch.unregistered import Unregistered
from barograph.capture.torch.untrained import Untrained
from barograph.model.facts import Fact
from barograph.model.key import layer_path

MOST_NAMED = 10
_OPENING_WALKS = 4
_MOST_NODES = 50_000
_OPENING_SECS = 0.05
_LATER_NODES = 500
_LATER_SECS = 0.002
_SAMPLE = 4096

Put = Callable[[Fact, str | int, float], bool]
"""Records a number of a fact about an item; "": about all."""

BOOK = frozenset({
    Fact.PARAMETERS, Fact.FROZEN, Fact.UNTRAINED, Fact.OUTSIDE_OPTIMIZER, Fact.UNREGISTERED, Fact.WITHOUT_GRADIENT,
    Fact.UNREACHED, Fact.FOREIGN, Fact.HEADS,
})
GROUPS = frozenset({Fact.WEIGHT_DECAY, Fact.MOMENTUM, Fact.DECOUPLED})


class ParameterFacts:
    """Records facts about parameters that statistics do not show."""

    def __init__(self, session: Session, names: ModelNames, optimizers: OptimizerBook) -> None:
        self._session = session
        self._names = names
        self._optimizers = optimizers
        self._unregistered = Unregistered(names, optimizers)
        self._untrained = Untrained()
        self._heads = Heads()
        self._called: set[int] = set()
        self._reached: set[int] | None = None
        self._split: set[int] = set()
        self._stepped = True
        self._walks = 0
        self._nodes = 0
        self._groups: dict[tuple[str, Fact, str | int], float] = {}

    def called(self, root: Root) -> None:
        """Note that a model was called."""
        self._called.add(id(root))

    def restart(self) -> None:
        """Note that another model is trained from now on: earlier ones count as no longer called."""
        self._called.clear()

    def walk(self, roots: Iterable[Any]) -> None:
        """Note which parameters the loss reaches, starting at the nodes that made it."""
        opening = self._walks < _OPENING_WALKS
        if not opening and self._nodes > _LATER_NODES:
            self.backward_unwalked()  # a graph of this size is walked only at the start
            return
        begin, cpu_begin = time.perf_counter(), cpu_secs()
        walk = Walk(roots, most_nodes=_MOST_NODES, most_secs=_OPENING_SECS if opening else _LATER_SECS)
        nodes = list(walk)
        if opening:
            self._heads.walked(nodes, begins=self._stepped)
        leaves = {id(leaf): leaf for node in nodes if operation(node) == "AccumulateGrad" for leaf in [node.variable]}
        found = set(leaves) | self._split_among(leaves)
        self._unregistered.reached(leaves.values())
        if self._stepped:
            self._stepped, self._reached = False, set()
        # After an incomplete walk, no parameter counts as unreached.
        self._reached = self._reached | found if walk.whole and self._reached is not None else None
        self._walks += 1
        self._nodes = max(self._nodes, len(nodes))
        if opening:
            self._session.startup.add(time.perf_counter() - begin, cpu_secs() - cpu_begin)

    def _split_among(self, leaves: Mapping[int, torch.Tensor]) -> set[int]:
        """Return the identities of parameters split by FSDP2 whose full tensor is a leaf of the graph."""
        pairs = list(wholes_of(root.module() for root in self._names.roots))
        self._split = {id(split) for split, _ in pairs}
        return {id(split) for split, whole in pairs if whole is not None and id(whole) in leaves}

    def backward_unwalked(self) -> None:
        """Note a backward pass over a graph that was not walked."""
        self._stepped, self._reached = False, None

    def end_step(self) -> None:
        """Note that an optimizer has stepped: the next backward pass finds the reached parameters again."""
        self._stepped = True

    def record(self, entry: Entry, asked: frozenset[Fact], put: Put) -> None:
        """Record the facts at a step of this optimizer, while its gradients exist."""
        if asked & {Fact.PARAMETERS, Fact.FROZEN, Fact.UNTRAINED, Fact.OUTSIDE_OPTIMIZER}:
            self._of_models(entry, put)
        # One slot per parameter: a script may pass one twice.
        slots = list({id(slot.parameter): slot for slot in entry.slots}.values())
        foreign = self._foreign(slots) if self._called else {}
        without = [slot for slot in slots if slot.parameter.grad is None and slot.parameter.requires_grad
                   and not slot.is_elsewhere]
        _count(Fact.WITHOUT_GRADIENT, [slot.path for slot in without], put)
        if Fact.HEADS in asked:
            for path, heads in self._heads.by_layer({layer_path(slot.path): slot.parameter for slot in slots}).items():
                put(Fact.HEADS, path, heads)
        reached = self._reached
        if Fact.UNREGISTERED in asked and not any(_is_distributed(slot) for slot in slots):
            self._of_nobody(put)
        if reached is not None and not any(_is_distributed(slot) and id(slot.parameter) not in self._split
                                           for slot in slots):
            missed = [slot for slot in slots if id(slot.parameter) not in reached and _has_nothing(slot.parameter)]
            _count(Fact.UNREACHED, [slot.path for slot in missed if slot.parameter.requires_grad], put)
        if self._called:
            _count(Fact.FOREIGN, [slot.path for slot in foreign.values()], put)
        if foreign:
            # Their replacements have no names yet; from the next step on they are known to be in no optimizer.
            for root in [root for root in self._names.roots if id(root) in self._called]:
                self._names.rescan(root)

    def _of_models(self, entry: Entry, put: Put) -> None:
        parameters = list(self._of_trained())
        put(Fact.PARAMETERS, "", len(parameters))
        frozen = [(parameter, path) for parameter, path in parameters if not parameter.requires_grad]
        _count(Fact.FROZEN, [path for _, path in frozen], put)
        _count(Fact.UNTRAINED, self._untrained.found(frozen), put)
        # Not in its first step: by the second, every optimizer of the script is known.
        if self._session.counts.made(entry.label) > 0:
            held, reached = self._optimizers.parameters(), self._reached
            # A teacher that was trained before may still have the gradients of its last step.
            outside = [
                path for parameter, path in parameters
                if parameter.requires_grad and id(parameter) not in held and parameter.grad is not None
                and (reached is None or id(parameter) in reached)
            ]
            _count(Fact.OUTSIDE_OPTIMIZER, outside, put)

    def _of_nobody(self, put: Put) -> None:
        shapes = Counter("x".join(map(str, parameter.shape)) for parameter in self._unregistered.found())
        put(Fact.UNREGISTERED, "", sum(shapes.values()))
        for shape, count in shapes.most_common(MOST_NAMED):
            put(Fact.UNREGISTERED, shape, count)

    def _of_trained(self) -> Iterator[tuple[torch.Tensor, str]]:
        for parameter, name in self._names.parameters():
            # A model of an earlier training in this script may still exist, with its last gradients.
            if name.root is not None and name.root.trained and (not self._called or id(name.root) in self._called):
                yield parameter, self._names.path(name.root, name.path)

    def _foreign(self, slots: list[Slot]) -> dict[int, Slot]:
        """Return by identity the parameters of models that were not called, or that belong to no model any more."""
        idle = [slot for slot in slots if not slot.is_elsewhere and _has_nothing(slot.parameter)]
        if not idle:
            return {}
        # A replaced layer has given its name to another.
        modules = [root.module() for root in self._names.roots if id(root) in self._called]
        held = {id(item) for module in modules if module is not None for item in module.parameters()}
        return {id(slot.parameter): slot for slot in idle if id(slot.parameter) not in held}

    def groups(self, entry: Entry, optimizer: Any, put: Put) -> None:
        """Record the settings of the parameter groups if they have changed."""
        for number, group in enumerate(optimizer.param_groups):
            self._put_changed(entry, Fact.WEIGHT_DECAY, f"group{number}", group.get("weight_decay"), put)
            self._put_changed(entry, Fact.MOMENTUM, f"group{number}", _momentum(group), put)
        self._put_changed(entry, Fact.DECOUPLED, "", _decoupled(optimizer), put)

    def _put_changed(self, entry: Entry, fact: Fact, about: str, value: Any, put: Put) -> None:
        # Changes not requested in this step are recorded at the next step that requests them.
        if isinstance(value, int | float) and self._groups.get((entry.label, fact, about)) != value and put(
                fact, about, value):
            self._groups[entry.label, fact, about] = value


def _count(fact: Fact, paths: list[str], put: Put) -> None:
    put(fact, "", len(paths))
    for path in paths[:MOST_NAMED]:
        put(fact, path, 1)


def _has_nothing(parameter: torch.Tensor) -> bool:
    """Return whether a parameter has no gradient, or a zero gradient; devices are not checked for the latter."""
    gradient = parameter.grad
    if gradient is None:
        return True
    if gradient.device.type != "cpu" or gradient.layout is not torch.strided:
        return False
    values = local(gradient).detach()
    if values.is_contiguous() and values.numel() > _SAMPLE:
        # Nearly every gradient has a non-zero element in its sample, so the rest need not be read.
        sample = values.view(-1)[:: values.numel() // _SAMPLE]
        if int(torch.count_nonzero(sample)) > 0:
            return False
    return int(torch.count_nonzero(values)) == 0


def _is_distributed(slot: Slot) -> bool:
    # The loss reaches the gathered full tensor instead: FSDP2 maps it to the parameter.
    return slot.piece is not None or hasattr(slot.parameter, "to_local")


def _momentum(group: dict[str, Any]) -> Any:
    betas = group.get("betas")
    return betas[0] if isinstance(betas, tuple | list) and betas else group.get("momentum")


def _decoupled(optimizer: Any) -> float | None:
    """Return whether weight decay applies to weights instead of gradients; None if unknown."""
    flags = [group["decoupled_weight_decay"] for group in optimizer.param_groups if "decoupled_weight_decay" in group]
    if flags:
        return float(any(flags))
    name = type(optimizer).__name__
    if "AdamW" in name or name in ("Adafactor", "Muon"):
        return 1.0
    return 0.0 if type(optimizer).__module__.startswith("torch.optim") else None
