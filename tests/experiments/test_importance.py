"""Which parameters matter: agrees with the formulas written plainly, and does not mistake chance for importance."""

from __future__ import annotations

import math
import random

import numpy as np
import pytest

from barograph.experiments.importance import importances, ranks


def by_name(metric: list[float | None], parameters: dict[str, list[object]]) -> dict[str, object]:
    return {found.parameter: found for found in importances(metric, parameters)}


def test_agrees_with_the_formulas_written_plainly() -> None:
    draws = random.Random(1)
    group = [draws.choice("abc") for _ in range(40)]
    metric = [ord(one) + draws.gauss(0, 0.7) for one in group]

    [found] = importances(metric, {"group": group})

    order = sorted(metric)
    ranked = [order.index(value) + 1 for value in metric]
    sums = {name: sum(rank for rank, one in zip(ranked, group, strict=True) if one == name) for name in "abc"}
    h = 12 / (40 * 41) * sum(sums[name] ** 2 / group.count(name) for name in "abc") - 3 * 41
    assert found.share == pytest.approx((h - 3 + 1) / (40 - 3))
    assert (found.runs, found.groups, math.isnan(found.correlation)) == (40, 3, True)


def test_an_optimum_in_the_middle_matters_although_nothing_correlates() -> None:
    rates = [10 ** (-5 + 5 * number / 63) for number in range(64)]
    metric = [(math.log10(rate) + 2.5) ** 2 for rate in rates]

    [found] = importances(metric, {"lr": rates})

    assert found.share > 0.9
    assert abs(found.correlation) < 0.05
    assert found.groups == 8


def test_a_parameter_without_effect_stays_below_what_chance_reaches() -> None:
    draws = random.Random(2)
    metric = [draws.random() for _ in range(200)]
    parameters = {f"p{number}": [draws.random() for _ in range(200)] for number in range(40)}

    above = [found for found in importances(metric, parameters) if found.share > found.chance]

    assert len(above) <= 6, "about one in twenty"


def test_scale_and_infinities_of_the_metric_do_not_matter() -> None:
    rates = [float(number % 4) for number in range(20)]
    metric = [rate + number / 100 for number, rate in enumerate(rates)]
    [plain] = importances(metric, {"lr": rates})
    [scaled] = importances([math.exp(5 * value) for value in metric[:-1]] + [math.inf], {"lr": rates})

    assert scaled.share == pytest.approx(plain.share)


def test_missing_values_are_left_out() -> None:
    metric = [1.0, 2.0, None, math.nan, 3.0, 4.0, 5.0, 6.0]
    [found] = importances(metric, {"lr": [1, 1, 1, 1, None, 2, 2, 2]})

    assert found.runs == 5


@pytest.mark.parametrize("column", [[1] * 6, list("abcdef"), [None] * 6, [True] * 6])
def test_a_parameter_that_tells_nothing_is_left_out(column: list[object]) -> None:
    assert importances([1, 2, 3, 4, 5, 6], {"p": column}) == []


def test_a_metric_that_never_changes_depends_on_nothing() -> None:
    [found] = importances([1.0] * 6, {"p": [1, 1, 1, 2, 2, 2]})

    assert (found.share, found.correlation) == (0.0, 0.0)


def test_few_runs_say_nothing() -> None:
    assert importances([1, 2, 3, 4], {"lr": [1, 1, 2, 2]}) == []


def test_equal_values_share_a_rank() -> None:
    assert ranks(np.array([2.0, 2.0, -np.inf, np.inf])).tolist() == [2.5, 2.5, 1.0, 4.0]
