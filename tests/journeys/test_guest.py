"""Errors of the model, of Barograph and of rules, and the state of the process after each."""

from __future__ import annotations

import inspect
import json
import os
import warnings
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn
from torch.nn import functional as F

import barograph
from barograph.capture.guard import BarographWarning
from barograph.capture.session import Session
from barograph.capture.step_choice import StepChoice
from barograph.capture.torch.losses import LossRecorder
from barograph.capture.torch.outputs import OutputRecorder
from barograph.capture.torch.parameters import ParameterRecorder
from barograph.runs.writing import writer_client

HERE = Path(__file__)


class Moody(nn.Module):
    """A module that raises on request."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.Linear(8, 3)
        self.raises = False

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if self.raises:
            raise ValueError("out of mood")
        return self.inner(x)


class Training:
    def __init__(self) -> None:
        torch.manual_seed(0)
        self.model = Moody()
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.05, momentum=0.9)
        self.inputs, self.labels = torch.randn(32, 8), torch.randint(0, 3, (32,))

    def step(self) -> None:
        self.optimizer.zero_grad()
        loss = F.cross_entropy(self.model(self.inputs), self.labels)
        loss.backward()
        self.optimizer.step()

    def evaluate(self) -> None:
        self.model.eval()
        with torch.no_grad():
            F.cross_entropy(self.model(self.inputs[:5]), self.labels[:5])
        self.model.train()

    @property
    def weights(self) -> bytes:
        return self.model.inner.weight.detach().numpy().tobytes()


def test_an_exception_of_the_model_reaches_the_script_and_later_passes_are_recorded(tmp_path: Path) -> None:
    training = Training()
    with barograph.attach(to=tmp_path, preset="exact", budget=None, strict=True, watch=False):
        training.step()
        training.model.raises = True
        with pytest.raises(ValueError, match="out of mood"):
            training.step()
        training.model.raises = False
        training.evaluate()
        training.step()
    run = barograph.open(tmp_path)
    assert run.steps().tolist() == [0, 1]
    assert run.steps("eval").tolist() == [1]
    assert [run.summary("output:inner", step).count for step in (0, 1)] == [32 * 3, 32 * 3]
    assert len(run.series("loss:cross_entropy", mode="eval")) == 1


PLACES = {
    "weights after": (ParameterRecorder, "weights"), "gradients before": (ParameterRecorder, "gradients"),
    "outputs": (OutputRecorder, "take"), "losses": (LossRecorder, "roots"), "the end of a step": (Session, "end_step"),
    "the choice": (StepChoice, "choose"),
}


@pytest.fixture(params=PLACES)
def broken(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Make one of our functions raise from its third call on."""
    holder, name = PLACES[request.param]
    original = getattr(holder, name)
    times = 0

    def breaks(*args: Any, **kwargs: Any) -> Any:
        nonlocal times
        times += 1
        if times >= 3:
            raise ZeroDivisionError(f"broken the {times}th time")
        return original(*args, **kwargs)

    monkeypatch.setattr(holder, name, breaks)
    return str(request.param)


def test_our_error_in_a_step_is_one_warning_and_the_training_is_unchanged(
    broken: str, tmp_path: Path
) -> None:
    alone = Training()
    for _ in range(8):
        alone.step()
    training = Training()
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        with barograph.attach(to=tmp_path, preset="exact", budget=None, watch=False):
            for _ in range(8):
                training.step()
    assert training.weights == alone.weights
    # What other tests left behind may be collected now, and be warned of by Python.
    (ours,) = [warning for warning in told if warning.category is not ResourceWarning]
    assert ours.category is BarographWarning
    assert "ZeroDivisionError: broken the 3th time" in str(ours.message)
    assert Path(ours.filename) == HERE
    assert any(ours.lineno in _lines_of(function) for function in (Training.step, Moody.forward))
    run = barograph.open(tmp_path)
    assert [str(state.standing) for state in run.workers] == ["finished"]
    problems = run.workers[0].ending.last.problems
    assert len(problems) == 1
    assert "ZeroDivisionError: broken the 3th time" in problems[0]
    assert "times)" in problems[0]


def test_our_error_is_raised_if_strict(broken: str, tmp_path: Path) -> None:
    training = Training()
    with (
        barograph.attach(to=tmp_path, preset="exact", budget=None, strict=True, watch=False),
        pytest.raises(ZeroDivisionError, match="broken the 3th time"),
    ):
        _train(training)
    assert barograph.open(tmp_path).workers[0].ending is not None


def _lines_of(function: Any) -> range:
    lines, first = inspect.getsourcelines(function)
    return range(first, first + len(lines))


def _train(training: Training) -> None:
    for _ in range(8):
        training.step()


def test_our_warnings_do_not_end_a_script_that_turns_warnings_into_errors(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(ParameterRecorder, "weights", lambda *_: 1 / 0)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with barograph.attach(to=tmp_path, preset="exact", budget=None, watch=False):
            _train(Training())
    assert capfd.readouterr().err.count("ZeroDivisionError") == 1


def test_an_unwritable_run_is_reported_once_and_the_training_continues(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tried = []

    def cannot_start() -> Any:
        tried.append(True)
        raise OSError("no more processes")

    monkeypatch.setattr(writer_client, "_start", cannot_start)
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        with barograph.attach(to=tmp_path, budget=None, watch=False) as attached:
            _train(Training())
            attached.log({"x": 1.0})
    assert (len(tried), len(told)) == (1, 1)
    assert "no more processes" in str(told[0].message)


RULES = '''
from typing import ClassVar
from barograph.model.finding import Severity
from barograph.model.key import Kind
from barograph.model.selection import Selection
from barograph.rules.base import Rule
from dataclasses import dataclass


@dataclass(frozen=True)
class Thrower(Rule):
    """X901: Raises at the tenth step.

    What it sees: losses.
    Why it matters: it is a rule of somebody's own.
    What to do: mend it.
    When it is wrong: always.
    Source: this test.
    """

    code: ClassVar[str] = "X901"
    name: ClassVar[str] = "thrower"
    severity: ClassVar[Severity] = Severity.NOTE

    @property
    def needs(self):
        return (Selection(kinds=frozenset({Kind.LOSS})),)

    def judge(self, view, memory):
        if view.step.number >= 10:
            raise RuntimeError("cannot judge this")
        return ()
'''


def test_a_rule_that_raises_is_reported_once_and_the_others_continue(desk: Any) -> None:
    desk.write("rules/others_rules.py", RULES)
    desk.write("rules/others-1.0.dist-info/METADATA", "Metadata-Version: 2.1\nName: others\nVersion: 1.0\n")
    desk.write("rules/others-1.0.dist-info/entry_points.txt", "[barograph.rules]\nothers = others_rules\n")
    desk.environment["PYTHONPATH"] = os.pathsep.join(
        filter(None, [str(desk.folder / "rules"), os.environ.get("PYTHONPATH")])
    )
    desk.script('''
for step in range(40):
    if step == 20:
        model[0].weight.data[0, 0] = float("nan")
    train_step()
''')
    watched = desk.run("--budget", "off", "--json", "train.py")
    assert watched.code == 0
    body = json.loads(watched.err)
    assert "X901" in body["rules"]
    assert sum("cannot judge this" in text for text in body["warnings"]) == 1
    assert any("X901" in text for text in body["unseen"])
    assert any(item["code"] == "N101" and item["since_step"] == 20 for item in body["findings"])
