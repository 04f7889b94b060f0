"""GradientsNotReset and TrainEvalMode."""

from __future__ import annotations

import pytest

from barograph.judging.judge import Judge
from barograph.model.clock import SystemClock
from barograph.model.facts import Fact
from barograph.model.finding import Severity
from barograph.model.key import Key
from barograph.model.step import Mode, Step
from barograph.rules.base import Unjudged
from barograph.rules.loop import GradientsNotReset, TrainEvalMode
from barograph.runs.reading.view import StepView
from judging import CROSS_ENTROPY, causes, evaluated, facts, said, symptoms


def kept(value: float, steps: int = 6, optimizer: str = "") -> list[StepView]:
    return [StepView.of(Step(step, step, optimizer), facts({Fact.GRADIENTS_KEPT: value})) for step in range(steps)]


def test_gradients_that_are_kept_are_named_within_the_first_steps() -> None:
    judge = Judge(GradientsNotReset(), SystemClock())

    (finding,) = [item for view in kept(1.0) for item in judge.take(view)[0]]

    assert (finding.opened_step, finding.since_step) == (3, 1)
    assert finding.causes[0].cause == "gradients-not-reset"
    assert finding.remedy == "Call optimizer.zero_grad() before loss.backward(), once per step."


def test_gradients_that_are_reset_are_well() -> None:
    assert said(GradientsNotReset(), kept(0.0))[1:] == [[]] * 5


def test_once_is_never() -> None:
    judge = Judge(GradientsNotReset(), SystemClock())
    views = [StepView.of(step, facts({Fact.GRADIENTS_KEPT: float(step % 3 == 0)})) for step in range(60)]

    assert [item for view in views for item in judge.take(view)[0]] == []


def test_before_the_second_step_nothing_is_known() -> None:
    assert said(GradientsNotReset(), kept(1.0, 1)) == [
        [Unjudged("no step after the first recorded whether gradients were reset")]
    ]


def modes(model: float, layers: float, **more: float) -> list[StepView]:
    known = {Fact.MODEL_IN_EVAL: model, Fact.LAYERS_IN_EVAL: layers, **{Fact(name): it for name, it in more.items()}}
    return [StepView.of(step, facts(known)) for step in range(3)]


def test_a_model_that_trains_in_eval_mode_is_named() -> None:
    first, *_ = symptoms(TrainEvalMode(), modes(1.0, 1.0))

    assert (first.subject, causes(first)) == ("eval in training", ["eval-mode-in-training"])


@pytest.mark.parametrize(
    "views",
    [modes(0.0, 0.0), modes(0.0, 1.0), modes(0.0, 0.5), modes(1.0, 0.9), modes(1.0, 1.0, frozen=8.0, parameters=10.0)],
    ids=["training", "a frozen body's layers", "some layers", "a head that trains", "a frozen body as a whole"],
)
def test_parts_in_eval_mode_on_purpose_are_let_pass(views: list[StepView]) -> None:
    assert symptoms(TrainEvalMode(), views) == []


def layers_in_train(share: float, *, loss: bool = True) -> StepView:
    losses: dict[Key, float] = {CROSS_ENTROPY: 0.5} if loss else {}
    return evaluated(10, {**facts({Fact.LAYERS_IN_TRAIN: share}), **losses})


def test_an_evaluation_in_training_mode_is_doubtful() -> None:
    (symptom,) = symptoms(TrainEvalMode(), [layers_in_train(1.0)])

    assert (symptom.severity, causes(symptom)) == (Severity.DOUBTFUL, ["train-mode-in-evaluation"])


@pytest.mark.parametrize("view", [layers_in_train(0.0), layers_in_train(0.5), layers_in_train(1.0, loss=False)])
def test_an_evaluation_in_eval_mode_or_without_a_loss_is_let_pass(view: StepView) -> None:
    assert symptoms(TrainEvalMode(), [view]) == []


def test_models_without_such_layers_and_predictions_are_not_judged() -> None:
    bare = StepView.of(0, facts({Fact.MODEL_IN_EVAL: 1.0}))
    prediction = StepView.of(Step(0, 0, "", Mode.PREDICT), facts({Fact.LAYERS_IN_TRAIN: 1.0}))

    assert said(TrainEvalMode(), [bare, prediction]) == [
        [Unjudged("no training step recorded the mode of dropout or normalization layers")],
        [Unjudged("predictions may be made in any mode")],
    ]
