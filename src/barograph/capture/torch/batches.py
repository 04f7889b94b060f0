"""Reads model inputs: statistics, number of samples, digests and share of padding."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import nn

from barograph.capture.buffer import StepBuffer
from barograph.capture.data_wants import DataWants
from barograph.capture.samples import SampleMemory
from barograph.capture.session import Session
from barograph.capture.torch.digests import sample_sums
from barograph.capture.torch.gathering import Gathering, evenly
from barograph.capture.torch.names import ModelNames, Root
from barograph.capture.torch.read import Reader, raw_tensor, subject_of
from barograph.capture.torch.values import CHANNELS_FIRST, tensors_in
from barograph.errors import UnsupportedCapture
from barograph.measures.digests import digest_of_all, digests_from_sums
from barograph.model.facts import Fact, fact
from barograph.model.key import Key, Kind

if TYPE_CHECKING:
    from numpy.typing import NDArray

_MOST_UNITS = 4096
_MOST_TOKENS = 4096
_MOST_PADDING_VALUES = 4
_MOST_PARTS = 8
_ANSWERS = frozenset({"[labels]", "[label]", "[targets]", "[target]"})
"""Names of arguments that are not inputs: a model that returns its loss gets the targets, too."""


@dataclass(slots=True)
class Fed:
    """The latest inputs of a model.

    Attributes:
        tensors: Tensors by item.
        rows: Number of samples.
    """

    tensors: Mapping[str, torch.Tensor]
    rows: int


class BatchRecorder:
    """Records the inputs of trained models."""

    def __init__(self, session: Session, names: ModelNames, reader: Reader) -> None:
        self._session = session
        self._names = names
        self._reader = reader
        self._memory = SampleMemory()
        self._paddings: list[int] = [0]
        self._channels_first: dict[int, bool] = {}
        self._fed_at: dict[int, str] = {}
        self.last: Fed | None = None

    def forget_samples(self) -> None:
        """Reset the known training samples, for a model that has not been trained on them."""
        self._memory.forget()

    def forget_step(self) -> None:
        """Release the batch of the ended step."""
        self.last = None

    def fed(
        self, module: nn.Module, root: Root, args: Any, kwargs: Mapping[str, Any], wants: DataWants, mask: int,
        buffer: StepBuffer, part: str | None,
    ) -> None:
        """Record one call of a model, as far as requested.

        Args:
            module: The called module: the model, or a part of it that the script calls itself.
            root: The model.
            args: Positional arguments.
            kwargs: Keyword arguments.
            wants: Requested facts.
            mask: Mask of the plan.
            buffer: Buffer of the step or the evaluation.
            part: Pass over a loader, since an evaluation may make several; "" without a loader; None in training.
        """
        if not self._takes_data(module, root):
            return
        inputs = {item: tensor for item, tensor in tensors_in(args or kwargs) if item not in _ANSWERS}
        if not inputs:
            return
        rows = next((tensor.size(0) for tensor in inputs.values() if tensor.dim()), 1)
        self.last = Fed({item: tensor for item, tensor in inputs.items() if not tensor.is_nested}, rows)
        if wants.size:
            key = fact(Fact.BATCH_SIZE)
            buffer.scalars[key] = buffer.scalars.get(key, 0.0) + rows
        if wants.batch:
            self._statistics(root, inputs, mask, buffer)
        if wants.padding:
            self._padding(inputs.values(), buffer)
        if wants.digest or wants.samples:
            part = _storage(inputs.values()) if part == "" else part or ""
            self._samples(module, inputs, rows, wants, buffer, part)

    def _takes_data(self, module: nn.Module, root: Root) -> bool:
        """Return whether the arguments of `module` are data: it is the model itself, or its first called part."""
        if getattr(module, "_is_replica", False):
            return False  # it was read with the whole batch
        name = self._names.module(module)
        path = name.path if name is not None else ""
        first = self._fed_at.setdefault(id(root), path)
        if not path and first:
            self._fed_at[id(root)] = first = path
        return path == first

    # Statistics

    def _statistics(self, root: Root, inputs: Mapping[str, torch.Tensor], mask: int, buffer: StepBuffer) -> None:
        path = self._names.path(root, "") or "model"
        for item, tensor in inputs.items():
            key = Key(Kind.BATCH, path + item)
            taking = self._session.plan.taking(mask, key)
            if taking is None or tensor.dtype is torch.bool:
                continue
            row = self._session.output.table.row(subject_of(key, "", tensor))
            try:
                self._reader.read(tensor, row, taking, buffer)
                axis = self._channel_axis(root, tensor)
                if axis is not None and tensor.is_floating_point() and 0 < tensor.shape[axis] <= _MOST_UNITS:
                    self._reader.read_units(tensor, row, axis, math.nan, buffer)
                if taking.raw:
                    buffer.tensors[key] = raw_tensor(tensor)
            except UnsupportedCapture as error:
                self._session.seen.reasons[f"batch {error}"] = f"the model's input: {error}"

    def _channel_axis(self, root: Root, tensor: torch.Tensor) -> int | None:
        """Return the axis of channels or features; None if a sample is one number."""
        if tensor.dim() < 2 or not tensor.numel() or tensor.layout is not torch.strided or tensor.is_nested:
            return None
        if tensor.dim() == 4 and tensor.shape[-1] in (1, 3, 4) and tensor.shape[1] > tensor.shape[-1]:
            return 3  # images as in files, which the model transposes itself
        if tensor.dim() >= 4 or (tensor.dim() == 3 and self._begins_with_channels(root)):
            return 1
        return tensor.dim() - 1

    def _begins_with_channels(self, root: Root) -> bool:
        """Return whether the first layer of a model takes (batch, channels, length) rather than features last."""
        known = self._channels_first.get(id(root))
        if known is None:
            module = root.module()
            leaves = (part for part in ([] if module is None else module.modules()) if not [*part.children()])
            first = next((type(part).__name__ for part in leaves if [*part.parameters()]), "")
            known = self._channels_first[id(root)] = first in CHANNELS_FIRST
        return known

    # Padding

    def _padding(self, inputs: Iterable[torch.Tensor], buffer: StepBuffer) -> None:
        for tensor in inputs:
            if tensor.dim() < 2 or tensor.is_nested or tensor.dtype is torch.bool:
                continue
            if tensor.is_floating_point() or tensor.is_complex():
                continue
            flat = tensor.detach().reshape(-1)
            places = evenly(flat.numel(), _MOST_TOKENS, flat.device)
            gathering = buffer.gathered.setdefault("padding", Gathering(self._record_padding))
            if isinstance(gathering, Gathering) and not gathering.full:
                gathering.add((flat.clone() if places is None else flat[places]).to(torch.int64))

    def _record_padding(self, buffer: StepBuffer, tokens: NDArray[Any], training: bool) -> None:
        values, times = np.unique(tokens, return_counts=True)
        commonest = int(values[times.argmax()])
        # Once a value was the most frequent one, always count it, for a series without gaps.
        if commonest not in self._paddings and len(self._paddings) < _MOST_PADDING_VALUES:
            self._paddings.append(commonest)
        counts = dict(zip(values.tolist(), times.tolist(), strict=True))
        for value in self._paddings:
            buffer.scalars[fact(Fact.PADDING, value)] = counts.get(value, 0) / len(tokens)

    # Identity of the samples

    def _samples(
        self, module: nn.Module, inputs: Mapping[str, torch.Tensor], rows: int, wants: DataWants, buffer: StepBuffer,
        part: str,
    ) -> None:
        sums = sample_sums(inputs.values(), rows)
        if sums is None:
            return
        fed = buffer.gathered.setdefault("samples", _FedSamples(self._session, self._memory))
        if isinstance(fed, _FedSamples):
            fed.wants_digest |= wants.digest
            fed.wants_samples |= wants.samples
            fed.evaluated |= not module.training
            if fed.rich is None and wants.samples and not module.training:
                fed.rich = _is_rich(next(iter(inputs.values())))
            fed.add(sums, part)

    def labelled(self, labels: int, buffer: StepBuffer) -> None:
        """Note the number of labels or targets of a loss function for the model's last inputs."""
        fed = buffer.gathered.get("samples")
        if isinstance(fed, _FedSamples):
            fed.evaluated = True
            if self.last is not None and self.last.rows and labels % self.last.rows:
                fed.some_are_left_out = True


