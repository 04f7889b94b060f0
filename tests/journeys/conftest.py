"""A folder with scripts, and commands run in it: real processes, real files."""

from __future__ import annotations

import json
import os
import select
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import pytest

import barograph
from barograph.runs.reading.reader import RunReader
from forking import AVAILABLE, TORCH

PATIENCE_SECS = 600.0
"""Longest wait for anything; the machine may be busy."""

BIN = Path(sys.executable).parent

TINY = '''
import torch
from torch import nn
from torch.nn import functional as F

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 3))
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
inputs, labels = torch.randn(32, 8), torch.randint(0, 3, (32,))


def train_step():
    optimizer.zero_grad()
    loss = F.cross_entropy(model(inputs), labels)
    loss.backward()
    optimizer.step()
    return loss
'''
"""What most scripts begin with: a model so small that a step takes no time."""


class Ended(NamedTuple):
    """The exit code and output of a command."""

    code: int
    out: bytes
    err: str

    @property
    def text(self) -> str:
        return self.out.decode()


@dataclass
class Desk:
    """One folder, with its scripts and runs.

    Attributes:
        folder: Where the commands are typed.
        environment: On top of this process's own.
        programs: The folder with `python` and `barograph`.
    """

    folder: Path
    environment: dict[str, str] = field(default_factory=dict)
    programs: Path = BIN
    started: list[subprocess.Popen[bytes]] = field(default_factory=list)

    def write(self, name: str, text: str) -> Path:
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
        return path

    def script(self, body: str, name: str = "train.py") -> Path:
        return self.write(name, TINY + body)

    def start(self, *command: str | Path, stdin: Any = subprocess.DEVNULL, **options: Any) -> subprocess.Popen[bytes]:
        environment = {name: value for name, value in os.environ.items() if not name.startswith("BAROGRAPH")}
        environment |= {"BAROGRAPH_TRUST": str(self.folder)}
        path = os.pathsep.join([str(self.programs), str(BIN), environment["PATH"]])
        environment |= {"OMP_NUM_THREADS": "1", "PATH": path, **self.environment}
        piped = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, **options}
        process = subprocess.Popen(
            [str(word) for word in command], cwd=self.folder, env=environment, stdin=stdin, **piped
        )
        self.started.append(process)
        return process

    def end(self, process: subprocess.Popen[bytes], stdin: bytes | None = None) -> Ended:
        """Wait for a command, and kill it if it takes too long."""
        try:
            out, err = process.communicate(stdin, timeout=PATIENCE_SECS)
        except subprocess.TimeoutExpired:
            process.kill()
            out, err = process.communicate()
            pytest.fail(f"{process.args!r} did not end. {(err or b'').decode()[-2000:]}")
        return Ended(process.returncode, out or b"", (err or b"").decode())

    def run(self, *words: str | Path, to: str = "run", **options: Any) -> Ended:
        """Run `barograph run --to …` with more arguments, and wait."""
        return self.end(self.start("barograph", "run", "--to", to, *words, **options))

    def python(self, *words: str | Path, **options: Any) -> Ended:
        return self.end(self.start("python", *words, **options))

    def wait_until(self, condition: Callable[[], Any], what: str) -> Any:
        """Poll a condition on other processes until it is true, and return its value."""
        deadline = time.monotonic() + PATIENCE_SECS
        while not (found := condition()):
            if time.monotonic() > deadline:
                pytest.fail(f"waited in vain until {what}")
            time.sleep(0.05)
        return found

    def read_until(self, file: Any, text: bytes) -> bytes:
        """Return the output of a process on a pipe or terminal up to and including a text."""
        seen = b""
        deadline = time.monotonic() + PATIENCE_SECS
        while not seen.endswith(text):
            ready, _, _ = select.select([file], [], [], max(0.0, deadline - time.monotonic()))
            if not ready:
                pytest.fail(f"waited in vain for {text!r} after {seen!r}")
            byte = os.read(file.fileno(), 1)
            if not byte:
                pytest.fail(f"it ended without {text!r} after {seen!r}")
            seen += byte
        return seen

    def close(self) -> None:
        """End all processes, even if the test failed."""
        for process in self.started:
            if process.poll() is None:
                process.kill()
            process.wait()
            for stream in (process.stdin, process.stdout, process.stderr):
                if stream is not None:
                    stream.close()

    def open(self, run: str = "run") -> RunReader:
        return barograph.open(self.folder / run)

    def ending(self, run: str = "run", worker: str = "p0", attempt: int = 0) -> Mapping[str, Any]:
        path = self.folder / run / "endings" / f"{worker}-{attempt:04d}.json"
        data: Mapping[str, Any] = json.loads(path.read_text())
        return data


@pytest.fixture
def desk(tmp_path: Path, programs: Path) -> Iterator[Desk]:
    """A new folder for the test."""
    with closing(Desk(tmp_path, programs=programs)) as made:
        yield made


@pytest.fixture
def forked(desk: Desk, fork_servers: Callable[..., Any]) -> Desk:
    """The folder, with a fork server's commands: for single tests of files that otherwise need new interpreters."""
    if AVAILABLE:
        desk.programs = fork_servers(*TORCH).programs
    return desk


@pytest.fixture(scope="module")
def make_desk(tmp_path_factory: pytest.TempPathFactory, programs: Path) -> Iterator[Callable[[str], Desk]]:
    """Create folders shared by several tests of a file."""
    made: list[Desk] = []

    def make(name: str = "desk") -> Desk:
        made.append(Desk(tmp_path_factory.mktemp(name), programs=programs))
        return made[-1]

    yield make
    for item in made:
        item.close()
