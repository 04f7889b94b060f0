"""The probe: outputs of a layer for the same samples at each evaluation, and nothing of it changes the training."""

from __future__ import annotations

import copy

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from barograph.capture.probe_pass import class_results, fixed_samples
from barograph.errors import SettingsError, UnknownName, UnsupportedCapture
from barograph.inside import explain
from barograph.model.probe import SALIENCY_METHODS, ProbeSettings
from barograph.model.step import Mode
from barograph.runs.format.tensors import array_from_raw


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(1, 4, 3, padding=1)
        self.norm = nn.BatchNorm2d(4)
        self.drop = nn.Dropout(0.3)
        self.fc1 = nn.Linear(4 * 16, 12)
        self.fc2 = nn.Linear(12, 3)

    def forward(self, x):
        x = F.max_pool2d(F.relu(self.norm(self.conv(x))), 2)
        return self.fc2(F.relu(self.fc1(self.drop(x.flatten(1)))))


@pytest.fixture
def data():
    generator = torch.Generator().manual_seed(1)
    x = torch.rand(60, 1, 8, 8, generator=generator)
    return x, torch.arange(60) % 3


@pytest.fixture
def model():
    torch.manual_seed(0)
    return Net()


def train(model, data, evaluations=2, shuffled=False, no_loss=False):
    """Train for two steps before each evaluation, with everything that a probe could disturb."""
    torch.manual_seed(3)
    optimizer = torch.optim.SGD(model.parameters(), 0.1, momentum=0.9)
    fit = DataLoader(TensorDataset(data[0][:40], data[1][:40]), 20, shuffle=True)
    check = DataLoader(TensorDataset(data[0][40:], data[1][40:]), 8, shuffle=shuffled)
    for _ in range(evaluations):
        for x, y in fit:
            optimizer.zero_grad()
            F.cross_entropy(model(x), y).backward()
            optimizer.step()
        model.eval()
        with torch.no_grad():
            for x, y in check:
                outputs = model(x)
                if not no_loss:
                    F.cross_entropy(outputs, y)
        model.train()
    loss = F.cross_entropy(model(data[0][:20]), data[1][:20])
    loss.backward()
    return loss


def frames(tape):
    tape.close()
    return [{str(key): array_from_raw(item) for key, item in records.tensors.items()}
            for records in tape.steps(Mode.EVAL)]


def test_a_frame_has_the_input_of_the_last_linear_layer(record, model, data):
    tape = record(probe=ProbeSettings(samples=10))
    train(model, data)
    found = frames(tape)

    assert len(found) == 2
    first, last = found
    x, y = data[0][40:50], data[1][40:50]
    assert last["custom:probe/output[input of fc2]"].shape == (10, 12)
    np.testing.assert_array_equal(last["custom:probe/samples"], first["custom:probe/samples"])
    np.testing.assert_array_equal(first["custom:probe/input"], x.numpy().astype(np.float16))
    np.testing.assert_array_equal(last["custom:probe/target"], y)
    assert "custom:probe/input" not in last


def test_what_is_stored_is_what_the_model_computed(record, model, data):
    kept = []
    model.fc2.register_forward_hook(
        lambda module, args, output: kept.append((args[0].detach().clone(), output.detach())))
    tape = record(probe=ProbeSettings(samples=8))
    train(model, data, evaluations=1)
    (frame,) = frames(tape)
    outputs, logits = kept[2]

    np.testing.assert_allclose(frame["custom:probe/output[input of fc2]"], outputs, atol=2e-3)
    np.testing.assert_array_equal(frame["custom:probe/prediction"], logits.argmax(1))
    expected = F.cross_entropy(logits, data[1][40:48], reduction="none")
    np.testing.assert_allclose(frame["custom:probe/loss"], expected, rtol=1e-5)


@pytest.mark.parametrize("probe", [ProbeSettings(samples=10), ProbeSettings(samples=10, saliency=4)])
def test_the_training_is_the_same_to_the_last_bit(record, model, data, probe):
    alone = copy.deepcopy(model)
    expected = train(alone, data, shuffled=True)
    expected_state = torch.get_rng_state()
    tape = record(probe=probe)
    loss = train(model, data, shuffled=True)
    tape.close()

    assert torch.equal(loss, expected)
    assert torch.equal(torch.get_rng_state(), expected_state)
    for name, value in alone.state_dict().items():
        assert torch.equal(model.state_dict()[name], value), name
    for mine, theirs in zip(model.parameters(), alone.parameters(), strict=True):
        assert torch.equal(mine.grad, theirs.grad)
    assert all(part.training for part in model.modules())
    assert not any(part._forward_hooks for part in model.modules())


