"""RepeatedBatch, UnshuffledData and LeakyValidation."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Mapping, Sequence

import pytest

from barograph.model.facts import Fact
from barograph.model.finding import Severity
from barograph.model.key import Key, Kind
from barograph.model.step import Step
from barograph.rules.base import Unjudged
from barograph.rules.batches import LeakyValidation, RepeatedBatch, UnshuffledData
from barograph.runs.reading.view import StepView
from judging import causes, evaluated, facts, labels, said, steps_of, symptoms

LOADER = {Fact.FULL_BATCH: 0.0, Fact.EPOCH_STEPS: 22.0}


def fed(
    digests: Sequence[float], loader: Mapping[Fact, float], *, every: int = 1, size: float = 64.0
) -> list[StepView]:
    return [StepView.of(step * every, facts({Fact.BATCH_DIGEST: digest, Fact.BATCH_SIZE: size, **loader}))
            for step, digest in enumerate(digests)]


def test_a_batch_that_comes_five_times_in_a_row_is_repeated() -> None:
    views = fed([7.0] * 8, LOADER)

    first, *_ = symptoms(RepeatedBatch(), views)

    assert steps_of(RepeatedBatch(), views) == [4, 5, 6, 7]
    assert first.message == ("Every step since step 0 used the same batch, out of 22 in the loader.")
    assert (first.severity, causes(first)) == (Severity.COSTLY, ["repeated-batch"])


@pytest.mark.parametrize(
    "loader", [{Fact.FULL_BATCH: 1.0, Fact.EPOCH_STEPS: 1.0}, {}], ids=["as the loader says", "by hand"],
)
def test_all_data_at_once_is_no_repetition(loader: dict[Fact, float]) -> None:
    assert symptoms(RepeatedBatch(), fed([7.0] * 30, loader)) == []


def test_a_small_data_set_that_goes_round_is_no_repetition() -> None:
    assert symptoms(RepeatedBatch(), fed([1.0, 2.0, 3.0] * 10, LOADER)) == []
    assert said(RepeatedBatch(), fed([7.0] * 9, LOADER, every=50))[-1] == [
        Unjudged("the steps between were not recorded; further apart a batch may repeat")
    ]


def test_a_batch_is_repeated_if_no_cycle_explains_the_steps() -> None:
    def at(*steps: int) -> list[StepView]:
        return [StepView.of(step, facts({Fact.BATCH_DIGEST: 7.0, Fact.BATCH_SIZE: 64.0, **LOADER})) for step in steps]

    assert steps_of(RepeatedBatch(), at(0, 1, 2, 4, 8, 16)) == [8, 16]
    assert symptoms(RepeatedBatch(), at(0, 10, 20, 40, 80, 160)) == [], "every tenth batch of a loop that ends early"


def test_several_steps_on_one_rollout_are_no_repetition() -> None:
    assert symptoms(RepeatedBatch(), fed([float(step // 10) for step in range(60)], {})) == []


def test_a_batch_by_hand_that_is_far_smaller_than_the_evaluation_is_doubtful() -> None:
    views = [evaluated(0, facts({Fact.BATCH_SIZE: 1000.0})), *fed([7.0] * 6, {})]

    first, *_ = symptoms(RepeatedBatch(), views)

    assert first.severity is Severity.DOUBTFUL
    assert "it has 64 samples, the evaluation 1000" in first.message


def sorted_by_label(classes: int, *, batches: int, size: int = 64) -> list[StepView]:
    names = [at * classes // (batches * size) for at in range(batches * size)]
    return labelled([names[at * size : (at + 1) * size] for at in range(batches)])


def labelled(batches: Sequence[Sequence[int]], optimizer: str = "") -> list[StepView]:
    return [StepView.of(Step(step, step, optimizer), labels(Counter(batch))) for step, batch in enumerate(batches)]


def test_batches_sorted_by_label_are_named_once_three_classes_have_come() -> None:
    views = sorted_by_label(10, batches=22)

    first, *_ = symptoms(UnshuffledData(), views)

    assert steps_of(UnshuffledData(), views)[0] == 5
    assert "labels of step 5 have 1 class; a shuffled batch would have about 3" in first.message
    assert causes(first) == ["unshuffled-data"]
    # What is counted stands before large steps and dead units, which several rules lay to the learning rate.
    assert first.causes[0].weight >= 0.9


def test_two_classes_one_after_the_other_are_sorted() -> None:
    assert steps_of(UnshuffledData(), sorted_by_label(2, batches=40))


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize(("classes", "size"), [(2, 8), (2, 64), (10, 8), (10, 64), (1000, 32)])
def test_shuffled_batches_are_well(classes: int, size: int, seed: int) -> None:
    draw = random.Random(seed)

    batches = [[draw.randrange(classes) for _ in range(size)] for _ in range(300)]

    assert symptoms(UnshuffledData(), labelled(batches)) == []


def test_a_rare_class_does_not_make_batches_uniform() -> None:
    draw = random.Random(0)
    batches = [[int(draw.random() < 0.02) for _ in range(32)] for _ in range(300)]

    assert symptoms(UnshuffledData(), labelled(batches)) == []


def test_actions_that_settle_on_one_are_not_sorted() -> None:
    draw = random.Random(0)
    batches = [[draw.randrange(3) for _ in range(32)] for _ in range(20)] + [[1] * 32] * 100

    assert symptoms(UnshuffledData(), labelled(batches)) == []


def test_real_and_made_ones_of_adversaries_are_not_sorted() -> None:
    assert symptoms(UnshuffledData(), labelled([[step % 2] * 32 for step in range(50)], "D")) == []


def seen_again(share: float, *, size: float = 200.0, known: float = 1400.0, number: int = 100) -> StepView:
    return evaluated(number, facts({Fact.SEEN_IN_TRAINING: share, Fact.SAMPLES_KNOWN: known, Fact.BATCH_SIZE: size}))


def test_copies_of_a_few_training_samples_are_not_the_training_set() -> None:
    few: dict[Fact | tuple[Fact, str], float] = {
        Fact.SEEN_IN_TRAINING: 0.4, Fact.SAMPLES_KNOWN: 386.0, Fact.BATCH_SIZE: 974.0}
    assert symptoms(LeakyValidation(), [evaluated(36, facts({**few, Fact.SAMPLES_REPEATED: 1.02}))]) == []
    assert len(symptoms(LeakyValidation(), [evaluated(36, facts({**few, Fact.SAMPLES_REPEATED: 2.5}))])) == 1


def test_validation_on_samples_of_training_leaks() -> None:
    (symptom,) = symptoms(LeakyValidation(), [seen_again(1.0)])

    assert symptom.message == ("100% of the evaluation samples are also training samples, bit for bit.")
    assert (symptom.severity, causes(symptom)) == (Severity.COSTLY, ["leaky-validation"])


def test_a_part_that_was_seen_is_doubtful() -> None:
    (symptom,) = symptoms(LeakyValidation(), [seen_again(0.4)])

    assert symptom.severity is Severity.DOUBTFUL


@pytest.mark.parametrize(
    "view", [seen_again(0.0), seen_again(0.05), seen_again(1.0, size=1400.0), seen_again(0.78, size=1800.0)],
    ids=["clean", "a duplicate or two", "the training set", "the training set and another"],
)
def test_what_is_no_leak_is_let_pass(view: StepView) -> None:
    assert symptoms(LeakyValidation(), [view]) == []


def test_a_teacher_that_answers_before_every_step_is_no_evaluation() -> None:
    steps = [StepView.of(number, facts({Fact.BATCH_SIZE: 64.0})) for number in range(3)]
    of_steps = [seen_again(0.1 * (number - 2), size=64.0, number=number) for number in range(2, 9)]
    assert symptoms(LeakyValidation(), [*steps, *of_steps, seen_again(0.9, size=64.0, number=40)]) == []
    # An evaluation of its own is judged all the same, and so are small ones that are apart.
    assert len(symptoms(LeakyValidation(), [*steps, *of_steps, seen_again(1.0, size=300.0, number=40)])) == 1
    assert len(symptoms(LeakyValidation(), [*steps, *(seen_again(1.0, size=64.0, number=at) for at in (10, 20))])) == 2


def test_the_last_batch_of_an_epoch_is_smaller_and_the_teacher_is_none_the_less_no_evaluation() -> None:
    sizes = [64.0, 64.0, 64.0, 29.0, 64.0, 64.0, 64.0, 29.0, 64.0, 64.0]
    views = [view for number, size in enumerate(sizes) for view in (
        seen_again(1.0 if number > 3 else 0.0, size=size, number=number),
        StepView.of(number, facts({Fact.BATCH_SIZE: size})),
    )]
    assert symptoms(LeakyValidation(), views) == []


def test_of_several_sets_the_one_seen_least_counts() -> None:
    both: dict[Fact | tuple[Fact, str], float] = {Fact.SAMPLES_KNOWN: 1400.0, Fact.SEEN_IN_TRAINING: 0.78}
    clean = facts({**both, (Fact.SEEN_IN_TRAINING, "part0"): 1.0, (Fact.SEEN_IN_TRAINING, "part1"): 0.0})
    leaky = facts({**both, (Fact.SEEN_IN_TRAINING, "part0"): 1.0, (Fact.SEEN_IN_TRAINING, "part1"): 0.95})

    assert symptoms(LeakyValidation(), [evaluated(100, clean)]) == []
    assert len(symptoms(LeakyValidation(), [evaluated(100, leaky)])) == 1


def test_without_known_samples_nothing_is_judged() -> None:
    nothing: dict[Key, float] = facts({Fact.BATCH_SIZE: 200.0})

    assert said(LeakyValidation(), [evaluated(100, nothing)]) == [
        [Unjudged("no evaluation was recorded whose samples can be compared with training samples")]
    ]


def test_images_whose_pixels_are_of_few_classes_each_are_not_sorted() -> None:
    draw = random.Random(0)
    images = [draw.sample(range(150), 8) for _ in range(60)]
    views = labelled([[draw.choice(image) for _ in range(1000)] for image in images])
    pixels = [StepView.of(view.step, {**view.scalars(Kind.LABEL), **facts({Fact.BATCH_SIZE: 4.0})}) for view in views]

    assert steps_of(UnshuffledData(), pixels) == []
    # Were these samples, they would be.
    assert steps_of(UnshuffledData(), views)
