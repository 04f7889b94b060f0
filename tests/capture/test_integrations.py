"""The installed integrations: how they are found and installed, versions of frameworks, and what a framework lacks."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
import types
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import barograph
from barograph.capture.guard import BarographWarning, Guard
from barograph.capture.integrations import install, installed_integrations, report_missing, versions
from barograph.model.launch import InstalledIntegration


def test_our_own_integrations_are_found_as_those_of_others_are() -> None:
    found, problems = installed_integrations()
    assert problems == ()
    assert {item.framework for item in found if not item.package} == {
        "torch",
        "keras",
        "jax",
        "xgboost",
        "lightgbm",
        "sklearn",
        "mxnet",
        "lightning",
        "pytorch_lightning",
        "transformers",
        "accelerate",
        "ignite",
        "fastai",
    }


def test_torch_and_keras_come_first_because_trainers_build_on_them() -> None:
    assert [item.module for item in installed_integrations().found][:2] == ["torch", "keras"]


@pytest.mark.parametrize("listener", sorted({item.listener for item in installed_integrations().found}))
def test_every_listener_is_a_function_of_a_module_that_is_there(listener: str) -> None:
    module, _, function = listener.partition(":")
    spec = importlib.util.find_spec(module)
    assert spec is not None
    assert spec.origin is not None
    assert f"def {function}(" in Path(spec.origin).read_text(encoding="utf-8")


class Recording:
    """As much of a recording as an integration that fails needs."""

    def __init__(self, *, closed: bool = False) -> None:
        self.session: Any = types.SimpleNamespace(guard=Guard(strict=False), closed=closed)


def test_a_listener_that_fails_is_one_warning() -> None:
    broken = InstalledIntegration("none.learner", "barograph.capture.no_such_listener:listen")
    with pytest.warns(BarographWarning, match="hooking into none"):
        install(broken, Recording())  # type: ignore[arg-type]


def test_a_listener_of_a_package_that_fails_is_one_warning_that_names_the_package() -> None:
    broken = InstalledIntegration("none", "no_such_module:listen", "theirs")
    recording: Any = Recording()
    with pytest.warns(BarographWarning, match="hooking into none with the package theirs failed") as warned:
        install(broken, recording)
    assert len(warned) == 1
    # Warnings are errors here: the second time says nothing.
    install(broken, recording)


def test_a_recording_that_is_closed_listens_to_nothing() -> None:
    recording: Any = Recording(closed=True)
    install(InstalledIntegration("none", "barograph.capture.no_such:listen"), recording)


def test_what_a_framework_lacks_is_said_once_with_its_version() -> None:
    session: Any = Recording().session
    framework = types.SimpleNamespace(__name__="frame", __version__="0.1", train=types.SimpleNamespace(step=1))
    assert not report_missing(session, framework, {"train.step": "steps"})
    with pytest.warns(BarographWarning, match=r"frame 0\.1 has no frame\.train\.loss \(for losses\)"):
        assert report_missing(session, framework, {"train.step": "steps", "train.loss": "losses"})
    # Warnings are errors here: the second time says nothing.
    assert report_missing(session, framework, {"train.step": "steps", "train.loss": "losses"})


def test_versions_are_those_of_what_is_loaded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "lightgbm", types.SimpleNamespace(__version__="9.9"))  # type: ignore[arg-type]
    monkeypatch.delitem(sys.modules, "jax", raising=False)
    assert versions()["lightgbm"] == "9.9"
    assert "jax" not in versions()


NUMPY_ALONE = """
import sys
import numpy as np
import barograph

rng = np.random.default_rng(0)
w = rng.normal(size=(4, 2))
with barograph.attach(to="memory://alone", watch=False, strict=True, budget=None) as run:
    for step in run.steps(3):
        w -= 0.1 * w
        run.save("w", w)
        run.log({"norm": np.linalg.norm(w)})
        run.save_predictions([0, 1, 1], [0, 0, 1])
        run.step(loss=np.float32(3 - step))
        with run.mode("eval"):
            run.save_predictions([1], [1], "held_out")
read = barograph.open("memory://alone")
print(*read.keys(), sep=" ")
print(read.series("loss:total").values.tolist(), read.series("loss:total").steps.tolist())
print(read.series("confusion:held_out[1,1]", mode="eval").steps.tolist(), "torch" in sys.modules)
"""


def test_a_process_without_torch_is_recorded_without_torch() -> None:
    done = subprocess.run([sys.executable, "-W", "error", "-c", NUMPY_ALONE], capture_output=True, text=True,
                          timeout=600)
    assert done.returncode == 0, done.stderr
    keys, losses, rest = done.stdout.splitlines()
    assert {"custom:w", "scalar:norm", "confusion:predictions[1,0]", "label:held_out[1]"} <= set(keys.split())
    assert losses == "[3.0, 2.0, 1.0] [0, 1, 2]"
    assert rest == "[1, 2, 3] False"


LATE = """
import sys
import barograph

run = barograph.attach(to="memory://late", watch=False, strict=True, budget=None)
assert "torch" not in sys.modules
import torch

model = torch.nn.Linear(2, 1)
optimizer = torch.optim.SGD(model.parameters(), 0.1)
for _ in range(3):
    optimizer.zero_grad()
    model(torch.ones(4, 2)).mean().backward()
    optimizer.step()
run.close()
found = barograph.open("memory://late").series("weight:weight", "mean")
print(found.steps.tolist(), sys.meta_path[0].__class__.__module__)
"""


def test_torch_that_is_imported_later_is_recorded_from_then_on() -> None:
    done = subprocess.run([sys.executable, "-c", LATE], capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split("]")[0] == "[0, 1, 2"
    assert "barograph" not in done.stdout


def test_torch_stands_aside_for_another_and_then_takes_part_again() -> None:
    import torch

    from barograph.capture import recording

    model = torch.nn.Linear(2, 1)
    optimizer = torch.optim.SGD(model.parameters(), 0.1)

    def step() -> None:
        optimizer.zero_grad()
        model(torch.ones(4, 2)).mean().backward()
        optimizer.step()

    with barograph.attach(model, optimizer, to="memory://aside", watch=False, strict=True, budget=None) as run:
        current = recording.current()
        assert current is not None
        step()
        with current.aside("torch"):
            step()
            run.integration("other").end_step(loss=5.0)
        step()
    read = barograph.open("memory://aside")
    assert read.series("weight:weight", "mean").steps.tolist() == [0, 1]
    assert read.series("loss:total", optimizer="other").values.tolist() == [5.0]


def test_a_checkpoint_without_torch_is_told_to_be_none() -> None:
    code = ('import barograph\nwith barograph.attach(to="memory://none", watch=False) as run:\n'
            "    run.step(loss=1.0)\n    run.checkpoint()\n    run.step(loss=1.0)\n")
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr
    assert "Barograph saves checkpoints of PyTorch trainings only" in done.stderr


def test_two_series_of_steps_stand_in_one_run() -> None:
    with barograph.attach(to="memory://two", watch=False, strict=True, budget=None) as run:
        for _ in range(2):
            for name in ("generator", "critic"):
                run.integration(name).take(barograph.Kind.WEIGHT, {f"{name}.w": np.ones(2)})
                run.integration(name).end_step(loss=1.0)
    read = barograph.open("memory://two")
    assert read.series("weight:critic.w", "mean", optimizer="critic").steps.tolist() == [0, 1]
