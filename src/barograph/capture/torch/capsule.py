"""Collects the inputs of a step as the content of a capsule."""

from __future__ import annotations

import math
import platform
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import torch

from barograph.capture.torch.compiling import has_compiled
from barograph.capture.torch.joining import is_child
from barograph.capture.torch.kept import Call, Kept, loss_value
from barograph.capture.torch.names import ModelNames, unwrapped
from barograph.capture.torch.norms import norms_of
from barograph.capture.torch.optimizer_entry import Entry
from barograph.capture.torch.optimizers import OptimizerBook
from barograph.capture.torch.packing import Packer
from barograph.capture.torch.read import raw_tensor
from barograph.capture.torch.standing import (
    named_parameters,
    packed_model,
    packed_optimizers,
    packed_random,
    packed_scaler,
    packed_schedulers,
)
from barograph.capture.torch.step_variables import Variables
from barograph.runs.format.proof import checksum_of


def content_of(
    kept: Kept, others: Sequence[tuple[str, Kept]], names: ModelNames, optimizers: OptimizerBook, entry: Entry,
    packer: Packer, *, scaler: Any, schedulers: Sequence[Any], rank: tuple[int | None, int],
) -> dict[str, Any]:
    """Return the packed content of the current step; the script is added when it is written.

    Args:
        kept: Kept inputs of the step.
        others: Steps of other optimizers since this one's last step, with their kept inputs.
        names: Names of the models.
        optimizers: All optimizers of the script.
        entry: Optimizer whose update is withheld.
        packer: Packs values; its tensors and pickled objects belong to the content.
        scaler: Gradient scaler; None without one.
        schedulers: Schedulers that have stepped.
        rank: Rank of this process, and number of ranks.
    """
    before = _used(kept, others)
    return {
        "models": _models([kept, *(step for _, step in reversed(before))], entry, names, packer),
        "optimizers": packed_optimizers(optimizers, packer),
        "others": len(others) if before else 0,
        "before": [_before(label, step, names, packer, f"before/{number}")
                   for number, (label, step) in enumerate(before)],
        "scaler": packed_scaler(scaler, packer),
        "schedulers": packed_schedulers(schedulers, packer),
        **_pass(kept, packer),
        "gradients_before": {
            name: packer.pack(kept.gradients[id(parameter)], f"gradients_before/{name}")
            for name, parameter in named_parameters(names) if id(parameter) in kept.gradients
        },
        "complete": kept.complete,
        "seen": _seen(kept, entry),
        "settings": numeric_settings(),
        "machine": machine_of(rank),
        "versions": {"python": platform.python_version(), "torch": str(torch.__version__)},
    }


def _used(kept: Kept, others: Sequence[tuple[str, Kept]]) -> Sequence[tuple[str, Kept]]:
    """Return the other optimizers' steps that this one may depend on: back to the one that fetched a batch."""
    if kept.batches or not others:
        return ()
    fed = [number for number, (_, step) in enumerate(others) if step.batches]
    return others[fed[-1]:] if fed else others[-1:]


def _before(label: str, step: Kept, names: ModelNames, packer: Packer, name: str) -> dict[str, Any]:
    models = {names.path(root, ""): step.buffers.get(identity, {}) for identity, root in step.models.items()}
    buffers = {model: packer.pack(found, f"{name}/buffers/{model}") for model, found in models.items()}
    return {"optimizer": label, "buffers": buffers, **_pass(step, packer, f"{name}/")}


def _pass(kept: Kept, packer: Packer, name: str = "") -> dict[str, Any]:
    """Return the content of the passes of one optimizer's step."""
    return {
        "random": packed_random(kept.random, packer, f"{name}random"),
        "batches": [packer.pack(batch, f"{name}batches/{number}") for number, batch in enumerate(kept.batches)],
        "samples": [None if item is None else item.to_json() for item in kept.made_of],
        "calls": [_call(call, packer, f"{name}calls/{number}") for number, call in enumerate(kept.calls)],
        "losses": [_call(call, packer, f"{name}losses/{number}") for number, call in enumerate(kept.losses)],
        "variables": [{"where": item.where, "values": _variables(item, packer, f"{name}variables/{number}")}
                      for number, item in enumerate(kept.variables)],
    }


