"""Reads the data of a training: batches, labels, targets and loaders."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from torch import nn

from barograph.capture.buffer import StepBuffer
from barograph.capture.data_wants import DataWants, data_wants
from barograph.capture.session import Session
from barograph.capture.torch.batches import BatchRecorder
from barograph.capture.torch.labels import LabelRecorder, are_values
from barograph.capture.torch.loaders import LoaderRecorder
from barograph.capture.torch.loss_arguments import (
    BINARY_LOSSES,
    CLASS_LOSSES,
    DISTANCE_LOSSES,
    VALUE_LOSSES,
    loss_arguments,
)
from barograph.capture.torch.names import ModelNames, Root
from barograph.capture.torch.read import Reader
from barograph.capture.torch.targets import TargetRecorder, compare_with_input
from barograph.errors import UnsupportedCapture
from barograph.model.facts import Fact, fact
from barograph.model.step import Mode

_UNDERSTOOD = CLASS_LOSSES | BINARY_LOSSES | VALUE_LOSSES


class DataRecorder:
    """Records labels, predictions and data that the plan requests in a step or an evaluation."""

    def __init__(self, session: Session, names: ModelNames, reader: Reader) -> None:
        self._session = session
        self.loaders = LoaderRecorder(session)
        self._batches = BatchRecorder(session, names, reader)
        self._labels = LabelRecorder(session)
        self._targets = TargetRecorder(session, reader)
        self._wants: dict[tuple[int, bool], DataWants] = {}

    def plan_changed(self) -> None:
        """Check the plan again."""
        self._wants.clear()

    def wants(self, mask: int, *, training: bool = True) -> DataWants:
        """Return the requested facts for a mask."""
        found = self._wants.get((mask, training))
        if found is None:
            found = self._wants[mask, training] = data_wants(self._session.plan, mask, training=training)
        return found

    def asked(self, mask: int, *, training: bool = True) -> bool:
        """Return whether forward passes must be observed."""
        return self.wants(mask, training=training).of_input

    @property
    def asked_in_evaluations(self) -> bool:
        """Whether forward passes of any evaluation must be observed."""
        return self.asked(self._session.plan.everything(Mode.EVAL), training=False)

    def fed(
        self, module: nn.Module, root: Root, args: Any, kwargs: Mapping[str, Any], mask: int, buffer: StepBuffer,
        *, training: bool,
    ) -> None:
        """Record the arguments of a model."""
        wants = self.wants(mask, training=training)
        if wants.of_input:
            part = None if training else self.loaders.part
            self._batches.fed(module, root, args, kwargs, wants, mask, buffer, part)

    def handed(
        self, name: str, args: Any, kwargs: Mapping[str, Any], mask: int, buffer: StepBuffer, *, training: bool
    ) -> None:
        """Record the arguments of a loss function."""
        wants = self.wants(mask, training=training)
        if not wants.of_loss or (name not in _UNDERSTOOD and name != "kl_div"):
            return
        given = loss_arguments(args, kwargs)
        if given is None:
            return
        if hasattr(given.outputs, "to_local") or hasattr(given.target, "to_local"):
            raise UnsupportedCapture("labels and predictions spread over devices cannot be read")
        if given.target.dim():
            self._batches.labelled(given.target.shape[0], buffer)
        if wants.loss_weighted and given.weighted:
            buffer.scalars[fact(Fact.LOSS_WEIGHTED)] = 1.0
        if name in CLASS_LOSSES or name == "kl_div":
            self._labels.classes(name, given, wants, buffer)
        elif name in BINARY_LOSSES:
            self._labels.binary(name, given, wants, buffer)
        if wants.targets and (name in VALUE_LOSSES or (name in BINARY_LOSSES and are_values(given.target))):
            self._targets.statistics(name, given.target, mask, buffer)
        if wants.class_numbers and name in DISTANCE_LOSSES:
            self._targets.class_numbers(name, given, buffer)
        if wants.target_in_input and self._batches.last is not None:
            compare_with_input(given, self._batches.last, buffer)

    def refused(self, name: str, args: Any, kwargs: Mapping[str, Any], mask: int, buffer: StepBuffer) -> bool:
        """Record the range of labels that a loss function rejected; return whether there was one."""
        given = loss_arguments(args, kwargs) if name in CLASS_LOSSES and self.wants(mask).label_range else None
        return given is not None and self._labels.range_of(given, buffer)

    def named(self, name: str, targets: Any, predictions: Any, buffer: StepBuffer) -> None:
        """Record labels and predictions that the script passes."""
        self._labels.named(name, targets, predictions, buffer)

    def restart(self) -> None:
        """Note the start of another model's training, such as the next fold of a cross-validation."""
        self._batches.forget_samples()

    def end_step(self, mask: int, buffer: StepBuffer) -> None:
        """Record facts about the loader for the ended step, and release its batch."""
        self._batches.forget_step()
        if self.wants(mask).loader:
            self.loaders.step_facts(buffer)
