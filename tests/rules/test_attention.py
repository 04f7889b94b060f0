"""AttentionCollapse: from probabilities where they are seen, else from queries and keys."""

from __future__ import annotations

import numpy as np
import pytest

from barograph.model.cause import Cause
from barograph.model.key import Key, Kind
from barograph.model.records import UnitSummaries
from barograph.model.summary import Summary
from barograph.rules.attention import AttentionCollapse
from barograph.rules.base import Unjudged
from barograph.runs.reading.view import StepView
from literals import RATE, causes, last, of_norm, said, subjects


def softmax(logits: np.ndarray) -> np.ndarray:
    powers = np.exp(logits - logits.max(axis=-1, keepdims=True))
    return powers / powers.sum(axis=-1, keepdims=True)


def summary(values: np.ndarray) -> Summary:
    return Summary(count=values.size, zeros=int((values == 0).sum()), min=values.min(), max=values.max(),
                   sum=values.sum(), sum_sq=(values**2).sum(), sum_abs=np.abs(values).sum())


def attending(number: int, scale: float, *, places: int = 16, path: str = "blocks.0.attn.softmax") -> StepView:
    logits = scale * np.random.default_rng(0).standard_normal((64, places))
    key = Key(Kind.OUTPUT, path)
    return StepView.of(number, {key: summary(softmax(logits)), RATE: 0.1}, layers={key: "Softmax"})


@pytest.mark.parametrize("scale", [0.0, 0.02, 1.0, 10.0])
def test_attention_as_it_is_in_training_is_well(scale: float) -> None:
    assert subjects(AttentionCollapse(), attending(10, scale)) == [[]]


def test_attention_to_one_place_is_named_with_its_sharpness() -> None:
    found = last(AttentionCollapse(), attending(10, 1e4))

    assert found.message == ('The attention of "blocks.0.attn.softmax" is on one position only: Σp² is 1 on average '
                             'over 16 positions.')
    assert list(causes(found)) == [Cause.ATTENTION_COLLAPSE, Cause.LEARNING_RATE_TOO_HIGH, Cause.NO_WARMUP]


def test_attention_that_became_alike_everywhere_is_named() -> None:
    assert subjects(AttentionCollapse(), attending(10, 1.0), attending(20, 0.0)) == [[], ["blocks.0.attn.softmax"]]
    assert subjects(AttentionCollapse(), attending(10, 0.0), attending(20, 0.0)) == [[], []]


@pytest.mark.parametrize("view", [attending(10, 1e4, places=2), attending(10, 1e4, path="head")])
def test_a_softmax_that_is_no_attention_is_not_judged(view: StepView) -> None:
    assert isinstance(said(AttentionCollapse(), view)[0][0], Unjudged)


def units(level: float, spread: float, count: int = 6) -> UnitSummaries:
    values = level + spread * np.random.default_rng(1).standard_normal((200, count))
    rows = [[0, 0, 0, unit.min(), unit.max(), unit.sum(), (unit**2).sum()] for unit in values.T]
    return UnitSummaries(200, np.array(rows))


def projecting(names: dict[str, UnitSummaries]) -> StepView:
    keys = {Key(Kind.OUTPUT, f"blocks.0.attn.{name}"): item for name, item in names.items()}
    records: dict[Key, Summary | float] = dict.fromkeys(keys, of_norm(1.0))
    return StepView.of(10, records, layers=dict.fromkeys(keys, "Linear"), units=keys)


def test_queries_and_keys_that_grew_too_large_are_named() -> None:
    well, large = units(0.0, 2.0), units(0.0, 20.0)

    assert subjects(AttentionCollapse(), projecting({"q_proj": well, "k_proj": large})) == [[]]
    assert subjects(AttentionCollapse(), projecting({"q_proj": large, "k_proj": large})) == [["blocks.0.attn.k_proj"]]


def test_what_all_keys_have_in_common_does_not_count() -> None:
    assert subjects(AttentionCollapse(), projecting({"query": units(0.0, 20.0), "key": units(500.0, 1.0)})) == [[]]


def test_a_packed_projection_is_taken_apart() -> None:
    assert subjects(AttentionCollapse(), projecting({"qkv": units(0.0, 20.0)})) == [["blocks.0.attn.qkv"]]
    assert subjects(AttentionCollapse(), projecting({"qkv": units(0.0, 2.0)})) == [[]]


def test_attention_that_shows_nothing_is_not_judged() -> None:
    found = said(AttentionCollapse(), projecting({"in": units(0.0, 1e6)}))

    assert isinstance(found[0][0], Unjudged)
