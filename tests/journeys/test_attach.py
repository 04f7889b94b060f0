"""`with barograph.attach(model, optimizer) as run:`, in the script itself."""

from __future__ import annotations

import io
import json
import sys
import threading
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional as F
from torch.nn.modules import module as modules
from torch.optim import optimizer as optimizers

import barograph
from barograph.capture.guard import BarographWarning
from barograph.errors import AlreadyAttached, RunFinished, RunInUse, SessionClosed, SettingsError, UnknownName
from forking import TORCH

FORKED = TORCH


def test_a_nested_dictionary_of_numbers_is_logged_like_in_other_trackers(tmp_path: Path) -> None:
    numbers = {"loss": np.float32(0.5), "val": {"accuracy": torch.tensor([0.25]), "deep": {"count": np.arange(3, 4)}}}
    given: Any = 3
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        with barograph.attach(to=tmp_path / "run", watch=False, strict=True) as attached:
            for step in range(2):
                attached.log({"note": "text", "image": np.ones((2, 2)), "none": None, **numbers}, step=step)
            attached.log(given)
    messages = [str(warning.message) for warning in told]
    starts = ["'note' is not a number (str)", "'image' is not a number (ndarray)",
              "run.log expects a dictionary of names to numbers"]
    assert [start in message for start, message in zip(starts, messages, strict=True)] == [True] * 3, messages
    run = barograph.open(tmp_path / "run")
    recorded = {str(key): run.series(key).values.tolist() for key in run.keys(kind="scalar")}
    assert recorded == {"scalar:loss": [0.5, 0.5], "scalar:val.accuracy": [0.25, 0.25],
                        "scalar:val.deep.count": [3.0, 3.0]}


class Training:
    """A small model with its optimizer and data."""

    def __init__(self) -> None:
        torch.manual_seed(0)
        self.model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 3))
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.05)
        self.inputs, self.labels = torch.randn(32, 8), torch.randint(0, 3, (32,))

    def step(self) -> float:
        self.optimizer.zero_grad()
        loss = F.cross_entropy(self.model(self.inputs), self.labels)
        loss.backward()
        self.optimizer.step()
        return loss.item()

    def evaluate(self) -> float:
        with torch.no_grad():
            return F.cross_entropy(self.model(self.inputs), self.labels).item()


@pytest.fixture
def training() -> Training:
    return Training()


STRICT = {"strict": True, "budget": None, "watch": False}


def test_everything_the_script_logs_and_computes_is_in_the_run(training: Training, tmp_path: Path) -> None:
    losses = []
    with barograph.attach(training.model, training.optimizer, to=tmp_path / "run", **STRICT) as attached:
        for step in range(6):
            losses.append(training.step())
            attached.log({"accuracy": step / 10, "rate": torch.tensor(0.25)})
            if step == 3:
                attached.save("confusion", torch.arange(6.0).reshape(2, 3))
        with attached.mode("eval"):
            evaluated = training.evaluate()
            attached.log({"accuracy": 0.875})
        attached.log({"late": 1.5}, step=4)
    run = barograph.open(attached.url)
    assert attached.url == str(tmp_path / "run")
    np.testing.assert_allclose(run.series("loss:total").values, losses, rtol=1e-6)
    assert run.series("scalar:accuracy").values.tolist() == [0.0, 0.1, 0.2, 0.3, 0.4, 0.5]
    assert run.series("scalar:accuracy").steps.tolist() == [1, 2, 3, 4, 5, 6]
    assert run.series("scalar:rate").values.tolist() == [0.25] * 6
    assert run.series("scalar:late").steps.tolist() == [4]
    assert run.series("scalar:accuracy", mode="eval").values.tolist() == [0.875]
    np.testing.assert_array_equal(run.tensor("custom:confusion", 4), [[0, 1, 2], [3, 4, 5]])
    np.testing.assert_allclose(run.series("loss:cross_entropy", mode="eval").values, [evaluated], rtol=1e-6)
    assert [str(state.standing) for state in run.workers] == ["finished"]
    weight = training.model[0].weight.detach().double()
    assert run.summary("weight:0.weight", 5).sum_sq == pytest.approx(weight.square().sum().item(), rel=1e-6)


