"""Strategies: reproducible, without repetition, within the space."""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from threadpoolctl import threadpool_info

from barograph.tune.history import History
from barograph.tune.running import tune
from barograph.tune.spec import Completion
from barograph.tune.strategies.base import Proposal
from barograph.tune.strategies.uniform import Hyperband
from barograph.tune.study import Study
from barograph.tune.trial import Cause, Origin, Trial

MODELS = ["auto", "bayesian", "tpe", "cma-es"]
MIXED = {"lr": "1e-4..1:log", "width": "8..128:int", "optimizer": ["adam", "sgd", "lion"],
         "momentum": "0.5..0.99 if optimizer=sgd"}


def loss(parameters: Mapping[str, Any]) -> float:
    bowl = (math.log10(parameters["lr"]) + 2) ** 2 + (parameters["width"] / 64 - 1) ** 2
    return bowl + {"adam": 0.5, "sgd": 0.0, "lion": 1.0}[parameters["optimizer"]]


def told(study: Study, count: int) -> Study:
    for _ in range(count):
        trial = study.ask()
        assert trial is not None
        study.tell(trial, loss(trial.parameters))
    return study


@pytest.mark.parametrize("strategy", [*MODELS, "hyperband"])
def test_a_seed_gives_the_same_trials_also_after_a_kill(tmp_path: Path, strategy: str) -> None:
    whole = told(Study.create(None, MIXED, strategy=strategy, seed=5), 17)
    told(Study.create(tmp_path, MIXED, strategy=strategy, seed=5), 12)
    resumed = told(Study.open(tmp_path), 5)
    assert [trial.parameters for trial in resumed.trials] == [trial.parameters for trial in whole.trials]
    assert [trial.origin for trial in resumed.trials] == [trial.origin for trial in whole.trials]


@pytest.mark.parametrize("strategy", MODELS)
def test_models_beat_random_search(strategy: str) -> None:
    best = [min(trial.value for trial in told(Study.create(None, MIXED, strategy=name, seed=3), 30).trials)
            for name in (strategy, "random")]
    assert best[0] < best[1]


@pytest.mark.parametrize("strategy", MODELS)
def test_every_combination_of_a_finite_space_is_tried_once(strategy: str) -> None:
    study = Study.create(None, {"a": [1, 2, 3], "b": ["x", "y", "z"], "c": (1, 2)}, strategy=strategy, seed=1)
    while (trial := study.ask()) is not None:
        study.tell(trial, float(trial.parameters["a"]))
    assert len({tuple(trial.parameters.items()) for trial in study.trials}) == 18
    assert len(study.trials) == 18
    assert study.over == "every combination was tried"


@pytest.mark.parametrize("strategy", [*MODELS, "random", "hyperband"])
def test_parallel_trials_differ_and_meet_constraints(strategy: str) -> None:
    study = Study.create(None, {"a": (1, 64), "b": (1, 64)}, strategy=strategy, seed=1, constraints=["a * b <= 256"])
    running: list[Trial] = []
    for _ in range(24):
        trial = study.ask()
        assert trial is not None
        running.append(trial)
        if len(running) > 4:
            done = running.pop(0)
            study.tell(done, -float(done.parameters["a"]) * float(done.parameters["b"]))
    assert all(trial.parameters["a"] * trial.parameters["b"] <= 256 for trial in study.trials)  # type: ignore[operator]
    if strategy in MODELS:
        assert len({tuple(trial.parameters.items()) for trial in study.trials}) == 24
    assert "the seed does not reproduce the study" in study.about()[-1]


@pytest.mark.parametrize("strategy", ["auto", "bayesian"])
def test_the_search_avoids_where_trials_are_stopped_by_findings(strategy: str) -> None:
    study = Study.create(None, {"lr": "1e-5..10:log", "width": (8, 128)}, strategy=strategy, seed=1)
    for _ in range(30):
        trial = study.ask()
        assert trial is not None
        if trial.parameters["lr"] > 0.1:  # type: ignore[operator]
            study.stop(trial, "diverged", cause=Cause.FINDING)
        # Alone the values would lead into the region that diverges.
        study.tell(trial, -math.log10(trial.parameters["lr"]))  # type: ignore[arg-type]
    late = [trial for trial in study.trials[15:] if trial.parameters["lr"] > 0.1]  # type: ignore[operator]
    assert len(late) <= 5


def test_several_objectives_spread_along_the_front() -> None:
    found = tune(lambda parameters: (parameters["x"] ** 2, (parameters["x"] - 1) ** 2),
                 {"x": (-2.0, 3.0), "y": (0.0, 1.0)}, minimize=["left", "right"], trials=30, seed=1)
    front = [float(trial.parameters["x"]) for trial in found.study.front]
    assert len(front) >= 10
    assert min(front) < 0.25
    assert max(front) > 0.75


def test_a_portfolio_says_what_it_used_and_why() -> None:
    study = told(Study.create(None, MIXED, seed=3), 25)
    assert study.about()[0].startswith("Strategy auto, seed 3. Trials proposed by: ")
    assert "predicted ranks off by" in study.about()[1]
    assert {"gp", "tpe"} <= set(study.trials[-1].origin.scores)


def test_a_study_may_end_when_no_improvement_is_expected(tmp_path: Path) -> None:
    study = Study.create(tmp_path, {"x": (-1.0, 1.0)}, strategy="bayesian", seed=1, trials=60,
                         completion=Completion(convergence=True))
    while (trial := study.ask()) is not None:
        study.tell(trial, (float(trial.parameters["x"]) - 0.3) ** 2)
    assert study.over == "no improvement of value is expected any more"
    assert abs(float(study.best.parameters["x"]) - 0.3) < 0.01
    assert len(study.trials) < 30
    again = Study.open(tmp_path)
    assert again.over == study.over
    assert again.ask() is None


def test_hyperband_gives_most_trials_the_shortest_bracket() -> None:
    study = Study.create(None, {"x": (-1.0, 1.0)}, strategy="hyperband", seed=1)
    brackets = [Hyperband(1).propose(study._history, number).origin.bracket for number in range(220)]
    assert [brackets.count(bracket) for bracket in range(3)] == pytest.approx([120, 60, 40], abs=20)


@pytest.mark.parametrize("strategy", ["auto", "bayesian", "grid"])
def test_every_combination_that_constraints_allow_is_tried_once(strategy: str) -> None:
    study = Study.create(None, {"a": (1, 5), "b": (1, 5), "c": ["x", "y"], "d": "1,2 if c=y"}, strategy=strategy,
                         seed=1, constraints=["a < b"])
    while (trial := study.ask()) is not None and len(study.trials) <= 30:
        study.tell(trial, float(trial.parameters["a"]))
    assert len(study.trials) == 10 * 3
    assert study.over == "every combination was tried"


def test_the_linear_algebra_of_a_proposal_has_one_thread() -> None:
    def threads() -> list[int]:
        return [pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "blas"]

    class Looking:
        has_converged = False

        def propose(self, history: History, number: int) -> Proposal:
            seen.extend(threads())
            return Proposal({"x": 0.5}, Origin("random"))

    seen, before = list[int](), threads()
    study = Study.create(None, {"x": (0.0, 1.0)}, minimize="loss")
    study._strategy = Looking()
    assert study.ask() is not None
    assert seen
    assert set(seen) == {1}
    assert threads() == before
