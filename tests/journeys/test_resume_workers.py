"""A training of two workers is killed or terminated, and each worker resumes from its own part."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from typing import Any

import pytest
import torch

from forking import TORCH

FORKED = TORCH

SCRIPT = """
import os
import signal
import sys
import time
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, TensorDataset
from torch.utils.data.distributed import DistributedSampler

dist.init_process_group("gloo")
rank = dist.get_rank()
torch.manual_seed(3)
inputs = torch.randn(96, 8)
labels = inputs[:, :3].argmax(1)
data = TensorDataset(inputs, labels)
inner = nn.Sequential(nn.Linear(8, 16), nn.BatchNorm1d(16), nn.ReLU(), nn.Dropout(0.2), nn.Linear(16, 3))
model = DistributedDataParallel(inner)
torch.manual_seed(100 + rank)
optimizer = torch.optim.Adam(model.parameters(), 1e-2)
sampler = DistributedSampler(data, shuffle=True, seed=5)
loader = DataLoader(data, batch_size=8, sampler=sampler)
total = 0
for epoch in range(30):
    sampler.set_epoch(epoch)
    for x, y in loader:
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(x), y).backward()
        optimizer.step()
        total += 1
        if total == int(sys.argv[1]) and rank == 1:
            os.kill(os.getpid() if sys.argv[2] == "SIGKILL" else os.getppid(), signal.Signals[sys.argv[2]])
        if sys.argv[2] == "SIGTERM":
            time.sleep(0.02)  # the workers agree on a step to end after, which has to be one of these
torch.save({"rank": rank, "total": total, "draw": torch.rand(1), **inner.state_dict()}, f"last{rank}.pt")
dist.destroy_process_group()
"""


SPLIT = SCRIPT.replace("model = DistributedDataParallel(inner)", """
from torch.distributed.fsdp import FullyShardedDataParallel, fully_shard
from torch.distributed.fsdp.wrap import ModuleWrapPolicy

if sys.argv[3] == "fully_shard":
    from torch.distributed.device_mesh import init_device_mesh
    mesh = init_device_mesh("cpu", (dist.get_world_size(),))
    for one in (inner[0], inner[4], inner):
        fully_shard(one, mesh=mesh)
    model = inner
else:
    model = FullyShardedDataParallel(inner, auto_wrap_policy=ModuleWrapPolicy({nn.Linear}),
                                     device_id=torch.device("cpu"), use_orig_params=sys.argv[3] == "original")


def own(named, prefix):
    return {prefix + name: getattr(item, "to_local", item.detach)().clone() for name, item in named}
""").replace("**inner.state_dict()", """**own(model.named_parameters(), ""),
            **own(model.named_buffers(), "buffer "), **{
            name: item for number, state in enumerate(optimizer.state.values())
            for name, item in own(state.items(), f"state {number} ").items()}""").replace("range(30)", "range(4)")


def weights(desk: Any) -> list[dict[str, Any]]:
    return [torch.load(desk.folder / f"last{rank}.pt") for rank in range(2)]


@pytest.fixture(scope="module")
def workers(make_desk: Callable[[str], Any]) -> Any:
    """Two workers: their undisturbed result, and two copies of a run in which one was killed."""
    desk = make_desk("workers")
    desk.write("train.py", SCRIPT)
    desk.command = ("torchrun", "--standalone", "--nproc-per-node", "2", "train.py")
    ended = desk.python("-m", "torch.distributed.run", *desk.command[1:], "0", "SIGKILL")
    assert ended.code == 0, ended.err
    desk.whole = weights(desk)
    ended = desk.run("--rules", "none", "--checkpoint", "every=5", *desk.command, "17", "SIGKILL", to="killed")
    assert ended.code != 0, ended.err
    shutil.copytree(desk.folder / "killed", desk.folder / "two")
    return desk


def check_same(desk: Any) -> None:
    for one, other in zip(weights(desk), desk.whole, strict=True):
        assert one.keys() == other.keys()
        for name in one:
            assert one[name] == other[name] if isinstance(one[name], int) else torch.equal(one[name], other[name]), name
    for rank in range(2):
        (desk.folder / f"last{rank}.pt").unlink()


def test_killed_workers_resume_bit_for_bit(workers: Any) -> None:
    names = sorted(path.name for path in (workers.folder / "killed" / "checkpoints").glob("*.json"))
    assert [name[:16] for name in names if "next" not in name] == [
        f"0000-000000{steps}-r{rank}" for steps in ("05", "10", "15") for rank in range(2)]

    ended = workers.end(workers.start("barograph", "resume", "killed", *workers.command, "0", "SIGKILL"))

    assert ended.code == 0, ended.err
    assert ("resumed from step 15: batch and loss of the next step are bit-identical"
            in ended.err)
    check_same(workers)


def test_terminated_workers_save_after_the_same_step_and_resume(workers: Any) -> None:
    ended = workers.run("--rules", "none", "--checkpoint", "1h", *workers.command, "13", "SIGTERM", to="asked")
    assert ended.code != 0, ended.err
    names = sorted(path.name for path in (workers.folder / "asked" / "checkpoints").glob("*-r?.json"))
    assert len(names) == 2
    assert names[0].replace("-r0", "-r1") == names[1]

    ended = workers.end(workers.start("barograph", "resume", "asked", *workers.command, "0", "SIGKILL"))

    assert ended.code == 0, ended.err
    check_same(workers)


def test_another_number_of_workers_is_rejected(workers: Any) -> None:
    alone = workers.end(workers.start("barograph", "resume", "two", "torchrun", "--standalone", "--nproc-per-node", "1",
                                      "train.py", "0", "SIGKILL"))

    assert alone.code != 0
    assert "The checkpoint was saved by 2 workers, but here is 1." in alone.err


@pytest.mark.parametrize("how", ["fully_shard", "flat", "original"])
def test_workers_of_a_sharded_model_resume_from_their_parts(desk: Any, how: str) -> None:
    desk.write("train.py", SPLIT)
    command = ("torchrun", "--standalone", "--nproc-per-node", "2", "train.py")
    ended = desk.python("-m", "torch.distributed.run", *command[1:], "0", "SIGKILL", how)
    assert ended.code == 0, ended.err
    desk.whole = weights(desk)
    ended = desk.run("--rules", "none", "--checkpoint", "every=5", *command, "17", "SIGKILL", how, to="killed")
    assert ended.code != 0, ended.err

    ended = desk.end(desk.start("barograph", "resume", "killed", *command, "0", "SIGKILL", how))

    assert ended.code == 0, ended.err
    assert ("resumed from step 15: batch and loss of the next step are bit-identical"
            in ended.err)
    assert {"total", "draw"} < desk.whole[1].keys()
    assert any(name.startswith("state ") for name in desk.whole[1])
    check_same(desk)
