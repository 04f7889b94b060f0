"""Parts of tensors split over workers: one worker's part, and how to rebuild the tensor.

FSDP2 (`fully_shard`) and tensor parallelism make DTensors, which know their position in the full tensor. FSDP1 keeps
all weights of a module in one flat parameter, of which each worker has a contiguous piece.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import torch
from torch import nn

from barograph.capture.torch.flat import has_flat_parts
from barograph.errors import NotPlain


def is_distributed(tensor: torch.Tensor) -> bool:
    """Return whether a tensor is a DTensor, split over workers or replicated."""
    return hasattr(tensor, "placements") and hasattr(tensor, "device_mesh")


def part_of(tensor: torch.Tensor) -> torch.Tensor:
    """Return this worker's part of a tensor, even if another worker has the same."""
    if not is_distributed(tensor):
        return tensor
    with torch.no_grad():
        part: torch.Tensor = tensor.to_local()  # type: ignore[attr-defined]
        return part


def state_of(module: nn.Module) -> dict[str, Any]:
    """Return the state of a model in this worker's memory: the tensors themselves.

    FSDP1's own state dict gathers the weights of all workers, and would make each wait for the others.
    """
    if has_flat_parts(module):
        return {**dict(module.named_parameters()), **dict(module.named_buffers())}
    return dict(module.state_dict(keep_vars=True))


def layout_of(tensor: Any, name: str) -> dict[str, Any]:
    """Return the layout of a DTensor as plain data.

    Args:
        tensor: A DTensor.
        name: Its name, for messages.

    Raises:
        NotPlain: It is split in another way than along an axis, or not reduced yet.
    """
    placements: list[int | None] = []
    for placement in tensor.placements:
        kind = type(placement).__name__
        if kind not in ("Shard", "Replicate"):
            raise NotPlain(f"{name} is split over workers as {kind} says")
        placements.append(int(placement.dim) if kind == "Shard" else None)
    return {"size": list(tensor.shape), "strides": list(tensor.stride()), "axes": placements,
            "mesh": _mesh_layout(tensor.device_mesh)}


def whole_of(part: torch.Tensor, layout: Mapping[str, Any], meshes: Iterable[Any], where: str) -> torch.Tensor:
    """Return the DTensor of which a tensor is this worker's part.

    Args:
        part: This worker's part.
        layout: Result of `layout_of`.
        meshes: Device meshes of the script.
        where: Source of the data, for messages.

    Raises:
        NotPlain: The script has made no such mesh.
    """
    mesh = next((mesh for mesh in meshes if _mesh_layout(mesh) == layout["mesh"]), None)
    if mesh is None:
        over = " × ".join(map(str, layout["mesh"]["shape"]))
        raise NotPlain(f"It holds parts of tensors split over {over} workers; the script has no such split "
                       f"({where}).")
    # Already loaded if the script has made a mesh.
    from torch.distributed.tensor import DTensor, Replicate, Shard

    placements = [Replicate() if axis is None else Shard(axis) for axis in layout["axes"]]
    return DTensor.from_local(part, mesh, placements, run_check=False, shape=torch.Size(layout["size"]),
                              stride=tuple(layout["strides"]))


def meshes_of(tensors: Iterable[torch.Tensor]) -> list[Any]:
    """Return the distinct device meshes of tensors."""
    return list({id(mesh): mesh for tensor in tensors
                 if is_distributed(tensor) and (mesh := tensor.device_mesh) is not None}.values())  # type: ignore[attr-defined]


def _mesh_layout(mesh: Any) -> dict[str, Any]:
    names: Sequence[str] | None = mesh.mesh_dim_names
    return {"shape": list(mesh.shape), "names": None if names is None else list(names)}
