"""The numerical parts of the models, against the formulas written plainly."""

from __future__ import annotations

import math

import numpy as np
import pytest

from barograph.tune.space import Space
from barograph.tune.strategies import gaussian, tpe
from barograph.tune.strategies.cma import CmaModel
from barograph.tune.strategies.density import Densities
from barograph.tune.strategies.gp import _log_h, choice_of
from barograph.tune.strategies.models import Data
from barograph.tune.strategies.positions import Floats, Positions
from barograph.tune.strategies.transforms import transformed
from barograph.tune.study import Study

GENERATOR = np.random.default_rng(0)
X = GENERATOR.random((14, 3))
Y = np.sin(4 * X[:, 0]) + X[:, 1] ** 2 + 0.1 * GENERATOR.standard_normal(14)
Y = (Y - Y.mean()) / Y.std()


def slow_kernel(one: Floats, other: Floats, lengths: Floats, kernel: str) -> float:
    r = math.sqrt(sum((a - b) ** 2 / length ** 2 for a, b, length in zip(one, other, lengths, strict=True)))
    if kernel == "rbf":
        return math.exp(-r * r / 2)
    return (1 + math.sqrt(5) * r + 5 * r * r / 3) * math.exp(-math.sqrt(5) * r)


@pytest.mark.parametrize("kernel", ["matern", "rbf"])
def test_the_gradient_is_that_of_the_density(kernel: str) -> None:
    squares = (X[:, None, :] - X[None, :, :]) ** 2
    center, spread, point = np.zeros(5), np.ones(5) * 2, np.array([-0.3, 0.4, 0.1, 0.2, -3.0])

    def value(at: Floats) -> float:
        return gaussian._negative_log_posterior(at, squares, Y, kernel, center, spread)[0]

    gradient = gaussian._negative_log_posterior(point, squares, Y, kernel, center, spread)[1]
    steps = np.eye(5) * 1e-5
    plain = [(value(point + step) - value(point - step)) / 2e-5 for step in steps]
    assert gradient == pytest.approx(plain, rel=1e-4, abs=1e-5)


@pytest.mark.parametrize("kernel", ["matern", "rbf"])
def test_predictions_are_those_of_the_formula(kernel: str) -> None:
    process = gaussian.fitted(X, Y, kernel)
    at = np.array([[0.2, 0.5, 0.7], [0.9, 0.1, 0.3]])
    noise = process.noise + 1e-9
    covariance = np.array([[process.signal * slow_kernel(a, b, process.lengths, kernel) for b in X] for a in X])
    inverse = np.linalg.inv(covariance + noise * np.eye(len(X)))
    mean, std = process.predict(at)
    for place, row in enumerate(at):
        cross = np.array([process.signal * slow_kernel(row, b, process.lengths, kernel) for b in X])
        assert mean[place] == pytest.approx(cross @ inverse @ Y, abs=1e-6)
        assert std[place] ** 2 == pytest.approx(process.signal - cross @ inverse @ cross, abs=1e-6)


def test_features_of_a_group_share_a_length_scale() -> None:
    groups = np.array([0, 1, 1])
    process = gaussian.fitted(X, Y, groups=groups)
    assert process.lengths[1] == process.lengths[2] != process.lengths[0]
    mean, _ = process.predict(X)
    assert np.corrcoef(mean, Y)[0, 1] > 0.95
    assert list(Positions(Space.from_texts(["x=0..1", "k=a,b,c", "two=a,b"])).groups) == [0, 1, 1, 1, 2]


def test_left_out_predictions_are_those_without_the_observation() -> None:
    process = gaussian.fitted(X, Y)
    error, std = process.left_out()
    for place in (0, 5, 13):
        rest = np.arange(len(X)) != place
        mean, deviation = gaussian.extended(process, X[rest], Y[rest]).predict(X[[place]])
        assert error[place] == pytest.approx(Y[place] - mean[0], abs=1e-6)
        assert std[place] ** 2 == pytest.approx(deviation[0] ** 2 + process.noise, rel=1e-4)


def test_the_logarithm_of_the_improvement_far_below_is_finite() -> None:
    z = np.array([3.0, 0.0, -3.0, -8.0, -10.5, -50.0])
    found = _log_h(z)
    for place in range(5):
        plain = math.exp(-z[place] ** 2 / 2) / math.sqrt(2 * math.pi) + z[place] * 0.5 * math.erfc(
            -z[place] / math.sqrt(2))
        assert found[place] == pytest.approx(math.log(plain), rel=1e-4)
    assert np.isfinite(found).all()
    assert (np.diff(found) < 0).all()


@pytest.mark.parametrize("name", ["none", "log", "mild log", "rank"])
def test_transforms_keep_the_order_and_are_standardized(name: str) -> None:
    losses = np.array([3.0, -1.0, 1e6, 2.0, 2.0, 40.0])
    found = transformed(losses, name)
    assert found.values.mean() == pytest.approx(0, abs=1e-9)
    assert found.values.std() == pytest.approx(1)
    assert list(np.argsort(found.values, kind="stable")) == list(np.argsort(losses, kind="stable"))


