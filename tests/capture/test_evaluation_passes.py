"""An evaluation that goes over several sets in one go is one evaluation for each, under names of their own."""

from __future__ import annotations

import time

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from barograph.capture.torch.splits import look, set_named
from barograph.model.step import Mode

X_TRAIN, X_OTHER = torch.zeros(8, 3), torch.ones(6, 3)


@pytest.fixture
def model():
    torch.manual_seed(0)
    return nn.Linear(3, 1)


def loss_of(model, x):
    return F.mse_loss(model(x), torch.full((len(x), 1), 2.0))


def train(model, optimizer):
    loss_of(model, X_TRAIN[:2]).backward()
    optimizer.step()
    optimizer.zero_grad()


def evaluated(record, model, evaluate, **settings):
    """Return by name the losses of one evaluation between two steps."""
    tape, optimizer = record(**{"preset": "everything", **settings}), torch.optim.SGD(model.parameters(), 0.01)
    train(model, optimizer)
    model.eval()
    with torch.no_grad():
        evaluate()
    model.train()
    train(model, optimizer)
    tape.close()
    assert tape.numbers() == [0, 1]
    found = {}
    for records in tape.steps(Mode.EVAL):
        assert records.step.number == 1
        losses = {key.path: value for key, value in records.scalars.items() if key.kind == "loss"}
        assert not found.keys() & losses.keys()
        found.update(losses)
    return found


@pytest.fixture
def wanted(model):
    """The losses of both sets as they are at the evaluation: of a model that has made one step."""
    import copy

    twin = copy.deepcopy(model)
    train(twin, torch.optim.SGD(twin.parameters(), 0.01))
    twin.eval()
    with torch.no_grad():
        return float(loss_of(twin, X_TRAIN)), float(loss_of(twin, X_OTHER))


def test_sets_that_a_loop_names(record, model, wanted):
    def batch(name):
        return X_TRAIN[:4].clone() if name == "train" else X_OTHER[:4].clone()

    def evaluate():
        for split in ("train", "val"):
            for _ in range(3):
                loss_of(model, batch(split))

    found = evaluated(record, model, evaluate)
    assert found == pytest.approx({"train.mse_loss": wanted[0], "mse_loss": wanted[1]}, rel=1e-5)


def test_it_is_the_same_where_nothing_asks_for_what_models_are_called_with(record, model, wanted):
    def evaluate():
        for split in ("train", "val"):
            loss_of(model, X_TRAIN if split == "train" else X_OTHER)

    found = evaluated(record, model, evaluate, preset="free")
    assert found == pytest.approx({"train.mse_loss": wanted[0], "mse_loss": wanted[1]}, rel=1e-5)


def test_arrays_that_variables_name(record, model, wanted):
    train_data, val_data = X_TRAIN, X_OTHER

    def evaluate():
        for data in (train_data, val_data):
            for begin in range(0, 4, 2):
                loss_of(model, data[begin:begin + 2].clone())
        assert train_data is not val_data

    found = evaluated(record, model, evaluate)
    assert found == pytest.approx({"train.mse_loss": wanted[0], "mse_loss": wanted[1]}, rel=1e-5)


def test_loaders_that_variables_name(record, model, wanted):
    train_loader, test_loader = (DataLoader(TensorDataset(x), 4) for x in (X_TRAIN, X_OTHER))

    def over(loader):
        for (x,) in loader:
            loss_of(model, x)

    def evaluate():
        over(train_loader)
        over(test_loader)

    found = evaluated(record, model, evaluate)
    assert found == pytest.approx({"train.mse_loss": wanted[0], "mse_loss": wanted[1]}, rel=1e-5)


def test_over_training_data_alone_it_is_none_that_is_compared_with_training(record, model, wanted):
    train_loader = DataLoader(TensorDataset(X_TRAIN), 4)

    def evaluate():
        for (x,) in train_loader:
            loss_of(model, x)

    assert evaluated(record, model, evaluate) == pytest.approx({"train.mse_loss": wanted[0]}, rel=1e-5)


def test_loaders_without_a_name_are_apart_and_none_is_taken_for_validation(record, model, wanted):
    loaders = [DataLoader(TensorDataset(x), 4) for x in (X_TRAIN, X_OTHER)]

    def evaluate():
        for loader in loaders:
            for (x,) in loader:
                loss_of(model, x)

    found = evaluated(record, model, evaluate)
    assert found == pytest.approx({"part1.mse_loss": wanted[0], "part2.mse_loss": wanted[1]}, rel=1e-5)


def test_calls_from_two_lines_with_a_loss_each_are_two_passes(record, model, wanted):
    def evaluate():
        for _ in range(2):
            loss_of(model, X_TRAIN)
            loss_of(model, X_OTHER)

    found = evaluated(record, model, evaluate)
    assert found == pytest.approx({"part1.mse_loss": wanted[0], "part2.mse_loss": wanted[1]}, rel=1e-5)


def test_two_passes_over_one_loader_are_over_the_same_data(record, model, wanted):
    loader = DataLoader(TensorDataset(X_OTHER), 4)

    def loss():
        for (x,) in loader:
            loss_of(model, x)

    def again():
        for (x,) in loader:
            loss_of(model, x)

    def evaluate():
        loss()
        again()

    found = evaluated(record, model, evaluate)
    assert found == pytest.approx({"mse_loss": wanted[1], "part1.mse_loss": wanted[1]}, rel=1e-5)


def test_two_calls_for_one_loss_are_one_pass(record, model):
    def evaluate():
        for _ in range(3):
            one = model(X_OTHER)
            other = model(X_OTHER.flip(0))
            F.mse_loss(one + other, torch.zeros(6, 1))

    assert list(evaluated(record, model, evaluate)) == ["mse_loss"]


def test_one_set_in_batches_is_one_pass_though_a_variable_says_train_all_the_time(record, model, wanted):
    phase = "train"

    def evaluate():
        for begin in range(0, 6, 2):
            loss_of(model, X_OTHER[begin:begin + 2])
        assert phase

    assert evaluated(record, model, evaluate) == pytest.approx({"mse_loss": wanted[1]}, rel=1e-5)


def test_what_cannot_be_told_apart_is_called_mixed(record, model):
    def evaluate():
        for number in range(2):
            data = X_OTHER + number
            for begin in range(0, 6, 4):  # whole batches follow on one that was not
                loss_of(model, data[begin:begin + 4].clone())

    assert list(evaluated(record, model, evaluate)) == ["mixed.mse_loss"]


@pytest.mark.parametrize(("name", "word"), [
    ("train_loader", "train"), ("trainLoader", "train"), ("trainloader", "train"), ("xtrain", "train"),
    ("X_tr", "train"), ("valid_dl", "val"), ("dev", "val"), ("testset", "test"), ("y_te", "test"), ("x_test", "test"),
    ("train_test_split", None), ("data", None), ("contest", None), ("value", None), ("constraint", None),
    ("retrain", None), ("devices", None), ("latest", None), ("tree", None),
])
def test_a_variable_names_a_set(name, word):
    assert set_named(name) == word


def test_a_script_that_holds_megabytes_of_text_waits_no_longer():
    text = "A" * 50_000_000  # noqa: F841 - looked at, as all variables of a script
    took_secs = []
    for _ in range(5):
        begin = time.thread_time()
        look()
        took_secs.append(time.thread_time() - begin)
    # Folding its case took 50 ms, and a look without it takes less than 1 ms.
    assert min(took_secs) < 0.02
