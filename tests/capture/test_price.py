"""The budget is a promise over the run, and what it buys is spread over the run."""

from __future__ import annotations

import itertools

import pytest

from barograph.capture.price import Price
from barograph.model.manifest import SHORT_SECS


def train(price: Price, *, steps: int, step_secs: float, capture_secs: float, first_secs: float | None = None,
          numbers_secs: float = 0.0, evaluation_every: int | None = None, evaluation_secs: float = 0.0,
          ) -> tuple[list[int], float]:
    """Let a training of equal steps go by; return which steps took tensors, and how long it took without capture."""
    now, recorded = 0.0, []
    price.start(now)
    for step in range(steps):
        now += step_secs
        price.charge(numbers_secs)
        now += numbers_secs
        if price.comes_round(step, now) and price.affords(0b1, step, now):
            secs = capture_secs if recorded or first_secs is None else first_secs
            recorded.append(step)
            price.charge(secs)
            price.end_step(0b1)
            now += secs
        else:
            price.end_step(0)
        if evaluation_every and step % evaluation_every == 0 and price.affords_evaluation(0b1, now):
            price.charge(evaluation_secs)
            now += evaluation_secs
            price.end_evaluation(0b1)
            price.forget_step()
    return recorded, steps * step_secs


def longest_gap(recorded: list[int], steps: int) -> int:
    return max(after - before for before, after in itertools.pairwise([*recorded, steps]))


@pytest.mark.parametrize("budget", [0.001, 0.01, 0.1])
@pytest.mark.parametrize("capture_secs", [0.0005, 0.005, 0.1])
def test_capture_stays_under_its_share_of_a_run_of_a_minute_and_a_half_or_more(budget, capture_secs):
    price, steps = Price(budget), max(2_000, int(100 * capture_secs / 0.05 / budget))
    recorded, bare_secs = train(price, steps=steps, step_secs=0.05, capture_secs=capture_secs)
    assert price.spent_secs <= budget * bare_secs
    assert len(recorded) > 10


def test_a_fifth_of_the_share_is_left_to_what_no_clock_of_capture_sees():
    price = Price(0.01)
    _, bare_secs = train(price, steps=200_000, step_secs=0.05, capture_secs=0.0005)
    assert 0.005 < price.spent_secs / bare_secs <= 0.0081


@pytest.mark.parametrize(("steps", "step_secs"), [(151, 0.4), (600, 0.1), (1_200, 0.1), (30_000, 0.003)])
def test_a_run_of_one_or_two_minutes_has_thirty_steps_with_tensors_all_along(steps, step_secs):
    recorded, _ = train(Price(0.01), steps=steps, step_secs=step_secs, capture_secs=0.015, first_secs=0.05)
    assert {0, 1, 2, 4, 8, 16, 32, 64} <= set(recorded)
    assert len(recorded) >= 30
    assert longest_gap(recorded, steps) <= steps / 10


@pytest.mark.parametrize("capture_secs", [0.003, 0.006, 0.01, 0.02, 0.025])
@pytest.mark.parametrize("steps", [1_000, 1_400, 2_000, 3_000])
def test_nearly_all_of_the_allowance_is_spent_whenever_a_run_ends(steps, capture_secs):
    price = Price(0.01)
    _, bare_secs = train(price, steps=steps, step_secs=0.05, capture_secs=capture_secs)
    allowed_secs = 0.8 * 0.01 * max(bare_secs, (SHORT_SECS * bare_secs) ** 0.5)
    assert 0.9 * allowed_secs - capture_secs <= price.spent_secs <= allowed_secs + capture_secs


@pytest.mark.parametrize("numbers_secs", [0.0, 30e-6, 100e-6])
def test_evaluations_every_few_steps_leave_room_for_steps_all_along(numbers_secs):
    recorded, _ = train(Price(0.01), steps=16_000, step_secs=0.005, capture_secs=0.006, first_secs=0.02,
                        numbers_secs=numbers_secs, evaluation_every=12, evaluation_secs=0.002)
    assert len(recorded) >= 30
    assert longest_gap(recorded, 16_000) <= 1_600


def test_numbers_that_are_still_to_come_are_left_out_of_what_is_spread():
    recorded, _ = train(Price(0.01), steps=1_400, step_secs=0.05, capture_secs=0.008, first_secs=0.02,
                        numbers_secs=150e-6, evaluation_every=250, evaluation_secs=0.01)
    assert len(recorded) >= 30
    assert longest_gap(recorded, 1_400) <= 140


def test_evaluations_of_which_nothing_is_taken_are_not_charged_to_tensors():
    price = Price(0.01)
    price.start(0.0)
    price.charge(1.0)
    price.forget_step()
    assert price.has_room(75.0)


