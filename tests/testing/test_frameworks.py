"""The suite for integrations: two sound ones pass it, and each thing that it forbids is caught."""

from __future__ import annotations

import contextlib
import sys
import threading
import types
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pytest

from barograph.attached import AttachedRun
from barograph.capture.array_integration import ArrayIntegration
from barograph.measures import native
from barograph.measures.summary import identity_rows
from barograph.model.key import Kind
from barograph.model.step import Mode
from barograph.testing.frameworks import FrameworkConformance, Planted, Task

Weights = dict[str, Any]


class Teller:
    """Tells an integration of a training by hand, as an integration should."""

    def __init__(self, run: AttachedRun | None) -> None:
        self.integration: ArrayIntegration | None = run.integration() if run is not None else None

    def loss(self, value: float) -> None:
        if self.integration:
            self.integration.loss(value)

    def before(self, weights: Weights, gradients: Weights) -> None:
        if self.integration:
            self.integration.take(Kind.GRADIENT, gradients)
            self.integration.before_update(weights)

    def after(self, weights: Weights) -> None:
        if self.integration:
            self.integration.after_update(weights)
            self.integration.end_step()

    def evaluation(self, loss: float) -> None:
        if self.integration:
            self.integration.begin_evaluation(Mode.EVAL)
            self.integration.loss(loss)
            self.integration.end_evaluation()


def train(task: Task, teller: Any) -> Weights:
    """Fit a line, plainly."""
    rng = np.random.default_rng(task.seed)
    weights = {"line.weight": rng.normal(size=(3, 1)), "line.bias": np.zeros(1)}
    for step in range(task.steps):
        gradients: Weights = {name: np.zeros_like(value) for name, value in weights.items()}
        for _ in range(task.accumulate):
            x = rng.normal(size=(8, 3))
            y = x.sum(1, keepdims=True)
            if step == task.nan_at:
                x[0] = np.nan
            error = x @ weights["line.weight"] + weights["line.bias"] - y
            teller.loss(float((error**2).mean()))
            gradients["line.weight"] += 2 * x.T @ error / 8 / task.accumulate
            gradients["line.bias"] += 2 * error.mean(0) / task.accumulate
        teller.before(weights, gradients)
        for name in weights:
            weights[name] -= 0.05 * gradients[name]
        teller.after(weights)
        if task.evaluate_every and (step + 1) % task.evaluate_every == 0:
            teller.evaluation(0.5)
    return weights


class TestATrainingThatIsToldByHand(FrameworkConformance):
    framework = "numpy"

    def train(self, task: Task, run: AttachedRun | None) -> Mapping[str, Any]:
        return train(task, Teller(run))


class TestPyTorch(FrameworkConformance):
    framework = "torch"
    many_steps = 60

    def train(self, task: Task, run: AttachedRun | None) -> Mapping[str, Any]:
        import torch

        torch.manual_seed(task.seed)
        model = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.ReLU(), torch.nn.Linear(4, 1))
        optimizer = torch.optim.Adam(model.parameters(), 0.01)
        for step in range(task.steps):
            optimizer.zero_grad()
            for _ in range(task.accumulate):
                x = torch.randn(8, 3)
                if step == task.nan_at:
                    x[0] = torch.nan
                torch.nn.functional.mse_loss(model(x), x.sum(1, keepdim=True)).backward()
            optimizer.step()
            if task.evaluate_every and (step + 1) % task.evaluate_every == 0:
                model.eval()
                with torch.no_grad():
                    torch.nn.functional.mse_loss(model(torch.ones(4, 3)), torch.ones(4, 1))
                model.train()
        return {name: value.detach().numpy() for name, value in model.named_parameters()}


class DrawsNumbers(Teller):
    """Moves a weight."""

    def after(self, weights: Weights) -> None:
        if self.integration:
            weights["line.bias"] += 1e-12
        super().after(weights)


class LeavesAThread(Teller):
    def __init__(self, run: AttachedRun | None) -> None:
        super().__init__(run)
        if run is not None:
            self.event = threading.Event()
            LEFT.append(self.event)
            threading.Thread(target=self.event.wait, name="left", daemon=True).start()


class LeavesAPatch(Teller):
    def __init__(self, run: AttachedRun | None) -> None:
        super().__init__(run)
        if run is not None:
            sys.modules["patched_one"].step = ArrayIntegration.end_step  # type: ignore[attr-defined]


