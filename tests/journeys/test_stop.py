"""`--on-finding stop` raises an exception that the script may catch, and sets the exit code."""

from __future__ import annotations

import os
import socket
from typing import Any

import pytest

from forking import TORCH

FORKED = TORCH

FALLING_ILL = '''
import atexit, sys, time

atexit.register(print, "what was registered for the end ran")
deadline = time.monotonic() + 600


def train():
    step = 0
    while time.monotonic() < deadline:
        if step == 20:
            with torch.no_grad():
                model[0].weight[3, 2] = float("nan")
        train_step()
        time.sleep(0.01)
        step += 1
    print("never stopped")


'''


def test_a_failing_training_is_stopped_with_its_exit_code(desk: Any) -> None:
    desk.script(FALLING_ILL + '''
try:
    train()
finally:
    print("finally")
''')
    watched = desk.run("--on-finding", "stop", "--budget", "off", "train.py")
    assert (watched.code, watched.text) == (79, "finally\nwhat was registered for the end ran\n")
    assert "Traceback" not in watched.err
    assert "Barograph stopped this training: N101 non-finite: " in watched.err
    ending = desk.ending()
    assert (ending["state"], ending["reason"].partition(":")[0]) == ("stopped", "N101 non-finite")
    finding = next(item for item in desk.open().findings if item.code == "N101")
    assert finding.since_step == 20
    assert finding.message in ending["reason"]


@pytest.mark.parametrize("code", [0, 1, 5])
def test_a_script_that_catches_the_exception_decides_how_to_continue(desk: Any, code: int) -> None:
    desk.script(FALLING_ILL + f'''
try:
    train()
except Exception as error:
    print(type(error).__module__, type(error).__name__)
train_step()
print("saved what was left")
sys.exit({code})
''')
    watched = desk.run("--on-finding", "stop", "train.py")
    assert watched.code == code
    assert watched.text.startswith("barograph.errors TrainingStopped\nsaved what was left\n")
    assert desk.ending()["state"] == "stopped"
    assert desk.ending()["reason"].startswith("N101 non-finite: ")


def test_a_stop_works_with_a_custom_excepthook(desk: Any) -> None:
    desk.script(FALLING_ILL + '''
sys.excepthook = lambda kind, error, trace: print("shown:", kind.__name__)
train()
''')
    watched = desk.run("--on-finding", "stop", "train.py")
    assert watched.code == 79
    assert watched.text.startswith("shown: TrainingStopped\n")
    assert desk.ending()["state"] == "stopped"


def test_a_training_stops_if_standard_error_is_closed(desk: Any) -> None:
    desk.script(FALLING_ILL + '\ntry:\n    train()\nexcept Exception as error:\n    print(type(error).__name__)\n')
    reading, writing = os.pipe()
    os.close(reading)
    process = desk.start(
        "barograph", "run", "--to", "run", "--on-finding", "stop", "--budget", "off", "train.py", stderr=writing
    )
    os.close(writing)
    watched = desk.end(process)
    assert (watched.code, watched.text) == (0, "TrainingStopped\nwhat was registered for the end ran\n")
    assert desk.ending()["state"] == "stopped"


def test_an_attached_training_stops_if_standard_error_is_closed(desk: Any) -> None:
    desk.script("import barograph\n" + FALLING_ILL + '''
try:
    with barograph.attach(model, optimizer, to="run", on_finding="stop", budget=None):
        train()
except barograph.TrainingStopped:
    print("stopped")
''')
    reading, writing = os.pipe()
    os.close(reading)
    process = desk.start("python", "train.py", stderr=writing)
    os.close(writing)
    assert desk.end(process).text == "stopped\nwhat was registered for the end ran\n"


def test_a_stopped_training_keeps_its_exit_code_if_standard_error_is_closed(desk: Any) -> None:
    desk.script("import barograph\n" + FALLING_ILL + '''
with barograph.attach(model, optimizer, to="run", on_finding="stop", budget=None):
    train()
''')
    reading, writing = os.pipe()
    os.close(reading)
    process = desk.start("python", "train.py", stderr=writing)
    os.close(writing)
    assert desk.end(process).code == 79


TOGETHER = '''
import os, time

import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

dist.init_process_group("gloo")
model = DistributedDataParallel(model)
torch.manual_seed(dist.get_rank())
step = 0
try:
    while step < 10_000_000:
        if step == 20:
            inputs[0, 0] = float("inf")
        train_step()
        time.sleep(0.01)
        step += 1
finally:
    # In one piece: both write to one pipe.
    os.write(1, f"finally {dist.get_rank()}\\n".encode())
'''


def test_the_workers_of_torchrun_are_all_stopped(desk: Any) -> None:
    desk.script(TOGETHER)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    watched = desk.run(
        "--on-finding", "stop", "torchrun", "--nproc-per-node", "2", "--master-port", str(port), "train.py"
    )
    assert watched.code == 79
    assert sorted(watched.text.splitlines()) == ["finally 0", "finally 1"]
    states = desk.open().workers
    assert [str(state.standing) for state in states] == ["stopped", "stopped"]
    # After the same step: none was left waiting for the other.
    assert states[0].ending.last.step == states[1].ending.last.step
    assert "Connection closed" not in watched.err
