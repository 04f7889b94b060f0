"""The benchmark of tuning: ranks, drawn problems, simulated workers."""

from __future__ import annotations

import pytest

from benchmarks.tune.epochs import in_order, searched, simulated
from benchmarks.tune.problems import DEVELOPMENT, Problem, others
from benchmarks.tune.ranks import ranks
from benchmarks.tune.searchers import search

LOSSES = {"a": {"p 0": [3.0, 1.0], "p 1": [1.0, 1.0]}, "b": {"p 0": [2.0, 2.0], "p 1": [1.0, 0.0]},
          "c": {"p 0": [3.0, 3.0], "p 1": [5.0, 5.0]}}


def test_equals_share_the_mean_rank() -> None:
    assert ranks(LOSSES, list(LOSSES), ["p 0", "p 1"], 1) == {"a": [2.5, 1.5], "b": [1.0, 1.5], "c": [2.5, 3.0]}
    assert ranks(LOSSES, list(LOSSES), ["p 0", "p 1"], 2) == {"a": [1.0, 2.0], "b": [2.0, 1.0], "c": [3.0, 3.0]}


def test_other_problems_are_others_and_depend_on_the_seed_only() -> None:
    drawn = others(7)
    assert drawn == others(7) != others(8)
    assert len(set(drawn)) == 10
    assert not set(drawn) & set(DEVELOPMENT)


@pytest.mark.parametrize("name", ["auto", "optuna-tpe", "random"])
def test_a_search_of_each_library(name: str) -> None:
    problem = Problem("bowl", {"x": (-1.0, 1.0), "n": [1, 2, 4], "kind": ["a", "b"]},
                      lambda parameters: parameters["x"] ** 2 + parameters["n"] + (parameters["kind"] == "b"))
    found = search(name, problem, 12, 0)
    assert len(found.losses) == len(found.secs) == 12
    assert min(found.losses) < 2.5


ROWS = [({"lr": 0.1, "width": 8, "batch": 16, "alpha": 0.1}, [accuracy] * 27)
        for accuracy in (0.5, 0.6, 0.4, 0.3, 0.2, 0.1, 0.1, 0.1, 0.1, 0.9)]


def test_workers_train_side_by_side_until_the_target() -> None:
    order = iter(range(3))
    spent = simulated([ROWS[0], ROWS[1], ROWS[9]], lambda: next(order, None), lambda row, epoch, accuracy: False,
                      lambda row, accuracy: None)
    assert spent == 3  # the third of four workers reaches the target in its first epoch


def test_stopping_saves_epochs() -> None:
    late = [*ROWS[:9], (ROWS[9][0], [0.7] * 26 + [0.9])]
    assert in_order(late, 1, "asha") < in_order(late, 1, "")
    assert 27 <= searched(late, 1, "random") < in_order(late, 1, "")