def test_the_slope_of_a_transform_is_its_derivative() -> None:
    losses = np.array([3.0, -1.0, 10.0, 2.0, 2.5, 40.0])
    for name in ("none", "log", "mild log"):
        found = transformed(losses, name)
        plain = np.log(np.gradient(*(array[np.argsort(losses)] for array in (found.values, losses))))
        assert found.log_slopes[np.argsort(losses)][1:-1] == pytest.approx(plain[1:-1], abs=0.7)


def test_equal_losses_break_no_transform() -> None:
    for name in ("none", "log", "mild log", "rank"):
        assert np.isfinite(transformed(np.ones(5), name).values).all()


def test_a_bowl_is_modeled_as_it_is_and_its_exponential_by_its_logarithm() -> None:
    points = np.random.default_rng(1).random((30, 2))
    bowl = ((points - 0.4) ** 2).sum(axis=1)
    assert choice_of(points, bowl) == ("none", "rbf")
    assert choice_of(points, np.exp(20 * bowl))[0] in ("log", "mild log", "rank")


def test_positions_snap_to_the_values_that_exist() -> None:
    space = Space.from_texts(["n=1..64:int:log", "k=a,b,c", "m=0..1 if k=b", "x=0..1"])
    positions = Positions(space)
    units = np.random.default_rng(2).random((200, 4))
    found = positions.snapped(units)
    for row, snapped in zip(units, found, strict=True):
        assert snapped == pytest.approx(space.units(space.values(list(row))))
    assert positions.features(found).shape == (200, 1 + 3 + 1 + 1)


def test_every_position_of_a_finite_space() -> None:
    positions = Positions(Space.from_texts(["n=1..3:int", "k=a,b", "m=1,2 if k=b"]))
    every = positions.every(100)
    assert every is not None
    assert len(every) == 3 * (1 + 2)
    assert positions.every(5) is None


def test_densities_rank_what_is_near_good_trials_first() -> None:
    positions = Positions(Space.from_texts(["x=0..1", "k=a,b,c"]))
    units = positions.snapped(np.random.default_rng(3).random((40, 2)))
    losses = np.abs(units[:, 0] - 0.3) + (units[:, 1] > 0.4)
    data = Data(positions, units, losses, np.empty((0, 2)), set(), frozenset())
    near, far, other = Densities(data).scores(positions.snapped(np.array([[0.3, 0.1], [0.9, 0.1], [0.3, 0.9]])))
    assert near < far
    assert near < other


def test_cma_es_learns_from_trials_far_from_its_own() -> None:
    positions = Positions(Space.from_texts(["x=0..1", "y=0..1"]))
    near = 0.3 + 1e-6 * np.random.default_rng(4).random((300, 2))
    units = np.vstack([near, np.random.default_rng(5).random((300, 2))])
    model = CmaModel()
    model.fit(Data(positions, units, ((units - 0.3) ** 2).sum(axis=1), np.empty((0, 2)), set(), frozenset()))
    proposal = model.proposal(np.random.default_rng(6))
    assert proposal is not None
    assert np.isfinite(proposal).all()


def test_cma_es_converges_on_a_bowl() -> None:
    study = Study.create(None, {f"x{index}": (-5.0, 5.0) for index in range(4)}, strategy="cma-es", seed=1, trials=400)
    while (trial := study.ask()) is not None:
        study.tell(trial, sum((float(value) - 1.0) ** 2 for value in trial.parameters.values()))
    assert study.best.value < 1e-2


def test_predictions_in_blocks_are_those_of_single_positions(monkeypatch: pytest.MonkeyPatch) -> None:
    process, at = gaussian.fitted(X, Y), GENERATOR.random((7, 3))
    monkeypatch.setattr(gaussian, "_BLOCK", 3)
    means, stds = process.predict(at)
    for place, row in enumerate(at):
        mean, std = process.predict(row[None])
        assert (means[place], stds[place]) == pytest.approx((mean[0], std[0]))


def test_the_trials_that_optuna_keeps_are_bounded_and_change_no_proposal(monkeypatch: pytest.MonkeyPatch) -> None:
    positions = Positions(Space.from_mapping({"x": (0.0, 1.0), "y": (0.0, 1.0)}))
    units = np.random.default_rng(1).random((12, 2))
    losses = ((units - 0.3) ** 2).sum(axis=1)

    def proposals(model: tpe.TpeModel) -> list[list[float]]:
        found = []
        for number in range(8):
            model.fit(Data(positions, units, losses, np.empty((0, 2)), set(), frozenset()))
            row = model.proposal(np.random.default_rng(number))
            assert row is not None
            found.append([float(one) for one in row])
        return found

    whole, small = tpe.TpeModel(), tpe.TpeModel()
    expected = proposals(whole)
    monkeypatch.setattr(tpe, "_STRIDE", 2)
    assert proposals(small) == expected
    assert len(whole._study.trials) == 12 + 8
    assert len(small._study.trials) <= 12 + 3
