"""What is under way is finished before SIGTERM ends a process."""

from __future__ import annotations

import signal
import subprocess
import sys

import pytest

SCRIPT = """
import os, signal
from barograph.capture.termination import finished_first

with finished_first():
    for _ in range({times}):
        os.kill(os.getpid(), signal.SIGTERM)
    print("finished", flush=True)
print("went on", flush=True)
"""


def run(script: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)


@pytest.mark.parametrize(("times", "said", "code"), [
    (0, "finished\nwent on\n", 0), (1, "finished\n", -signal.SIGTERM), (2, "", -signal.SIGTERM)])
def test_it_is_finished_and_then_the_process_ends_by_it(times: int, said: str, code: int) -> None:
    ended = run(SCRIPT.format(times=times))
    assert (ended.stdout, ended.returncode) == (said, code), ended.stderr


def test_a_handler_of_the_scripts_own_stays_and_is_called_at_once() -> None:
    listens = "import signal\nsignal.signal(signal.SIGTERM, lambda *_: print('mine', flush=True))\n"
    ended = run(listens + SCRIPT.format(times=1))
    assert (ended.stdout, ended.returncode) == ("mine\nfinished\nwent on\n", 0), ended.stderr