def test_samples_are_found_again_in_another_order(record, model, data):
    tape = record(probe=ProbeSettings(samples=6))
    train(model, data, evaluations=3, shuffled=True)
    found = frames(tape)

    assert len(found) == 3
    for frame in found[1:]:
        np.testing.assert_array_equal(frame["custom:probe/samples"], found[0]["custom:probe/samples"])
        np.testing.assert_array_equal(frame["custom:probe/target"], found[0]["custom:probe/target"])


def test_the_layer_can_be_chosen(record, model, data):
    tape = record(probe=ProbeSettings(samples=5, layer="conv"))
    train(model, data, evaluations=1)
    (frame,) = frames(tape)

    with torch.no_grad():
        expected = [item.shape for item in (model.eval().conv(data[0][40:45]).mean((2, 3)),)]
    assert [frame["custom:probe/output[conv]"].shape] == expected


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_samples_may_be_tensors_that_numpy_cannot_convert(dtype):
    inputs = torch.arange(12).reshape(4, 3).to(dtype).requires_grad_()

    samples = fixed_samples(inputs, torch.arange(4), 2)

    assert samples.inputs.tolist() == [[0, 1, 2], [3, 4, 5]]
    assert samples.targets.tolist() == [0, 1]


def test_a_layer_that_is_never_called_is_reported(record, model, data):
    tape = record(probe=ProbeSettings(samples=5, layer="fc9"))
    train(model, data, evaluations=1)

    assert [frame for frame in frames(tape) if frame] == []
    assert 'probe: no layer "fc9" was called in an evaluation' in tape.coverage.reasons


def test_without_a_loss_there_are_predictions_and_no_targets(record, model, data):
    tape = record(probe=ProbeSettings(samples=5))
    train(model, data, evaluations=1, no_loss=True)
    (frame,) = frames(tape)

    assert frame["custom:probe/prediction"].shape == (5,)
    assert "custom:probe/target" not in frame


def test_a_regression_with_several_outputs_has_losses_and_no_classes(record, model, data):
    tape = record(probe=ProbeSettings(samples=8))
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    F.mse_loss(model(data[0][:20]), torch.zeros(20, 3)).backward()
    optimizer.step()
    model.eval()
    with torch.no_grad():
        outputs = model(data[0][40:])
        F.mse_loss(outputs, torch.zeros(20, 3))
    (frame,) = frames(tape)

    np.testing.assert_allclose(frame["custom:probe/loss"], outputs[:8].square().mean(1), rtol=1e-5)
    assert not {"custom:probe/prediction", "custom:probe/target"} & frame.keys()


@pytest.mark.parametrize(("targets", "labels"), [
    ([2, 0], [2, 0]),
    ([[2.0], [0.0]], [2, 0]),
    ([[0, 0, 1], [1, 0, 0]], [2, 0]),
    ([[0.1, 0.2, 0.7], [0.6, 0.2, 0.2]], [2, 0]),
    ([[0.5, 1.5, 2.5], [1.0, 0.0, 0.0]], None),
    ([[-1.0, 1.0, 1.0], [1.0, 0.0, 0.0]], None),
    ([[1, 0, 1], [1, 0, 0]], None),
    ([0.3, 2.0], None),
])
def test_targets_that_name_no_class_make_no_predictions_either(targets, labels):
    scores, losses = np.array([[0.1, 0.2, 0.3], [3.0, 2.0, 1.0]]), np.array([1.0, 2.0])
    found = class_results(scores, np.array(targets), losses)

    assert found.losses is losses
    assert [None if values is None else values.tolist() for values in (found.targets, found.predictions)] == (
        [labels, [2, 0]] if labels else [None, None])


def test_samples_of_the_script_take_a_pass_of_their_own(record, model, data):
    alone = copy.deepcopy(model)
    expected = train(alone, data)
    tape = record()
    state = torch.get_rng_state()
    loader = DataLoader(TensorDataset(*data), 7, shuffle=True)
    tape.integration.observe(ProbeSettings(samples=12), loader)
    assert torch.equal(torch.get_rng_state(), state)
    loss = train(model, data)
    found = frames(tape)

    assert torch.equal(loss, expected)
    assert [frame["custom:probe/output[input of fc2]"].shape for frame in found] == [(12, 12), (12, 12)]
    targets = {x.numpy().astype(np.float16).tobytes(): int(y) for x, y in zip(*data, strict=True)}
    inputs = found[0]["custom:probe/input"]
    assert found[1]["custom:probe/target"].tolist() == [targets[item.tobytes()] for item in inputs]


@pytest.mark.parametrize("wrong", [3.5, [1, 2], (torch.zeros(3), torch.zeros(4))])
def test_what_is_no_sample_is_refused(record, wrong):
    with pytest.raises(SettingsError, match="probe"):
        record().integration.observe(ProbeSettings(), wrong)


