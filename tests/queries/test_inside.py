"""Latent space, saliency maps, distributions and learning curves of a small real training on digits."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest

import barograph
from barograph import inside
from barograph.errors import SettingsError, UnknownKey, UnknownName
from barograph.model.cause import Cause, Suspicion
from barograph.model.finding import FindingState, NotEvaluated, Severity
from barograph.model.step import Mode
from barograph.queries.latent import latent, probe_frames
from barograph.queries.learning_curves import learning_curves
from barograph.queries.run import run_now
from barograph.runs.state.findings import write_event

torch = pytest.importorskip("torch")
datasets = pytest.importorskip("sklearn.datasets")

EVALUATIONS = 5


@pytest.fixture(scope="module")
def run():
    """A run whose evaluation shuffles its data, so that samples have to be found again."""
    from torch import nn
    from torch.utils.data import DataLoader, TensorDataset

    torch.manual_seed(0)
    images, labels = datasets.load_digits(return_X_y=True)
    x = torch.tensor(images / 16, dtype=torch.float32).reshape(-1, 1, 8, 8)
    y = torch.tensor(labels)
    model = nn.Sequential(nn.Flatten(), nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 10))
    optimizer = torch.optim.Adam(model.parameters(), 0.005)
    train = DataLoader(TensorDataset(x[:1200], y[:1200]), 100, shuffle=True)
    test = DataLoader(TensorDataset(x[1200:], y[1200:]), 100, shuffle=True)
    url = "memory://inside-digits"
    with barograph.attach(model, optimizer, to=url, watch=False, budget=None, preset="exact",
                          probe={"samples": 120, "saliency": 3}):
        for _ in range(EVALUATIONS):
            for inputs, targets in train:
                optimizer.zero_grad()
                nn.functional.cross_entropy(model(inputs), targets).backward()
                optimizer.step()
            model.eval()
            with torch.no_grad():
                for inputs, targets in test:
                    nn.functional.cross_entropy(model(inputs), targets)
            model.train()
    return barograph.open(url), dict(zip(map(bytes, x.numpy().astype(np.float16)), y.tolist(), strict=True))


def test_each_evaluation_has_the_same_samples_with_their_labels(run):
    reader, labels = run
    frames = inside.frames(reader)

    assert [frame.step for frame in frames] == [12, 24, 36, 48, 60]
    assert {frame.outputs.shape for frame in frames} == {(120, 32)}
    assert all((frame.samples == frames[0].samples).all() for frame in frames)
    for row, sample in enumerate(frames[0].samples[:10].tolist()):
        stored = inside.sample(reader, str(sample))
        assert labels[stored.input.tobytes()] == stored.target == frames[-1].targets[row]


def test_the_classes_separate_while_the_model_learns(run):
    found = inside.latent(run[0])

    assert (found.layer, found.features, found.is_classes, found.evaluations) == ("input of 3", 32, True, EVALUATIONS)
    assert found.frames[-1].neighbor_accuracy > 0.85
    assert found.frames[-1].accuracy > found.frames[0].accuracy
    assert all(np.isfinite(frame.points).all() for frame in found.frames)
    assert 0.2 < sum(found.explained) < 1


def test_axes_of_each_evaluation_are_turned_towards_the_one_before(run):
    frames = probe_frames(run[0])
    turned = latent(frames, fit="each").frames
    last = frames[-1].outputs - frames[-1].outputs.mean(0)
    plain = last @ np.linalg.svd(last, full_matrices=False)[2][:2].T

    np.testing.assert_allclose(np.linalg.norm(turned[-1].points, axis=1), np.linalg.norm(plain, axis=1), rtol=1e-6)
    before = turned[-2].points - turned[-2].points.mean(0)
    away = np.linalg.norm(turned[-1].points - before)
    for angle in np.linspace(0.3, 6, 12):
        turn = np.array([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]])
        assert np.linalg.norm(turned[-1].points @ turn - before) > away


def test_t_sne_moves_samples_little_from_frame_to_frame(run):
    frames = probe_frames(run[0])[-2:]
    found = latent(frames, method="tsne")
    first, second = (frame.points for frame in found.frames)

    assert np.median(np.linalg.norm(second - first, axis=1)) < 0.5 * first.std()
    assert np.isnan(found.explained[0])


def test_an_evaluation_that_lacks_a_sample_has_a_gap():
    a = inside.ProbeFrame(1, "fc", np.array([1, 2, 3]), np.eye(3), np.array([0, 1, 1]), np.array([0, 1, 0]), None)
    b = inside.ProbeFrame(2, "fc", np.array([1, 3]), np.eye(3)[:2], np.array([0, 1]), np.array([0, 1]), None)
    from barograph.queries.latent import _with_same_rows

    found = latent(_with_same_rows([a, b]))

    assert np.isnan(found.frames[1].points).tolist() == [[False, False], [True, True], [False, False]]
    assert [frame.accuracy for frame in found.frames] == pytest.approx([2 / 3, 1.0])
    assert json.loads(json.dumps(found.to_json(), allow_nan=False))["frames"][1]["points"][2:4] == [None, None]


def test_of_many_samples_some_are_drawn_and_all_are_counted(run):
    frames = probe_frames(run[0])
    found, whole = latent(frames, most_samples=50), latent(frames)

    assert (len(found.samples), found.samples_left_out) == (40, 80)
    assert found.frames[-1].points.shape == (40, 2)
    assert len(found.frames[-1].losses) == len(found.targets) == 40
    assert found.frames[-1].neighbor_accuracy == whole.frames[-1].neighbor_accuracy


def test_a_sample_has_neighbors_and_a_history(run):
    reader, _ = run
    found = inside.sample(reader, inside.latent(reader).samples[0])

    assert len(found.neighbors) == 5
    assert len(found.predictions) == len(found.losses) == EVALUATIONS
    assert found.to_json()["input"]["shape"] == [1, 8, 8]
    with pytest.raises(UnknownName, match="has no sample"):
        inside.sample(reader, "7")


def test_saliency_maps_follow_a_sample_over_the_training(run):
    reader, _ = run
    samples = inside.saliency_samples(reader)
    found = inside.saliency(reader, samples[0])

    assert len(samples) == 3
    assert (found.method, found.is_image, len(found.maps)) == ("integrated-gradients", True, EVALUATIONS)
    assert found.maps[0].values.shape == found.input.shape
    # A black pixel moves nothing.
    assert not found.maps[-1].values[np.asarray(found.input) == 0].any()
    json.dumps(found.to_json(), allow_nan=False)
    with pytest.raises(UnknownName, match="smoothgrad"):
        inside.saliency(reader, samples[0], method="smoothgad")
    with pytest.raises(UnknownName, match="no saliency maps of the sample"):
        inside.saliency(reader, inside.latent(reader).samples[10])


def test_a_ridge_has_the_shares_of_all_elements(run):
    found = inside.distribution(run[0], "weight:1.weight")

    for at in range(len(found.steps)):
        assert sum(found.negative[at]) + sum(found.positive[at]) + found.zeros[at] == pytest.approx(1, abs=2e-3)
    assert found.steps[-1] <= 59
    with pytest.raises(UnknownKey, match="has no histogram"):
        inside.distribution(run[0], "weight:7.weight")


def test_learning_curves_pair_training_and_validation(run):
    found = inside.learning_curves(run[0])

    assert [step for step, _, _ in found.gaps] == [12, 24, 36, 48, 60]
    assert found.best_step == 60
    # Nothing watched this run, so nothing is said about it.
    assert found.diagnosis == "not enough data"
    assert (found.training.name, found.validation.name) == ("loss.cross_entropy", "eval_loss.cross_entropy")


def test_a_run_without_a_probe_has_no_latent_space(new_diary):
    diary = new_diary("plain")
    diary.step(0, {"loss:total": 1.0})
    reader = diary.run()

    assert inside.latent(reader) is None
    assert inside.saliency_samples(reader) == ()
    with pytest.raises(SettingsError, match="run or its path"):
        inside.latent(3.5)


def losses(new_diary, training, validation):
    diary = new_diary("curves")
    for number, (fit, held_out) in enumerate(zip(training, validation, strict=True)):
        diary.step(number, {"loss:total": fit, "loss:mse_loss": fit})
        diary.step(number + 1, {"loss:mse_loss": held_out}, mode=Mode.EVAL)
    return diary


FALLING = [2.0 * 0.8**number for number in range(12)]


@pytest.mark.parametrize(("validation", "diagnosis"), [
    ([1.05 * value for value in FALLING], "not enough data"),
    ([1.2 + (0.5 if number % 2 else -0.5) - 0.01 * number for number in range(12)], "unrepresentative split"),
    ([0.3 * value for value in FALLING], "unrepresentative split"),
])
def test_the_split_is_judged_where_no_rule_judges(new_diary, validation, diagnosis):
    reader = losses(new_diary, FALLING, validation).run()

    assert learning_curves(reader, now=run_now(reader)).diagnosis == diagnosis


@pytest.mark.parametrize(("state", "diagnosis"), [
    (FindingState.OPEN, "overfitting"), (FindingState.CLOSED, "unrepresentative split"),
])
def test_the_diagnosis_is_that_of_the_rules(new_diary, finding, state, diagnosis):
    diary = losses(new_diary, FALLING, [1.2 + (0.5 if number % 2 else -0.5) for number in range(12)])
    diary.publish()
    write_event(diary.store, finding(code="L102", message="The validation loss rose.", state=state))
    found = learning_curves(diary.run())

    assert found.diagnosis == diagnosis
    assert (found.text == "The validation loss rose.") == (state is FindingState.OPEN)


@pytest.mark.parametrize("code", ["L102", "L108"])
def test_a_diagnosis_is_the_main_finding_of_the_problem_of_its_finding(new_diary, finding, code):
    diary = losses(new_diary, FALLING, [1.2 + 0.1 * number for number in range(12)])
    diary.publish()
    write_event(diary.store, finding(Severity.COSTLY, code=code, rule="a", message="The curves are odd."))
    write_event(diary.store, finding(Severity.COSTLY, code="A101", rule="dead-relu", message="ReLU units are dead.",
                                     causes=(Suspicion(Cause.DEAD_RELU, 0.9),)))
    run = diary.run()
    (problem,) = run_now(run).summary.problems
    found = learning_curves(run)

    assert (found.diagnosis, found.text) == ("another fault", problem.findings[0].message)
    assert found.text == "ReLU units are dead."
    assert found.findings == (problem.findings[0].id,)


@pytest.mark.parametrize(("code", "severity", "diagnosis"), [
    ("A101", Severity.COSTLY, "another fault"), ("A101", Severity.DOUBTFUL, "not enough data"),
    ("M107", Severity.COSTLY, "not enough data"), ("P106", Severity.COSTLY, "not enough data"),
])
def test_the_curves_of_a_model_with_a_grave_problem_are_not_fine(new_diary, finding, code, severity, diagnosis):
    diary = losses(new_diary, FALLING, [1.05 * value for value in FALLING])
    diary.publish()
    write_event(diary.store, finding(severity, code=code))

    assert learning_curves(diary.run()).diagnosis == diagnosis


@pytest.mark.parametrize(("unmet", "level"), [
    ((), "The training loss does not stay at that of a constant prediction;"),
    (("L108",), "The rule on underfitting needs more data;"),
])
def test_without_a_finding_the_diagnosis_states_what_was_compared(new_diary, unmet, level):
    reader = losses(new_diary, [1.6] * 12, [1.65] * 12).run()
    now = run_now(reader)
    rules = tuple(NotEvaluated(code, "underfit", "It needs more.") for code in unmet)
    seen = replace(now.recall, watched=True, complete=True, summary=replace(now.summary, not_evaluated=rules))
    found = learning_curves(reader, now=replace(now, recall=seen))

    assert found.diagnosis == "no fault found"
    assert level in found.text
    assert "whether a larger model or more training would lower it is not tested" in found.text
