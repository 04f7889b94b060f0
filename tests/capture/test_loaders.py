"""The loader that feeds training tells its passes, and how long training waits for it."""

from __future__ import annotations

import pickle
import time

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, IterableDataset, TensorDataset
from torch.utils.data.dataloader import _BaseDataLoaderIter

from barograph.model.facts import Fact, fact
from barograph.model.key import Kind
from barograph.model.selection import Selection
from barograph.model.step import Mode

FACTS = Selection(kinds=frozenset({Kind.FACT}))


def data(samples: int = 32) -> TensorDataset:
    return TensorDataset(torch.randn(samples, 4), torch.randint(0, 3, (samples,)))


@pytest.fixture
def training(record):
    """Return a recording, and what trains a pass over a loader."""
    tape = record(preset="free", collections=(FACTS,))
    model = nn.Linear(4, 3)
    optimizer = torch.optim.SGD(model.parameters(), 0.1)

    def train(loader):
        for x, y in loader:
            optimizer.zero_grad()
            F.cross_entropy(model(x), y).backward()
            optimizer.step()

    return tape, model, train


def epochs(tape):
    return [tape.scalar("fact:epoch", at) for at in range(len(tape.steps()))]


def test_passes_over_the_loader_are_counted_from_one(training):
    tape, _, train = training
    loader = DataLoader(data(), batch_size=8)
    for _ in range(3):
        train(loader)
    assert epochs(tape) == [1] * 4 + [2] * 4 + [3] * 4
    assert tape.scalar("fact:epoch_steps") == 4
    assert tape.scalar("fact:loader_workers") == 0
    assert tape.scalar("fact:full_batch") == 0


def test_a_look_at_one_batch_and_an_evaluation_are_no_passes(training):
    tape, model, train = training
    loader, validation = DataLoader(data(), batch_size=8), DataLoader(data(), batch_size=16)
    next(iter(loader))
    for _ in range(2):
        train(loader)
        model.eval()
        with torch.no_grad():
            for x, _ in validation:
                model(x)
            for x, _ in loader:
                model(x)
        model.train()
    assert epochs(tape) == [1] * 4 + [2] * 4
    assert tape.scalar("fact:epoch_steps") == 4


def test_a_loader_that_gives_all_at_once_is_told(training):
    tape, _, train = training
    train(DataLoader(data(), batch_size=32))
    assert tape.scalar("fact:full_batch") == 1


def test_passes_are_counted_though_their_steps_are_passed_over(record):
    tape = record(budget=0.001, preset="free", collections=(FACTS,))
    model = nn.Linear(4, 3)
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    loader = DataLoader(data(), batch_size=8)

    def train(passes):
        for _ in range(passes):
            for x, y in loader:
                optimizer.zero_grad()
                F.cross_entropy(model(x), y).backward()
                optimizer.step()

    train(1)
    tape.session.price.spent_secs += 60.0
    train(60)
    tape.session.price.spent_secs = 0.0
    train(40)
    told = {records.step.number: records.scalars[fact(Fact.EPOCH)] for records in tape.steps()
            if fact(Fact.EPOCH) in records.scalars}
    assert max(told) > 240
    assert told == {number: number // 4 + 1 for number in told}


class Stream(IterableDataset):
    def __iter__(self):
        yield from zip(torch.randn(16, 4), torch.zeros(16, dtype=torch.long), strict=True)


def test_a_stream_has_no_length(training):
    tape, _, train = training
    train(DataLoader(Stream(), batch_size=8))
    assert tape.scalar("fact:epoch") == 1
    assert "fact:epoch_steps" not in tape.names()


class Slow(torch.utils.data.Dataset):
    def __len__(self):
        return 4

    def __getitem__(self, index):
        begin = time.perf_counter()
        while time.perf_counter() - begin < 0.01:
            pass
        return torch.randn(4), 0


def test_the_time_that_training_waits_is_added_up_and_that_of_an_evaluation_is_not(training):
    tape, model, train = training
    with torch.no_grad():
        for x, _ in DataLoader(Slow(), batch_size=2):
            model(x)
    assert tape.session.progress.times.data_secs == 0
    begin = time.perf_counter()
    train(DataLoader(Slow(), batch_size=2))
    assert 0.04 <= tape.session.progress.times.data_secs <= time.perf_counter() - begin
    waited = tape.session.progress.times.data_secs
    with torch.no_grad():
        for x, _ in DataLoader(Slow(), batch_size=2):
            model(x)
    assert tape.session.progress.times.data_secs == waited


def test_loader_processes_work_as_ever_and_are_counted(training):
    tape, _, train = training
    train(DataLoader(data(), batch_size=8, num_workers=1))
    assert tape.scalar("fact:loader_workers") == 1
    assert epochs(tape) == [1] * 4
    assert len(tape.steps(Mode.TRAIN)) == 4


def test_a_loader_is_pickled_while_recorded_and_after(record):
    tape = record(preset="free", collections=(FACTS,))
    twin = pickle.loads(pickle.dumps(DataLoader(data(8), batch_size=4)))
    assert len(list(twin)) == 2
    tape.close()
    assert len(list(pickle.loads(pickle.dumps(twin)))) == 2


def test_nothing_is_left_in_the_loaders_nor_in_the_modules(record):
    before = (DataLoader.__iter__, _BaseDataLoaderIter.__next__, nn.Module.train)
    tape = record()
    assert (DataLoader.__iter__, _BaseDataLoaderIter.__next__, nn.Module.train) != before
    tape.close()
    assert (DataLoader.__iter__, _BaseDataLoaderIter.__next__, nn.Module.train) == before


def test_a_first_batch_that_is_fetched_anew_for_each_step_is_told(training):
    tape, _, train = training
    loader = DataLoader(data(), batch_size=8)
    for _ in range(3):
        train([next(iter(loader))])
    assert tape.scalar("fact:epoch_steps") == 4
    assert epochs(tape) == [1, 2, 3]
