"""VanishingGradient and GradientNormSpike."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace

import pytest

from barograph.model.facts import Fact
from barograph.model.finding import Symptom
from barograph.model.key import Key, Kind
from barograph.model.step import Step
from barograph.model.summary import Summary
from barograph.rules.base import Memory, Rule, Unjudged
from barograph.rules.exploding import ExplodingGradient
from barograph.rules.gradients import GradientNormSpike, VanishingGradient
from barograph.rules.words import CLIPPING
from barograph.runs.reading.view import StepView
from judging import facts

LOSS = Key(Kind.LOSS, "total")
RATE = Key(Kind.LEARNING_RATE, "group0")


def summary(norm: float, *, count: int = 100, zeros: int = 0) -> Summary:
    """Return the Summary of `count` elements of one magnitude, but for the zeros, with that norm."""
    filled = count - zeros
    each = norm / math.sqrt(filled) if filled else 0.0
    return Summary(count=count, zeros=zeros, min=-each, max=each, sum=0.0, sum_sq=norm**2, sum_abs=filled * each)


def gradients(
    norms: Mapping[str, float | Summary], step: int | Step = 0, *, layers: Mapping[str, str] | None = None,
    outputs: Mapping[str, str] | None = None, kind: Kind = Kind.GRADIENT, loss: float | None = None,
) -> StepView:
    """Return the view of a step with these gradient norms, by path of parameter."""
    records: dict[Key, Summary | float] = {
        Key(kind, path): item if isinstance(item, Summary) else summary(item) for path, item in norms.items()
    }
    classes = {key: (layers or {}).get(key.path, "Linear") for key in records}
    for path, layer in (outputs or {}).items():
        records[Key(Kind.OUTPUT, path)] = summary(1.0)
        classes[Key(Kind.OUTPUT, path)] = layer
    records[RATE] = 0.1
    if loss is not None:
        records[LOSS] = loss
    return StepView.of(step, records, layers=classes)


def said(rule: Rule, *views: StepView) -> list[list[Symptom | Unjudged]]:
    memory: Memory = {}
    return [list(rule.judge(view, memory)) for view in views]


def only(rule: Rule, *views: StepView) -> Symptom:
    (symptom,) = said(rule, *views)[-1]
    assert isinstance(symptom, Symptom)
    return symptom


def test_a_layer_far_below_the_greatest_has_vanished() -> None:
    found = only(VanishingGradient(), gradients({"a.weight": 5e-4, "b.weight": 0.1, "c.weight": 1.0}))

    assert found.message == (
        'The gradient vanishes in 1 of 3 layers: its norm at "a" (Linear) is 0.0005, 0.0005 of that at "c" (Linear).'
    )
    assert found.evidence[0].key == Key(Kind.GRADIENT, "a.weight")
    assert found.evidence[0].value == pytest.approx(5e-4)


def test_gradients_of_one_size_are_well() -> None:
    assert said(VanishingGradient(), gradients({"a.weight": 2e-3, "b.weight": 1.0})) == [[]]


def test_gradients_that_are_small_in_all_layers_alike_are_those_of_a_converged_model() -> None:
    assert said(VanishingGradient(), gradients({"a.weight": 1e-9, "b.weight": 3e-9})) == [[]]


def test_the_threshold_on_the_mean_magnitude_counts_where_the_ratio_is_poor_too() -> None:
    rule = VanishingGradient(ratio=1e-6)

    assert said(rule, gradients({"a.weight": 5e-7, "b.weight": 1e-5})) == [[]]
    assert only(rule, gradients({"a.weight": 5e-7, "b.weight": 1e-3})).evidence[0].text.endswith("5e-8")


def test_the_worst_layers_come_first() -> None:
    norms = {"a.weight": 1e-6, "b.weight": 1e-8, "c.weight": 1e-5, "d.weight": 1.0}

    found = only(VanishingGradient(), gradients(norms))

    assert [item.key.path for item in found.evidence if item.key] == ["b.weight", "a.weight", "c.weight"]


def test_a_bias_whose_gradient_is_noise_does_not_make_its_layer_vanish() -> None:
    view = gradients({"a.weight": 0.5, "a.bias": 1e-9, "b.weight": 1.0}, layers={"a.weight": "Conv2d"})

    assert said(VanishingGradient(), view) == [[]]


@pytest.mark.parametrize("layer", ["LayerNorm", "BatchNorm2d", "RMSNorm", "Embedding"])
def test_layers_with_small_gradients_by_their_make_are_not_judged(layer: str) -> None:
    view = gradients({"a.weight": 1e-6, "b.weight": 1.0, "c.weight": 1.0}, layers={"a.weight": layer})

    assert said(VanishingGradient(), view) == [[]]


def test_unused_parameters_with_gradients_of_zero_are_not_judged() -> None:
    assert said(VanishingGradient(), gradients({"a.weight": 0.0, "b.weight": 1.0, "c.weight": 1.0})) == [[]]


def test_frozen_parameters_have_no_gradient_and_are_not_judged() -> None:
    (all_facts,) = said(VanishingGradient(), gradients({"head.weight": 1.0}))[0]

    assert all_facts == Unjudged("fewer than two layers with gradients were recorded")


def test_what_is_not_finite_is_left_to_the_rule_for_it() -> None:
    broken = replace(summary(1e-9), nan=3)

    assert said(VanishingGradient(), gradients({"a.weight": broken, "b.weight": 1.0, "c.weight": 1.0})) == [[]]


def test_a_step_that_the_scaler_skipped_is_not_judged() -> None:
    skipped = gradients({"a.weight": 1e-9, "b.weight": 1.0}, Step(0, 0, skipped=True))

    assert isinstance(said(VanishingGradient(), skipped)[0][0], Unjudged)


def test_the_mean_is_over_elements_that_are_not_zero() -> None:
    sparse = summary(1e-3, count=1_000_000, zeros=999_900)

    assert said(VanishingGradient(threshold=1e-5), gradients({"a.weight": sparse, "b.weight": 0.5})) == [[]]


@pytest.mark.parametrize(
    ("outputs", "layers", "remedy"),
    [
        ({"1": "Sigmoid", "3": "Sigmoid", "4": "Linear"}, {}, "Replace 2 Sigmoid layers by ReLU or GELU"),
        ({"1": "ReLU"}, {}, "and add a normalization layer (BatchNorm, LayerNorm) after each layer"),
        ({"1": "ReLU", "2": "LayerNorm"}, {}, "and add residual paths around blocks of layers that have none."),
    ],
)
def test_the_remedy_is_for_this_model(outputs: dict[str, str], layers: dict[str, str], remedy: str) -> None:
    found = only(VanishingGradient(), gradients({"a.weight": 1e-6, "b.weight": 1.0}, outputs=outputs, layers=layers))

    assert remedy in found.remedy


def test_every_tenth_step_is_judged() -> None:
    found = said(VanishingGradient(), *(gradients({"a.weight": 1e-6, "b.weight": 1.0}, step) for step in range(3, 25)))

    assert [step for step, items in enumerate(found, 3) if isinstance(items[0], Symptom)] == [3, 13, 23]


def judged(*shares: float, steps: Sequence[int]) -> list[int]:
    """Return the steps at which a layer with these shares of the greatest gradient has vanished."""
    views = [gradients({"a.weight": share, "b.weight": 1.0}, step) for share, step in zip(shares, steps, strict=True)]
    found = said(VanishingGradient(), *views)
    return [step for step, items in zip(steps, found, strict=True) if any(isinstance(item, Symptom) for item in items)]


def test_a_gradient_that_gains_on_the_others_recovers_by_itself() -> None:
    assert judged(1e-6, 1e-5, 5e-5, 6.5e-5, 8.4e-5, 1.1e-4, 1.4e-4, steps=range(0, 70, 10)) == [0]


def test_a_gradient_that_swings_below_what_it_was_has_vanished() -> None:
    assert judged(1e-6, 1.05e-6, 5e-7, 1e-6, 8e-7, steps=range(0, 50, 10)) == [0, 10, 20, 30, 40]


def test_a_swing_upwards_is_no_proof_of_health() -> None:
    shares = (1e-6, 3e-6, 1e-6, 4e-6, 1e-6, 5e-2)
    views = [gradients({"a.weight": share, "b.weight": 1.0}, 10 * at) for at, share in enumerate(shares)]
    kinds = [[type(item).__name__ for item in items] for items in said(VanishingGradient(), *views)]
    assert kinds == [["Symptom"], ["Unjudged"], ["Symptom"], ["Unjudged"], ["Symptom"], []]


def test_under_a_budget_what_was_recorded_is_judged_no_more_often_than_every_tenth_step() -> None:
    assert judged(*[1e-6] * 6, steps=[0, 7, 14, 214, 221, 228]) == [0, 14, 214, 228]


def steady(count: int, norm: float = 1.0, loss: float | None = 1.0, first: int = 0) -> list[StepView]:
    """Return steps whose gradient norms and losses swing by a tenth about their level."""
    swing = (1.0, 1.1, 0.9, 1.05, 0.95)
    return [
        gradients({"a.weight": norm * swing[step % 5]}, step, loss=None if loss is None else loss * swing[step % 5])
        for step in range(first, first + count)
    ]


def test_a_gradient_twelve_times_its_level_with_a_loss_above_its_own_is_a_spike() -> None:
    spike = gradients({"a.weight": 12.0, "b.weight": 0.1}, 30, loss=3.0)

    found = only(GradientNormSpike(), *steady(30), spike)

    assert found.message == "The gradient norm is 12, 12 times its usual level (1)."
    assert found.remedy == (
        f"Look at the batch of step 30, and clip gradients to a norm of 2 ({CLIPPING}). Lower the learning rate from "
        "0.1 to 0.0333 if spikes come back."
    )
    assert [item.key.path if item.key else None for item in found.evidence] == [None, "a.weight", "b.weight"]


def test_the_usual_swing_is_no_spike() -> None:
    assert [item for item in said(GradientNormSpike(), *steady(200))[20:] if item] == []


def test_nine_times_the_level_is_let_pass() -> None:
    assert said(GradientNormSpike(), *steady(30), gradients({"a.weight": 9.0}, 30, loss=3.0))[-1] == []


def test_a_gradient_that_grows_while_the_loss_falls_leaves_a_plateau() -> None:
    assert said(GradientNormSpike(), *steady(30), gradients({"a.weight": 30.0}, 30, loss=0.8))[-1] == []


def test_where_no_loss_was_recorded_the_gradient_alone_decides() -> None:
    assert said(GradientNormSpike(), *steady(30, loss=None), gradients({"a.weight": 12.0}, 30))[-1] != []


def test_gradients_that_always_jump_have_no_spikes() -> None:
    wild = [gradients({"a.weight": 10.0 ** (step % 5 - 2)}, step) for step in range(60)]

    assert said(GradientNormSpike(), *wild, gradients({"a.weight": 1e3}, 60))[-1] == []


def test_a_jump_within_what_training_has_been_through_is_no_spike() -> None:
    views = [*steady(50), *steady(50, first=50), *steady(100, norm=1e-3, loss=1e-3, first=100)]

    assert said(GradientNormSpike(), *views, gradients({"a.weight": 1.0}, 200, loss=1.0))[-1] == []
    assert said(GradientNormSpike(), *views, gradients({"a.weight": 20.0}, 200, loss=1.0))[-1] != []


def test_early_steps_are_not_judged() -> None:
    last = said(GradientNormSpike(), *steady(19), gradients({"a.weight": 100.0}, 19, loss=5.0))[-1]

    assert last == [Unjudged("20 gradients so far; needs 20")]


def test_under_a_budget_a_spike_stands_out_from_what_was_recorded() -> None:
    def every_seventh(views: list[StepView]) -> list[StepView]:
        for index, view in enumerate(views):
            number = 7 * index if index < 20 else 7 * index + 200
            view.step = replace(view.step, number=number)
        return views

    spike = gradients({"a.weight": 12.0, "b.weight": 0.1}, 30, loss=3.0)
    found = said(GradientNormSpike(), *every_seventh([*steady(40), spike]))

    assert [type(item) for items in found[20:] for item in items] == [Unjudged, Symptom]
    assert found[20] == [Unjudged("the 206 steps before it were not recorded, so a sudden rise cannot be detected")]


@pytest.mark.parametrize("norm", [0.0, replace(summary(1.0), posinf=1)])
def test_a_gradient_of_zero_or_not_finite_is_not_judged(norm: float | Summary) -> None:
    last = said(GradientNormSpike(), *steady(30), gradients({"a.weight": norm}, 30))[-1]

    assert last == [Unjudged("no finite, nonzero gradient was recorded")]


def test_where_the_script_clips_the_remedy_says_what_clipping_did() -> None:
    spike = gradients({"a.weight": 12.0}, 30, loss=3.0)
    clipped = Key(Kind.GRADIENT_CLIPPED, "a.weight")
    both = StepView.of(30, {Key(Kind.GRADIENT, "a.weight"): summary(12.0), clipped: summary(1.0), LOSS: 3.0})
    assert "clip gradients to a norm of 2" in only(GradientNormSpike(), *steady(30), spike).remedy

    found = only(GradientNormSpike(), *steady(30), both)

    assert found.remedy == (
        "Look at the batch of step 30. Clipping reduced this gradient to a norm of 1, so the step did little harm."
    )


def test_the_window_forgets_what_is_old() -> None:
    memory: Memory = {}
    rule = GradientNormSpike(window=20)
    for view in steady(100):
        list(rule.judge(view, memory))

    assert len(memory["log_norms"]) == 20
    assert len(memory["losses"]) == 20


ACTOR_CRITIC = {"actor.0.weight": 1e-4, "actor.2.weight": 2e-4, "critic.0.weight": 1.0, "critic.2.weight": 2.0}


def parallel(step: int, critic: int) -> StepView:
    norms = {Key(Kind.GRADIENT, path): summary(norm) for path, norm in ACTOR_CRITIC.items()}
    all_facts = {(Fact.HEADS, path): float(bits) for path, bits in
            {"actor.0": 1, "actor.2": 1, "critic.0": critic, "critic.2": critic}.items()}
    return StepView.of(step, {**norms, **facts(all_facts)}, layers=dict.fromkeys(norms, "Linear"))


def test_layers_on_parallel_paths_with_losses_of_their_own_are_not_compared() -> None:
    assert said(VanishingGradient(), *(parallel(step, critic=2) for step in (0, 10, 20))) == [[], [], []]


def test_layers_on_one_path_are_compared() -> None:
    assert "actor.0" in only(VanishingGradient(), parallel(0, critic=1)).message


def test_a_path_of_its_own_that_vanishes_is_found_beside_another() -> None:
    norms = {Key(Kind.GRADIENT, path): summary(norm) for path, norm in
             {"a.0.weight": 1e-6, "a.1.weight": 1e-2, "b.0.weight": 10.0, "b.1.weight": 10.0}.items()}
    all_facts = facts(
        {(Fact.HEADS, path): bits for path, bits in {"a.0": 1.0, "a.1": 1.0, "b.0": 2.0, "b.1": 2.0}.items()}
    )
    found = only(VanishingGradient(), StepView.of(0, {**norms, **all_facts}, layers=dict.fromkeys(norms, "Linear")))

    assert 'vanishes in 1 of 4 layers: its norm at "a.0"' in found.message
    assert '"a.1"' in found.message


def reversed_rows(*paths: str, step: int = 0) -> StepView:
    """Return gradients that vanish towards the input, in the order in which they came: the last layer's first."""
    return StepView.of(step, {Key(Kind.GRADIENT, path): summary(100.0**-place) for place, path in enumerate(paths)})