def numeric_settings() -> dict[str, Any]:
    """Return the settings that affect bits of results, besides the operations."""
    return {
        "threads": torch.get_num_threads(),
        "default_dtype": str(torch.get_default_dtype()).removeprefix("torch."),
        "deterministic": torch.are_deterministic_algorithms_enabled(),
        "deterministic_warn_only": torch.is_deterministic_algorithms_warn_only_enabled(),
        "matmul_precision": torch.get_float32_matmul_precision(),
        "cudnn_benchmark": torch.backends.cudnn.benchmark,
        "cudnn_deterministic": torch.backends.cudnn.deterministic,
        "cudnn_tf32": torch.backends.cudnn.allow_tf32,
        "cuda_tf32": torch.backends.cuda.matmul.allow_tf32,
        "mkldnn": torch.backends.mkldnn.enabled,
        "compiled": has_compiled(),
    }


def processor() -> str:
    """Return torch's name of the processor's instruction set in use."""
    return str(torch.backends.cpu.get_cpu_capability())


def machine_of(rank: tuple[int | None, int]) -> dict[str, Any]:
    """Return the identity of this worker, and the hardware of its computations.

    Args:
        rank: Rank of this process, and number of ranks.
    """
    return {"rank": rank[0], "world_size": rank[1], "child": is_child(), "processor": processor(), "devices": devices()}


def devices() -> list[str]:
    """Return the names of the CUDA devices, if CUDA is initialized."""
    if not torch.cuda.is_initialized():  # type: ignore[no-untyped-call]
        return []
    return [torch.cuda.get_device_name(number) for number in range(torch.cuda.device_count())]


def digest(tensor: torch.Tensor) -> str:
    """Return the digest of a tensor's bits."""
    return checksum_of(raw_tensor(tensor, copy=False).data)


def _models(steps: Sequence[Kept], entry: Entry, names: ModelNames, packer: Packer) -> dict[str, Any]:
    """Return each called model: weights, unchanged or copied, and original buffers.

    Args:
        steps: The saved step first, and earlier ones of others: models that only they called have not changed since.
        entry: Optimizer of the step: its models may be called without being observed, as in a compiled step.
        names: Names of the models.
        packer: Packs values.
    """
    found = {}
    kept = steps[0]
    roots = {identity: root for step in reversed(steps) for identity, root in step.models.items()}
    if not roots:
        roots = {id(root.module()): root for root in entry.roots}
    for identity, root in roots.items():
        module = root.module()
        if module is None:
            continue
        label = names.path(root, "")
        module_before = kept.buffers.get(identity, {}) or dict(unwrapped(module).named_buffers())
        found[label] = packed_model(unwrapped(module), label, packer, buffers=module_before, weights=kept.weights)
    return found


def _call(call: Call, packer: Packer, name: str) -> dict[str, Any]:
    return {
        "what": call.what, "args": packer.pack(list(call.args), f"{name}/args"),
        "kwargs": packer.pack(dict(call.kwargs), f"{name}/kwargs"),
        # The script recomputes values made by a graph: restored ones would have no gradient.
        "made": made_by_graph(call.args, call.kwargs), "changed": call.was_changed, "autocast": dict(call.autocast),
    }


def made_by_graph(args: Sequence[Any], kwargs: Mapping[str, Any]) -> bool:
    """Return whether a tensor among the arguments of a call is the result of differentiable operations."""
    return any(isinstance(item, torch.Tensor) and item.grad_fn is not None for item in (*args, *kwargs.values()))


def _variables(of: Variables, packer: Packer, name: str) -> dict[str, Any]:
    """Return packed values of variables; a slice as "slice" and its parts."""
    return {key: {"slice": [value.start, value.stop, value.step]} if isinstance(value, slice) else
            packer.pack(value, f"{name}/{key}") for key, value in of.values.items()}


def _seen(kept: Kept, entry: Entry) -> dict[str, Any]:
    return seen_of(kept.roots, [(slot.path, slot.parameter) for slot in entry.slots])


def seen_of(roots: Sequence[torch.Tensor], parameters: Iterable[tuple[str, torch.Tensor]]) -> dict[str, Any]:
    """Return the values that identify a step bit for bit: the losses, and the gradients by name."""
    there = [(name, gradient) for name, parameter in parameters if (gradient := parameter.grad) is not None]
    gradients = [gradient for _, gradient in there]
    norms, digests = norms_of(gradients), [digest(gradient) for gradient in gradients]
    return {
        "losses": [loss_value(root).hex() for root in roots],
        "gradients": {name: {"digest": own, "norm": norm if math.isfinite(norm) else None}
                      for (name, _), own, norm in zip(there, digests, norms, strict=True)},
    }
