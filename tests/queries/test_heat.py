"""The heat map keeps spikes, and what was not recorded is no value."""

from __future__ import annotations

import math
from typing import Any

import pytest

from barograph.errors import UnknownName
from barograph.model.key import Kind
from barograph.queries.heat import heat_map


def test_layers_stand_in_the_order_in_which_they_ran(diary: Any) -> None:
    diary.step(0, {}, {"output:b": [1.0, 0.0], "output:a": [2.0, 0.0]})

    assert heat_map(diary.ended(), Kind.OUTPUT).layers == ("b", "a")


def test_tensors_of_a_layer_are_put_together(diary: Any) -> None:
    diary.step(0, {}, {"gradient:fc.weight": [3.0, 0.0], "gradient:fc.bias": [4.0]})

    heat = heat_map(diary.ended(), Kind.GRADIENT)
    zeros = heat_map(diary.ended(), Kind.GRADIENT, "zeros")

    assert (heat.layers, heat.values) == (("fc",), ((5.0,),))
    assert zeros.values[0][0] == pytest.approx(1 / 3)


def test_a_column_of_several_steps_shows_the_greatest(diary: Any) -> None:
    for number in range(100):
        diary.step(number, {}, {"gradient:fc.weight": [50.0 if number == 37 else 1.0]})

    heat = heat_map(diary.ended(), Kind.GRADIENT, columns=10)

    assert heat.steps[3] == (30, 39)
    assert heat.values == ((1.0, 1.0, 1.0, 50.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0),)


def test_what_was_not_recorded_is_none_and_nan_is_marked(diary: Any) -> None:
    diary.step(0, {}, {"gradient:a.weight": [1.0], "gradient:b.weight": [1.0]})
    diary.step(1, {}, {"gradient:a.weight": [math.nan]})

    heat = heat_map(diary.ended(), Kind.GRADIENT)

    assert heat.values == ((1.0, 0.0), (1.0, None))
    assert heat.nonfinite == ((1,), ())


def test_a_run_without_such_tensors_has_no_layers(diary: Any) -> None:
    diary.step(0, {"loss:total": 1.0})

    assert heat_map(diary.ended(), Kind.GRADIENT).layers == ()


def test_an_unknown_statistic_names_the_nearest(diary: Any) -> None:
    diary.step(0, {"loss:total": 1.0})

    with pytest.raises(UnknownName, match='"norm"'):
        heat_map(diary.ended(), Kind.GRADIENT, "nrm")


def test_the_largest_size_ignores_nan_and_keeps_the_sign_out(diary: Any) -> None:
    diary.step(0, {}, {"gradient:fc.weight": [3.0, -7.0, math.nan], "gradient:fc.bias": [4.0]})

    assert heat_map(diary.ended(), Kind.GRADIENT, "max_abs").values == ((7.0,),)


def test_an_update_is_set_beside_the_weights_of_its_step(diary: Any) -> None:
    diary.step(0, {}, {"weight:fc.weight": [300.0, 400.0]})
    diary.step(1, {}, {"weight:fc.weight": [3.0, 4.0], "update:fc.weight": [0.0, 0.5]})
    diary.step(2, {}, {"update:fc.weight": [0.0, 0.5]})

    heat = heat_map(diary.ended(), Kind.OUTPUT, "update_ratio")

    assert (heat.kind, heat.layers, heat.values) == ("update", ("fc",), ((0.1, None),))


def test_a_layer_of_only_nan_is_shown_and_marked(diary: Any) -> None:
    diary.step(0, {}, {"gradient:a.weight": [math.nan], "gradient:b.weight": [1.0]})

    heat = heat_map(diary.ended(), Kind.GRADIENT, "mean_abs")

    assert (heat.layers, heat.values, heat.nonfinite) == (("a", "b"), ((None,), (1.0,)), ((0,), ()))
