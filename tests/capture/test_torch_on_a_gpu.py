"""PyTorch on a CUDA device: the suite of every integration, and what holds only for a device."""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="torch is not installed")

import torch.nn.functional as F  # noqa: E402

import barograph  # noqa: E402
from barograph.model.key import Kind  # noqa: E402
from barograph.model.selection import Histogram, Selection  # noqa: E402
from barograph.testing.frameworks import FrameworkConformance, Task  # noqa: E402

pytestmark = [pytest.mark.gpu,
              pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no CUDA device here")]

CUDA = "cuda"
EVERYTHING = {"preset": "everything", "budget": None, "watch": False, "strict": True}


@pytest.fixture(autouse=True)
def exact(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Have the device compute one thing in one way."""
    monkeypatch.setenv("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
    torch.use_deterministic_algorithms(True)
    yield
    torch.use_deterministic_algorithms(False)


def network(device: str = CUDA) -> Any:
    return torch.nn.Sequential(
        torch.nn.Conv2d(3, 8, 3), torch.nn.BatchNorm2d(8), torch.nn.ReLU(), torch.nn.Dropout(0.1), torch.nn.Flatten(),
        torch.nn.Linear(8 * 36, 4)).to(device)


def data(device: str = CUDA) -> tuple[Any, Any]:
    return torch.randn(16, 3, 8, 8, device=device), torch.randint(0, 4, (16,), device=device)


class TestPyTorchOnAGpu(FrameworkConformance):
    framework = "torch"
    many_steps = 60
    scaled = False

    def train(self, task: Task, run: Any) -> Mapping[str, Any]:
        torch.manual_seed(task.seed)
        model = network()
        optimizer = torch.optim.Adam(model.parameters(), 0.01)
        scaler = torch.amp.GradScaler(CUDA, enabled=self.scaled)
        for step in range(task.steps):
            optimizer.zero_grad()
            for _ in range(task.accumulate):
                x, y = data()
                if step == task.nan_at:
                    x[0] = torch.nan
                with torch.autocast(CUDA, torch.float16, enabled=self.scaled):
                    loss = F.cross_entropy(model(x), y)
                scaler.scale(loss).backward()
            scaler.step(optimizer)
            scaler.update()
            if task.evaluate_every and (step + 1) % task.evaluate_every == 0:
                model.eval()
                with torch.no_grad():
                    F.cross_entropy(model(x.nan_to_num()), y)
                model.train()
        return {name: value.detach().cpu().numpy() for name, value in model.named_parameters()}


class TestMixedPrecisionOnAGpu(TestPyTorchOnAGpu):
    """Autocast in float16, and a `GradScaler`."""

    scaled = True


def test_recording_everything_waits_for_the_device_nowhere() -> None:
    torch.manual_seed(0)
    model, (x, y) = network(), data()
    optimizer = torch.optim.SGD(model.parameters(), 0.01, momentum=0.9)

    def step() -> None:
        optimizer.zero_grad()
        F.cross_entropy(model(x), y).backward()
        optimizer.step()

    with barograph.attach(model, optimizer, to="memory://gpu/waits", **EVERYTHING):
        step()  # what is compiled and allocated, once
        with waiting_is_an_error():
            for _ in range(5):
                step()
    run = barograph.open("memory://gpu/waits")
    assert list(run.series("loss:total").steps) == list(range(6))
    assert len(run.series("gradient:0.weight", "l2").steps) == 6


@contextlib.contextmanager
def waiting_is_an_error() -> Iterator[None]:
    torch.cuda.set_sync_debug_mode("error")
    try:
        yield
    finally:
        torch.cuda.set_sync_debug_mode("default")


def test_what_is_recorded_on_the_device_is_what_a_cpu_records() -> None:
    kinds = frozenset({Kind.WEIGHT, Kind.OUTPUT, Kind.INPUT})
    views: list[Any] = []
    for number, device in enumerate(("cpu", CUDA)):
        torch.manual_seed(0)
        layer = torch.nn.Sequential(
            torch.nn.Identity(), torch.nn.ReLU(), torch.nn.Flatten(), torch.nn.Linear(192, 2))
        x, layer = torch.randn(16, 3, 8, 8).to(device), layer.to(device)
        optimizer = torch.optim.SGD(layer.parameters(), 0.0)
        url = f"memory://gpu/same-{number}"
        chosen = Selection("chosen", kinds=kinds, histogram=Histogram.EXACT, units=True)
        with barograph.attach(layer, optimizer, to=url, watch=False, strict=True, budget=None, preset="free",
                              collections=[chosen]):
            layer(x).sum().backward()
            optimizer.step()
        (view,) = (view for view in barograph.open(url).views() if view.kinds & kinds)
        views.append(view)
    here, there = views
    found = {subject.key: summary for kind in kinds for subject, summary in here.summaries(kind)}
    assert len(found) == 10
    for key, summary in found.items():
        other = there.summary(key)
        assert other is not None, key
        assert (other.count, other.zeros) == (summary.count, summary.zeros), key
        assert other.l2 == pytest.approx(summary.l2, rel=1e-5), key
        if key.path != "3" or key.kind is not Kind.OUTPUT:  # no sum of products in it: the same elements
            assert other.exponents == summary.exponents, key
            assert summary.exponents
        units, others = here.units(key), there.units(key)
        assert (units is None) == (others is None), key
        if units is not None:
            np.testing.assert_allclose(others.columns, units.columns, rtol=1e-4, err_msg=str(key))
    assert sum(here.units(key) is not None for key in found) > 3


SCRIPT = """
import torch
import torch.nn.functional as F

import barograph

torch.use_deterministic_algorithms(True)
torch.manual_seed(0)
model = torch.nn.Sequential(
    torch.nn.Conv2d(3, 8, 3), torch.nn.BatchNorm2d(8), torch.nn.ReLU(), torch.nn.Dropout(0.1), torch.nn.Flatten(),
    torch.nn.Linear(8 * 36, 4)).cuda()
optimizer = torch.optim.Adam(model.parameters(), 0.01)
barograph.attach(model, optimizer, to="run", watch=False, recorder=True)
for number in range(6):
    x, y = torch.randn(16, 3, 8, 8, device="cuda"), torch.randint(0, 4, (16,), device="cuda")
    if number == 4:
        x[3, 1] = torch.nan
    optimizer.zero_grad()
    F.cross_entropy(model(x), y).backward()
    optimizer.step()
"""


def test_a_step_that_fails_is_held_and_made_again_to_the_last_bit(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(SCRIPT, encoding="utf-8")
    trained = said(tmp_path, "train.py")
    assert trained.returncode != 0
    assert "The update of step 4 was withheld" in trained.stderr
    replayed = said(tmp_path, "-m", "barograph", "replay", "--json", "--no-samples", "run")
    assert json.loads(replayed.stdout)["grade"] == "bitwise", replayed.stdout + replayed.stderr


def said(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, *words], cwd=folder, capture_output=True, text=True, timeout=600,
                          stdin=subprocess.DEVNULL)


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of what torch itself uses, once its compiler begins
def test_a_compiled_model_trains_to_the_same_bits() -> None:
    ends = []
    for watched in (False, True):
        torch.manual_seed(0)
        torch.compiler.reset()
        inner = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.ReLU(), torch.nn.Linear(16, 4))
        model = torch.compile(inner.to(CUDA))
        optimizer = torch.optim.Adam(model.parameters(), 0.01)
        with contextlib.ExitStack() as scope:
            if watched:
                scope.enter_context(barograph.attach(model, optimizer, to="memory://gpu/compiled", **EVERYTHING))
            for _ in range(4):
                x = torch.randn(16, 8, device=CUDA)
                optimizer.zero_grad()
                F.mse_loss(model(x), x[:, :4]).backward()
                optimizer.step()
        ends.append([parameter.detach().cpu().numpy().tobytes() for parameter in model.parameters()])
    assert ends[0] == ends[1]
    run = barograph.open("memory://gpu/compiled")
    assert len(run.series("gradient:0.weight", "l2").steps) == 4


def test_a_step_that_is_captured_in_a_graph_is_left_alone() -> None:
    torch.manual_seed(0)
    model, x = torch.nn.Linear(8, 4).to(CUDA), torch.randn(16, 8, device=CUDA)
    optimizer = torch.optim.Adam(model.parameters(), 0.01, capturable=True)

    def step() -> None:
        optimizer.zero_grad()
        model(x).square().mean().backward()
        optimizer.step()

    with barograph.attach(model, optimizer, to="memory://gpu/graph", **EVERYTHING):
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(3):
                step()
        torch.cuda.current_stream().wait_stream(side)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            step()
        for _ in range(3):
            graph.replay()
    run = barograph.open("memory://gpu/graph")
    assert list(run.series("loss:total").steps)[:3] == [0, 1, 2]
    assert np.isfinite(run.series("weight:weight", "l2").values).all()
