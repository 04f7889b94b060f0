"""A tensor that is split over workers is kept by its parts, and is whole again where the script splits it likewise."""

from __future__ import annotations

import json

import pytest
import torch
from torch import distributed, nn

from barograph.capture.torch.flat import has_flat_parts
from barograph.capture.torch.packing import Packer
from barograph.capture.torch.shards import part_of, state_of
from barograph.capture.torch.unpacking import Unpacker
from barograph.errors import NotPlain
from barograph.runs.format.tensors import array_from_raw


@pytest.fixture(scope="module")
def mesh():
    """One worker alone, which holds all parts."""
    distributed.init_process_group("gloo", rank=0, world_size=1, store=distributed.HashStore())
    from torch.distributed.device_mesh import init_device_mesh

    yield init_device_mesh("cpu", (1,), mesh_dim_names=("rows",))
    distributed.destroy_process_group()


def placed(mesh, placement):
    from torch.distributed.tensor import DTensor

    return DTensor.from_local(torch.arange(6.0).reshape(3, 2), mesh, [placement], run_check=False)


def through(tensor, meshes):
    packer = Packer(takes_shards=True)
    content = json.loads(json.dumps(packer.pack(tensor, "it")))
    arrays = {name: array_from_raw(item) for name, item in packer.tensors.items()}
    return Unpacker(arrays, "file", meshes=lambda: meshes).unpack(content)


def test_a_part_is_kept_with_how_the_whole_is_split(mesh):
    from torch.distributed.tensor import Replicate, Shard

    for placement in (Shard(0), Shard(1), Replicate()):
        tensor = placed(mesh, placement).requires_grad_()
        back = through(tensor, [mesh])
        assert back.placements == (placement,)
        assert back.device_mesh is mesh
        assert back.shape == (3, 2)
        assert back.requires_grad
        assert back.is_leaf
        assert torch.equal(part_of(back), torch.arange(6.0).reshape(3, 2))


def test_what_the_script_does_not_split_so_is_refused(mesh):
    from torch.distributed.tensor import Shard

    with pytest.raises(NotPlain, match=r"split over 1 workers; the script has no such split \(file\)"):
        through(placed(mesh, Shard(0)), [])


def test_a_tensor_that_is_not_reduced_yet_is_refused_by_name(mesh):
    from torch.distributed.tensor import Partial

    with pytest.raises(NotPlain, match="it is split over workers as Partial says"):
        through(placed(mesh, Partial()), [mesh])


class FullyShardedDataParallel(nn.Linear):
    """Stands for torch's: its state dict waits for all workers."""

    def state_dict(self, *args, **kwargs):
        raise AssertionError("all workers would have to ask for it")


def test_of_flat_parameters_the_pieces_are_taken_that_lie_here():
    model = nn.Sequential(FullyShardedDataParallel(2, 3), nn.BatchNorm1d(3))
    found = state_of(model)
    assert has_flat_parts(model)
    assert found["0.weight"] is model[0].weight
    assert found["1.running_mean"] is model[1].running_mean
    assert not has_flat_parts(nn.Linear(1, 1))
