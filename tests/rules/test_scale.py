"""How large inputs are, and when they are to blame for activations that are flat and gradients that vanish."""

from __future__ import annotations

import numpy as np
import pytest

from barograph.model.cause import Cause
from barograph.model.key import Key, Kind
from barograph.model.records import UnitSummaries
from barograph.model.summary import Summary
from barograph.rules.activations import SaturatedActivation
from barograph.rules.gradients import VanishingGradient
from barograph.rules.scale import between_layers, is_scaled_inside, openness, size_of_inputs
from barograph.runs.reading.view import StepView
from literals import Records, causes, last, of_norm, step, tensors

FED, FC, ACT, OUT = Key(Kind.BATCH, "model[0]"), *(Key(Kind.OUTPUT, path) for path in ("fc", "act", "out"))
LARGE = {FED: of_norm(2550.0)}
"""255 in size."""
SHUT, WIDE = 10.0, 3.0
"""Norms of what Tanh answers with where it is flat, and where it is not."""
GRADIENTS = tensors(Kind.GRADIENT, fc__weight=1e-5, out__weight=1.0)


def fed(
    *more: Records, first: str = "Linear", prediction: float = 900.0, act: str = "Tanh", acted: float = SHUT,
    dtype: str = "float32", number: int = 0, end: str = "Linear",
) -> StepView:
    """A step of a model of three layers, in which a gradient vanishes."""
    return step(number, {FC: of_norm(prediction), ACT: of_norm(acted), OUT: of_norm(1.0)}, GRADIENTS, *more,
                layers={FC: first, ACT: act, OUT: end}, dtypes={FED: dtype})


def blames_inputs(*views: StepView) -> bool:
    found = last(VanishingGradient(), *views)
    blamed = Cause.INPUT_NOT_NORMALIZED in causes(found)
    assert blamed == found.remedy.startswith("Scale the inputs to zero mean and unit variance.")
    return blamed


def test_large_inputs_that_drive_units_to_where_these_are_flat_are_the_first_suspect() -> None:
    found = last(VanishingGradient(), fed(LARGE))

    assert causes(found) == {
        Cause.INPUT_NOT_NORMALIZED: 0.7, Cause.VANISHING_GRADIENT: 0.5, Cause.INITIALIZATION_SCALE: 0.2}
    assert "Their RMS is 255, and the Tanh layer passes almost no gradient." in found.remedy


@pytest.mark.parametrize(("view", "blamed"), [
    (fed(LARGE), True),
    (fed(LARGE, dtype="uint8"), True),
    (fed(LARGE, first="Tanh", prediction=SHUT), True),
    (fed({FED: of_norm(50.0)}), False),
    (fed(LARGE, first="BatchNormalization"), False),
    (fed(LARGE, first="Embedding"), False),
    (fed(LARGE, dtype="int64"), False),
    (fed(LARGE, first="Rescaling", prediction=10.0), False),
    (fed(LARGE, first="LSTM", prediction=9.0), False),
    (fed(LARGE, acted=WIDE), False),
    (fed(LARGE, first="Tanh", prediction=WIDE), False),
    (fed(LARGE, act="GELU"), False),
    (fed(LARGE, act="ReLU", acted=900.0, end="Sigmoid"), False),
], ids=["large", "raw bytes", "activation within", "small", "normalised", "embedded", "token ids", "divided",
        "bounded before", "open", "divided before an activation within", "nothing squashes", "the answer squashes"])
def test_only_inputs_that_reach_it_are_to_blame_for_a_gradient_that_vanishes(view: StepView, blamed: bool) -> None:
    assert blames_inputs(view) is blamed


def test_a_normalisation_after_the_first_layer_keeps_inputs_from_what_follows() -> None:
    norm = Key(Kind.OUTPUT, "norm")
    view = step(0, {FC: of_norm(900.0), norm: of_norm(10.0), ACT: of_norm(SHUT), OUT: of_norm(1.0)}, GRADIENTS, LARGE,
                layers={FC: "Linear", norm: "BatchNorm1d", ACT: "Tanh", OUT: "Linear"})

    assert not blames_inputs(view)
    assert between_layers(view).made_of == {"Tanh": 1}


