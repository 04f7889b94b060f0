"""The budget is a promise over the run."""

from __future__ import annotations

import itertools

import pytest

from barograph.capture.price import GRACE_SECS, SHORT_STEPS_GRACE_SECS, Price


def train(price: Price, *, steps: int, step_secs: float, capture_secs: float) -> tuple[list[int], float]:
    """Let a training of equal steps go by; return which steps were recorded, and capture's share of the bare time."""
    now, recorded = 0.0, []
    price.start(now)
    for step in range(steps):
        if price.affords(0b1, step, now):
            recorded.append(step)
            price.charge(capture_secs)
            price.end_step(0b1)
            now += capture_secs
        else:
            price.end_step(0)
        now += step_secs
    return recorded, price.spent_secs / (now - price.spent_secs)


def losses_of(
    price: Price, *, steps: int, step_secs: float, tensors_secs: float, numbers_secs: float
) -> tuple[list[int], float]:
    """Let a training go by whose tensors and losses have their prices; return the losses recorded, and its end."""
    now, losses = 0.0, []
    price.start(now)
    for step in range(steps):
        taken = 0b1 if price.affords(0b1, step, now) else 0
        if taken or price.affords_numbers(step, now):
            losses.append(step)
            cost = tensors_secs if taken else numbers_secs
            price.charge(cost)
            price.end_step(taken)
            now += cost
        else:
            price.pass_step()
        now += step_secs
    return losses, now


@pytest.mark.parametrize("budget", [0.001, 0.01, 0.1])
@pytest.mark.parametrize("capture_secs", [0.0005, 0.005, 0.1])
def test_capture_stays_under_its_share_of_the_run(budget, capture_secs):
    steps = max(2_000, int(40 * capture_secs / 0.05 / budget))
    recorded, share = train(Price(budget), steps=steps, step_secs=0.05, capture_secs=capture_secs)
    bare_secs = steps * 0.05
    assert share * bare_secs <= budget * bare_secs + GRACE_SECS
    assert len(recorded) > 10


def test_a_fifth_of_the_share_is_left_to_what_no_clock_of_capture_sees():
    _, share = train(Price(0.01), steps=200_000, step_secs=0.05, capture_secs=0.0005)
    assert 0.0065 < share < 0.0081


def test_what_can_be_afforded_is_not_left_lying():
    _, share = train(Price(0.01), steps=20_000, step_secs=0.05, capture_secs=0.005)
    assert share > 0.004


def test_the_first_ten_steps_are_recorded_on_credit_and_paid_back():
    recorded, _ = train(Price(0.01), steps=500, step_secs=0.05, capture_secs=0.05)
    assert recorded[:10] == list(range(10))
    assert recorded[10:] == []


def test_a_training_of_a_few_seconds_is_seen_though_a_hundredth_of_it_is_next_to_nothing():
    recorded, _ = train(Price(0.01), steps=1_000, step_secs=0.002, capture_secs=0.0005)
    assert len(recorded) > 100


@pytest.mark.parametrize("steps", [300, 1_700, 20_000])
def test_whatever_a_training_is_long_no_part_of_it_goes_unseen(steps):
    recorded, _ = train(Price(0.01), steps=steps, step_secs=0.003, capture_secs=0.00025)
    gaps = [after - before for before, after in itertools.pairwise([*recorded, steps])]
    assert max(gaps) <= max(8, steps / 25)
    assert max(gaps) <= 64


def test_the_loss_has_its_part_of_the_budget_beside_dear_tensors():
    price = Price(0.01)
    losses, now = losses_of(price, steps=5_000, step_secs=0.003, tensors_secs=0.002, numbers_secs=20e-6)
    gaps = [after - before for before, after in itertools.pairwise(losses)]
    assert len(losses) > 2_500
    assert max(gaps) < 20
    assert price.spent_secs <= 0.01 * (now - price.spent_secs) + SHORT_STEPS_GRACE_SECS


