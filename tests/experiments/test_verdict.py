"""A difference is more than noise, or it is not decided."""

import math

import numpy as np
import pytest

from barograph.errors import SettingsError
from barograph.experiments.verdict import Outcome, interval, t_quantile, verdict


@pytest.mark.parametrize(("share", "freedom", "value"), [
    # From the printed tables of Student's t.
    (0.975, 1, 12.706), (0.975, 2, 4.303), (0.975, 4, 2.776), (0.95, 10, 1.812), (0.995, 3, 5.841), (0.975, 120, 1.980),
])
def test_quantiles_are_those_of_the_tables(share: float, freedom: float, value: float) -> None:
    assert t_quantile(share, freedom) == pytest.approx(value, abs=2e-3)


def test_welchs_interval_agrees_with_a_worked_example() -> None:
    # Two samples of R's `sleep` data set; t.test(extra ~ group) gives -3.3654832 to 0.2054832 with 17.776 degrees.
    first = [0.7, -1.6, -0.2, -1.2, -0.1, 3.4, 3.7, 0.8, 0.0, 2.0]
    second = [1.9, 0.8, 1.1, 0.1, -0.1, 4.4, 5.5, 1.6, 4.6, 3.4]
    found = verdict(first, second)
    assert (found.low, found.high) == (pytest.approx(-3.3654832, abs=1e-4), pytest.approx(0.2054832, abs=1e-4))
    assert found.outcome is Outcome.UNDECIDED
    assert found.difference == pytest.approx(-1.58)


@pytest.mark.parametrize("method", ["t", "bootstrap"])
def test_the_better_one_is_better_whichever_way_better_is(method: str) -> None:
    good, bad = [0.91, 0.92, 0.93, 0.92], [0.80, 0.82, 0.81, 0.80]
    assert verdict(good, bad, method=method).outcome is Outcome.ACCEPTED
    assert verdict(bad, good, method=method).outcome is Outcome.REJECTED
    assert verdict(bad, good, greater_is_better=False, method=method).outcome is Outcome.ACCEPTED


def test_noise_is_accepted_no_more_often_than_the_level_says() -> None:
    draws = np.random.default_rng(1)
    outcomes = [verdict(draws.normal(size=5).tolist(), draws.normal(size=5).tolist()).outcome for _ in range(1000)]
    assert 10 <= sum(outcome is not Outcome.UNDECIDED for outcome in outcomes) <= 70


@pytest.mark.parametrize(("first", "second"), [([1.0], [0.0, 0.1]), ([], [0.0, 0.1]), ([math.nan, 1.0], [0.0, 0.1])])
def test_of_one_result_nothing_is_decided(first: list[float], second: list[float]) -> None:
    found = verdict(first, second)
    assert found.outcome is Outcome.UNDECIDED
    assert "other seeds" in found.reason


@pytest.mark.parametrize("method", ["t", "bootstrap"])
@pytest.mark.parametrize(("first", "second"), [
    ([1.0, 1.0], [0.5, 0.5]), ([1.0, 1.0], [1.0, 1.0]), ([0.9] * 3, [0.8] * 3), ([0.3, 0.1 + 0.2], [0.5, 0.5]),
])
def test_groups_that_do_not_vary_decide_nothing(method: str, first: list[float], second: list[float]) -> None:
    found = verdict(first, second, method=method)
    assert found.outcome is Outcome.UNDECIDED
    assert "varies" in found.reason


def test_the_interval_of_a_mean() -> None:
    assert interval([1.0, 2.0, 3.0]) == (2.0, pytest.approx(-0.484, abs=1e-3), pytest.approx(4.484, abs=1e-3))
    assert math.isnan(interval([1.0])[1])


def test_a_wrong_method_or_level_is_refused() -> None:
    with pytest.raises(SettingsError, match="t, bootstrap"):
        verdict([1.0], [1.0], method="z")
    with pytest.raises(SettingsError, match="between 0 and 1"):
        verdict([1.0], [1.0], level=95)