@pytest.mark.parametrize("steps", [300, 1_700, 20_000])
def test_no_part_of_a_training_goes_unseen_however_long_it_is(steps):
    recorded, _ = train(Price(0.01), steps=steps, step_secs=0.003, capture_secs=0.00025)
    assert longest_gap(recorded, steps) <= max(8, steps / 10)


def test_where_a_step_with_tensors_costs_a_step_powers_of_two_are_recorded_all_the_same():
    recorded, _ = train(Price(0.01), steps=500, step_secs=0.05, capture_secs=0.5)
    assert recorded == [0, 1, 2, 4, 8, 16, 32, 64, 128, 256]


def test_a_short_training_may_spend_more_than_its_share_but_no_more_than_one_of_two_minutes():
    price = Price(0.01)
    _, bare_secs = train(price, steps=1_000, step_secs=0.01, capture_secs=0.001)
    assert 0.01 * bare_secs < price.spent_secs < 0.01 * SHORT_SECS


def test_numbers_of_every_step_leave_half_of_the_budget_to_tensors():
    price = Price(0.01)
    recorded, bare_secs = train(price, steps=100_000, step_secs=0.001, capture_secs=0.002, numbers_secs=15e-6)
    tensors_secs = 0.002 * len(recorded)
    assert 0.003 * bare_secs < tensors_secs <= 0.005 * bare_secs
    assert longest_gap(recorded, 100_000) <= 10_000


def test_without_a_budget_every_step_is_recorded():
    recorded, _ = train(Price(None), steps=50, step_secs=0.01, capture_secs=1.0)
    assert recorded == list(range(50))


def test_workers_that_measure_different_costs_meet_on_common_steps():
    cheap, _ = train(Price(0.01), steps=5_000, step_secs=0.05, capture_secs=0.004)
    dear, _ = train(Price(0.01), steps=5_000, step_secs=0.05, capture_secs=0.02)
    late = [step for step in dear if step > 2_000]
    assert len(late) > 10
    assert len(set(late) & set(cheap)) > 0.5 * len(late)


def test_the_first_step_with_tensors_which_makes_tables_says_nothing_of_the_others():
    recorded, _ = train(Price(0.01), steps=1_000, step_secs=0.1, capture_secs=0.005, first_secs=0.2)
    assert len(recorded) >= 60


def test_time_that_the_thread_waited_for_a_processor_is_no_training(monkeypatch):
    def spent(waited_share):
        price, now = Price(0.01), [0.0]
        monkeypatch.setattr(price._processor_wait, "secs", lambda: waited_share * now[0])
        price.start(0.0)
        for step in range(4_000):
            now[0] += 0.05 / (1 - waited_share)
            if price.comes_round(step, now[0]) and price.affords(0b1, step, now[0]):
                price.charge(0.005)
                price.end_step(0b1)
            else:
                price.end_step(0)
        return price.spent_secs

    assert spent(0.75) == pytest.approx(spent(0.0), rel=0.1)


def test_what_was_spent_on_something_else_makes_the_next_step_no_dearer():
    price = Price(0.01)
    train(price, steps=1_000, step_secs=0.05, capture_secs=0.001)
    price.charge(0.03)  # an evaluation
    price.forget_step()
    price.charge(0.001)
    price.end_step(0b1)
    assert price._tensors_secs == pytest.approx(0.001)


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
    # A fifth of what tensors may cost is for evaluations.
    assert not price.affords_evaluation(1, 2_400.0)
    assert price.affords_evaluation(1, 2_510.0)


def test_an_evaluation_that_turns_out_dear_is_not_read_on_and_the_next_waits_longer():
    price = Price(0.01)
    price.start(0.0)
    assert price.affords_evaluation(1, 0.0)
    price.charge(0.019)
    assert price.evaluation_goes_on(1, 0.01)
    price.charge(0.1)
    assert not price.evaluation_goes_on(1, 0.02)
    price.forget_step()
    for _ in range(2):
        price.affords_evaluation(1, 0.1)
    assert not price.affords_evaluation(1, 100.0)
    assert price.affords_evaluation(1, 170.0)


def test_without_a_budget_every_evaluation_is_read():
    price = Price(None)
    price.charge(100.0)
    assert price.affords_evaluation(1, 0.0)
    assert price.evaluation_goes_on(1, 0.0)


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
    assert price.has_room(now)


def test_what_a_compiler_waited_for_a_processor_is_excluded_once(monkeypatch):
    price, waited = Price(0.01), [0.5]
    monkeypatch.setattr(price._processor_wait, "secs", lambda: waited[0])
    price.start(0.0)
    before = price.waited_secs()
    waited[0] += 15.0
    price.pass_over(20.0, 21.0, waited_before_secs=before)
    assert price.training_secs(31.5) == pytest.approx(31.5 - 20.0 - 0.5)


def test_what_a_compiler_took_is_no_training():
    price = Price(0.01)
    price.start(0.0)
    price.pass_over(2.0, 2.0)
    assert price.training_secs(2.5) == pytest.approx(0.5)