def test_only_passed_models_are_recorded_under_the_given_names(tmp_path: Path) -> None:
    watched, other = Training(), Training()
    with barograph.attach({"net": watched.model}, watched.optimizer, to=tmp_path, **STRICT):
        for _ in range(3):
            other.step()
            watched.step()
    run = barograph.open(tmp_path)
    assert run.steps().tolist() == [0, 1, 2]
    assert {key.path for key in run.keys("weight")} == {"net.0.weight", "net.0.bias", "net.2.weight", "net.2.bias"}


def test_steps_end_at_run_step(training: Training, tmp_path: Path) -> None:
    with barograph.attach(training.model, to=tmp_path, explicit_steps=True, **STRICT) as attached:
        for step in range(4):
            loss = F.cross_entropy(training.model(training.inputs), training.labels)
            for parameter, gradient in zip(
                training.model.parameters(), torch.autograd.grad(loss, list(training.model.parameters())), strict=True
            ):
                with torch.no_grad():
                    parameter -= 0.1 * gradient
            attached.step(loss=0.5 * step)
    run = barograph.open(tmp_path)
    assert run.steps().tolist() == [0, 1, 2, 3]
    assert run.series("loss:total").values.tolist() == [0.0, 0.5, 1.0, 1.5]
    norms = run.series("weight:0.weight", "l2").values
    assert len(set(norms.tolist())) == 4


def test_run_step_needs_explicit_steps(training: Training, tmp_path: Path) -> None:
    with (
        barograph.attach(training.model, to=tmp_path, **STRICT) as attached,
        pytest.raises(SettingsError, match="explicit_steps=True"),
    ):
        attached.step()


def _fail(training: Training, place: Path) -> None:
    with pytest.raises(ZeroDivisionError):  # noqa: PT012, SIM117 - the block is what is tested
        with barograph.attach(training.model, to=place, **STRICT):
            training.step()
            _ = 1 / 0


def test_an_exception_in_the_block_passes_and_is_recorded(training: Training, tmp_path: Path) -> None:
    _fail(training, tmp_path)
    state = barograph.open(tmp_path).workers[0]
    assert (str(state.standing), state.ending.reason) == ("failed", "ZeroDivisionError: division by zero")


def test_a_process_has_one_recording_at_a_time(training: Training, tmp_path: Path) -> None:
    with barograph.attach(training.model, to=tmp_path / "first", **STRICT):
        training.step()
        with pytest.raises(AlreadyAttached, match="first"):
            barograph.attach(training.model, to=tmp_path / "second", **STRICT)
        training.step()
    assert not (tmp_path / "second").exists()
    with barograph.attach(training.model, to=tmp_path / "second", **STRICT):
        training.step()
    assert barograph.open(tmp_path / "first").steps().tolist() == [0, 1]
    assert barograph.open(tmp_path / "second").steps().tolist() == [0]


def test_a_run_that_has_ended_is_not_written_again(training: Training, tmp_path: Path) -> None:
    with barograph.attach(training.model, to=tmp_path, **STRICT):
        training.step()
    with pytest.raises(RunFinished):
        barograph.attach(training.model, to=tmp_path, **STRICT)
    assert training.step() > 0


def test_a_run_that_failed_is_resumed_in_its_place(training: Training, tmp_path: Path) -> None:
    _fail(training, tmp_path)
    with barograph.attach(training.model, to=tmp_path, **STRICT):
        training.step()
    run = barograph.open(tmp_path)
    assert [(state.worker.attempt, str(state.standing)) for state in run.workers] == [(0, "failed"), (1, "finished")]


@pytest.mark.parametrize(("settings", "error"), [
    ({"preset": "standart"}, UnknownName), ({"budgte": 1}, UnknownName), ({"budget": 7}, SettingsError),
    ({"on_finding": "stpo"}, UnknownName), ({"rules": ["G999"]}, UnknownName), ({"config": "no.toml"}, SettingsError),
])
def test_a_wrong_setting_is_an_error_and_leaves_nothing(
    training: Training, tmp_path: Path, settings: dict[str, Any], error: type[Exception]
) -> None:
    before = _furniture(training)
    with pytest.raises(error):
        barograph.attach(training.model, to=tmp_path / "run", watch=False, **settings)
    assert _furniture(training) == before
    assert not (tmp_path / "run").exists()


