"""A bill agrees with sums made by hand, and says nothing where a price is unknown."""

from __future__ import annotations

import json
import math

import pytest

from barograph.jobs.cost import Interval, bill

TWO_HOURS_ON_SPOT = [Interval(0, 3600, spot=True), Interval(7200, 10_800, spot=True)]


def test_spot_hours_cost_the_spot_price_and_the_rest_the_full_price() -> None:
    found = bill([Interval(0, 7200, spot=True), Interval(0, 1800)], price=2.0, spot_price=0.5)
    assert (found.instance_hours, found.spot_hours) == (2.5, 2.0)
    assert found.cost == 2 * 0.5 + 0.5 * 2
    assert found.on_demand_cost == 5.0
    assert found.savings_percent == 60.0


def test_savings_are_those_of_sagemaker_where_no_step_was_repeated() -> None:
    # Amazon's example: 100 billable of 500 seconds of training are 80 percent.
    found = bill([Interval(0, 500, spot=True)], price=1.0, spot_price=0.2)
    assert (found.training_secs, found.billable_secs) == (500, pytest.approx(100))
    assert found.sagemaker_savings_percent == pytest.approx(80)
    assert found.savings_percent == pytest.approx(80)


def test_repeated_steps_would_not_have_been_paid_on_demand() -> None:
    found = bill(TWO_HOURS_ON_SPOT, price=1.0, spot_price=0.5, steps=75, repeated_steps=25, interruptions=1)
    assert found.on_demand_cost == 1.5
    assert found.savings_percent == pytest.approx(100 / 3)
    assert found.sagemaker_savings_percent == pytest.approx(50)


def test_a_job_that_repeats_too_much_cost_more_than_on_demand() -> None:
    found = bill(TWO_HOURS_ON_SPOT, price=1.0, spot_price=0.5, steps=1, repeated_steps=3, interruptions=3)
    assert found.savings_percent == -100
    assert found.line == "cost 1.00 for 2 h 0 min of instances; 0.50 on demand (100% more than on demand)"


def test_small_costs_are_not_rounded_to_nothing() -> None:
    found = bill([Interval(0, 20, spot=True)], price=3.0, spot_price=1.0)
    assert found.line == "cost 0.0056 for 20.0 s of instances; 0.017 on demand (67% saved)"


def test_an_instance_that_runs_is_paid_until_now() -> None:
    running = [Interval(3600, math.nan)]
    assert bill(running, price=1.0, now_unix=9000).cost == 1.5
    assert bill(running, price=1.0).cost == 0.0


def test_a_clock_that_was_set_back_gives_no_money_back() -> None:
    assert bill([Interval(3600, 0), Interval(0, 3600)], price=1.0).cost == 1.0


def test_unknown_prices_make_unknown_costs() -> None:
    unpriced = bill(TWO_HOURS_ON_SPOT)
    assert math.isnan(unpriced.cost)
    assert unpriced.line == "2 h 0 min of instances"
    spot_only = bill(TWO_HOURS_ON_SPOT, spot_price=0.5)
    assert (spot_only.cost, spot_only.line) == (1.0, "cost 1.00 for 2 h 0 min of instances")
    assert bill([Interval(0, 3600)], price=2.0).line == "cost 2.00 for 1 h 0 min of instances"


def test_a_bill_is_strict_json_without_unknown_figures() -> None:
    data = json.loads(json.dumps(bill(TWO_HOURS_ON_SPOT).to_json(), allow_nan=False))
    assert data["cost"] is None
    assert data["instance_hours"] == 2.0
    assert json.dumps(bill([]).to_json(), allow_nan=False)
    priced = bill(TWO_HOURS_ON_SPOT, price=1.0, spot_price=0.25).to_json()
    assert priced["sagemaker_savings_percent"] == 75.0
