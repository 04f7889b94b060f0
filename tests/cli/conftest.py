"""Runs that real trainings wrote, and the command line as a person calls it."""

from __future__ import annotations

import contextlib
import json
import os
import pty
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn
from torch.nn import functional as F

import barograph
from barograph.cli.main import main

BIN = Path(sys.executable).parent


@dataclass(frozen=True)
class Said:
    """How a command ended and what it wrote."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out, parse_constant=lambda name: pytest.fail(f"{name} is no JSON"))

    @property
    def lines(self) -> list[str]:
        return self.out.splitlines()

    def row(self, start: str) -> list[str]:
        """Return the cells of the one line that begins so."""
        (line,) = [line for line in self.lines if f"{line.lstrip()} ".replace("\t", " ").startswith(f"{start} ")]
        return line.split()


Call = Callable[..., Said]


@pytest.fixture(scope="module", autouse=True)
def _forked(forked_writers: None) -> None:
    """Many of these tests record a run."""


@pytest.fixture
def call(capsys: pytest.CaptureFixture[str]) -> Call:
    """Call the command line in this process."""

    def called(*words: str | Path) -> Said:
        capsys.readouterr()
        with pytest.raises(SystemExit) as ending:
            main([str(word) for word in words])
        written = capsys.readouterr()
        code = ending.value.code
        return Said(code if isinstance(code, int) else 0, written.out, written.err)

    return called


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        # Registered in another order than they run.
        self.last = nn.Linear(16, 3)
        self.act = nn.ReLU()
        self.first = nn.Linear(8, 16)

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        return self.last(self.act(self.first(inputs)))


def train(
    place: Path, *, steps: int = 40, rate: float = 0.05, evaluate_every: int = 20, poisoned_step: int = -1,
    names: dict[str, float] | None = None, **settings: Any,
) -> Path:
    """Record a small training at `place`, every step of it; return `place`."""
    with training(place, rate=rate, **settings) as (run, step):
        for number in range(steps):
            step(poisoned=number == poisoned_step, evaluate=(number + 1) % evaluate_every == 0)
        run.log(names or {})
    return place


@contextmanager
def training(place: Path, *, rate: float = 0.05, **settings: Any) -> Iterator[tuple[Any, Callable[..., None]]]:
    """Record a training that goes on for as long as the block does; yields the run, and what makes a step."""
    torch.manual_seed(0)
    model = Net()
    optimizer = torch.optim.SGD(model.parameters(), lr=rate)
    inputs, labels = torch.randn(32, 8), torch.randint(0, 3, (32,))
    with barograph.attach(
        model, optimizer, to=place, watch=False, **{"budget": None, "strict": True, "preset": "everything", **settings}
    ) as run:

        def step(*, poisoned: bool = False, evaluate: bool = False) -> None:
            optimizer.zero_grad()
            loss = F.cross_entropy(model(inputs * float("nan") if poisoned else inputs), labels)
            loss.backward()
            optimizer.step()
            if evaluate:
                model.eval()
                with torch.no_grad():
                    F.cross_entropy(model(inputs), labels)
                model.train()

        yield run, step


@contextmanager
def begun(place: Path, **settings: Any) -> Iterator[tuple[Any, Callable[..., None]]]:
    """As `training`, with a first step made and published: another process writes the run, in its own time."""
    with training(place, **settings) as (run, step):
        step()
        await_that(lambda: len(barograph.open(place).steps()) > 0)
        yield run, step


def await_that(holds: Callable[[], bool], patience_secs: float = 600.0) -> None:
    """Wait for another process, for so long at most."""
    deadline = time.monotonic() + patience_secs
    while not holds():
        assert time.monotonic() < deadline, "waited in vain"
        time.sleep(0.05)


@pytest.fixture(scope="session")
def healthy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of 40 steps with two evaluations that nobody has watched; its place has a space and other letters."""
    place = tmp_path_factory.mktemp("cli") / "ein lauf ü"
    return train(place, names={"accuracy [val/bold]": 0.5, "worst": float("inf"), "none": float("nan")})


@pytest.fixture(scope="session")
def _sick(tmp_path_factory: pytest.TempPathFactory, healthy: Path) -> Path:
    # After the healthy run, whichever test comes first: lists of runs are ordered by their start.
    assert healthy
    return train(tmp_path_factory.mktemp("cli") / "sick", steps=12, poisoned_step=7)


@pytest.fixture
def sick(_sick: Path, tmp_path: Path) -> Path:
    """A run whose weights became NaN in step 7, fresh for each test."""
    return Path(shutil.copytree(_sick, tmp_path / "sick"))


@pytest.fixture
def copy(healthy: Path, tmp_path: Path) -> Path:
    """The healthy run, to do things to."""
    return Path(shutil.copytree(healthy, tmp_path / "copy"))


def flip_a_bit(run: Path) -> Path:
    """Damage the largest file of records; return it."""
    victim = max(run.glob("records/*/*.parquet"), key=lambda path: path.stat().st_size)
    data = bytearray(victim.read_bytes())
    data[len(data) // 2] ^= 1
    victim.write_bytes(data)
    return victim


@pytest.fixture
def flip() -> Callable[[Path], Path]:
    return flip_a_bit


@pytest.fixture
def trained() -> Callable[..., Path]:
    return train


@pytest.fixture
def going_on() -> Callable[..., Any]:
    return begun


@pytest.fixture
def await_() -> Callable[..., None]:
    return await_that


@pytest.fixture
def on_terminal() -> Callable[..., str]:
    """Call the command line in a process of its own that has a terminal."""

    def called(*words: str | Path, **environment: str) -> str:
        leader, follower = pty.openpty()
        with subprocess.Popen(
            [BIN / "barograph", *words], stdout=follower, stderr=follower, stdin=follower,
            env={**os.environ, "TERM": "xterm-256color", "COLUMNS": "120", **environment},
        ) as process:
            os.close(follower)
            chunks = []
            # At the end Linux says that there is nobody on the other side.
            with contextlib.suppress(OSError):
                while chunk := os.read(leader, 65536):
                    chunks.append(chunk)
            process.wait(600)
        os.close(leader)
        return b"".join(chunks).decode()

    return called


@pytest.fixture
def bin_folder() -> Path:
    return BIN
