"""NonFinite and NonFiniteOrigin: what is hit, where it arose, why, and what is no fault."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from barograph.model.cause import Cause
from barograph.model.facts import Fact, fact
from barograph.model.finding import Severity, Symptom
from barograph.model.key import Key, Kind
from barograph.model.step import Mode, Step
from barograph.model.summary import Summary
from barograph.rules.base import Memory, Rule, Unjudged
from barograph.rules.nonfinite_origin import NonFiniteOrigin
from barograph.rules.numbers import NonFinite
from barograph.runs.reading.view import StepView
from judging import symptoms

FINE = Summary(count=10, min=-1.0, max=1.0, sum=0.0, sum_sq=5.0, sum_abs=6.0)
NAN = replace(FINE, nan=4)
POSINF = replace(FINE, posinf=2)
MASK = replace(FINE, neginf=5)

LAYERS = {"conv": "Conv2d", "relu": "ReLU", "fc": "Linear"}
LOSS = Key(Kind.LOSS, "total")
RATE = Key(Kind.LEARNING_RATE, "group0")


def view(
    step: int | Step = 0,
    *,
    outputs: Sequence[Summary] = (),
    inputs: Sequence[Summary] = (),
    batch: Summary | None = None,
    loss: Summary = FINE,
    gradients: Sequence[Summary] = (FINE, FINE),
    weights: Sequence[Summary] = (FINE, FINE),
    dtype: str = "float32",
) -> StepView:
    out_keys = [Key(Kind.OUTPUT, name) for name in LAYERS]
    in_keys = [Key(Kind.INPUT, name) for name in LAYERS]
    parameters = ("conv.weight", "fc.weight")
    records: dict[Key, Summary | float] = {
        **({} if batch is None else {Key(Kind.BATCH, "model[0]"): batch}),
        **dict(zip(in_keys, inputs, strict=False)),
        **dict(zip(out_keys, outputs, strict=False)),
        LOSS: loss,
        **{Key(Kind.GRADIENT, path): item for path, item in zip(parameters, gradients, strict=False)},
        **{Key(Kind.WEIGHT, path): item for path, item in zip(parameters, weights, strict=False)},
        RATE: 0.5,
    }
    layers = {key: LAYERS[key.path] for key in (*in_keys, *out_keys)}
    return StepView.of(step, records, layers=layers, dtypes=dict.fromkeys(records, dtype))


def one(value: float) -> Summary:
    return Summary(count=1, min=value, max=value, sum=value, sum_sq=value * value, sum_abs=abs(value))


def judged(*views: StepView, rule: Rule = NonFinite()) -> list[list[Symptom | Unjudged]]:  # noqa: B008 - frozen
    memory: Memory = {}
    return [list(rule.judge(item, memory)) for item in views]


def only(*views: StepView, rule: Rule = NonFinite()) -> Symptom:  # noqa: B008 - frozen
    (symptom,) = judged(*views, rule=rule)[-1]
    assert isinstance(symptom, Symptom)
    return symptom


def test_a_step_of_finite_numbers_is_well() -> None:
    assert judged(view(outputs=[FINE, FINE, FINE])) == [[]]


@pytest.mark.parametrize(("first", "fires_at"), [(0, 0), (1, 2)])
def test_nan_at_steps_0_and_2_of_three_fires_from_0_and_from_1(first: int, fires_at: int) -> None:
    views = [view(0, loss=NAN), view(1), view(2, loss=NAN)][first:]

    assert next(index for index, found in enumerate(judged(*views), first) if found) == fires_at


def test_the_first_module_whose_output_is_not_finite_is_the_origin() -> None:
    hit = view(3, outputs=[FINE, POSINF, NAN], loss=NAN, gradients=[NAN, NAN], weights=[NAN, NAN])
    where, found = only(hit, rule=NonFiniteOrigin()), only(hit)

    assert where.message == (
        'NaN or infinite values arose in "relu" (ReLU) or just before it: its output holds 2 infinite of 10 '
        "values, while all earlier outputs were finite."
    )
    assert where.evidence == found.evidence[:1]
    assert found.message == ("NaN or infinite values in 2 of 3 outputs, 1 of 1 losses, 2 of 2 gradients and 2 "
                             "of 2 weights.")
    assert found.evidence[0].key == Key(Kind.OUTPUT, "relu")
    assert found.evidence[0].value == 2
    assert [item.text for item in found.evidence[1:]] == [
        "1 of 1 losses are not finite", "2 of 2 gradients are not finite", "2 of 2 weights are not finite",
    ]


def test_inputs_where_recorded_clear_or_charge_the_module() -> None:
    cleared = only(view(outputs=[FINE, NAN, NAN], inputs=[FINE, FINE, NAN], loss=NAN), rule=NonFiniteOrigin())
    between = only(view(outputs=[FINE, NAN, NAN], inputs=[FINE, NAN, NAN], loss=NAN), rule=NonFiniteOrigin())

    assert "its output holds 4 NaN of 10 values, while its inputs were finite." in cleared.message
    assert 'arose between "conv" (Conv2d) and "relu" (ReLU)' in between.message
    assert between.evidence[0].key == Key(Kind.INPUT, "relu")
    assert "code between these two for" in between.remedy


def test_a_bad_batch_is_named_as_such() -> None:
    found = only(view(7, outputs=[NAN, NAN, NAN], inputs=[NAN, NAN, NAN], loss=NAN))

    assert found.message.startswith("The model's input is not finite: the input of ")
    assert found.remedy.startswith("Check the batch of step 7 for")


def test_without_recorded_inputs_the_first_module_and_its_batch_are_both_suspects() -> None:
    found = only(view(7, outputs=[NAN, NAN, NAN], loss=NAN))

    assert 'arose in "conv" (Conv2d)' in found.message
    assert found.message.endswith("and it ran first.")
    assert found.remedy == (
        "Check the batch of step 7 for samples with NaN or infinite values and for scaling that divides by zero. "
        "Repair or drop them in the data loading."
    )


def test_a_loss_that_is_not_finite_over_finite_outputs_is_the_origin() -> None:
    found = only(view(outputs=[FINE, FINE, FINE], loss=POSINF, gradients=[NAN, NAN]))

    assert found.message == 'The loss "total" is not finite, while outputs were finite.'
    assert "`barograph replay`: it names the operation" in found.remedy


def test_a_loss_that_is_not_finite_over_finite_outputs_in_float16_overflowed() -> None:
    outputs = {Key(Kind.OUTPUT, name): replace(FINE, max=14_400.0) for name in LAYERS}
    half = StepView.of(0, {**outputs, LOSS: NAN}, layers={key: LAYERS[key.path] for key in outputs},
                       dtypes=dict.fromkeys(outputs, "float16"))

    first = only(half).causes[0]

    assert (first.cause, first.why) == (
        Cause.FP16_OVERFLOW,
        "outputs reach 14,400 in float16, whose largest value is 65504, and the loss sums over the batch")


def test_small_outputs_in_float16_do_not_explain_a_loss_that_is_not_finite() -> None:
    outputs = {Key(Kind.OUTPUT, name): replace(FINE, max=3.0) for name in LAYERS}
    half = StepView.of(0, {**outputs, LOSS: NAN}, layers={key: LAYERS[key.path] for key in outputs},
                       dtypes=dict.fromkeys(outputs, "float16"))

    assert Cause.FP16_OVERFLOW not in [item.cause for item in only(half).causes]


@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_a_loss_that_came_as_a_plain_number_is_looked_at_too(value: float) -> None:
    found = only(StepView.of(0, {LOSS: value, Key(Kind.OUTPUT, "fc"): FINE}))

    assert found.message == 'The loss "total" is not finite, while outputs were finite.'


def test_gradients_over_a_finite_loss_went_wrong_in_the_last_layer_that_shows_it() -> None:
    found = only(view(outputs=[FINE, FINE, FINE], gradients=[NAN, FINE], weights=[NAN, FINE]))

    assert found.message == (
        'Gradients failed first: that of "conv.weight" holds 4 NaN of 10 values, the last of 1 affected (of 2), '
        "while outputs and losses were finite."
    )
    assert 'check in and after "conv"' in found.remedy


def test_weights_alone_point_at_the_optimizer() -> None:
    found = only(view(outputs=[FINE, FINE, FINE], weights=[FINE, POSINF]))

    assert found.message == (
        'Weights failed first: "fc.weight" holds 2 infinite of 10 values, the first of 1 affected (of 2), while '
        "outputs, losses and gradients were finite."
    )
    assert found.remedy == (
        "Run again with `barograph run --record`, then run `barograph replay`: it names the operation and the "
        "samples. The gradients are finite, so the update caused it: check the optimizer, first its eps."
    )


def test_a_loss_that_had_grown_before_is_called_divergence() -> None:
    grown = [view(0, loss=one(2.0)), view(1, loss=one(9.0)), view(2, loss=one(8e4))]

    found = only(*grown, view(3, outputs=[POSINF, POSINF, NAN], loss=NAN))

    assert found.remedy == (
        "Lower the learning rate from 0.5 to 0.05, warm it up, or clip gradients to a norm of 1."
    )


def test_float16_is_told_where_it_ends() -> None:
    found = only(view(outputs=[FINE, POSINF, NAN], loss=NAN, dtype="float16"))

    assert found.remedy.startswith("Use bfloat16")


def test_steps_that_were_not_recorded_before_it_are_admitted() -> None:
    found = only(view(10, outputs=[FINE]), view(15, outputs=[NAN], loss=NAN))

    assert "(steps 11 to 14 were not recorded; it may have started there)." in found.message


def test_one_step_that_was_not_recorded_before_it_is_named_alone() -> None:
    found = only(view(10, outputs=[FINE]), view(12, outputs=[NAN], loss=NAN))

    assert "(step 11 was not recorded; it may have started there)." in found.message


def test_an_attention_mask_is_no_fault() -> None:
    assert judged(view(outputs=[FINE, MASK, FINE])) == [[]]


def test_an_attention_mask_is_not_mistaken_for_the_origin() -> None:
    found = only(view(outputs=[MASK, FINE, NAN], loss=NAN))

    assert found.evidence[0].key == Key(Kind.OUTPUT, "fc")


def test_nan_in_activations_alone_is_a_fault() -> None:
    alone = view(outputs=[FINE, NAN, FINE])

    assert only(alone).message == "NaN or infinite values in 1 of 3 outputs."
    assert 'arose in "relu"' in only(alone, rule=NonFiniteOrigin()).message


def test_gradients_of_a_step_that_the_scaler_skipped_are_no_fault() -> None:
    skipped = Step(tick=0, number=0, skipped=True)

    assert judged(view(skipped, gradients=[POSINF, NAN])) == [[]]
    assert judged(view(skipped, gradients=[POSINF, NAN], loss=NAN)) != [[]]


def test_evaluation_that_is_hit_because_training_is_makes_no_second_finding() -> None:
    evaluation = Step(tick=9, number=9, mode=Mode.EVAL)

    assert judged(view(8, loss=NAN), view(evaluation, loss=NAN))[-1] == [
        Unjudged("training already has non-finite values, and so has evaluation")
    ]
    assert len(judged(view(8), view(evaluation, loss=NAN))[-1]) == 1
    assert isinstance(judged(view(7, loss=NAN), view(8), view(evaluation, loss=NAN))[-1][0], Symptom)


def test_only_nan_lets_infinities_pass() -> None:
    rule = NonFinite(only_nan=True)

    assert judged(view(weights=[POSINF, FINE]), rule=rule) == [[]]
    assert judged(view(weights=[NAN, FINE]), rule=rule) != [[]]


def test_only_the_chosen_kinds_are_looked_at_and_asked_for() -> None:
    rule = NonFinite(kinds=("weight",))

    assert judged(view(gradients=[NAN, NAN]), rule=rule) == [[]]
    assert [need.kinds for need in rule.needs] == [frozenset({Kind.WEIGHT})]


# Where it arose (N102)


@pytest.mark.parametrize("outputs", [[NAN, NAN, NAN], []])
def test_where_no_module_can_be_named_the_origin_is_not_judged(outputs: list[Summary]) -> None:
    (found,) = judged(view(outputs=outputs, loss=NAN), rule=NonFiniteOrigin())[0]

    assert found == Unjudged("the first non-finite step does not show which module caused it")


def test_only_the_first_step_is_asked_for_the_origin() -> None:
    hit = view(outputs=[FINE, NAN, NAN], loss=NAN, weights=[NAN, NAN])
    later = view(1, outputs=[NAN, NAN, NAN], loss=NAN, weights=[NAN, NAN])

    first, second = judged(hit, later, rule=NonFiniteOrigin())

    assert isinstance(first[0], Symptom)
    assert second == [Unjudged("all values since the first failure are affected")]


def test_after_finite_steps_the_origin_is_asked_for_again() -> None:
    hit = view(outputs=[FINE, NAN, NAN], loss=NAN)

    found = judged(hit, view(1, outputs=[FINE, FINE, FINE]), hit, rule=NonFiniteOrigin())

    assert [[type(item) for item in items] for items in found] == [[Symptom], [], [Symptom]]


def test_a_finite_step_without_outputs_says_nothing_of_origins() -> None:
    (found,) = judged(view(), rule=NonFiniteOrigin())

    assert found == [Unjudged("no step recorded module outputs")]


@pytest.mark.parametrize(("operation", "cause"), [
    ("log", Cause.LOG_OF_ZERO), ("exp", Cause.EXP_OVERFLOW), ("div", Cause.DIVISION_BY_ZERO),
    ("sqrt", Cause.SQRT_OF_ZERO),
])
def test_the_operation_that_broke_the_loss_is_named(operation: str, cause: Cause) -> None:
    bad = StepView.of(0, {LOSS: math.inf, Key(Kind.OUTPUT, "fc"): FINE, fact(Fact.BAD_OPERATION, operation): 1.0})
    where, found = only(bad, rule=NonFiniteOrigin()), only(bad)

    assert where.message == f"The loss is not finite because of an operation in it: {operation}."
    assert (where.causes[0].cause, where.causes[0].weight) == (cause, 0.9)
    assert found.causes[0].cause == cause


def test_data_at_the_beginning_of_the_graph_that_is_not_finite_is_behind_the_loss() -> None:
    found = only(StepView.of(0, {LOSS: math.nan, fact(Fact.BAD_OPERATION): 1.0, fact(Fact.BAD_OPERATION, "data"): 1.0}))

    assert (found.causes[0].cause, found.causes[0].weight) == (Cause.NON_FINITE_INPUT, 0.7)
    assert found.remedy.startswith("Check the batch of step 0 for samples with NaN or infinite values")


def fed(batch: Summary, dtype: str = "float32", **facts: float) -> StepView:
    """Return a step whose loss is NaN, of whose graph it is known that data in it were not finite."""
    keys = {LOSS: NAN, Key(Kind.BATCH, "model[0]"): batch, Key(Kind.OUTPUT, "norm"): POSINF,
            fact(Fact.BAD_OPERATION): 1.0, fact(Fact.BAD_OPERATION, "data"): 1.0}
    return StepView.of(0, keys, dtypes={Key(Kind.OUTPUT, "norm"): dtype})


def test_data_in_the_graph_of_which_the_batch_was_finite_were_made_of_it() -> None:
    charged, cleared, half = only(fed(NAN)), only(fed(FINE)), only(fed(FINE, "float16"))

    assert charged.causes[0].cause == Cause.NON_FINITE_INPUT
    assert charged.remedy.startswith("Check the batch of step 0 for")
    assert {item.cause for item in cleared.causes[:3]} == {
        Cause.EXP_OVERFLOW, Cause.DIVISION_BY_ZERO, Cause.LOG_OF_ZERO}
    assert "a computation on the batch alone produced it" in cleared.causes[0].why
    assert not cleared.remedy.startswith("Check the batch of step 0 for")
    assert half.causes[0].cause == Cause.FP16_OVERFLOW


@pytest.mark.parametrize(("largest", "dtype", "cause", "why"), [
    (400.0, "float16", Cause.FP16_OVERFLOW, "the square of 400 exceeds it"),
    (20.0, "float16", Cause.FP16_OVERFLOW, "largest value is 65504"),
    (400.0, "float32", Cause.EXP_OVERFLOW, "alone produced it"),
])
def test_what_was_made_of_a_batch_in_half_precision_overflows(
    largest: float, dtype: str, cause: Cause, why: str
) -> None:
    batch = Key(Kind.BATCH, "model[0]")
    keys = {LOSS: NAN, batch: replace(FINE, max=largest), Key(Kind.OUTPUT, "norm"): NAN,
            fact(Fact.BAD_OPERATION): 1.0, fact(Fact.BAD_OPERATION, "data"): 1.0}
    found = only(StepView.of(0, keys, dtypes={batch: dtype}))

    assert found.causes[0].cause == cause
    assert found.causes[0].why.endswith(why)


def test_a_first_module_that_is_fed_badly_of_a_finite_batch_lies_behind_what_is_computed_of_it() -> None:
    found = only(view(7, batch=FINE, outputs=[NAN, NAN, NAN], inputs=[NAN, NAN, NAN], loss=NAN), rule=NonFiniteOrigin())

    assert 'arose between the batch and "conv" (Conv2d), the first module that ran: the batch is' in found.message
    assert found.causes[0].cause != Cause.NON_FINITE_INPUT


def test_infinities_of_float16_are_overflow() -> None:
    found = only(view(outputs=[FINE, POSINF, NAN], loss=NAN, dtype="float16"), rule=NonFiniteOrigin())

    assert (found.causes[0].cause, found.causes[0].weight) == (Cause.FP16_OVERFLOW, 0.8)


# Why (N101)


def causes(*views: StepView) -> list[str]:
    return [str(item.cause) for item in only(*views).causes]


def test_a_loss_that_grew_before_speaks_for_the_learning_rate() -> None:
    grown = [view(0, loss=one(2.0)), view(1, loss=one(9.0)), view(2, loss=one(8e4))]

    found = only(*grown, view(3, loss=NAN)).causes[0]

    assert (found.cause, found.weight) == (Cause.LEARNING_RATE_TOO_HIGH, 0.6)
    assert found.why == "the loss had grown from 2 to 80,000 by step 2: training diverged"
    assert found.remedy == "Lower the learning rate from 0.5 to 0.05, warm it up, or clip gradients to a norm of 1."


def test_gradients_that_grew_in_a_recurrent_model_speak_for_clipping() -> None:
    def gradient(step: int, norm: float, loss: Summary = FINE) -> StepView:
        key = Key(Kind.GRADIENT, "rnn.weight_hh")
        return StepView.of(step, {key: replace(FINE, sum_sq=norm**2), LOSS: loss}, layers={key: "LSTM"})

    assert Cause.NO_GRADIENT_CLIPPING in causes(gradient(0, 1.0), gradient(1, 50.0), gradient(2, 1.0, NAN))
    assert Cause.NO_GRADIENT_CLIPPING not in causes(gradient(0, 1.0), gradient(1, 5.0), gradient(2, 1.0, NAN))


def test_a_bad_batch_speaks_for_itself() -> None:
    batch = Key(Kind.BATCH, "model[0]")

    assert causes(StepView.of(0, {LOSS: math.nan, batch: NAN}))[0] == Cause.NON_FINITE_INPUT
    assert causes(StepView.of(0, {LOSS: math.nan, batch: FINE}))[0] != Cause.NON_FINITE_INPUT
    assert causes(StepView.of(0, {LOSS: math.nan, batch: MASK}))[0] != Cause.NON_FINITE_INPUT


@pytest.mark.parametrize("hit", [
    {"outputs": [FINE, FINE, NAN], "loss": NAN}, {"outputs": [FINE, FINE, FINE], "loss": NAN, "gradients": [NAN, NAN]},
    {"gradients": [FINE, NAN]}, {"weights": [FINE, NAN]}, {"loss": NAN, "gradients": [NAN, NAN]},
])
def test_without_evidence_the_cause_is_not_known_and_no_learning_rate_is_blamed(hit: dict[str, Any]) -> None:
    steady = [view(0, loss=one(2.0)), view(1, loss=one(1.9))]

    found = only(*steady, view(2, **hit))

    assert found.causes[0].cause == Cause.NOT_KNOWN_YET
    assert "the loss and the gradient norm had not grown before" in found.causes[0].why
    assert "barograph run --record" in found.remedy
    assert Cause.LEARNING_RATE_TOO_HIGH not in [item.cause for item in found.causes]


@pytest.mark.parametrize(("operation", "finite_loss", "cause"), [
    ("log_of_negative", False, Cause.OUT_OF_DOMAIN), ("acos", False, Cause.OUT_OF_DOMAIN),
    ("acos", True, Cause.INFINITE_DERIVATIVE), ("svd", True, Cause.INFINITE_DERIVATIVE),
    ("sqrt", True, Cause.SQRT_OF_ZERO), ("std", False, Cause.DIVISION_BY_ZERO), ("softmax", False, Cause.FULLY_MASKED),
    ("bmm_float16", False, Cause.FP16_OVERFLOW), ("softmax_float16", False, Cause.FP16_OVERFLOW),
    ("softmax_of_infinity", False, Cause.FULLY_MASKED),
    ("ctc_loss", False, Cause.OUT_OF_DOMAIN),
])
def test_an_operation_seen_at_the_call_is_the_cause(operation: str, finite_loss: bool, cause: Cause) -> None:
    gradient = Key(Kind.GRADIENT, "fc.weight")
    bad = StepView.of(0, {LOSS: 1.0 if finite_loss else math.nan, gradient: NAN,
                          fact(Fact.BAD_OPERATION, operation): 1.0})
    found, where = only(bad), only(bad, rule=NonFiniteOrigin())

    assert (found.causes[0].cause, found.causes[0].weight) == (cause, 0.9)
    assert (where.causes[0].cause, where.remedy) == (cause, found.remedy)


def no_label(step: int) -> StepView:
    return StepView.of(step, {LOSS: math.nan, fact(Fact.BAD_OPERATION): 1.0, fact(Fact.BAD_OPERATION, "mean"): 1.0})


def test_batches_without_a_label_are_one_mild_finding_that_counts_them() -> None:
    found = symptoms(NonFinite(), [view(0), no_label(1), view(2), view(3), no_label(4)])

    assert [item.subject for item in found] == ["loss alone", "loss alone"]
    assert all((item.counting, item.severity) == (True, Severity.DOUBTFUL) for item in found)
    assert found[-1].message == ("2 of 5 batches had no labels to average, so their loss is NaN. Training "
                                 "continues, but the mean over all losses is NaN.")
    assert found[-1].causes[0].cause == Cause.NOTHING_TO_AVERAGE
    assert "clamp(min=1)" in found[-1].remedy


def test_a_loss_that_is_nan_over_finite_gradients_is_mild() -> None:
    found = only(view(0), view(1, outputs=[FINE, FINE, FINE], loss=NAN))

    assert (found.subject, found.severity) == ("loss alone", Severity.DOUBTFUL)


@pytest.mark.parametrize("hit", [{"gradients": [NAN, FINE]}, {"weights": [NAN, FINE]}, {"gradients": []}])
def test_a_loss_that_is_nan_with_the_gradients_or_over_none_seen_is_breaking(hit: dict[str, Any]) -> None:
    found = only(view(0), view(1, loss=NAN, **hit))

    assert (found.subject, found.severity) == ("", None)


def test_a_loss_that_stays_nan_is_breaking_though_gradients_are_finite() -> None:
    found = symptoms(NonFinite(), [view(0), *(view(step, loss=NAN) for step in range(1, 12))])

    assert [item.subject for item in found] == ["loss alone"] * 9 + [""] * 2


def test_weights_of_float16_that_no_gradient_explains_are_the_optimizers_epsilon() -> None:
    found = only(view(outputs=[FINE, FINE, FINE], weights=[FINE, NAN], dtype="float16"))

    assert found.causes[0].cause == Cause.FP16_UNDERFLOW
    assert "raise eps from 1e-8 to 1e-4" in found.remedy


def test_nan_in_float16_without_an_infinity_is_not_called_an_overflow() -> None:
    assert causes(view(outputs=[FINE, NAN, NAN], loss=NAN, dtype="float16"))[0] == Cause.NOT_KNOWN_YET


def test_the_place_speaks_where_nothing_else_does() -> None:
    assert causes(view(outputs=[FINE, FINE, FINE], loss=POSINF))[:2] == [Cause.NOT_KNOWN_YET, Cause.LOG_OF_ZERO]
    assert causes(view(outputs=[FINE, FINE, FINE], gradients=[NAN, FINE]))[:2] == [
        Cause.NOT_KNOWN_YET, Cause.SQRT_OF_ZERO]