def test_close_removes_all_hooks_and_ends_the_recording(training: Training, tmp_path: Path) -> None:
    before = _furniture(training)
    attached = barograph.attach(training.model, training.optimizer, to=tmp_path, preset="everything", **STRICT)
    for _ in range(3):
        training.step()
    assert _furniture(training) != before
    attached.close()
    assert _furniture(training) == before
    training.step()
    attached.close()
    for late in (
        lambda: attached.log({"x": 1.0}), lambda: attached.save("x", torch.ones(1)), lambda: attached.mode("eval"),
    ):
        with pytest.raises(SessionClosed):
            late()
    assert barograph.open(tmp_path).steps().tolist() == [0, 1, 2]


def _furniture(training: Training) -> dict[str, Any]:
    """Return the state of the process that a recording could change."""
    holders = [
        torch, torch.autograd, torch.nn.utils, torch.nn.utils.clip_grad, F, torch.amp.GradScaler, torch.optim.Optimizer,
        nn.Module, torch.Tensor, torch.optim.SGD, nn.Linear,
    ]
    names = {f"{holder.__name__}.{name}": id(value) for holder in holders for name, value in vars(holder).items()
             if callable(value)}
    hooks = {name: list(value) for where in (modules, optimizers, training.model[0], training.optimizer)
             for name, value in vars(where).items() if "hooks" in name and hasattr(value, "__iter__")}
    tensors = [(id(item._backward_hooks), id(item._post_accumulate_grad_hooks)) for item in training.model.parameters()]
    threads = sorted(thread.name for thread in threading.enumerate() if "barograph" in thread.name)
    return {
        **names, **hooks, "tensors": tensors, "threads": threads, "excepthook": sys.excepthook,
        "warnings": list(warnings.filters), "meta_path": list(sys.meta_path), "model": sorted(vars(training.model)),
        "chance": torch.get_rng_state().tolist(),
    }


def test_a_value_that_is_not_a_number_causes_one_warning(training: Training, tmp_path: Path) -> None:
    with barograph.attach(training.model, to=tmp_path, watch=False) as attached:
        training.step()
        with pytest.warns(BarographWarning, match="'accuracy' is not a number .str.") as told:
            _log(attached, "much", "more", "most")
        training.step()
    assert [Path(warning.filename) for warning in told] == [Path(__file__)]
    ending = barograph.open(tmp_path).workers[0].ending
    assert len(ending.last.problems) == 1
    assert ending.last.problems[0].endswith("(3 times)")


def _log(attached: Any, *values: str) -> None:
    for value in values:
        attached.log({"accuracy": value})


def test_a_block_without_training_ends_at_once_and_leaves_an_empty_run(tmp_path: Path) -> None:
    with barograph.attach(to=tmp_path, **{**STRICT, "watch": True}):
        pass
    assert barograph.open(tmp_path).workers == ()


def test_a_run_in_use_is_refused(training: Training, tmp_path: Path, desk: Any) -> None:
    desk.script('import sys\ntrain_step()\nprint("trains", flush=True)\nsys.stdin.read()\n')
    import subprocess

    process = desk.start("barograph", "run", "--to", tmp_path / "run", "train.py", stdin=subprocess.PIPE)
    assert desk.read_until(process.stdout, b"\n") == b"trains\n"
    with pytest.raises(RunInUse):
        barograph.attach(training.model, to=tmp_path / "run", **STRICT)
    again = desk.run("train.py", to=str(tmp_path / "run"))
    assert (again.code, again.out) == (2, b"")
    assert "Another process is writing this run" in again.err
    assert desk.end(process, b"").code == 0


ATTACHED = '''
import time
import barograph

run = barograph.attach(model, optimizer, to="run", on_finding="stop", budget=None)
for step in range(10_000_000):
    if step == 30:
        model[0].weight.data[3, 2] = float("nan")
    train_step()
    time.sleep(0.01)
'''


def test_the_watcher_of_attach_prints_findings_and_stops_the_training(desk: Any) -> None:
    desk.script(ATTACHED)
    ended = desk.python("train.py")
    assert (ended.code, ended.out) == (79, b"")
    opened = ended.err.index("breaking  ")
    stopped = ended.err.index("Barograph stopped this training: N101 non-finite: ")
    summed_up = ended.err.index("barograph: ", stopped + 40)
    assert opened < stopped < summed_up
    assert ended.err.count("p0 stopped the training after ") == 2, "when it happened, and in the summary"
    assert "  state     " not in ended.err, "the line of the action says it"
    assert desk.ending()["state"] == "stopped"
    assert "Traceback" not in ended.err


