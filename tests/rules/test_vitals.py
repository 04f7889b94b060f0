"""StalledTraining and ScriptError."""

from __future__ import annotations

import pytest

from barograph.model.key import Key, Kind
from barograph.rules.base import Unjudged
from barograph.rules.script_errors import EXPLANATIONS
from barograph.rules.vitals import ScriptError, StalledTraining
from barograph.runs.reading.view import StepView
from judging import causes, said, steps_of, symptoms


def silent(secs: float) -> StepView:
    return StepView.of(120, {Key(Kind.VITAL, "silence_secs"): secs})


def failed(text: str) -> StepView:
    return StepView.of(7, {Key(Kind.VITAL, f"failed[{text}]"): 1.0})


def test_half_an_hour_without_a_step_is_a_stall() -> None:
    (symptom,) = symptoms(StalledTraining(), [silent(2000.0)])

    assert symptom.message == "Training stalled: no step for 33 minutes after step 120."


def test_a_shorter_silence_and_its_end_are_well() -> None:
    assert said(StalledTraining(), [silent(1800.0), silent(0.0)]) == [[], []]
    assert steps_of(StalledTraining(threshold=60.0), [silent(100.0)]) == [120]


def test_other_signs_of_life_say_nothing_of_silence() -> None:
    assert said(StalledTraining(), [failed("KeyError: 'lr'")]) == [
        [Unjudged("no gap of more than a minute was recorded")]
    ]


@pytest.mark.parametrize(
    ("text", "cause"),
    [
        ("RuntimeError: one of the variables needed for gradient computation has been modified by an inplace operation"
         ": [torch.FloatTensor [64, 64]], which is output 0 of ReluBackward0, is at version 1", "inplace-update"),
        ("RuntimeError: a leaf Variable that requires grad is being used in an in-place operation.", "inplace-update"),
        ("IndexError: Target 10 is out of bounds.", "labels-off-by-one"),
        ("RuntimeError: CUDA error: device-side assert triggered", "labels-off-by-one"),
        ("IndexError: index out of range in self", "labels-off-by-one"),
        ("RuntimeError: element 0 of tensors does not require grad and does not have a grad_fn", "detached-graph"),
        ("ValueError: optimizer got an empty parameter list", "parameter-not-in-optimizer"),
        ("ValueError: can't optimize a non-leaf Tensor", "stale-optimizer"),
        ("RuntimeError: all elements of input should be between 0 and 1", "logits-as-probabilities"),
        ("ValueError: Using a target size (torch.Size([64])) that is different to the input size (torch.Size([64, 1])) "
         "is deprecated.", "broadcast-targets"),
        ("RuntimeError: expected scalar type Long but found Float", "wrong-loss"),
        ("RuntimeError: Function 'LogBackward0' returned nan values in its 0th output.", "log-of-zero"),
        ("RuntimeError: Function 'SqrtBackward0' returned nan values in its 0th output.", "sqrt-of-zero"),
        ("RuntimeError: Function 'DivBackward0' returned nan values in its 0th output.", "division-by-zero"),
        ("RuntimeError: Function 'ExpBackward0' returned nan values in its 0th output.", "exp-overflow"),
        ("RuntimeError: Expected to have finished reduction in the prior iteration before starting a new one.",
         "unused-parameter"),
        ("RuntimeError: mat1 and mat2 shapes cannot be multiplied (64x10 and 64x10)", "script-error"),
        ("KeyError: 'lr'", "script-error"),
    ],
)
def test_an_error_is_told_with_the_mistake_behind_it(text: str, cause: str) -> None:
    (symptom,) = symptoms(ScriptError(), [failed(text)])

    assert causes(symptom)[0] == cause
    assert symptom.message == f"The script ended with {text}"


@pytest.mark.parametrize("text", [
    "OSError: [Errno 28] No space left on device: 'checkpoint.pt'",
    "OSError: [Errno 122] Disk quota exceeded",
    "RuntimeError: [enforce fail at inline_container.cc:672] . unexpected pos 576 vs 534",
    "RuntimeError: basic_ios::clear: iostream error",
    "RuntimeError: PytorchStreamWriter failed writing file data/0: file write failed",
])
def test_an_error_of_a_full_disk_says_that_the_disk_is_full(text: str) -> None:
    (symptom,) = symptoms(ScriptError(), [failed(text)])

    assert "the disk is full" in symptom.causes[0].why
    assert "Free space" in symptom.remedy


def test_an_error_that_is_not_known_is_told_as_it_is() -> None:
    (symptom,) = symptoms(ScriptError(), [failed("KeyError: 'lr'")])

    assert symptom.causes[0].why == "the script ended with KeyError: 'lr'"
    assert symptom.remedy.startswith("Start at the last line of your own code")


def test_ctrl_c_is_no_error() -> None:
    assert said(ScriptError(), [failed("KeyboardInterrupt: ")]) == [[Unjudged("the run has not ended with an error")]]


def test_a_run_that_goes_on_has_no_error() -> None:
    assert said(ScriptError(), [silent(0.0)]) == [[Unjudged("the run has not ended with an error")]]


def test_every_explanation_says_what_to_do() -> None:
    assert all(item.why and item.remedy.endswith(".") and 0 < item.weight < 1 for item in EXPLANATIONS)