def test_rows_in_backward_order_vanish_and_do_not_explode() -> None:
    views = [reversed_rows("8.weight", "6.weight", "4.weight", "2.weight", "0.weight", step=step)
             for step in (0, 10, 20, 30)]

    assert 'its norm at "0"' in only(VanishingGradient(), *views).message
    assert said(ExplodingGradient(), *views)[-1] == []


def test_rows_whose_names_tell_no_order_are_not_judged() -> None:
    found = said(VanishingGradient(), reversed_rows("out.weight", "dec.weight", "mid.weight", "enc.weight"))

    assert isinstance(found[0][0], Unjudged)
    assert "order of the layers" in found[0][0].reason


def test_the_order_in_which_layers_ran_goes_before_names() -> None:
    names = ("9", "7", "5", "3", "1")
    ran = StepView.of(0, {Key(Kind.OUTPUT, name): summary(1.0) for name in names})
    gradients_then = [
        StepView.of(step, {Key(Kind.GRADIENT, f"{name}.weight"): summary(100.0**-place)
                           for place, name in enumerate(names)}) for step in (10, 20, 30)]

    assert isinstance(said(ExplodingGradient(), ran, *gradients_then)[-1][0], Symptom)


def test_what_is_lost_wholly_is_judged_every_third_step() -> None:
    views = [gradients({"a.weight": 1e-9, "b.weight": 1.0}, step) for step in range(10)]

    assert [view.step.number for view, items in zip(views, said(VanishingGradient(), *views), strict=True)
            if isinstance(items[0], Symptom)] == [0, 3, 6, 9]


def test_what_is_lost_wholly_swings_with_the_greatest_and_is_found_within_ten_steps() -> None:
    views = [gradients({"a.weight": 1e-12, "b.weight": greatest}, step)
             for step, greatest in enumerate((0.9, 1.0, 0.5, 0.5, 0.6, 0.8, 0.4, 0.7, 0.8, 0.9))]

    assert sum(isinstance(item, Symptom) for items in said(VanishingGradient(), *views) for item in items) == 4


def test_layers_begun_at_nearly_nothing_that_grow_out_of_it_are_let_pass() -> None:
    views = [gradients({"a.weight": 1e-8 * 5.0**step, "b.weight": 1.0}, step) for step in range(10)]

    assert not any(isinstance(item, Symptom) for items in said(VanishingGradient(), *views)[1:] for item in items)
