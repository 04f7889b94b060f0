"""NotNormalizedInput, NLPSequenceRatio and TargetInInput."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from barograph.errors import SettingsError
from barograph.measures.summary import summarize
from barograph.model.facts import Fact
from barograph.model.key import Key, Kind
from barograph.model.records import UnitSummaries
from barograph.model.summary import Summary
from barograph.rules.base import Rule, Unjudged
from barograph.rules.inputs import NLPSequenceRatio, NotNormalizedInput, TargetInInput
from barograph.rules.registry import rule_with
from barograph.runs.reading.view import StepView
from judging import causes, facts, labels, said, steps_of, symptoms

BATCH, FIRST, FLAT = Key(Kind.BATCH, "model[0]"), Key(Kind.OUTPUT, "fc"), Key(Kind.OUTPUT, "flat")
SECOND = Key(Kind.OUTPUT, "second")


def fed(
    batches: Sequence[np.ndarray], *, layer: str = "Linear", predictions: float | None = None, dtype: str = "float32",
    second: str = "ReLU",
) -> list[StepView]:
    """Return steps whose model was fed these (samples, features), and whose first layer answered so far from zero."""
    views = []
    for step, batch in enumerate(batches):
        x = batch.astype(np.float64)
        columns = np.stack([(x == 0).sum(0), np.full(x.shape[1], np.nan), np.zeros(x.shape[1]), x.min(0), x.max(0),
                            x.sum(0), (x**2).sum(0)], axis=1)
        rms = predictions if predictions is not None else float(np.sqrt((x**2).mean() / 3))
        views.append(StepView.of(
            step, {BATCH: summarize(x), FLAT: summarize(x), FIRST: Summary(count=100, sum_sq=100 * rms**2),
                   SECOND: Summary(count=100, sum_sq=100.0)},
            layers={FLAT: "Flatten", FIRST: layer, SECOND: second}, dtypes={BATCH: dtype},
            units={BATCH: UnitSummaries(len(x), columns)},
        ))
    return views


def drawn(mean: float, std: float, *, steps: int = 12, features: int = 8) -> list[np.ndarray]:
    draw = np.random.default_rng(0)
    return [mean + std * draw.standard_normal((64, features)) for _ in range(steps)]


def test_raw_pixels_are_far_from_normal() -> None:
    views = fed(drawn(120.0, 70.0))

    first, *_ = symptoms(NotNormalizedInput(), views)

    assert steps_of(NotNormalizedInput(), views)[0] == 7
    assert first.message.startswith("8 of 8 channels of the input are far from zero mean and unit variance: channel ")
    assert (first.subject, causes(first)) == ("far", ["input-not-normalized"])


@pytest.mark.parametrize(("second", "is_found"), [("BatchNorm2d", False), ("GroupNorm", False), ("ReLU", True)])
def test_a_norm_right_after_the_first_layer_takes_pixels_of_any_scale(second: str, is_found: bool) -> None:
    views = fed(drawn(120.0, 70.0), layer="Conv2d", second=second)

    assert bool(symptoms(NotNormalizedInput(), views)) is is_found


@pytest.mark.parametrize(("mean", "std"), [(0.0, 1.0), (0.5, 0.3), (8.0, 6.0), (0.0, 20.0), (25.0, 5.0)])
def test_inputs_of_a_usual_size_are_let_pass(mean: float, std: float) -> None:
    assert symptoms(NotNormalizedInput(), fed(drawn(mean, std))) == []


def test_with_amazons_threshold_a_mean_of_a_half_is_off() -> None:
    assert symptoms(NotNormalizedInput(threshold_mean=0.2), fed(drawn(0.5, 0.3)))


def test_features_on_scales_far_apart_are_uneven() -> None:
    uneven = [batch * [1, 1, 1, 1, 1, 1, 1, 1e-4] for batch in drawn(0.0, 1.0)]

    (first, *_) = symptoms(NotNormalizedInput(), fed(uneven))

    assert first.subject == "uneven"


def test_rare_and_constant_features_are_no_matter_of_scale() -> None:
    batches = drawn(0.0, 1.0)
    for batch in batches:
        batch[:, 0] = 3.0
        batch[:, 1] = 0.0
        batch[0, 2:4] = 1e-5
        batch[1:, 2:4] = 0.0

    assert symptoms(NotNormalizedInput(), fed(batches)) == []


@pytest.mark.parametrize("layer", ["BatchNorm1d", "LayerNorm", "Embedding"])
def test_models_that_begin_by_normalising_are_let_pass(layer: str) -> None:
    assert symptoms(NotNormalizedInput(), fed(drawn(120.0, 70.0), layer=layer)) == []


def test_models_that_scale_inside_are_let_pass() -> None:
    assert symptoms(NotNormalizedInput(), fed(drawn(120.0, 70.0), predictions=0.3)) == []


def test_one_batch_that_is_far_out_is_not_the_input() -> None:
    batches = drawn(0.0, 1.0, steps=30)
    batches[10][0] = 1e6

    assert steps_of(NotNormalizedInput(), fed(batches)) == [10]


def test_whole_numbers_are_not_judged() -> None:
    assert symptoms(NotNormalizedInput(), fed(drawn(5000.0, 3000.0), dtype="int64")) == []


def test_before_enough_values_or_the_first_layer_nothing_is_said() -> None:
    views = fed(drawn(120.0, 70.0, steps=2))
    alone = [StepView.of(step, {BATCH: summarize(batch)}) for step, batch in enumerate(drawn(120.0, 70.0))]

    assert said(NotNormalizedInput(), views)[-1] == [
        Unjudged("fewer than 500 values of each channel of a float input were recorded")
    ]
    assert said(NotNormalizedInput(), alone)[-1] == [
        Unjudged("no layer output recorded yet, so it is unknown whether the model scales its input")
    ]


def padded(share: float, value: str = "0", steps: int = 3) -> list[StepView]:
    return [StepView.of(step, facts({(Fact.PADDING, value): share})) for step in range(steps)]


def test_padding_is_a_fault_where_it_is_nearly_all() -> None:
    assert steps_of(NLPSequenceRatio(), padded(0.97)) == [0, 1, 2]
    assert steps_of(NLPSequenceRatio(), padded(0.8)) == []


def test_amazons_parameters_hold() -> None:
    rule = NLPSequenceRatio(token_values=("0", "1"), token_thresholds_percent=("50", "80"))

    assert steps_of(rule, padded(0.6)) == [0, 1, 2]
    assert steps_of(rule, padded(0.6, "1")) == []
    assert said(rule, padded(0.9, "7", 1)) == [[Unjudged("none of the named values was counted")]]


@pytest.mark.parametrize(
    ("values", "message"),
    [({"token_thresholds_percent": ["many"]}, 'holds "many"; each must be a number from 0 to 100'),
     ({"token_thresholds_percent": ["120"]}, 'holds "120"; each must be a number from 0 to 100'),
     ({"token_values": ["0"], "token_thresholds_percent": ["5", "6"]}, "has 2 values for 1 token_values")],
)
def test_wrong_thresholds_are_refused(values: dict[str, list[str]], message: str) -> None:
    with pytest.raises(SettingsError, match=message):
        rule_with(NLPSequenceRatio, values)


def compared(share: float, about: str, *, classes: float = 50.0, steps: int = 4) -> list[StepView]:
    known = facts({(Fact.TARGET_IS_INPUT, about): share, Fact.CLASSES: classes})
    return [StepView.of(step, {**known, **labels({0: 40, 1: 20})}) for step in range(steps)]


@pytest.mark.parametrize("about", ["0", "-1"])
def test_words_that_stand_in_the_input_are_given_away(about: str) -> None:
    first, *_ = symptoms(TargetInInput(), compared(1.0, about))

    assert causes(first) == ["targets-in-input", "labels-off-by-one"]
    assert first.remedy.startswith("Shift the targets by one position: inputs = tokens[:, :-1]")


@pytest.mark.parametrize(
    "views",
    [compared(1.0, "1"), compared(0.6, "0"), compared(1.0, "0", classes=2.0)],
    ids=["the next word", "here and there", "of two classes"],
)
def test_what_is_no_copy_is_let_pass(views: list[StepView]) -> None:
    assert symptoms(TargetInInput(), views) == []


def test_an_autoencoder_of_numbers_gives_its_input_back_on_purpose() -> None:
    target = Key(Kind.TARGET, "mse_loss")
    same = facts({(Fact.TARGET_IS_INPUT, "0"): 1.0, Fact.CLASSES: 64.0})
    views = [StepView.of(0, {**same, target: Summary(count=9)})]

    assert symptoms(TargetInInput(), views) == []


def test_a_column_that_is_the_target_is_named_once_it_is_sure() -> None:
    views = compared(1.0, "column 3", classes=2.0)

    first, *_ = symptoms(TargetInInput(), views)

    assert steps_of(TargetInInput(), views) == [2, 3]
    assert first.remedy == "Remove column 3 from the features: it is the target."
    assert causes(first) == ["targets-in-input"]


def test_a_column_that_equals_targets_that_are_nearly_all_the_same_is_luck() -> None:
    known = facts({(Fact.TARGET_IS_INPUT, "column 35"): 1.0, Fact.CLASSES: 2.0})
    views = [StepView.of(step, {**known, **labels({0: 15, 1: 1})}) for step in range(6)]

    assert symptoms(TargetInInput(), views) == []


@pytest.mark.parametrize("rule", [NLPSequenceRatio(), TargetInInput()])
def test_without_facts_nothing_is_judged(rule: Rule) -> None:
    (found,) = said(rule, [StepView.of(0, {Key(Kind.FACT, "epoch"): 1.0})])

    assert [type(item) for item in found] == [Unjudged]
