"""ActivationCollapse: layers that answer all inputs alike."""

from __future__ import annotations

import numpy as np
import pytest

from barograph.model.cause import Cause
from barograph.model.finding import Symptom
from barograph.model.key import Key, Kind
from barograph.model.records import UnitSummaries
from barograph.model.summary import Summary
from barograph.rules.base import Unjudged
from barograph.rules.collapse import ActivationCollapse, varying_share
from barograph.runs.reading.view import StepView
from literals import RATE, causes, last, of_norm, said, subjects


def units_of(outputs: np.ndarray) -> UnitSummaries:
    """Of an array (samples, units), written plainly."""
    rows = [[float((unit == 0).sum()), 0, 0, unit.min(), unit.max(), unit.sum(), (unit**2).sum()] for unit in outputs.T]
    return UnitSummaries(len(outputs), np.array(rows, float))


def outputs(spread: float, *, samples: int = 32, units: int = 8, level: float = 1.0) -> UnitSummaries:
    generator = np.random.default_rng(0)
    return units_of(level + spread * generator.standard_normal((samples, units)))


def layers(number: int, *found: UnitSummaries, classes: tuple[str, ...] = ()) -> StepView:
    keys = [Key(Kind.OUTPUT, str(index)) for index in range(len(found))]
    records: dict[Key, Summary | float] = dict.fromkeys(keys, of_norm(1.0))
    records[RATE] = 0.1
    names = classes or ("Linear",) * len(found)
    return StepView.of(number, records, layers=dict(zip(keys, names, strict=True)),
                       units=dict(zip(keys, found, strict=True)))


WELL, COLLAPSED = outputs(1.0), outputs(1e-4)


@pytest.mark.parametrize("spread", [0.0, 1e-3, 1.0])
def test_the_share_that_varies_is_that_of_the_plain_formula(spread: float) -> None:
    values = 1.0 + spread * np.random.default_rng(0).standard_normal((32, 8))

    assert varying_share(units_of(values)) == pytest.approx(values.var(axis=0).sum() / (values**2).mean(axis=0).sum(),
                                                            abs=1e-12)


def test_a_layer_that_answers_all_alike_is_named() -> None:
    found = last(ActivationCollapse(), layers(20, WELL, WELL), layers(50, WELL, COLLAPSED))

    assert found.message.startswith('Outputs of "1" are almost identical for every input')
    assert found.evidence[0].key == Key(Kind.OUTPUT, "1")
    assert list(causes(found)) == [Cause.REPRESENTATION_COLLAPSE, Cause.LEARNING_RATE_TOO_HIGH]


def test_one_that_never_was_well_points_at_the_initialisation() -> None:
    assert Cause.INITIALIZATION_SCALE in causes(last(ActivationCollapse(), layers(50, WELL, COLLAPSED)))


def with_losses(losses: list[float], *, batches: bool = False) -> list[StepView]:
    """The first steps; with batches, of which that of the highest loss is a hundred times as large as the others."""
    views = []
    for number, loss in enumerate(losses):
        records: dict[Key, Summary | float] = {Key(Kind.LOSS, "cross_entropy"): loss, RATE: 0.8}
        if batches:
            records[Key(Kind.BATCH, "model[0]")] = of_norm(1000.0 if loss == max(losses) else 10.0)
        views.append(StepView.of(number, records))
    return views


def test_a_collapse_after_the_loss_exploded_points_at_the_learning_rate() -> None:
    losses = [2.3, 2.2, 2.1, 2.3, 9.2, 4.4, 1e5, 29.6, 3.0, 2.3]

    found = last(ActivationCollapse(), *with_losses(losses), layers(50, WELL, COLLAPSED))

    first = found.causes[0]
    assert first.cause == Cause.LEARNING_RATE_TOO_HIGH
    assert first.why == "the loss rose from 2.3 to 100,000 at step 6"
    assert first.remedy == "Lower the learning rate from 0.8 to 0.08."
    assert found.remedy.startswith("Lower the learning rate from 0.1 to 0.01; add")
    assert Cause.INITIALIZATION_SCALE not in causes(found)


def test_a_collapse_after_an_odd_batch_points_at_its_sample() -> None:
    losses = [2.3, 2.2, 2.1, 2.3, 2.2, 2.1, 1e5, 29.6, 3.0, 2.3]

    found = last(ActivationCollapse(), *with_losses(losses, batches=True), layers(50, WELL, COLLAPSED))

    assert found.causes[0].cause == Cause.BAD_SAMPLE
    assert Cause.LEARNING_RATE_TOO_HIGH not in causes(found)


def test_an_explosion_that_the_layers_survived_is_not_the_cause_of_a_later_collapse() -> None:
    losses = [2.3, 2.2, 2.1, 2.3, 9.2, 4.4, 1e5, 29.6, 3.0, 2.3]

    found = last(ActivationCollapse(), *with_losses(losses), layers(50, WELL, WELL), layers(5050, WELL, COLLAPSED))

    assert not any("100,000" in cause.why for cause in found.causes)


def test_a_high_first_loss_is_no_explosion() -> None:
    found = last(ActivationCollapse(), *with_losses([1e5, 9e4, 2e5, 40.0, 2.3]), layers(50, WELL, COLLAPSED))

    assert found.causes[0].cause == Cause.REPRESENTATION_COLLAPSE
    assert Cause.INITIALIZATION_SCALE in causes(found)


def test_layers_that_vary_a_little_are_let_pass() -> None:
    assert subjects(ActivationCollapse(), layers(50, WELL, outputs(0.03))) == [[]]


def test_a_batch_of_one_sample_many_times_says_nothing() -> None:
    assert isinstance(said(ActivationCollapse(), layers(50, COLLAPSED, COLLAPSED))[0][0], Unjudged)


def test_layers_of_few_units_or_few_outputs_are_not_judged() -> None:
    few = [outputs(1e-4, units=3), outputs(1e-4, samples=4)]

    assert isinstance(said(ActivationCollapse(), layers(50, WELL, *few))[0][0], Unjudged)


def test_layers_that_are_all_zero_are_left_to_others() -> None:
    assert subjects(ActivationCollapse(), layers(50, WELL, outputs(0.0, level=0.0))) == [[]]


def test_a_layer_that_comes_alive_is_given_time() -> None:
    found = said(ActivationCollapse(), layers(20, WELL, outputs(1e-4)), layers(50, WELL, outputs(2e-3)))

    assert [type(item) for item in found[0]] == [Symptom]
    assert found[1] == [Unjudged("the outputs of a layer are almost identical, but spreading")]


def test_the_first_steps_are_not_judged() -> None:
    assert isinstance(said(ActivationCollapse(), layers(10, WELL, COLLAPSED))[0][0], Unjudged)


def test_steps_that_recorded_some_of_the_layers_for_other_rules_are_not_judged() -> None:
    found = said(ActivationCollapse(), layers(20, WELL, WELL, COLLAPSED), layers(40, WELL, WELL))

    assert [[type(item) for item in items] for items in found] == [[Symptom], [Unjudged]]
