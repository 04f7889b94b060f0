"""Restores a script's models, optimizers and generators from a capsule or a checkpoint."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import torch
from torch import nn

from barograph.capture.live_objects import instances_of
from barograph.capture.torch.capsule import devices, digest, processor
from barograph.capture.torch.names import ModelNames, unwrapped
from barograph.capture.torch.optimizers import OptimizerBook
from barograph.capture.torch.random import RandomStates
from barograph.capture.torch.shards import is_distributed, part_of, state_of
from barograph.capture.torch.standing import class_of
from barograph.capture.torch.unpacking import Unpacker
from barograph.errors import BarographError, ReplayFailed

_NAMED = 5


class PuttingBack:
    """Restores state, and reports differences.

    Args:
        content: Content of the capsule or checkpoint.
        unpacker: Unpacks its values.
        names: The models of the script.
        optimizers: Optimizers of the script.
        held_by: Description of the content's source, for messages.
        failure: Raised if something cannot be restored.

    Attributes:
        notes: What could not be restored exactly, one sentence each.
    """

    def __init__(
        self, content: Mapping[str, Any], unpacker: Unpacker, names: ModelNames, optimizers: OptimizerBook, *,
        held_by: str = "capsule", failure: type[BarographError] = ReplayFailed,
    ) -> None:
        self.notes: list[str] = []
        self._held_by = held_by
        self._failure = failure
        self._content = content
        self._unpacker = unpacker
        self._names = names
        self._optimizers = optimizers

    def everything(self, phase: Mapping[str, Any] | None = None) -> None:
        """Restore everything except random states. Unchanged values are not written: a graph may depend on them.

        Args:
            phase: Phase of another optimizer before the step, with separate buffers; None: the step itself.

        Raises:
            BarographError: The script's models or optimizers differ: an instance of `failure`.
            DamagedChunk, NotPlain: The values cannot be read.
        """
        self._label_models()
        there = {self._names.path(root, ""): module for root in self._names.roots
                 if (module := root.module()) is not None}
        before = phase["buffers"] if phase is not None and phase is not self._content else {}
        for label, saved in self._content["models"].items():
            if label not in there:
                raise self._failure(f"The script has no model {label or 'that trains'} at its first step; "
                                    f"it has {', '.join(map(repr, there)) or 'none'}.")
            self._model(label, unwrapped(there[label]), saved, before.get(label))
        self._gradients()
        self._put_optimizers()
        self._scaler()
        self._schedulers()

    def random(self, phase: Mapping[str, Any] | None = None) -> None:
        """Restore all generators to their states before the first forward pass of a phase; None: of the step."""
        packed = (self._content if phase is None else phase)["random"]
        if packed is not None:
            unpacked_random(packed, self._unpacker).put_back()

    def _label_models(self) -> None:
        """Restore the labels of several models by their parameters, since they may be found in another order."""
        free = [(root, module) for root in self._names.roots
                if not root.label and (module := root.module()) is not None]
        for label, saved in self._content["models"].items():
            if label and "." not in label and all(root.label != label for root in self._names.roots):
                state = self._unpacker.unpack(saved["state"])
                fitting = next(((root, module) for root, module in free if not list(
                    _differences(state_of(unwrapped(module)), state))), None)
                if fitting is not None:
                    fitting[0].label = label
                    free.remove(fitting)

    def _model(
        self, label: str, module: nn.Module, saved: Mapping[str, Any], before: Mapping[str, Any] | None
    ) -> None:
        wanted = dict(self._unpacker.unpack(saved["state"]))
        wanted.update(self._unpacker.unpack(saved["buffers"]))
        wanted.update(self._unpacker.unpack(before) if before is not None else {})
        found = {**state_of(module), **dict(module.named_buffers())}
        differ = list(_differences(found, wanted))
        if differ:
            more = f"; and {len(differ) - _NAMED} more" if len(differ) > _NAMED else ""
            raise self._failure(f"The script's model {label or type(module).__name__} differs from the "
                                f"{self._held_by}'s: {'; '.join(differ[:_NAMED])}{more}.")
        with torch.no_grad():
            for name, value in wanted.items():
                if isinstance(value, torch.Tensor) and digest(part_of(value)) != digest(part_of(found[name])):
                    found[name].copy_(value)
        training, frozen = set(saved["training"]), set(saved["frozen"])
        for path, part in module.named_modules():
            part.training = path in training
        for path, parameter in module.named_parameters():
            parameter.requires_grad_(path not in frozen)

    def _gradients(self) -> None:
        saved = self._content["gradients_before"]
        for parameter, name in self._names.parameters():
            packed = saved.get(self._names.path(name.root, name.path))
            parameter.grad = None if packed is None else self._unpacker.unpack(packed).to(parameter.device)

    def _put_optimizers(self) -> None:
        there = {self._optimizers.entry(item).label: item for item in self._optimizers.innermost()}
        for label, saved in self._content["optimizers"].items():
            if label not in there:
                raise self._failure(f"The script has no optimizer {label or saved['class'].rpartition(':')[2]} at "
                                    "its first step.")
            try:
                there[label].load_state_dict(self._unpacker.unpack(saved["state"]))
            except (ValueError, KeyError) as error:
                raise self._failure(f"The script's optimizer {label or type(there[label]).__name__} differs from "
                                    f"the {self._held_by}'s: {error}") from error

    def _scaler(self) -> None:
        saved = self._content["scaler"]
        if saved is None:
            return
        scalers = instances_of(torch.amp.GradScaler)
        if len(scalers) != 1:
            raise self._failure(f"The step used one gradient scaler; the script has {len(scalers)}.")
        scalers[0].load_state_dict(self._unpacker.unpack(saved))

    def _schedulers(self) -> None:
        saved = self._content["schedulers"]
        there = instances_of(torch.optim.lr_scheduler.LRScheduler)
        waiting = list(there)
        for packed in saved:
            item = next((one for one in waiting if class_of(one) == packed["class"]), None)
            if item is not None:
                waiting.remove(item)
                item.load_state_dict({**item.state_dict(), **self._unpacker.unpack(packed["state"])})
        if len(there) != len(saved) or len(waiting):
            self.notes.append(f"{len(saved)} learning-rate schedulers had stepped; the script has {len(there)}.")


def unpacked_random(packed: Any, unpacker: Unpacker) -> RandomStates:
    """Return the states of all generators as `packed_random` packed them."""
    states = unpacker.unpack(packed)
    return RandomStates(states["python"], states["numpy"], states["torch"], tuple(states["cuda"]))


def put_settings(content: Mapping[str, Any]) -> list[str]:
    """Restore settings that affect bits of results, and return those that cannot be restored: a sentence each."""
    settings = content["settings"]
    torch.set_num_threads(int(settings["threads"]))
    torch.set_default_dtype(getattr(torch, settings["default_dtype"]))
    torch.use_deterministic_algorithms(settings["deterministic"], warn_only=settings["deterministic_warn_only"])
    torch.set_float32_matmul_precision(settings["matmul_precision"])
    torch.backends.cudnn.benchmark = settings["cudnn_benchmark"]
    torch.backends.cudnn.deterministic = settings["cudnn_deterministic"]
    torch.backends.cudnn.allow_tf32 = settings["cudnn_tf32"]
    torch.backends.cuda.matmul.allow_tf32 = settings["cuda_tf32"]
    torch.backends.mkldnn.set_flags(settings["mkldnn"])  # type: ignore[no-untyped-call]
    return list(_other_machine(content))


def _other_machine(content: Mapping[str, Any]) -> Iterable[str]:
    machine, versions = content["machine"], content["versions"]
    if processor() != machine["processor"]:
        yield f"torch uses different CPU instructions: {machine['processor']} then, {processor()} now."
    if machine["devices"] and torch.cuda.is_available() and devices() != machine["devices"]:
        yield f"Different devices: {', '.join(machine['devices'])} then, {', '.join(devices())} now."
    if versions["torch"] != str(torch.__version__):
        yield f"Different torch: {versions['torch']} then, {torch.__version__} now."


def _differences(found: Mapping[str, Any], wanted: Mapping[str, Any]) -> Iterable[str]:
    for name, value in wanted.items():
        if name not in found:
            yield f"it has no {name}"
        elif isinstance(value, torch.Tensor) and isinstance(found[name], torch.Tensor):
            if value.shape != found[name].shape:
                yield f"{name} is {tuple(found[name].shape)}, and was {tuple(value.shape)}"
            elif value.dtype != found[name].dtype:
                yield f"{name} is {found[name].dtype}, and was {value.dtype}"
            elif is_distributed(value) != is_distributed(found[name]):
                yield f"{name} is {_whole_or_split(found[name])}, and was {_whole_or_split(value)}"
    yield from (f"{name} was not there" for name in found if name not in wanted)


def _whole_or_split(tensor: torch.Tensor) -> str:
    return "split over workers" if is_distributed(tensor) else "whole"
