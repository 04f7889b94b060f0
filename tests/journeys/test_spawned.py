"""A training whose script starts its workers: a failing step is replayed, and a killed training resumed."""

from __future__ import annotations

import json
import shutil
import socket
from typing import Any

import pytest
import torch

from forking import TORCH

FORKED = TORCH

SCRIPT = """
import os
import signal
import sys
import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, TensorDataset
from torch.utils.data.distributed import DistributedSampler


def work(rank, size, port, killed_at, bad):
    os.environ["MASTER_ADDR"], os.environ["MASTER_PORT"] = "127.0.0.1", port
    dist.init_process_group("gloo", rank=rank, world_size=size)
    torch.manual_seed(3)
    inputs = torch.rand(96, 8) + 0.5
    labels = inputs[:, :3].argmax(1)
    inputs[bad] = 0.0
    inner = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Dropout(0.2), nn.Linear(16, 3))
    model = DistributedDataParallel(inner)
    torch.manual_seed(100 + rank)
    optimizer = torch.optim.Adam(model.parameters(), 1e-2)
    data = TensorDataset(inputs, labels)
    sampler = DistributedSampler(data, shuffle=True, seed=5)
    total = 0
    for epoch in range(4):
        sampler.set_epoch(epoch)
        for x, y in DataLoader(data, batch_size=8, sampler=sampler):
            optimizer.zero_grad()
            nn.functional.cross_entropy(model(torch.log(x)), y).backward()
            optimizer.step()
            total += 1
            if total == killed_at and rank == 1:
                os.kill(os.getpid(), signal.SIGKILL)
    torch.save({"rank": rank, "total": total, "draw": torch.rand(1), **inner.state_dict()}, f"last{rank}.pt")
    dist.destroy_process_group()


if __name__ == "__main__":
    how, size, port, killed_at, *bad = sys.argv[1:]
    mp.start_processes(work, (int(size), port, int(killed_at), [int(row) for row in bad]), nprocs=int(size),
                       start_method=how)
"""


def port() -> str:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return str(found.getsockname()[1])


def weights(desk: Any) -> list[dict[str, Any]]:
    return [torch.load(desk.folder / f"last{rank}.pt") for rank in range(2)]


def test_a_step_of_spawned_workers_is_replayed_together_and_by_one_alone(desk: Any) -> None:
    desk.write("train.py", SCRIPT)
    ended = desk.run("--record", "--rules", "none", "train.py", "spawn", "2", port(), "0", "40")
    assert ended.code != 0, ended.err
    held = desk.folder / "run" / "capsules" / "0000-00000003-r1"
    assert held.is_dir()

    def replayed(capsule: str, size: str) -> Any:
        return desk.end(desk.start("barograph", "replay", "--json", "--no-samples", capsule, "train.py", "spawn", size,
                                   port(), "0", "40"))

    together = json.loads(replayed(str(held), "2").out)
    assert (together["grade"], together["notes"]) == ("bitwise", [])
    assert together["bad_operation"]["name"] == "log"

    shutil.copytree(held, desk.folder / "alone")
    alone = json.loads(replayed("alone", "2").out)
    assert alone["grade"] == "bitwise"
    assert alone["notes"] == [
        "The capsules of the other workers are missing: the gradients are this worker's only."]

    more = replayed(str(held), "3")
    assert more.code != 0
    assert "The step ran on 2 workers, but the script starts 3." in more.err


@pytest.mark.parametrize("how", ["spawn", "fork"])
def test_killed_workers_of_multiprocessing_resume_bit_for_bit(desk: Any, how: str) -> None:
    desk.write("train.py", SCRIPT)
    whole = desk.python("train.py", how, "2", port(), "0")
    assert whole.code == 0, whole.err
    expected = weights(desk)
    ended = desk.run("--rules", "none", "--checkpoint", "every=5", "train.py", how, "2", port(), "17")
    assert ended.code != 0, ended.err

    ended = desk.end(desk.start("barograph", "resume", "run", "train.py", how, "2", port(), "0"))

    assert ended.code == 0, ended.err
    assert ("resumed from step 15: batch and loss of the next step are bit-identical"
            in ended.err)
    for one, other in zip(weights(desk), expected, strict=True):
        assert one["total"] == other["total"] == 24
        assert all(torch.equal(one[name], other[name]) for name in one if isinstance(one[name], torch.Tensor))


ALONE = """
import multiprocessing
import os
import signal
import sys
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


def work(killed_at):
    torch.manual_seed(3)
    data = TensorDataset(torch.rand(96, 8), torch.randint(0, 3, (96,)))
    model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Dropout(0.2), nn.Linear(16, 3))
    optimizer = torch.optim.Adam(model.parameters(), 1e-2)
    total = 0
    for epoch in range(2):
        for x, y in DataLoader(data, batch_size=8, shuffle=True):
            optimizer.zero_grad()
            nn.functional.cross_entropy(model(x), y).backward()
            optimizer.step()
            total += 1
            if total == killed_at:
                os.kill(os.getpid(), signal.SIGKILL)


if __name__ == "__main__":
    child = multiprocessing.get_context(sys.argv[1]).Process(target=work, args=(int(sys.argv[2]),))
    child.start()
    child.join()
    sys.exit(child.exitcode != 0)
"""


def test_a_single_child_resumes_if_spawned_and_is_rejected_if_forked(desk: Any) -> None:
    desk.write("train.py", ALONE)
    ended = desk.run("--rules", "none", "--checkpoint", "every=5", "train.py", "spawn", "17")
    assert ended.code == 1, ended.err

    forked = desk.end(desk.start("barograph", "resume", "run", "train.py", "fork", "0"))
    assert forked.code != 0
    assert "A forked process cannot resume from it: use multiprocessing's spawn" in forked.err

    spawned = desk.end(desk.start("barograph", "resume", "run", "train.py", "spawn", "0"))
    assert spawned.code == 0, spawned.err
    assert ("resumed from step 15: batch and loss of the next step are bit-identical"
            in spawned.err)
