"""Reads weights, gradients, updates, optimizer state and learning rates around an optimizer step."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch

from barograph.capture.buffer import StepBuffer
from barograph.capture.copies import KEPT_BYTES
from barograph.capture.plan import Taking
from barograph.capture.session import Session
from barograph.capture.torch.device import fetch_number_later
from barograph.capture.torch.names import ModelNames
from barograph.capture.torch.optimizer_entry import Entry, Slot, slot_of
from barograph.capture.torch.optimizers import OptimizerBook
from barograph.capture.torch.parameter_coverage import ParameterCoverage
from barograph.capture.torch.read import Difference, PreparedRead, Reader, local, raw_tensor, subject_of
from barograph.errors import UnsupportedCapture
from barograph.model.key import Key, Kind


@dataclass(frozen=True, slots=True)
class _Prepared:
    """Cached plan for reading a list of slots.

    Attributes:
        slots: The list, by identity.
        asked: Selected slots that had a tensor.
        without: Selected slots that had none, such as those of an unused branch.
        read: Reads them.
    """

    slots: Sequence[Slot]
    asked: Sequence[Slot]
    without: Sequence[Slot]
    read: PreparedRead


class ParameterRecorder:
    """Records weights, gradients, updates and optimizer state."""

    def __init__(self, session: Session, names: ModelNames, optimizers: OptimizerBook, reader: Reader) -> None:
        self._session = session
        self._names = names
        self._optimizers = optimizers
        self._reader = reader
        self._before: dict[int, torch.Tensor] = {}
        self._kept: set[int] = set()
        self._clipped: set[int] = set()
        self._coverage = ParameterCoverage(session, names, optimizers)
        self._prepared: dict[tuple[Kind, int, int, int], _Prepared] = {}
        self._parts: dict[str, tuple[Sequence[tuple[Slot, str]], Sequence[Slot]]] = {}
        optimizers.when_one_is_gone(self.forget_models)

    @property
    def rates_wanted(self) -> bool:
        """Whether learning rates are recorded."""
        return Kind.LEARNING_RATE in self._session.plan.kinds(self._session.plan.everything())

    def learning_rates(self, entry: Entry, optimizer: Any, mask: int, buffer: StepBuffer) -> None:
        """Record the learning rate of each parameter group; those on a device only in steps with tensors."""
        if not self.rates_wanted:
            return
        given = [group["lr"] for group in optimizer.param_groups if "lr" in group]
        asked = Kind.WEIGHT in self._session.plan.kinds(mask)
        # A rate on a device would require a wait: it is read in steps whose tensors are recorded anyway.
        late = {number: rate for number, rate in enumerate(given) if _is_on_device(rate)}
        rates = tuple(0.0 if number in late else float(rate) for number, rate in enumerate(given))
        entry.note_rates(rates)
        for number, rate in enumerate(rates):
            key = Key(Kind.LEARNING_RATE, f"group{number}")
            if number not in late:
                buffer.scalars[key] = rate
            elif asked:
                use = functools.partial(buffer.scalars.__setitem__, key)
                buffer.defer(fetch_number_later(late[number], use))

    def plain_rates(self, entry: Entry, optimizer: Any) -> list[float] | None:
        """Return the learning rate of each parameter group; None if one is not a plain number.

        Rates that are not selected are left out.
        """
        if not self.rates_wanted:
            return []
        rates = [group.get("lr") for group in optimizer.param_groups]
        for rate in rates:
            if type(rate) is not float:
                return None
        entry.note_rates(tuple(rates))
        return rates

    def before_clip(self, parameters: set[int], mask: int, buffer: StepBuffer) -> None:
        """Record the current gradients of `parameters` (identities), before they are clipped."""
        slots = [
            slot
            for entry in self._optimizers
            for slot in entry.slots
            if id(slot.parameter) in parameters and id(slot.parameter) not in self._clipped
        ]
        if not slots:
            # The first step: no optimizer is known yet, so the parameters have the names of the models.
            slots = [
                slot_of(parameter, name, self._names)
                for parameter, name in self._names.trainable()
                if id(parameter) in parameters
            ]
        self._read(Kind.GRADIENT, slots, _gradient, mask, buffer)
        self._clipped.update(id(slot.parameter) for slot in slots)

    def gradients(self, entry: Entry, optimizer: Any, mask: int, buffer: StepBuffer) -> None:
        """Record the gradients that an optimizer will use, or has used."""
        scale = getattr(optimizer, "grad_scale", None)

        def gradient(slot: Slot) -> torch.Tensor | None:
            value = slot.gradient
            # A fused optimizer unscales inside its step: the gradient is still scaled.
            return value if value is None or scale is None else value / scale.to(value.device)

        if not self._clipped:
            self._read(Kind.GRADIENT, entry.slots, _gradient if scale is None else gradient, mask, buffer)
            return
        after = [slot for slot in entry.slots if id(slot.parameter) in self._clipped]
        before = [slot for slot in entry.slots if id(slot.parameter) not in self._clipped]
        self._read(Kind.GRADIENT, before, gradient, mask, buffer)
        self._read(Kind.GRADIENT_CLIPPED, after, gradient, mask, buffer)

    def kept_gradients(
        self, entry: Entry, gradient: Callable[[Slot], torch.Tensor | None], mask: int, buffer: StepBuffer
    ) -> None:
        """Record kept gradients, except those recorded before clipping."""
        slots = entry.slots if not self._clipped else [
            slot for slot in entry.slots if id(slot.parameter) not in self._clipped]
        self._read(Kind.GRADIENT, slots, gradient, mask, buffer)

    def keep_weights(self, entry: Entry, mask: int, *, more: bool = False) -> None:
        """Copy the weights whose update is selected, before the step changes them.

        Args:
            entry: The optimizer.
            mask: Mask of the step.
            more: Weights that are already copied may have changed; copy the others.
        """
        if not more:
            self._kept.clear()
        if Kind.UPDATE not in self._session.plan.kinds(mask):
            return
        for slot in entry.slots:
            if id(slot.parameter) in self._kept or self._session.plan.taking(
                    mask, Key(Kind.UPDATE, slot.path), slot.layer) is None:
                continue
            now = local(slot.parameter).detach()
            copy = self._before.get(id(slot.parameter))
            if copy is None or copy.shape != now.shape or copy.dtype != now.dtype or copy.device != now.device:
                copy = self._before[id(slot.parameter)] = torch.empty_like(now)
            copy.copy_(now)
            self._kept.add(id(slot.parameter))

    def weights(self, entry: Entry, optimizer: Any, mask: int, buffer: StepBuffer) -> None:
        """Record weights, updates and optimizer state after a step."""
        self._read(Kind.WEIGHT, entry.slots, _parameter, mask, buffer)
        kinds = self._session.plan.kinds(mask)
        if Kind.UPDATE in kinds:
            self._updates(entry, mask, buffer)
        if Kind.OPTIMIZER_STATE in kinds:
            self._state(entry, optimizer, mask, buffer)
        if mask:
            self._read_orphans(entry, mask, buffer)
            self._coverage.update()

    def models(self, mask: int, buffer: StepBuffer) -> None:
        """Record weights and gradients of every model, if the script ends steps itself."""
        slots = [
            slot_of(parameter, name, self._names)
            for parameter, name in self._names.trainable()
        ]
        self._read(Kind.GRADIENT, slots, _gradient, mask, buffer)
        self._read(Kind.WEIGHT, slots, _parameter, mask, buffer)
        self._coverage.update()

    def save(self, name: str, tensor: Any, buffer: StepBuffer) -> None:
        """Record a tensor of the script with its statistics."""
        value = tensor if isinstance(tensor, torch.Tensor) else torch.as_tensor(tensor)
        key = Key(Kind.CUSTOM, name)
        row = self._session.output.table.row(subject_of(key, "", value))
        self._reader.read(value, row, Taking(), buffer)
        buffer.tensors[key] = raw_tensor(value)

    def asks_for_gradients(self, mask: int) -> bool:
        """Return whether the mask contains gradients, before or after clipping."""
        return bool(self._session.plan.kinds(mask) & {Kind.GRADIENT, Kind.GRADIENT_CLIPPED})

    def forget_models(self) -> None:
        """Forget every parameter: an optimizer is gone, and its model may be."""
        self._prepared.clear()
        self._parts.clear()
        self._before = {key: copy for key, copy in self._before.items() if key in self._kept}

    def forget_step(self) -> None:
        """Forget the notes of the step that ended, and its copies of weights if their memory matters.

        Copies on a device are always released: its memory is scarce, and its allocator reuses the same blocks.
        """
        self._clipped.clear()
        if self._kept:
            self._kept.clear()
            copies = self._before.values()
            if any(copy.device.type != "cpu" for copy in copies) or (
                sum(copy.nbytes for copy in copies) > KEPT_BYTES
            ):
                self._before.clear()

    def _updates(self, entry: Entry, mask: int, buffer: StepBuffer) -> None:
        differences = []
        for slot in entry.slots:
            taking = self._session.plan.taking(mask, Key(Kind.UPDATE, slot.path), slot.layer)
            if taking is None or id(slot.parameter) not in self._kept:
                continue
            now, before = slot.own(slot.parameter), slot.own(self._before[id(slot.parameter)])
            differences.append(Difference(now, before, self._row(Kind.UPDATE, slot, now), taking))
        self._reader.read_differences(differences, buffer)

    def _state(self, entry: Entry, optimizer: Any, mask: int, buffer: StepBuffer) -> None:
        found = [(slot, name, value) for slot in entry.slots
                 for name, value in optimizer.state.get(slot.parameter, {}).items()
                 if isinstance(value, torch.Tensor) and value.numel() > 1]
        parts = self._parts_of(entry, [(slot, name) for slot, name, _ in found])
        values = {id(part): slot.own(value) for part, (slot, _, value) in zip(parts, found, strict=True)}
        self._read(Kind.OPTIMIZER_STATE, parts, lambda part: values[id(part)], mask, buffer)

    def _parts_of(self, entry: Entry, named: Sequence[tuple[Slot, str]]) -> Sequence[Slot]:
        """Return the slot of each tensor of an optimizer's state; the same list object while nothing changes."""
        known, parts = self._parts.get(entry.label, ((), ()))
        same = len(known) == len(named) and all(
            slot is before and name == name_before
            for (slot, name), (before, name_before) in zip(named, known, strict=True))
        if not same:
            parts = [replace(slot, path=f"{slot.path}[{name}]") for slot, name in named]
            self._parts[entry.label] = named, parts
        return parts

    def _read_orphans(self, entry: Entry, mask: int, buffer: StepBuffer) -> None:
        """Record trainable parameters without optimizer, with the first optimizer's steps.

        Not in its first step: by the second, every optimizer of the script is known.
        """
        if not self._session.plan.kinds(mask) & {Kind.GRADIENT, Kind.WEIGHT}:
            return
        if self._session.counts.made(entry.label) == 0 or next(iter(self._optimizers)) is not entry:
            return
        held = self._optimizers.parameters()
        slots = [
            slot_of(parameter, name, self._names)
            for parameter, name in self._coverage.trainable()
            if id(parameter) not in held
        ]
        self._read(Kind.GRADIENT, slots, _gradient, mask, buffer)
        self._read(Kind.WEIGHT, slots, _parameter, mask, buffer)

    def _read(
        self,
        kind: Kind,
        slots: Sequence[Slot],
        tensor_of: Callable[[Slot], torch.Tensor | None],
        mask: int,
        buffer: StepBuffer,
    ) -> None:
        if not slots or kind not in self._session.plan.kinds(mask):
            return
        mask = self._session.plan.of_kind(mask, kind)
        question = (kind, mask, id(slots[0].parameter), len(slots))
        prepared = self._prepared.get(question)
        if (
            prepared is not None
            and prepared.slots is slots
            and not any(tensor_of(slot) is not None for slot in prepared.without)
            and prepared.read.read([tensor_of(slot) for slot in prepared.asked], buffer)
        ):
            return
        self._read_carefully(kind, slots, tensor_of, mask, buffer, question)

    def _read_carefully(
        self,
        kind: Kind,
        slots: Sequence[Slot],
        tensor_of: Callable[[Slot], torch.Tensor | None],
        mask: int,
        buffer: StepBuffer,
        question: tuple[Kind, int, int, int],
    ) -> None:
        asked, tensors, rows, takings = [], [], [], []
        for slot, tensor, taking in self._asked(kind, slots, tensor_of, mask):
            asked.append(slot)
            tensors.append(tensor)
            rows.append(self._row(kind, slot, tensor))
            takings.append(taking)
            if not slot.is_elsewhere:
                self._note_seen(kind, slot.path)
            if taking.raw:
                buffer.tensors[Key(kind, slot.path)] = raw_tensor(tensor)
        if not tensors:
            return
        try:
            self._reader.read_many(tensors, rows, takings, buffer)
        except UnsupportedCapture:
            self._read_each(kind, tensors, rows, takings, buffer)
            return
        without = [
            slot
            for slot in slots
            if self._session.plan.taking(mask, Key(kind, slot.path), slot.layer) is not None
            and tensor_of(slot) is None
        ]
        self._prepared[question] = _Prepared(slots, asked, without, PreparedRead(tensors, rows, takings))

    def _read_each(
        self, kind: Kind, tensors: list[torch.Tensor], rows: list[int], takings: list[Taking], buffer: StepBuffer
    ) -> None:
        """Read one by one after a failure: name the unreadable tensor, and read the others."""
        for tensor, row, taking in zip(tensors, rows, takings, strict=True):
            try:
                self._reader.read(tensor, row, taking, buffer)
            except UnsupportedCapture as error:
                path = self._session.output.table.subjects()[row].key.path
                self._session.seen.reasons[f"{kind} {error}"] = f"{kind.value} of {path}: {error}"

    def _asked(
        self, kind: Kind, slots: Iterable[Slot], tensor_of: Callable[[Slot], torch.Tensor | None], mask: int
    ) -> Iterator[tuple[Slot, torch.Tensor, Taking]]:
        for slot in slots:
            taking = self._session.plan.taking(mask, Key(kind, slot.path), slot.layer)
            if taking is None:
                continue
            tensor = tensor_of(slot)
            if tensor is not None:
                yield slot, tensor, taking

    def _row(self, kind: Kind, slot: Slot, tensor: torch.Tensor) -> int:
        subject = subject_of(Key(kind, slot.path), slot.layer, tensor)
        if slot.piece is not None and tensor.numel() == slot.piece.here:
            subject = replace(subject, shard=True, whole=slot.piece.whole)
        return self._session.output.table.row(subject)

    def _note_seen(self, kind: Kind, path: str) -> None:
        if kind is Kind.WEIGHT:
            self._session.seen.weights.add(path)
        elif kind is Kind.GRADIENT:
            self._session.seen.gradients.add(path)


def _is_on_device(rate: Any) -> bool:
    return isinstance(rate, torch.Tensor) and rate.device.type != "cpu"


def _parameter(slot: Slot) -> torch.Tensor:
    return slot.own(slot.parameter)


def _gradient(slot: Slot) -> torch.Tensor | None:
    return slot.gradient