MINE = '''
from dataclasses import dataclass
import barograph

@dataclass(frozen=True, kw_only=True)
class Mine(barograph.Rule):
    code, name, severity = "X901", "mine", barograph.Severity.NOTE
    needs = (barograph.Selection(kinds=frozenset({barograph.Kind.LOSS})),)

    def judge(self, view, memory):
        return ()
'''


def test_the_watcher_of_attach_has_its_rules_and_settings_file(desk: Any) -> None:
    desk.write("mine.py", MINE)
    desk.script('''
import barograph

with barograph.attach(model, optimizer, to="run", rules=["N101", "mine:Mine"], findings_to="told.jsonl", budget=None):
    for step in range(30):
        if step == 20:
            model[0].weight.data[3, 2] = float("nan")
        train_step()
''')
    ended = desk.python("train.py")
    assert ended.code == 0
    assert "not installed here" not in ended.err
    state = json.loads(json.loads((desk.folder / "run" / "watch" / "state.json").read_text())["state"])
    assert [judge["rule"]["code"] for judge in state["judges"]] == ["N101", "X901"]
    assert '"event": "opened"' in (desk.folder / "told.jsonl").read_text()


def test_a_run_is_watched_if_standard_error_is_only_a_python_object(
    training: Training, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "stderr", io.StringIO())
    with barograph.attach(training.model, to=tmp_path, **{**STRICT, "watch": True}):
        training.step()
    assert "barograph: 1 step (tensors at each)" in capfd.readouterr().err


def test_a_script_that_attaches_is_recorded_once_under_barograph_run(desk: Any) -> None:
    desk.write("train.py", '''
import barograph
with barograph.attach(to="its own place") as run:
    import torch
    from torch import nn
    model = nn.Linear(2, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for step in range(3):
        optimizer.zero_grad()
        model(torch.ones(4, 2)).square().mean().backward()
        optimizer.step()
        run.log({"step": step})
    print(run.url)
optimizer.step()
''')
    watched = desk.run("--budget", "off", "train.py")
    assert watched.text.strip() == str(desk.folder / "run")
    assert "attach ignores to under `barograph run`; use the options of the command." in watched.err
    assert not (desk.folder / "its own place").exists()
    run = desk.open()
    assert run.series("scalar:step").values.tolist() == [0.0, 1.0, 2.0]
    assert run.steps().tolist() == [0, 1, 2, 3]


def test_attach_under_barograph_run_adds_collections_and_rejects_unknown_settings(desk: Any) -> None:
    desk.script('''
import barograph
from barograph.errors import SettingsError
from barograph.model.key import Kind
from barograph.model.selection import Selection

for wrong in ({"budgte": "5%"}, {"preset": "nonsense"}):
    try:
        barograph.attach(model, optimizer, **wrong)
    except (SettingsError, LookupError) as error:
        print(error)
whole = Selection(kinds=frozenset({Kind.INPUT}), include=("0",), raw=True)
with barograph.attach(model, optimizer, collections=[whole], first_step=7):
    for step in range(3):
        train_step()
''')
    watched = desk.run("--budget", "off", "--preset", "free", "train.py")
    assert 'Did you mean "budget"?' in watched.text
    assert "nonsense" in watched.text
    run = desk.open()
    assert run.steps().tolist() == [7, 8, 9]
    assert run.tensor("input:0", 8).shape == (32, 8)


def test_a_script_that_closes_all_descriptors_gets_a_warning_and_no_error(desk: Any) -> None:
    script = desk.script("""
import os, barograph
with barograph.attach(to="run", watch=False):
    for step in range(20):
        train_step()
        if step == 10:
            os.closerange(3, 256)
            mine = open("mine.bin", "wb", buffering=0)
mine.write(b"mine")
print("after")
""")
    ended = desk.python(script)
    assert (ended.code, ended.out.strip()) == (0, b"after"), ended.err
    assert (desk.folder / "mine.bin").read_bytes() == b"mine"


def test_a_run_is_recorded_if_all_standard_streams_are_closed(desk: Any) -> None:
    script = desk.script("for _ in range(20): train_step()\n")
    ended = desk.end(desk.start("sh", "-c", f"exec barograph run --to run {script} <&- >&- 2>&-"))
    assert ended.code == 0
    assert len(barograph.open(desk.folder / "run").series("loss:total").steps) > 0