def _is_rich(samples: torch.Tensor) -> bool:
    """Return whether samples have so much content that none equals another by chance: many different fractions."""
    if not samples.is_floating_point() or samples.device.type != "cpu" or samples.dim() < 2 or not len(samples):
        return False  # reading from a device would block
    first = samples[0].detach()
    return first.numel() >= _RICH_ELEMENTS and len(set(first.flatten()[:_RICH_LOOKED_AT].tolist())) >= _RICH_VALUES


def _storage(inputs: Iterable[torch.Tensor]) -> str:
    """Return the storage of the first tensor: slices of one data set share it."""
    tensor = next(iter(inputs))
    in_order = tensor.layout is torch.strided and not tensor.is_nested
    return str(tensor.untyped_storage().data_ptr()) if in_order else ""


_RICH_ELEMENTS, _RICH_VALUES, _RICH_LOOKED_AT = 16, 8, 256


class _FedSamples:
    """The samples of one step or evaluation, in order.

    Attributes:
        wants_digest: Whether a digest of all samples is requested.
        wants_samples: Whether it is requested if they occurred before.
        evaluated: It is an evaluation rather than a side computation of training.
        rich: Whether samples never equal others by chance; None: unknown.
        some_are_left_out: The loss covers only a part of the samples. For graphs, the nodes of training and of
            validation are inputs together, so an input sample is not necessarily a training sample.
    """

    def __init__(self, session: Session, memory: SampleMemory) -> None:
        self.wants_digest = self.wants_samples = self.evaluated = self.some_are_left_out = False
        self.rich: bool | None = None
        self._session = session
        self._memory = memory
        self._parts: dict[str, Gathering] = {}
        self._digests: list[NDArray[np.int64]] = []
        self._recorded_parts = 0

    def add(self, sums: torch.Tensor, part: str) -> None:
        """Add the sums of more samples: shape (2, samples), see `sample_sums`."""
        if part not in self._parts and len(self._parts) >= _MOST_PARTS:
            part = next(iter(self._parts))
        gathering = self._parts.get(part)
        if gathering is None:
            gathering = self._parts[part] = Gathering(self._record)
        if not gathering.full:
            gathering.add(sums)

    def settle(self, buffer: StepBuffer, *, training: bool) -> None:
        """End the gathering."""
        for gathering in self._parts.values():
            gathering.settle(buffer, training=training)

    def _record(self, buffer: StepBuffer, sums: NDArray[Any], training: bool) -> None:
        digests = digests_from_sums(np.ascontiguousarray(sums[0]))
        # A constant sample (blank, only padding) proves nothing: it equals any other such one.
        distinct = digests[sums[1] == 0]
        self._digests.append(digests)
        self._recorded_parts += 1
        last = self._recorded_parts == len(self._parts)
        if training:
            self._record_training(buffer, distinct, last)
        elif self.wants_samples and self.evaluated and len(self._memory):
            self._record_evaluation(buffer, digests, distinct, last)

    def _record_training(self, buffer: StepBuffer, distinct: NDArray[np.int64], last: bool) -> None:
        if last and self.wants_digest:
            buffer.scalars[fact(Fact.BATCH_DIGEST)] = float(digest_of_all(np.concatenate(self._digests)))
        if self.wants_samples and not self.some_are_left_out and len(distinct):
            key = fact(Fact.SEEN_BEFORE)
            seen = self._memory.learn(distinct)
            buffer.scalars[key] = max(seen, buffer.scalars.get(key, 0.0))

    def _record_evaluation(
        self, buffer: StepBuffer, digests: NDArray[np.int64], distinct: NDArray[np.int64], last: bool
    ) -> None:
        share = self._memory.share_known(distinct, rich=bool(self.rich)) * len(distinct) / len(digests)
        if len(self._parts) > 1:
            buffer.scalars[fact(Fact.SEEN_IN_TRAINING, f"part{self._recorded_parts - 1}")] = share
        elif share:
            buffer.scalars[fact(Fact.SAMPLES_REPEATED)] = self._memory.repetition(distinct)
        key, before = fact(Fact.SEEN_IN_TRAINING), sum(len(item) for item in self._digests) - len(digests)
        whole = buffer.scalars.get(key, 0.0) * before + share * len(digests)
        buffer.scalars[key] = whole / (before + len(digests))
        buffer.scalars[fact(Fact.SAMPLES_KNOWN)] = float(len(self._memory))
