"""UnderflowOverflow: values that a narrow format cannot hold, in runs that compute in one."""

from __future__ import annotations

from dataclasses import replace

import pytest

from barograph.errors import UnknownName
from barograph.model.cause import Cause
from barograph.model.facts import Fact, fact
from barograph.model.finding import Symptom
from barograph.model.key import Key, Kind
from barograph.model.summary import Summary
from barograph.rules.base import Unjudged
from barograph.rules.narrow import UnderflowOverflow
from barograph.runs.reading.view import StepView
from literals import LOSS, causes, last, of_norm, said, step, subjects

A, B = Key(Kind.GRADIENT, "a.weight"), Key(Kind.GRADIENT, "b.weight")
OUT = Key(Kind.OUTPUT, "a")
SCALE = fact(Fact.LOSS_SCALE)
FINE = of_norm(10.0, reach=3.0)


def sized(exponent: int, small: int = 0) -> Summary:
    """A gradient of 100 elements of about 2**exponent, `small` of them of about 2**-30 instead."""
    return replace(FINE, exponents={127 + exponent: 100 - small, 97: small})


def seen(
    number: int, *gradients: Summary, output: Summary = FINE, out_dtype: str = "float32", dtype: str = "float32",
    scale: float | None = None, layer: str = "Linear",
) -> StepView:
    records: dict[Key, Summary | float] = {**dict(zip((A, B), gradients, strict=False)), OUT: output, LOSS: 1.0}
    if scale is not None:
        records[SCALE] = scale
    return step(number, records, dtypes={A: dtype, B: dtype, OUT: out_dtype}, layers={A: layer, B: layer})


def test_in_float32_nothing_is_too_small() -> None:
    assert said(UnderflowOverflow(), seen(10, sized(-30))) == [
        [Unjudged("the run does not compute in low precision (float16, bfloat16), or did not record it")]]


@pytest.mark.parametrize("sick", [
    seen(10, sized(-10), sized(-22), dtype="float16"), seen(10, sized(-10), sized(-22), out_dtype="float16"),
    seen(10, sized(-10), sized(-40), scale=1024.0),
])
def test_gradients_at_the_end_of_the_format_that_is_computed_in_underflow(sick: StepView) -> None:
    found = last(UnderflowOverflow(), sick)

    assert found.message == (
        'Gradients underflow in 1 of 2 tensors ("b.weight"): 100% of the gradient of "b.weight" is too small '
        "for the number format.")
    assert next(iter(causes(found))) == Cause.FP16_UNDERFLOW
    assert "GradScaler" in found.remedy


@pytest.mark.parametrize("well", [
    seen(10, sized(-10), sized(-22), dtype="bfloat16"), seen(10, sized(-10), sized(-15, small=40), dtype="float16"),
    seen(10, sized(-22), sized(-22), out_dtype="float16", scale=65536.0),
    seen(10, sized(-10), sized(-15), out_dtype="float16"),
])
def test_gradients_within_reach_are_well(well: StepView) -> None:
    assert subjects(UnderflowOverflow(), well) == [[]]


def test_the_format_and_the_scale_are_remembered() -> None:
    assert subjects(UnderflowOverflow(), seen(0, sized(-10), out_dtype="float16"), seen(10, sized(-22)))[-1] == [
        "underflow"]
    assert subjects(UnderflowOverflow(), seen(0, sized(-10), scale=65536.0), seen(10, sized(-30)))[-1] == []


def test_every_run_can_be_held_against_a_format() -> None:
    rule = UnderflowOverflow(format="fp8_e4m3")

    assert subjects(rule, seen(10, sized(-7)))[-1] == ["underflow"]
    assert subjects(rule, seen(10, sized(0), output=of_norm(10.0, reach=300.0)))[-1] == ["overflow"]
    with pytest.raises(UnknownName, match='Did you mean "fp16"'):
        UnderflowOverflow(format="fp61")


def test_float16_gradients_of_zeros_alone_are_starved() -> None:
    zeros = replace(of_norm(1e-7), zeros=100)
    views = [seen(10, zeros, zeros, dtype="float16", layer=layer) for layer in ("Linear", "Embedding")]

    found = said(UnderflowOverflow(), views[0])[0][0]

    assert isinstance(found, Symptom)
    assert found.message.startswith("Gradients underflow: 100% of the float16 gradients of")
    assert subjects(UnderflowOverflow(), views[1]) == [[]]
    assert subjects(UnderflowOverflow(), seen(10, zeros, zeros)) == [[]]


@pytest.mark.parametrize(("reach", "dtype", "expected"), [
    (40_000.0, "float16", ["overflow"]), (30_000.0, "float16", []), (1e9, "float32", []), (1e9, "bfloat16", []),
])
def test_outputs_near_the_end_of_their_format_are_named(reach: float, dtype: str, expected: list[str]) -> None:
    view = seen(10, sized(-5), output=of_norm(1e5, reach=reach), out_dtype=dtype)

    assert subjects(UnderflowOverflow(), view)[-1] == expected


def test_without_histograms_small_values_are_not_seen() -> None:
    assert subjects(UnderflowOverflow(), seen(10, FINE, FINE, dtype="float16")) == [[]]
