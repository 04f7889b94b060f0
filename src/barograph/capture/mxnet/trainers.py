"""Identifies Trainers: their series of steps and their Parameters."""

from __future__ import annotations

import gc
import sys
import weakref
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from mxnet.gluon import Trainer

from barograph.capture.integration_pool import IntegrationPool
from barograph.capture.live_objects import free_label, instances_of
from barograph.capture.mxnet.names import GluonNames

if TYPE_CHECKING:
    from barograph.capture.array_integration import ArrayIntegration
    from barograph.capture.integrations import Listening

_MOST_COLLECTED = 20
"""Number of garbage collections to find the Trainers that the script still uses; each takes a tenth of a second. A
Trainer and its Parameters refer to each other, so neither is freed without a collection."""


@dataclass(frozen=True, slots=True)
class Slot:
    """One Parameter of a Trainer.

    Attributes:
        parameter: The Parameter.
        index: Its index in the Trainer.
        path: Its path in a Key.
        layer: Class of its Block.
    """

    parameter: Any
    index: int
    path: str
    layer: str


@dataclass(frozen=True, slots=True)
class Entry:
    """One Trainer of the script.

    Attributes:
        trainer: Weak reference to it.
        integration: Its series of steps.
        held: Weak references to its Parameters.
        is_alone: It is the only one of its training, so all records belong to it.
    """

    trainer: weakref.ref[Any]
    integration: ArrayIntegration
    held: tuple[weakref.ref[Any], ...]
    is_alone: bool

    def shares(self, trainer: Any) -> bool:
        """Return whether another Trainer has any of its Parameters."""
        theirs = {id(parameter) for parameter in trainer._params}
        return any(id(parameter) in theirs for item in self.held if (parameter := item()) is not None)


class TrainerBook:
    """Gives each Trainer its integration.

    A single Trainer has a series without a label. If there are several, as in adversarial training, each is named after
    the model of its Parameters, or after its optimizer. One recreated for the same Parameters continues their series; a
    single one after earlier ones are gone starts another training ("#2").

    Args:
        recording: The recording.
        names: Names of the models, which are found here.
    """

    def __init__(self, recording: Listening, names: GluonNames) -> None:
        self._recording = recording
        self._session = recording.session
        self._names = names
        self._integrations = IntegrationPool(recording)
        self._entries: dict[int, Entry] = {}
        self._labels: set[str] = set()
        self._collected = 0

    def entry(self, trainer: Any) -> Entry:
        """Return the entry of a Trainer."""
        known = self._known(trainer)
        if known is None:
            self._settle(trainer)
            known = self._entries[id(trainer)]
        return known

    def of_block(self, block: Any) -> Entry | None:
        """Return the entry of the Trainer that trains a Block; None: no Trainer does, as for a frozen teacher."""
        found = list(_trainers_of(block))
        if not found:
            return None
        known = self._known(found[0])
        # A model that was trained before and is only evaluated now still has its Trainer.
        return self.entry(found[0]) if known is not None or _held(found) else None

    def entries(self) -> list[Entry]:
        """Return the entries of all known Trainers that still exist."""
        return [entry for entry in self._entries.values() if entry.trainer() is not None]

    def alone(self) -> Entry | None:
        """Return the entry of the only Trainer; None: there are several, or none."""
        entries = self.entries()
        return entries[0] if len(entries) == 1 and entries[0].is_alone else None

    def slots(self, trainer: Any) -> list[Slot]:
        """Return the Parameters with a gradient, which a Trainer currently trains."""
        return [self._slot(index, parameter) for index, parameter in enumerate(trainer._params)
                if parameter.grad_req != "null"]

    def _slot(self, index: int, parameter: Any) -> Slot:
        place = self._names.place(parameter)
        return Slot(parameter, index, place.path if place is not None else str(parameter.name),
                    place.layer if place is not None else "")

    def _known(self, trainer: Any) -> Entry | None:
        known = self._entries.get(id(trainer))
        return known if known is not None and known.trainer() is trainer else None

    def _settle(self, trainer: Any) -> None:
        """Find all Trainers and their models, to know from the start whether there are several."""
        with self._session.startup.timed():
            live = self._live()
            live += [] if any(item is trainer for item in live) else [trainer]
            self._names.find(parameter for item in live for parameter in item._params)
            new = [item for item in live if self._known(item) is None]
            gone = {key: entry for key, entry in self._entries.items()
                    if not any(entry.trainer() is item for item in live)}
            waiting = [item for item in new if not self._goes_on(item)]
            for key, entry in gone.items():
                del self._entries[key]
                if not any(entry.integration is other.integration for other in self._entries.values()):
                    self._integrations.give_back(entry.integration)
            is_alone = len(waiting) == 1 and not self._entries
            for item in waiting:
                self._add(
                    item,
                    self._integration_alone() if is_alone else self._integration_of_several(item),
                    is_alone=is_alone,
                )

    def _goes_on(self, trainer: Any) -> bool:
        """Let a Trainer with the Parameters of a known one continue its series."""
        before = next((entry for entry in self._entries.values() if entry.shares(trainer)), None)
        if before is not None:
            self._add(trainer, before.integration, is_alone=before.is_alone)
        return before is not None

    def _add(self, trainer: Any, integration: ArrayIntegration, *, is_alone: bool) -> None:
        held = tuple(weakref.ref(parameter) for parameter in trainer._params)
        self._entries[id(trainer)] = Entry(weakref.ref(trainer), integration, held, is_alone)

    def _integration_alone(self) -> ArrayIntegration:
        integration = self._integrations.take()
        integration.begin_training()
        return integration

    def _integration_of_several(self, trainer: Any) -> ArrayIntegration:
        places = [self._names.place(parameter) for parameter in trainer._params]
        labels = {place.root.label for place in places if place is not None}
        base = labels.pop() if len(labels) == 1 else ""
        label = free_label(base or type(trainer._optimizer).__name__, self._labels)
        self._labels.add(label)
        return self._recording.array_integration(label)

    def _live(self) -> list[Any]:
        """Return the Trainers that the script still uses, in a reproducible order."""
        found = _trainers()
        if len(found) > 1 and self._collected < _MOST_COLLECTED:
            self._collected += 1
            del found
            gc.collect()
            found = _trainers()
        return sorted(_held(found), key=lambda item: str(item._params[0].name))


def _trainers() -> list[Any]:
    return [item for item in instances_of(Trainer) if vars(item).get("_params") and "_optimizer" in vars(item)]


def _held(trainers: list[Any]) -> list[Any]:
    """Return the Trainers with references other than from their own Parameters, which keep them alive.

    Args:
        trainers: A list with the only references here.
    """
    # The list, the variable, and the argument.
    return [item for item in trainers if sys.getrefcount(item) > 3 + sum(
        parameter._trainer is item for parameter in item._params)]


def _trainers_of(block: Any) -> Iterator[Any]:
    """Yield the Trainer of the first Parameter in a Block that has one."""
    for parameter in _parameters(block):
        if parameter._trainer is not None:
            yield parameter._trainer
            return


def _parameters(block: Any) -> Iterator[Any]:
    yield from block._reg_params.values()
    for child in block._children.values():
        yield from _parameters(child)
