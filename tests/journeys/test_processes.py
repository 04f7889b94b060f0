"""Trainings with several processes: only processes that train are workers."""

from __future__ import annotations

import os
import re
import signal
from typing import Any

import numpy as np
import pytest

from forking import TORCH

FORKED = TORCH

HELPED = '''
import multiprocessing, os, sys
from torch.utils.data import DataLoader, Dataset


class Squares(Dataset):
    def __len__(self):
        return 24

    def __getitem__(self, index):
        generator = torch.Generator().manual_seed(index)
        return torch.randn(8, generator=generator) ** 2, index % 3


def help_out(queue):
    queue.put(F.mse_loss(nn.Linear(3, 1)(torch.ones(3)), torch.zeros(1)).item() >= 0)


if __name__ == "__main__":
    for how in ("fork", "spawn"):
        for x, y in DataLoader(Squares(), 4, num_workers=1, multiprocessing_context=how):
            optimizer.zero_grad()
            loss = F.cross_entropy(model(x), y)
            loss.backward()
            optimizer.step()
        print(how, loss.item())
    queue = multiprocessing.get_context("fork").Queue()
    helper = multiprocessing.get_context("fork").Process(target=help_out, args=(queue,))
    helper.start()
    print("helped", queue.get(), helper.join(), helper.exitcode, flush=True)
    if (child := os.fork()) == 0:
        train_step()
        print("the child ends by itself", flush=True)
        sys.exit(7)
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
    train_step()
'''


def test_helper_processes_are_not_workers(desk: Any) -> None:
    desk.script(HELPED)
    watched = desk.run("--budget", "off", "train.py")
    assert watched.code == 0, watched.err
    assert re.fullmatch(r"fork [\d.]+\nspawn [\d.]+\nhelped True None 0\nthe child ends by itself\n7\n", watched.text)
    assert "BarographWarning" not in watched.err
    run = desk.open()
    assert [(state.worker.name, str(state.standing)) for state in run.workers] == [("p0", "finished")]
    assert run.steps().tolist() == list(range(13))


SPAWNED = '''
import multiprocessing, sys


def work(number):
    for step in range(number):
        train_step()
    if number == 4:
        raise ValueError("the fourth")


if __name__ == "__main__":
    context = multiprocessing.get_context("spawn")
    trainers = [context.Process(target=work, args=(number,)) for number in (4, 6)]
    for trainer in trainers:
        trainer.start()
    for trainer in trainers:
        trainer.join()
    sys.exit(sum(trainer.exitcode for trainer in trainers))
'''


def test_each_spawned_training_process_is_a_worker(desk: Any) -> None:
    desk.script(SPAWNED)
    watched = desk.run("--budget", "off", "train.py")
    assert watched.code == 1
    run = desk.open()
    assert {state.worker.name for state in run.workers} == {"p0", "p1"}
    made = {len(run.steps(worker=state.worker.name)): state for state in run.workers}
    assert (str(made[4].standing), str(made[6].standing)) == ("failed", "finished")
    assert made[4].ending.reason == "ValueError: the fourth"


REPLICAS = '''
import os
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

dist.init_process_group("gloo")
rank = dist.get_rank()
replica = DistributedDataParallel(model)
torch.manual_seed(rank)
for step in range(15):
    optimizer.zero_grad()
    F.cross_entropy(replica(torch.randn(32, 8)), torch.randint(0, 3, (32,))).backward()
    optimizer.step()
os.write(1, f"rank {rank} ended\\n".encode())  # in one piece: both write to one pipe
dist.destroy_process_group()
'''


TORCHRUN = ("torchrun", "--nproc-per-node", "2", "--master-port")


def test_torchrun_workers_are_merged_as_replicas(desk: Any) -> None:
    desk.script(REPLICAS)
    watched = desk.run("--budget", "off", *TORCHRUN, _free_port(), "train.py")
    assert watched.code == 0, watched.err
    assert sorted(watched.text.splitlines()) == ["rank 0 ended", "rank 1 ended"]
    run = desk.open()
    assert [(state.worker.name, str(state.standing)) for state in run.workers] == [
        ("r0", "finished"), ("r1", "finished"),
    ]
    assert run.steps().tolist() == list(range(15))
    for key in ("weight:0.weight", "gradient:2.bias"):
        first, second = (run.series(key, "l2", worker=worker).values for worker in ("r0", "r1"))
        np.testing.assert_array_equal(first, second)
        assert len(first) == 15
        np.testing.assert_array_equal(run.series(key, "l2").values, first)
    # Each saw other data, and the merged view holds both.
    first, second = (run.summary("output:2", 3, worker=worker) for worker in ("r0", "r1"))
    both = run.summary("output:2", 3)
    assert first != second
    assert both.count == first.count + second.count == 2 * 32 * 3
    assert both.max == max(first.max, second.max)
    losses = [run.series("loss:total", worker=worker).values for worker in ("r0", "r1")]
    np.testing.assert_allclose(run.series("loss:total").values, np.mean(losses, axis=0))


def _free_port() -> str:
    import socket

    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return str(free.getsockname()[1])


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here")
def test_a_child_forked_during_a_delivery_does_not_hang(tmp_path: Any) -> None:
    from barograph.model.manifest import EndState, Heartbeat
    from barograph.model.settings import Settings
    from barograph.runs.writing.writer_client import WriterClient

    line = WriterClient(
        str(tmp_path), attempt=0, rank=None, world_size=1, versions={}, settings=Settings(),
        status=lambda: Heartbeat(0, 0.0), on_stop=print, on_loss=print, on_trouble=print,
    )
    # At any moment a thread of ours may be in here; the child has the lock, and not the thread.
    with line._inbox._lock:
        child = os.fork()
        if child == 0:
            signal.alarm(600)
            line.after_fork_in_child()
            os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert line.close(EndState.FINISHED).complete