@pytest.mark.parametrize(("steps", "step_secs", "capture_secs", "least"), [
    (1_000, 0.001, 0.0026, 60), (1_000, 0.003, 0.01, 24), (5_000, 0.0005, 0.002, 80),
])
def test_a_short_training_of_short_steps_is_seen_all_along(steps, step_secs, capture_secs, least):
    recorded, share = train(Price(0.01), steps=steps, step_secs=step_secs, capture_secs=capture_secs)
    bare_secs = steps * step_secs
    assert share * bare_secs <= 0.01 * bare_secs + SHORT_STEPS_GRACE_SECS
    assert len(recorded) >= least
    assert max(after - before for before, after in itertools.pairwise([*recorded, steps])) <= steps / 2


def test_steps_of_which_little_is_due_leave_something_for_those_that_come():
    price, now, recorded = Price(0.01), 0.0, []
    price.start(now)
    for step in range(500):
        # Each tenth has everything due that was owed, and the first ten have.
        mask = 0b11 if step < 10 or step % 10 == 0 else 0b01
        if price.affords(mask, step, now):
            recorded.append(step)
            secs = 0.01 if mask == 0b11 else 0.001
            price.charge(secs)
            now += secs
            price.end_step(mask)
        else:
            price.end_step(0)
        now += 0.004
    assert len([step for step in recorded if step >= 100]) >= 8
    assert max(recorded) >= 300


def test_steps_of_a_usual_length_have_no_more_than_a_tenth_of_a_second():
    recorded, share = train(Price(0.01), steps=100, step_secs=0.06, capture_secs=0.008)
    assert share * 6.0 <= 0.06 + GRACE_SECS
    assert len(recorded) > 10


def test_without_a_budget_every_step_is_recorded():
    recorded, _ = train(Price(None), steps=50, step_secs=0.01, capture_secs=1.0)
    assert recorded == list(range(50))


def test_workers_that_measure_different_costs_meet_on_common_steps():
    cheap, _ = train(Price(0.01), steps=5_000, step_secs=0.05, capture_secs=0.004)
    dear, _ = train(Price(0.01), steps=5_000, step_secs=0.05, capture_secs=0.02)
    late = [step for step in dear if step > 2_000]
    assert len(late) > 10
    assert len(set(late) & set(cheap)) > 0.5 * len(late)


def test_what_was_spent_on_something_else_makes_the_next_step_no_dearer():
    price = Price(0.01)
    price.start(0.0)
    for step in range(10):
        price.affords(0b1, step, 0.0)
    price.charge(0.03)  # an evaluation
    price.forget_step()
    price.charge(0.001)
    price.end_step(0b1)
    assert price.spent_secs == pytest.approx(0.031)
    assert price.affords(0b1, 10, now=0.0)  # the grace has room for 1 ms more, not for 31


def test_even_plain_numbers_are_passed_over_where_steps_are_too_short_for_them():
    price = Price(0.01)
    price.start(0.0)
    for step in range(10):
        price.affords(0b1, step, 0.0)
    price.charge(20e-6)
    price.end_step(0)
    price.charge(GRACE_SECS / 2)
    price.pass_step()
    assert not price.affords_numbers(0, now=0.001)
    assert price.affords_numbers(0, now=GRACE_SECS + 0.1)


def test_the_first_three_evaluations_are_read_on_credit_and_others_when_there_is_room():
    price = Price(0.01)
    price.start(0.0)
    price.charge(5.0)
    price.end_step(1)
    assert [price.affords_evaluation(1, 10.0) for _ in range(5)] == [True, True, True, False, False]
    assert not price.affords_evaluation(1, 600.0)
    assert price.affords_evaluation(1, 750.0)
    assert price.affords_evaluation(0, 10.0)