def test_a_model_that_gets_its_inputs_by_name_and_returns_its_loss(record):
    class Named(nn.Module):
        def __init__(self):
            super().__init__()
            self.body, self.head = nn.Linear(4, 6), nn.Linear(6, 2)

        def forward(self, *, values, labels=None):
            logits = self.head(torch.tanh(self.body(values)))
            loss = F.cross_entropy(logits, labels) if labels is not None else None
            return {"loss": loss, "logits": logits}

    model, x, y = Named(), torch.rand(9, 4), torch.arange(9) % 2
    tape = record(probe=ProbeSettings(samples=5))
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    for _ in range(2):
        model(values=x, labels=y)["loss"].backward()
        optimizer.step()
        model.eval()
        with torch.inference_mode():
            model(values=x[3:], labels=y[3:])
        model.train()
    found = frames(tape)

    assert [frame["custom:probe/output[input of head]"].shape for frame in found] == [(5, 6), (5, 6)]
    assert found[1]["custom:probe/target"].tolist() == y[3:8].tolist()
    np.testing.assert_allclose(found[0]["custom:probe/input"], x[3:8], atol=1e-3)


def test_saliency_maps_of_integrated_gradients_sum_up_to_the_change_of_the_score(record, model, data):
    tape = record(probe=ProbeSettings(samples=10, saliency=4))
    train(model, data, evaluations=1)
    (frame,) = frames(tape)
    model.eval()
    with torch.no_grad():
        x = data[0][40:44]
        chosen = torch.as_tensor(frame["custom:probe/prediction"][:4].copy())[:, None]
        change = (model(x) - model(torch.zeros_like(x))).gather(1, chosen)[:, 0]
    maps = frame["custom:probe/saliency[integrated-gradients]"]

    assert maps.shape == (4, 1, 8, 8)
    np.testing.assert_array_equal(frame["custom:probe/saliency_samples"], frame["custom:probe/samples"][:4])
    np.testing.assert_allclose(maps.sum((1, 2, 3)), change, rtol=0.1, atol=0.02)
    for method in ("gradient-input", "smoothgrad"):
        assert np.abs(frame[f"custom:probe/saliency[{method}]"]).max() > 0


def test_a_model_evaluated_in_training_mode_is_not_called_again(record, model, data):
    tape = record(probe=ProbeSettings(samples=5, saliency=2))
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    F.cross_entropy(model(data[0][:8]), data[1][:8]).backward()
    optimizer.step()
    counted = int(model.norm.num_batches_tracked)
    with torch.no_grad():
        F.cross_entropy(model(data[0][40:48]), data[1][40:48])
    (frame,) = frames(tape)

    assert "custom:probe/saliency_samples" not in frame
    assert int(model.norm.num_batches_tracked) == counted + 1
    assert "saliency maps: the model was not in eval mode" in tape.coverage.reasons


def test_inputs_beyond_the_limit_are_not_stored(record, model, data):
    tape = record(probe=ProbeSettings(samples=10, input_bytes=3 * 64 * 2))
    train(model, data, evaluations=1)

    assert frames(tape)[0]["custom:probe/input"].shape == (3, 1, 8, 8)


def test_a_large_batch_is_found_row_by_row(record, model, data):
    x = torch.rand(150, 1, 80, 80)
    body = nn.Sequential(nn.AvgPool2d(10), model)
    tape = record(probe=ProbeSettings(samples=140))
    optimizer = torch.optim.SGD(body.parameters(), 0.1)
    for _ in range(2):
        F.cross_entropy(body(x[:8]), data[1][:8]).backward()
        optimizer.step()
        body.eval()
        with torch.no_grad():
            body(x)
        body.train()
    first, second = frames(tape)

    np.testing.assert_array_equal(first["custom:probe/samples"], second["custom:probe/samples"])
    assert len(set(first["custom:probe/samples"].tolist())) == 140
    assert first["custom:probe/input"].shape == (140, 1, 40, 40)


def test_any_samples_of_a_model_in_memory_are_explained(model, data):
    model.train()
    state, before = torch.get_rng_state(), copy.deepcopy(model.state_dict())
    found = {method: explain(model, data[0][:5], method=method) for method in SALIENCY_METHODS}

    assert {item.shape for item in found.values()} == {(5, 1, 8, 8)}
    assert all(part.training for part in model.modules())
    assert torch.equal(torch.get_rng_state(), state)
    assert all(torch.equal(before[name], value) for name, value in model.state_dict().items())
    assert all(parameter.grad is None for parameter in model.parameters())
    other = explain(model, data[0][:5], [2] * 5)
    assert not np.allclose(other, explain(model, data[0][:5], [0] * 5))
    with pytest.raises(UnknownName, match="smoothgrad"):
        explain(model, data[0], method="smooth")
    with pytest.raises(UnsupportedCapture, match="integers"):
        explain(nn.Embedding(5, 2), torch.arange(3), [0] * 3)
