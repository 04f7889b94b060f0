"""The fork server of the tests: a fork is like a new interpreter."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from forking import AVAILABLE, TORCH, ForkServer

pytestmark = pytest.mark.skipif(not AVAILABLE, reason="the fork server needs /proc")

FACTS = """
import json, os, random, sys
facts = {"argv": sys.argv, "first": sys.path[0], "name": __name__, "file": __file__, "folder": os.getcwd(),
         "variable": os.environ.get("FORKED_VARIABLE"), "early": "torch" in sys.modules, "parent": os.getppid(),
         "read": sys.stdin.read(), "below": sys._getframe().f_back and sys._getframe().f_back.f_code.co_filename}
import torch
facts |= {"late": "torch.nn" in sys.modules, "drawn": [random.random(), torch.rand(1).item()],
          "compiler": "torch._dynamo" in sys.modules}
torch.optim.SGD([torch.zeros(1, requires_grad=True)], 0.1)
facts["optimizer"] = "torch._dynamo" in sys.modules
print(json.dumps(facts))
"""


@pytest.fixture
def server(fork_servers: Callable[..., ForkServer]) -> ForkServer:
    return fork_servers(*TORCH)


def ended(server: ForkServer, *words: str | Path, said: bytes = b"", **environment: str) -> Any:
    path = os.pathsep.join([str(server.programs), os.environ["PATH"]])
    done = subprocess.run([str(word) for word in words], input=said, capture_output=True, timeout=600, check=False,
                          env={**os.environ, "OMP_NUM_THREADS": "1", "PATH": path, **environment})
    done.how = server.commands()[-1][0]
    return done


def test_a_script_starts_as_in_a_new_interpreter(server: ForkServer, tmp_path: Path) -> None:
    script = tmp_path / "facts.py"
    script.write_text(FACTS, encoding="utf-8")
    first, second = (ended(server, "python", script, "-x", said=b"typed", FORKED_VARIABLE="1") for _ in range(2))
    assert (first.returncode, first.stderr, first.how) == (0, b"", "forked")
    facts, others = json.loads(first.stdout), json.loads(second.stdout)
    drawn = facts.pop("drawn")
    assert all(one != other for one, other in zip(drawn, others["drawn"], strict=True))
    assert facts == {
        "argv": [str(script), "-x"], "first": str(tmp_path), "name": "__main__", "file": str(script),
        "folder": os.getcwd(), "variable": "1", "early": False, "parent": os.getpid(), "read": "typed",
        "below": "<fork server>", "late": True, "compiler": False, "optimizer": True}


def test_a_client_that_is_killed_before_it_has_asked_ends_no_server(server: ForkServer) -> None:
    for said in (b"", b"\x09\x00\x00\x00half"):
        with socket.socket(socket.AF_UNIX) as client:
            client.connect(str(server.programs / "socket"))
            client.sendall(said)

    assert ended(server, "python", "-c", "print('here')").stdout == b"here\n"


@pytest.mark.parametrize(("code", "status", "err"), [
    ("raise SystemExit(7)", 7, b""),
    ("raise SystemExit('no')", 1, b"no\n"),
    ("import os; os.kill(os.getpid(), 9)", -9, b""),
    ("import atexit; atexit.register(print, 'end', flush=True); 1 / 0", 1, b"ZeroDivisionError"),
    ("import atexit, sys; atexit.register(lambda: print(sys.last_value, flush=True)); 1 / 0", 1, b"ZeroDivisionError"),
    ("raise KeyboardInterrupt", -2, b"KeyboardInterrupt"),
])
def test_a_command_ends_as_its_fork_does(server: ForkServer, code: str, status: int, err: bytes) -> None:
    forked, cold = ended(server, "python", "-c", code), subprocess.run(
        [sys.executable, "-c", code], capture_output=True, timeout=600, check=False)
    assert forked.how == "forked"
    assert forked.returncode == cold.returncode == status
    assert err in forked.stderr
    assert (forked.stdout, forked.stderr) == (cold.stdout, cold.stderr)


def test_a_signal_to_the_command_reaches_its_fork_and_a_killed_command_takes_it_along(
    server: ForkServer, tmp_path: Path
) -> None:
    path = os.pathsep.join([str(server.programs), os.environ["PATH"]])
    for number in (signal.SIGTERM, signal.SIGKILL):
        pipe, write = os.pipe()
        process = subprocess.Popen(["python", "-c", "import os, time; os.write(1, b'x'); time.sleep(600)"],
                                   stdout=write, env={**os.environ, "PATH": path})
        os.close(write)
        assert os.read(pipe, 1) == b"x"
        process.send_signal(number)
        assert process.wait(600) == -number
        assert os.read(pipe, 1) == b""  # the fork held it open
        os.close(pipe)


@pytest.mark.parametrize(("words", "environment", "reason"), [
    (["-c", "print(1)"], {"PYTHONHASHSEED": "3"}, "PYTHONHASHSEED differs"),
    (["-c", "print(1)"], {"PYTHONPATH": "elsewhere"}, "PYTHONPATH differs"),
    (["-I", "-c", "print(1)"], {}, "other options"),
])
def test_what_a_fork_cannot_be_starts_a_new_interpreter(
    server: ForkServer, words: list[str], environment: dict[str, str], reason: str
) -> None:
    done = ended(server, "python", *words, **environment)
    assert (done.returncode, done.stdout, done.how) == (0, b"1\n", reason)
