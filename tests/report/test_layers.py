"""Health by layer."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest

from barograph.model.finding import FindingState, Severity
from barograph.model.key import Key, Kind
from barograph.report.layers import MOST_LAYERS, gradient_norms, layers_in

WEIGHTS = {"weight:fc1.weight": [3.0, 4.0], "weight:fc1.bias": [0.0, 0.0], "gradient:fc1.weight": [0.3, 0.4],
           "gradient:fc1.bias": [1.2, 0.0], "update:fc1.weight": [0.05, 0.0], "output:fc1": [0.0, 2.0]}


def test_a_layer_is_told_in_its_figures(diary: Any) -> None:
    diary.step(0, tensors=WEIGHTS)

    (layer,), left_out = layers_in(diary.ended(), [], judged=True)

    assert (layer.path, layer.layer, layer.health, left_out) == ("fc1", "Linear", "ok", 0)
    assert layer.weight is not None
    assert (layer.weight.norm, layer.weight.zeros) == (5.0, 0.5)
    assert layer.update_ratio == pytest.approx(0.01)
    assert layer.output is not None
    assert layer.output.std == 1.0


def test_the_norm_of_a_gradient_is_over_all_parameters_of_the_layer(diary: Any) -> None:
    diary.step(0, tensors=WEIGHTS)
    diary.step(1, tensors={**WEIGHTS, "gradient:fc1.bias": [math.nan, 0.0]})

    curve = gradient_norms(diary.ended())["fc1"]

    assert curve.values[0] == pytest.approx(1.3)
    assert math.isnan(curve.values[1])
    assert curve.nonfinite == 1


def test_the_worst_open_finding_is_the_health_of_a_layer(diary: Any, finding: Callable[..., Any]) -> None:
    key = Key(Kind.OUTPUT, "fc1")
    diary.step(0, tensors=WEIGHTS)
    found = [finding(Severity.COSTLY, code="A101", key=key),
             finding(Severity.BREAKING, code="G103", key=key, state=FindingState.CLOSED)]

    (layer,), _ = layers_in(diary.ended(), found, judged=True)

    assert layer.health == "costly"
    assert layer.codes == ("A101", "(G103)")


def test_a_layer_full_of_nan_is_not_called_well(diary: Any) -> None:
    diary.step(0, tensors={"weight:fc1.weight": [math.nan, 1.0]})

    (layer,), _ = layers_in(diary.ended(), [], judged=True)

    assert layer.health == "not finite"


def test_what_nobody_judged_is_not_called_well(diary: Any) -> None:
    diary.step(0, tensors=WEIGHTS)

    (layer,), _ = layers_in(diary.ended(), [], judged=False)

    assert layer.health == "not judged"


def test_of_very_many_layers_those_with_findings_are_kept(diary: Any, finding: Callable[..., Any]) -> None:
    diary.step(0, tensors={f"weight:blocks.{number}.weight": [1.0] for number in range(MOST_LAYERS + 20)})
    last = Key(Kind.WEIGHT, f"blocks.{MOST_LAYERS + 19}.weight")

    layers, left_out = layers_in(diary.ended(), [finding(key=last)], judged=True)

    assert len(layers) == MOST_LAYERS
    assert left_out == 20
    assert layers[-1].path == f"blocks.{MOST_LAYERS + 19}"
    assert layers[0].path == "blocks.0"
