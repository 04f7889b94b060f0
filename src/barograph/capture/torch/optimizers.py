"""Identifies optimizers and their parameters."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import torch

from barograph.capture.live_objects import free_label, instances_of
from barograph.capture.torch.names import ModelNames, ParameterName, Root, unwrapped
from barograph.capture.torch.optimizer_entry import Entry, Slot, slot_of
from barograph.model.step import ANOTHER_TRAINING

_LONG = 100
"""Steps in a row by one optimizer: several optimizers of one training alternate more often."""

_MOST_COLLECTED = 3
"""Maximum number of garbage collections to detect another training; each takes about 0.1 s."""


_FOREIGN_KINDS: list[type] = []
"""Classes of optimizers that are not PyTorch's."""


class OptimizerBook:
    """Names the optimizers and their parameters.

    A single optimizer has no label. One of several gets the user's label, the label of the model whose parameters it
    has, or its class name. A new optimizer after all earlier ones are gone starts another training, and its label is
    its number ("#2").

    Args:
        names: The models.
        label_of_first: Returns the label of the script's only optimizer: other frameworks may have trained before.
    """

    def __init__(self, names: ModelNames, label_of_first: Callable[[], str] = lambda: "") -> None:
        self._names = names
        self._entries: dict[int, Entry] = {}
        self._made: dict[int, weakref.ref[Any]] = {}
        self._hears = False
        self._labels: dict[int, tuple[weakref.ref[Any], str]] = {}
        self._searched: dict[int, weakref.ref[torch.Tensor]] = {}
        self._alone = True
        self._surveyed: list[weakref.ref[Any]] = []
        self._held: set[int] | None = None
        self._on_gone: Callable[[], None] = lambda: None
        self._last: Entry | None = None
        self._steps_in_turn = 0
        self._collected = 0
        self._taken: set[str] = set()
        self._trainings = 1
        self._label_of_first = label_of_first

    # Finding optimizers

    def hear(self, hears: bool) -> None:
        """Set whether each optimizer is noted at creation, so that no search is needed."""
        self._hears = hears

    def find_made(self) -> None:
        """Find the optimizers that the script has created. Slow, since it visits all objects: call once."""
        for optimizer in instances_of(torch.optim.Optimizer):
            self.note_made(optimizer)

    def note_made(self, optimizer: Any) -> None:
        """Note that an optimizer is being created, so that no search is needed."""
        self._made[id(optimizer)] = weakref.ref(optimizer)

    def there(self) -> list[Any]:
        """Return the optimizers that exist; slow unless they are noted at creation."""
        if not self._hears:
            self.find_made()
        self._made = {key: reference for key, reference in self._made.items() if reference() is not None}
        found = [item for reference in self._made.values() if (item := reference()) is not None]
        for kind in _FOREIGN_KINDS:
            found += instances_of(kind)
        return [item for item in found if getattr(item, "param_groups", None)]

    def _held_by_script(self) -> list[Any]:
        """Return the optimizers that the script still references.

        Dropped optimizers that Python has not collected yet would count too, so if there seem to be several, garbage is
        collected first, a few times per process. That is slow, but one optimizer is the rule.
        """
        found = self.there()
        if len(found) > 1 and not _are_one(found) and self._collected < _MOST_COLLECTED:
            del found
            self._collect()
            found = self.there()
        return found

    def _collect(self) -> None:
        self._collected += 1
        gc.collect()

    def label(self, optimizer: torch.optim.Optimizer, label: str) -> None:
        """Set the user's label of an optimizer."""
        self._labels[id(optimizer)] = (weakref.ref(optimizer), label)

    def known(self, optimizer: Any) -> Entry | None:
        """Return the entry of an optimizer; None: unknown."""
        entry = self._entries.get(id(optimizer))
        return entry if entry is not None and entry.optimizer() is optimizer else None

    def entry(self, optimizer: Any, *, refresh: bool = True) -> Entry:
        """Return the entry of an optimizer; with `refresh`, with its current parameters."""
        known = self._entries.get(id(optimizer))
        if known is None or known.optimizer() is not optimizer:
            self._name_parameters(optimizer)
            before = self._predecessor(optimizer)
            self._forget_dead()
            known = Entry(weakref.ref(optimizer, self._gone), self._find_label(optimizer))
            known.next_label = known.label
            self._taken.add(known.label)
            self._entries[id(optimizer)] = known
            known.shares = before is not None
            if before is not None:
                known.made, before.superseded_by = before.made + 1, known
        if refresh or not known.slots:
            self._refresh(known, optimizer)
        return known

    def _forget_dead(self) -> None:
        """Forget optimizers that are gone with all their parameters: none can succeed them."""
        self._entries = {
            key: known for key, known in self._entries.items()
            if known.optimizer() is not None or any(reference() is not None for reference in known.held)}

    def innermost(self) -> list[Any]:
        """Return the optimizers that exist, without wrappers such as those of Accelerate."""
        found = self.there()
        return [item for item in found if not any(getattr(item, "optimizer", None) is other for other in found)]

    def survey(self) -> list[torch.Tensor]:
        """Find the models of every optimizer that exists, so that names are final before the first step.

        Slow, and done once.

        Returns:
            All parameters of optimizers.
        """
        live = self._look_around()
        for optimizer in live:
            self._name_parameters(optimizer)
        return [parameter for optimizer in live for parameter in parameters_of(optimizer)]

    def _look_around(self) -> list[Any]:
        """Note the optimizers that exist, and return them; their models are not searched."""
        live = self._held_by_script()
        self._alone = _are_one(live)
        self._surveyed = [weakref.ref(optimizer) for optimizer in live]
        self._held = None
        return live

    def forget(self, optimizer: Any) -> None:
        """Forget an optimizer that has made no step."""
        known = self._entries.pop(id(optimizer), None)
        if known is not None:
            self._taken.discard(known.label)
            self._held = None

    def others_hold(self, optimizer: Any, parameters: Iterable[torch.Tensor]) -> bool:
        """Return whether another known optimizer has any of these parameters."""
        known = (*(entry.optimizer() for entry in self), *(reference() for reference in self._surveyed))
        held = {id(item) for other in known if other is not None and other is not optimizer
                for item in parameters_of(other)}
        return any(id(item) in held for item in parameters)

    def look_again(self) -> None:
        """Note the optimizers created since the survey. Slow, like the survey."""
        self._surveyed = [weakref.ref(optimizer) for optimizer in self.there()]
        self._held = None

    def steps_loaded(self) -> int:
        """Return the maximum number of steps that an optimizer had made before it was loaded from a checkpoint."""
        live = (optimizer for reference in self._surveyed if (optimizer := reference()) is not None)
        return max((steps_loaded(optimizer) for optimizer in live), default=0)

    def __iter__(self) -> Iterator[Entry]:
        return iter(list(self._entries.values()))

    def note_step(self, entry: Entry) -> str:
        """Note that an optimizer has stepped; return the label of the one that stepped after it the last time."""
        previous = self._last
        if previous is not None:
            previous.next_label = entry.label
        self._steps_in_turn = self._steps_in_turn + 1 if previous is entry else 1
        if entry.superseded_by is not None:
            # Both step: neither replaced the other.
            entry.superseded_by.made -= entry.made
            entry.superseded_by = None
        self._last = entry
        return entry.next_label

    def _predecessor(self, optimizer: Any) -> Entry | None:
        """Return the entry of the last optimizer before this one that had any of its parameters."""
        sharing = [known for known in self._entries.values() if known.holds_any(parameters_of(optimizer))]
        return max(sharing, key=lambda known: known.made, default=None)

    def alone(self) -> Entry | None:
        """Return the only optimizer that steps; None if there are several or none."""
        there = [known for known in self._entries.values() if known.optimizer() is not None]
        return there[0] if len(there) == 1 else None

    def when_one_is_gone(self, action: Callable[[], None]) -> None:
        """Call `action` when the script has dropped an optimizer, or has replaced parameters of one."""
        self._on_gone = action

    def _gone(self, _: weakref.ref[Any]) -> None:
        for known in list(self._entries.values()):
            if known.optimizer() is None:
                known.slots = ()
        self._held = None
        self._on_gone()

    def parameters(self) -> set[int]:
        """Return the identities of all parameters of optimizers, including those that have not stepped yet."""
        if self._held is None:
            waiting = (optimizer for reference in self._surveyed if (optimizer := reference()) is not None)
            self._held = {id(slot.parameter) for entry in self for slot in entry.slots}
            self._held.update(id(parameter) for optimizer in waiting for parameter in parameters_of(optimizer))
        return self._held

    def _find_label(self, optimizer: torch.optim.Optimizer) -> str:
        given = self._labels.get(id(optimizer))
        if given is not None and given[0]() is optimizer:
            return given[1]
        if not self._entries and not self._surveyed:
            self._look_around()  # it was created after the labels became final
        gone = [known for known in self._entries.values() if known.optimizer() is None]
        for known in gone:
            # A script that recreates its optimizer continues the same series.
            if known.holds_any(parameters_of(optimizer)):
                known.signature = known.held = ()
                return known.label
        if not self._taken and (self._alone or (_is_foreign(optimizer) and not self._surveyed)):
            first = self._label_of_first()
            self._trainings = int(first.removeprefix(ANOTHER_TRAINING)) if first else 1
            return first
        if self._taken and self._restarts(optimizer):
            self._trainings += 1
            return f"{ANOTHER_TRAINING}{self._trainings}"
        return free_label(self._base_label(optimizer), self._taken)

    def _restarts(self, optimizer: torch.optim.Optimizer) -> bool:
        """Return whether the optimizer that steps for the first time is the only one left: the script trains again."""
        if self._entries_alive() and (self._steps_in_turn < _LONG or self._collected >= _MOST_COLLECTED):
            return False
        # One has made many steps, and now another steps: only the collector knows whether the script still has it.
        if self._entries_alive():
            self._collect()
        live = self._held_by_script()
        return not self._entries_alive() and (_are_one(live) or (_is_foreign(optimizer) and not live))

    def _entries_alive(self) -> bool:
        return any(known.optimizer() is not None for known in self._entries.values())

    def _base_label(self, optimizer: torch.optim.Optimizer) -> str:
        roots: list[Root | None] = []
        for parameter in parameters_of(optimizer):
            name = self._names.parameter(parameter)
            root = name.root if name else None
            if root not in roots:
                roots.append(root)
        if len(roots) == 1 and roots[0] is not None and self._names.has_several:
            module = roots[0].module()
            if module is not None:
                return roots[0].label or type(unwrapped(module)).__name__
        return type(optimizer).__name__

    def _name_parameters(self, optimizer: torch.optim.Optimizer) -> None:
        unknown = [item for item in parameters_of(optimizer) if self._names.parameter(item) is None]
        if unknown:
            for root in list(self._names.roots):
                self._names.rescan(root)
        unknown = [
            item for item in unknown if self._names.parameter(item) is None and not self._was_searched(item)
            and isinstance(item, torch.nn.Parameter)  # modules have no other tensors as parameters
        ]
        if unknown:
            self._searched.update((id(item), weakref.ref(item)) for item in unknown)
            self._names.search(unknown)

    def _was_searched(self, parameter: torch.Tensor) -> bool:
        reference = self._searched.get(id(parameter))
        return reference is not None and reference() is parameter

    def _refresh(self, entry: Entry, optimizer: torch.optim.Optimizer) -> None:
        parameters = list(parameters_of(optimizer))
        signature = tuple(map(id, parameters))
        # The slots reference their parameters, so that none of their identities is reused.
        if signature == entry.signature and len(entry.slots) == len(signature):
            return
        self._name_parameters(optimizer)
        entry.signature, entry.held = signature, tuple(weakref.ref(parameter) for parameter in parameters)
        prefix = f"{entry.label}." if entry.label else ""
        slots: list[Slot] = []
        roots: dict[int, Root] = {}
        for number, parameter in enumerate(parameters):
            name = self._names.parameter(parameter) or ParameterName(None, f"{prefix}parameter{number}", "")
            if name.root is not None:
                name.root.note_trained()
                roots[id(name.root)] = name.root
            # Keras on PyTorch stores the state of its random generators as parameters: integers that are not trained.
            if parameter.is_floating_point() or parameter.is_complex():
                slots.append(slot_of(parameter, name, self._names))
        for root in roots.values():
            # A new head comes with a new optimizer, which may not have its parameters.
            self._names.rescan(root)
        had_others = bool(entry.slots)
        entry.slots, entry.roots = tuple(slots), tuple(roots.values())
        self._held = None
        if had_others:
            # Replaced parameters belong to the script again.
            self._on_gone()