def test_functions_that_squash_are_seen_by_what_the_next_layer_is_fed() -> None:
    after = Key(Kind.INPUT, "out")

    def called(norm: float) -> StepView:
        return step(0, {FC: of_norm(900.0), OUT: of_norm(1.0), after: of_norm(norm)}, GRADIENTS, LARGE,
                    layers={FC: "Linear", OUT: "Linear", after: "tanh"})

    assert between_layers(called(SHUT)) == ({"tanh": 1}, True)
    assert between_layers(called(WIDE)) == ({"tanh": 1}, False)
    assert blames_inputs(called(SHUT))
    assert not blames_inputs(called(WIDE))


def test_what_is_not_recorded_in_a_step_is_known_from_one_before_and_forgotten_by_one_that_shows_another() -> None:
    bare = step(10, GRADIENTS)

    assert blames_inputs(fed(LARGE), bare)
    assert not blames_inputs(fed(LARGE), fed(LARGE, prediction=5.0, number=10))
    assert not blames_inputs(fed(LARGE), fed(acted=WIDE, number=10))
    assert not blames_inputs(bare)


@pytest.mark.parametrize(("layer", "mean", "mean_square", "share"), [
    ("Tanh", 0.0, 0.36, 0.64), ("tanh", 0.0, 1.0, 0.0), ("Sigmoid", 0.5, 0.25, 1.0), ("sigmoid", 0.5, 0.5, 0.0),
    ("ReLU", 9.0, 100.0, 1.0), ("LogSigmoid", -9.0, 100.0, 1.0),
])
def test_how_open_an_activation_is(layer: str, mean: float, mean_square: float, share: float) -> None:
    assert openness(layer, mean, mean_square) == pytest.approx(share)


def test_of_two_inputs_the_larger_counts_and_what_is_empty_has_no_size() -> None:
    other = Key(Kind.BATCH, "model[1]")
    assert size_of_inputs(fed({FED: of_norm(100.0), other: of_norm(200.0)})) == pytest.approx(20.0)
    assert size_of_inputs(fed({FED: Summary(count=0)})) == 0.0
    assert size_of_inputs(fed()) is None
    assert size_of_inputs(step(0, LARGE)) is None
    assert size_of_inputs(step(0, LARGE, {FC: Summary(count=0)}, layers={FC: "Linear"})) is None


@pytest.mark.parametrize(("dtype", "first", "cause"), [
    ("float32", "Linear", Cause.INPUT_NOT_NORMALIZED), ("uint8", "Linear", Cause.INPUT_NOT_NORMALIZED),
    ("int64", "Linear", Cause.SATURATED_ACTIVATION), ("float32", "LayerNorm", Cause.SATURATED_ACTIVATION),
])
def test_units_are_saturated_by_large_inputs_and_neither_by_token_ids_nor_by_what_is_normalised(
    dtype: str, first: str, cause: Cause
) -> None:
    units = UnitSummaries(2, np.array([[0, 0, 0, -1.0, 1.0, 0.0, 2.0]] * 8))
    view = StepView.of(20, {FC: of_norm(900.0), ACT: of_norm(SHUT), OUT: of_norm(1.0), **LARGE},
                       layers={FC: first, ACT: "Tanh", OUT: "Linear"}, dtypes={FED: dtype}, units={ACT: units})

    assert next(iter(causes(last(SaturatedActivation(), view)))) == cause


@pytest.mark.parametrize(("first", "inside"), [
    (["Tanh", 0.0, 1.0], False), (["Tanh", 0.0, 0.3], True), (["sigmoid", 0.5, 0.5], False),
    (["Linear", 0.0, 10_000.0], False), (["Linear", 0.0, 1.0], True), (["LayerNorm", 0.0, 1e6], True),
])
def test_whether_a_model_divides_shows_by_its_first_answer(first: list[object], inside: bool) -> None:
    assert is_scaled_inside(first, 65_025.0) is inside