class CountsBatches(Teller):
    """Ends a step with each loss."""

    def loss(self, value: float) -> None:
        super().loss(value)
        if self.integration:
            self.integration.end_step()


class MissesEvaluations(Teller):
    def evaluation(self, loss: float) -> None:
        self.loss(loss)


class CallsItsOwn(Teller):
    """Names weights as its framework does."""

    def after(self, weights: Weights) -> None:
        if self.integration:
            self.integration.after_update({f"module.{name}:0": value for name, value in weights.items()})
            self.integration.end_step()


class ReadsBefore(Teller):
    """Takes the weights of before the step for those after it."""

    def before(self, weights: Weights, gradients: Weights) -> None:
        if self.integration:
            self.integration.take(Kind.WEIGHT, weights)

    def after(self, weights: Weights) -> None:
        if self.integration:
            self.integration.end_step()


class TellsLossesLate(Teller):
    """Records a loss with the step after its own."""

    late = 0.0

    def loss(self, value: float) -> None:
        super().loss(self.late)
        self.late = value


class RaisesItself(Teller):
    """Reads outside of the guard."""

    def before(self, weights: Weights, gradients: Weights) -> None:
        if self.integration:
            native.summarize_into(0, 0, 0, identity_rows(1), 0)
        super().before(weights, gradients)


class SwallowsEverything(Teller):
    """Does not even raise where it is asked to."""

    def before(self, weights: Weights, gradients: Weights) -> None:
        with contextlib.suppress(Planted):
            super().before(weights, gradients)

    def after(self, weights: Weights) -> None:
        with contextlib.suppress(Planted):
            super().after(weights)


class MindsNoBudget(Teller):
    """Takes everything, always."""

    def before(self, weights: Weights, gradients: Weights) -> None:
        if self.integration:
            self.integration._steps.allowance.mask = self.integration.session.plan.everything()
        super().before(weights, gradients)


LEFT: list[threading.Event] = []


@pytest.fixture(autouse=True)
def patched_one(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setitem(sys.modules, "patched_one", types.ModuleType("patched_one"))
    yield
    while LEFT:
        LEFT.pop().set()


def suite(teller: Callable[[AttachedRun | None], Any]) -> FrameworkConformance:
    class Suite(FrameworkConformance):
        framework = "patched_one"

        def train(self, task: Task, run: AttachedRun | None) -> Mapping[str, Any]:
            return train(task, teller(run))

    return Suite()


@pytest.mark.parametrize(("teller", "test", "message"), [
    (DrawsNumbers, "test_the_same_seed_gives_the_same_bits_with_and_without_us", "recording changes the training"),
    (LeavesAThread, "test_nothing_is_left_behind_after_close", "the thread left"),
    (LeavesAPatch, "test_nothing_is_left_behind_after_close", "patched_one.step"),
    (CountsBatches, "test_steps_are_those_of_the_optimizer", "were made"),
    (CountsBatches, "test_micro_batches_make_one_step", "three micro-batches"),
    (MissesEvaluations, "test_an_evaluation_is_no_step_and_says_how_many_were_made", "but ran after steps"),
    (CallsItsOwn, "test_keys_are_canonical", "TensorFlow"),
    (ReadsBefore, "test_the_last_weights_recorded_are_the_weights", "the last recorded min"),
    (TellsLossesLate, "test_a_nan_is_found_at_the_step_it_arose", "step 5 is recorded at step 6"),
    (RaisesItself, "test_an_error_of_ours_never_reaches_the_training", "planted by"),
    (SwallowsEverything, "test_strict_raises_an_error_of_ours", "did not raise"),
    (MindsNoBudget, "test_under_a_budget_steps_are_passed_over_and_the_others_have_their_numbers", "skips nothing"),
])
def test_what_an_integration_must_not_do_is_caught(teller: Any, test: str, message: str) -> None:
    with pytest.raises((AssertionError, Planted), match=message):
        getattr(suite(teller), test)()


def test_a_training_that_goes_on_must_count_on() -> None:
    class Restarts(Teller):
        def __init__(self, run: AttachedRun | None) -> None:
            super().__init__(run)
            if self.integration:
                self.integration.session.counts.begin_at(0)

    with pytest.raises(AssertionError, match="resumes at step 100"):
        suite(Restarts).test_a_training_that_goes_on_counts_on()


def test_a_training_that_is_not_written_says_so() -> None:
    with pytest.raises(NotImplementedError, match="must implement train"):
        FrameworkConformance().test_steps_are_those_of_the_optimizer()