def steps_loaded(optimizer: torch.optim.Optimizer) -> int:
    """Return the number of steps in the optimizer's own state, after a checkpoint was loaded; else 0."""
    states = getattr(optimizer, "state", {}).values()  # a wrapper may have none
    counts = [state["step"] for state in states if isinstance(state, dict) and "step" in state]
    return max((int(count) for count in counts), default=0)


def _is_foreign(optimizer: Any) -> bool:
    """Return whether the optimizer is not PyTorch's, so that a search does not find it."""
    return not isinstance(optimizer, torch.optim.Optimizer)


def _are_one(optimizers: Iterable[torch.optim.Optimizer]) -> bool:
    # A wrapper (such as those of Lightning and Accelerate) has the same groups object as the wrapped optimizer.
    return len({id(optimizer.param_groups) for optimizer in optimizers}) == 1


def parameters_of(optimizer: torch.optim.Optimizer) -> Iterable[torch.Tensor]:
    """Yield the parameters of an optimizer, group by group."""
    for group in optimizer.param_groups:
        yield from group["params"]


def count_in(kind: type) -> None:
    """Find optimizers of another class that is not PyTorch's.

    Args:
        kind: The class; its parameter groups are like PyTorch's.
    """
    _FOREIGN_KINDS.append(kind)
