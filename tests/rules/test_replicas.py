"""ReplicasDiverge and SameDataOnAllWorkers."""

from __future__ import annotations

import pytest

from barograph.model.facts import Fact
from barograph.model.finding import Severity
from barograph.model.key import Key, Kind
from barograph.model.summary import Summary
from barograph.rules.base import Unjudged
from barograph.rules.replicas import ReplicasDiverge, SameDataOnAllWorkers
from barograph.runs.reading.view import StepView
from judging import causes, facts, said, symptoms


def tensor(scale: float) -> Summary:
    return Summary(count=4, min=-scale, max=2 * scale, sum=2.0 * scale, sum_sq=6.0 * scale**2, sum_abs=4.0 * scale)


def trained(weights: list[float], gradients: list[float], *, layers: int = 3, shards: bool = False) -> StepView:
    records: dict[str, dict[Key, Summary | float]] = {
        f"r{rank}": {
            **{Key(Kind.WEIGHT, f"{at}.weight"): tensor(weight) for at in range(layers)},
            **{Key(Kind.GRADIENT, f"{at}.weight"): tensor(gradient) for at in range(layers)},
        }
        for rank, (weight, gradient) in enumerate(zip(weights, gradients, strict=True))
    }
    split = tuple(records["r0"]) if shards else ()
    return StepView.of(1, workers=records, shards=split)


def test_weights_that_differ_with_their_gradients_were_not_averaged() -> None:
    (symptom,) = symptoms(ReplicasDiverge(), [trained([1.0, 1.01], [0.1, 0.3])])

    assert symptom.message == ("The workers' models differ: \"0.weight\", \"1.weight\" and \"2.weight\" (sum 2 on r0 "
                               "and 2.02 on r1).")
    assert causes(symptom) == ["gradients-not-averaged"]
    assert symptom.causes[0].why == "3 of 3 weights differ between workers, and so do their gradients"


def test_weights_that_differ_although_gradients_agree_began_apart() -> None:
    (symptom,) = symptoms(ReplicasDiverge(), [trained([1.0, 1.01], [0.1, 0.1])])

    assert "started from different states" in symptom.causes[0].why


@pytest.mark.parametrize(
    "view",
    [trained([1.0, 1.0], [0.1, 0.1]), trained([1.0, 1.0], [0.1, 0.3]), trained([1.0, 1.0 + 1e-7], [0.1, 0.1])],
    ids=["one", "gradients before they are reduced", "the last bit"],
)
def test_copies_that_agree_are_well(view: StepView) -> None:
    assert said(ReplicasDiverge(), [view]) == [[]]


def test_copies_that_differ_in_nothing_but_a_sign_differ() -> None:
    weight, flipped = Key(Kind.WEIGHT, "fc.weight"), Summary(count=4, sum=1.0, sum_sq=6.0, sum_abs=4.0)
    view = StepView.of(1, workers={"r0": {weight: tensor(1.0)}, "r1": {weight: flipped}})

    assert len(symptoms(ReplicasDiverge(), [view])) == 1


def test_parts_of_a_split_tensor_and_single_workers_are_not_compared() -> None:
    parts = said(ReplicasDiverge(), [trained([1.0, 1.01], [0.1, 0.3], shards=True)])

    assert parts == [[Unjudged("no weights were recorded that several workers hold")]]
    assert said(ReplicasDiverge(), [trained([1.0], [0.1])]) == [[Unjudged("only one worker was recorded")]]


def test_a_model_of_many_layers_is_compared_at_a_few() -> None:
    (symptom,) = symptoms(ReplicasDiverge(), [trained([1.0, 1.01], [0.1, 0.3], layers=100)])

    assert symptom.causes[0].why.startswith("15 of 15 weights differ")


def fed(*digests: float, more: dict[Fact, float] | None = None, shards: bool = False) -> StepView:
    weight = Key(Kind.WEIGHT, "fc.weight")
    records: dict[str, dict[Key, Summary | float]] = {
        f"r{rank}": {**facts({Fact.BATCH_DIGEST: digest, **(more or {})}), weight: tensor(1.0)}
        for rank, digest in enumerate(digests)
    }
    return StepView.of(3, workers=records, shards=(weight,) if shards else ())


def test_workers_that_are_fed_the_same_are_named() -> None:
    (symptom,) = symptoms(SameDataOnAllWorkers(), [fed(7.0, 7.0, 7.0)])

    assert symptom.message == "All 3 workers got the same batch in step 3."
    assert (symptom.severity, causes(symptom)) == (Severity.COSTLY, ["same-data-on-all-workers"])


def test_workers_that_share_a_model_by_its_parts_may_be_fed_the_same() -> None:
    (symptom,) = symptoms(SameDataOnAllWorkers(), [fed(7.0, 7.0, shards=True)])

    assert symptom.severity is Severity.DOUBTFUL


def test_workers_with_batches_of_their_own_are_well() -> None:
    assert said(SameDataOnAllWorkers(), [fed(7.0, 8.0, 7.0)]) == [[]]
    assert symptoms(SameDataOnAllWorkers(), [fed(7.0, 7.0, more={Fact.FULL_BATCH: 1.0}), fed(7.0)]) == []