def test_an_evaluation_waits_until_there_is_room_for_what_the_last_one_cost():
    price = Price(0.01)
    price.start(0.0)
    for _ in range(3):
        price.affords_evaluation(1, 0.0)
    price.charge(2.0)
    price.end_evaluation(1)
    price.forget_step()
    assert not price.affords_evaluation(1, 300.0)
    assert price.affords_evaluation(1, 500.0)


def test_an_evaluation_that_turns_out_dear_is_not_read_on_and_the_next_waits_longer():
    price = Price(0.01)
    price.start(0.0)
    assert price.affords_evaluation(1, 0.0)
    price.charge(0.019)
    assert price.evaluation_goes_on(1, 1.0)
    price.charge(0.1)
    assert not price.evaluation_goes_on(1, 1.0)
    price.forget_step()
    for _ in range(2):
        price.affords_evaluation(1, 2.0)
    assert not price.affords_evaluation(1, 35.0)
    assert price.affords_evaluation(1, 44.0)


def test_without_a_budget_every_evaluation_is_read():
    price = Price(None)
    price.charge(100.0)
    assert price.affords_evaluation(1, 0.0)
    assert price.evaluation_goes_on(1, 0.0)


def test_losses_of_short_steps_are_seen_all_along():
    price = Price(0.01)
    losses, now = losses_of(price, steps=4_000, step_secs=0.001, tensors_secs=0.003, numbers_secs=0.0003)
    assert len(losses) > 500
    assert max(after - before for before, after in itertools.pairwise([*losses, 4_000])) <= 64
    assert price.spent_secs <= 0.01 * (now - price.spent_secs) + SHORT_STEPS_GRACE_SECS


def spent_after_a_pause(*, pause_secs: float, step_secs: float) -> float:
    """Train, pause, and train on; return what the second part cost as a share of its time."""
    price, now, before = Price(0.01), 0.0, 0.0
    price.start(now)
    for step in range(2_000):
        if step == 1_000:
            now, before = now + pause_secs, price.spent_secs
        price.hear(now)
        taken = 0b1 if price.affords(0b1, step, now) else 0
        if taken:
            price.charge(step_secs)
        price.end_step(taken)
        now += step_secs * (2 if taken else 1)
    return (price.spent_secs - before) / (1_000 * step_secs)


def test_a_pause_pays_for_nothing():
    assert spent_after_a_pause(pause_secs=0.0, step_secs=0.05) < 0.02
    assert spent_after_a_pause(pause_secs=36_000.0, step_secs=0.05) < 0.04


def test_steps_of_many_minutes_are_no_pauses():
    price, now = Price(0.01), 0.0
    price.start(now)
    for _ in range(100):
        now += 600.0
        price.hear(now)
        price.end_step(0)
    price.charge(300.0)
    assert price.has_room_for(0b1, now)


def test_what_a_compiler_took_is_no_training() -> None:
    def affords_the_thirteenth(*, told: bool) -> bool:
        # Two seconds of compiling, and then steps of a millisecond whose record costs eight: they are short.
        price, now = Price(0.01), 2.0
        price.start(0.0)
        if told:
            price.pass_over(2.0, now)
        for step in range(10):
            assert price.affords(0b1, step, now)
            price.charge(0.008)
            price.end_step(0b1)
            now += 0.009
        return price.affords(0b1, 12, now)

    assert affords_the_thirteenth(told=True)
    assert not affords_the_thirteenth(told=False)


def test_steps_that_were_short_stay_so_where_that_is_asked() -> None:
    def losses_left(*, keeps: bool) -> bool:
        price, now = Price(0.01), 0.0
        price.keeps_grace = keeps
        price.start(now)
        for step in range(60):
            mask = 0b1 if price.affords(0b1, step, now) else 0
            price.charge(0.005 if mask else 0.002)
            price.end_step(mask)
            now += 0.008
        # One step is long, so that on the whole they are not short any more.
        now += 1.6
        price.end_step(0)
        price.affords(0b1, 60, now)
        return price.affords_numbers(64, now)

    assert losses_left(keeps=True)
    assert not losses_left(keeps=False)
