"""Which samples each step was fed is taken down, whoever draws and reads them, and nothing else changes."""

from __future__ import annotations

import weakref
from array import array

import pytest
import torch
from torch import nn
from torch.utils.data import (
    BatchSampler,
    ConcatDataset,
    DataLoader,
    Dataset,
    IterableDataset,
    RandomSampler,
    SequentialSampler,
    Subset,
    TensorDataset,
    WeightedRandomSampler,
    get_worker_info,
)
from torch.utils.data.dataloader import _BaseDataLoaderIter
from torch.utils.data.distributed import DistributedSampler

from barograph.capture.torch.sources import names_in, source_of
from barograph.runs.format.trace_order import Order, order_from_hint


class Numbers(Dataset):
    """Its samples are their own indices."""

    def __init__(self, size=20):
        self.size = size

    def __len__(self):
        return self.size

    def __getitem__(self, index):
        return index


class Named(Numbers):
    def source(self, index):
        return f"{index}.png"


class Files(Numbers):
    def __init__(self, paths, root=None):
        super().__init__(len(paths))
        self.samples = paths
        if root is not None:
            self.root = root


class Stream(IterableDataset):
    def __init__(self, size=6, named=False):
        self.size, self.named = size, named

    def __iter__(self):
        info = get_worker_info()
        start = 0 if info is None else info.id * self.size
        for number in range(start, start + self.size):
            yield {"__key__": f"k{number}", "__url__": "a.tar", "x": number} if self.named else number


@pytest.fixture
def training(record):
    """Return a tape, and what makes a step of batches."""
    tape = record(preset="free")
    weight = nn.Parameter(torch.ones(1))
    optimizer = torch.optim.SGD([weight], 0.1)

    def step(batch=1.0):
        optimizer.zero_grad()
        (weight * torch.as_tensor(batch, dtype=torch.float32)).mean().backward()
        optimizer.step()

    return tape, step


def samples(tape):
    return [array("q", fed.indices).tolist() for fed in tape.writer.batches]


def steps(tape):
    return [fed.step for fed in tape.writer.batches]


def hints_hold(tape):
    """Return whether every pass told what it was drawn from, and that it was."""
    orders = {fed.pass_number: Order(order_from_hint(fed.hint)) for fed in tape.writer.batches if fed.hint}
    return all(orders[fed.pass_number].part(fed.first, fed.first + fed.samples).tolist() == drawn
               for fed, drawn in zip(tape.writer.batches, samples(tape), strict=True))


SAMPLERS = {
    "in order": lambda data: SequentialSampler(data),
    "shuffled": lambda data: RandomSampler(data),
    "with replacement": lambda data: RandomSampler(data, replacement=True, num_samples=50),
    "fewer": lambda data: RandomSampler(data, num_samples=7),
    "dealt out": lambda data: DistributedSampler(data, 3, 1, seed=5),
    "dealt out in order": lambda data: DistributedSampler(data, 3, 2, shuffle=False, drop_last=True),
}


@pytest.mark.parametrize("name", SAMPLERS)
def test_the_samples_of_each_step_are_those_it_got_and_their_order_is_told(training, name):
    tape, step = training
    data, got = Numbers(), []
    loader = DataLoader(data, batch_size=3, sampler=SAMPLERS[name](data))
    for _ in range(2):
        for batch in loader:
            got.append(batch.tolist())
            step(batch)
    assert samples(tape) == got
    assert steps(tape) == list(range(len(got)))
    assert hints_hold(tape)


def test_a_sampler_with_a_generator_of_its_own_tells_its_state(training):
    tape, step = training
    data = Numbers(5000)
    for batch in DataLoader(data, batch_size=1000, shuffle=True, generator=torch.Generator().manual_seed(3)):
        step(batch)
    assert hints_hold(tape)


def test_of_a_sampler_that_nobody_knows_the_samples_are_told(training):
    tape, step = training
    data, got = Numbers(), []
    for batch in DataLoader(data, batch_size=4, sampler=WeightedRandomSampler([1.0] * 20, 12)):
        got.append(batch.tolist())
        step(batch)
    assert samples(tape) == got
    assert all(fed.hint is None for fed in tape.writer.batches)


def test_a_sampler_may_use_its_list_again(training):
    tape, step = training

    class Again:
        def __iter__(self):
            batch = []
            for index in range(6):
                batch.append(index)
                if len(batch) == 2:
                    yield batch
                    batch.clear()

    for batch in DataLoader(Numbers(), batch_sampler=Again()):
        step(batch)
    assert samples(tape) == [[0, 1], [2, 3], [4, 5]]


@pytest.mark.parametrize("options", [{}, {"persistent_workers": True}, {"in_order": False}])
def test_many_workers_make_no_difference(training, options):
    tape, step = training
    loader = DataLoader(Numbers(), batch_size=3, shuffle=True, num_workers=2, **options)
    got = []
    for _ in range(2):
        for batch in loader:
            got.append(batch.tolist())
            step(batch)
    assert samples(tape) == got
    assert len({fed.pass_number for fed in tape.writer.batches}) == 2


def test_batches_that_add_up_belong_to_the_step_that_follows(training):
    tape, step = training
    for number, batch in enumerate(DataLoader(Numbers(8), batch_size=2)):
        if number % 2:
            step(batch)
    assert steps(tape) == [0, 0, 1, 1]
    assert samples(tape) == [[0, 1], [2, 3], [4, 5], [6, 7]]


def test_a_step_may_be_fed_by_two_loaders(training):
    tape, step = training
    for one, other in zip(DataLoader(Numbers(4), batch_size=2), DataLoader(Named(4), batch_size=2), strict=True):
        step(one + other)
    assert steps(tape) == [0, 0, 1, 1]
    assert {fed.loader for fed in tape.writer.batches} == {"Numbers", "Named"}


def test_data_sets_of_one_class_are_told_apart(training):
    tape, step = training
    for data in (Numbers(2), Numbers(4)):
        for batch in DataLoader(data, batch_size=2):
            step(batch)
    assert [fed.loader for fed in tape.writer.batches] == ["Numbers", "Numbers 2", "Numbers 2"]
    assert [fed.size for fed in tape.writer.batches] == [2, 4, 4]


def test_an_evaluation_feeds_no_step(training):
    tape, step = training
    data = Numbers(4)
    for _ in range(2):
        for batch in DataLoader(data, batch_size=2):
            step(batch)
        with torch.no_grad():
            list(DataLoader(data, batch_size=1))
        list(DataLoader(data, batch_size=1))  # where gradients are turned off inside the loop
        for _ in DataLoader(data, batch_size=1):
            break
    assert samples(tape) == [[0, 1], [2, 3]] * 2


def test_what_comes_while_gradients_are_turned_off_feeds_no_step(training):
    tape, step = training
    beside = iter(DataLoader(Numbers(9), batch_size=1))
    for batch in DataLoader(Numbers(4), batch_size=2):
        with torch.no_grad():
            next(beside)
        step(batch)
    assert samples(tape) == [[0, 1], [2, 3]]


def test_a_pass_that_ends_within_a_step_feeds_it(training):
    tape, step = training
    data = Numbers(3)
    for batch in DataLoader(data, batch_size=1):
        if batch.item() == 0:
            step(batch)
    for batch in DataLoader(data, batch_size=1):
        step(batch)
        break
    assert steps(tape) == [0, 1, 1, 1]


def test_batches_that_are_taken_one_by_one_feed(training):
    tape, step = training
    loader = DataLoader(Numbers(4), batch_size=2)
    for _ in range(3):
        step(next(iter(loader)))
    assert samples(tape) == [[0, 1]] * 3


def test_single_samples_and_keys_that_are_no_numbers_are_told(training):
    tape, step = training
    for batch in DataLoader(Numbers(), batch_size=None, sampler=[4, 2]):
        step(batch)

    class ByName(Dataset):
        def __getitem__(self, key):
            return 1.0

    for batch in DataLoader(ByName(), batch_sampler=[["a", "b"], ["c"]]):
        step(batch)
    assert samples(tape)[:2] == [[4], [2]]
    assert [fed.names for fed in tape.writer.batches[2:]] == [((0, "a"), (1, "b")), ((2, "c"),)]


def test_after_a_sample_that_cannot_be_read_the_next_batch_is_told_right(training):
    tape, step = training

    class Broken(Numbers):
        def __getitem__(self, index):
            if index == 2:
                raise OSError("unreadable")
            return index

    batches = iter(DataLoader(Broken(6), batch_size=2))
    step(next(batches))
    with pytest.raises(OSError, match="unreadable"):
        next(batches)
    step(next(batches))
    assert samples(tape) == [[0, 1], [4, 5]]


def test_a_stream_is_told_by_worker_and_place(training):
    tape, step = training
    for _ in range(2):
        for batch in DataLoader(Stream(), batch_size=4):
            step(batch)
    assert [(fed.first, fed.samples, fed.loader_worker) for fed in tape.writer.batches] == [(0, 4, -1), (4, 2, -1)] * 2
    assert all(fed.indices == b"" and fed.size == -1 for fed in tape.writer.batches)


@pytest.mark.parametrize("options", [{}, {"in_order": False}])
def test_a_stream_of_many_workers_tells_which_of_them_read(training, options):
    tape, step = training
    got = []
    for batch in DataLoader(Stream(6), batch_size=4, num_workers=2, **options):
        got.append(batch.tolist())
        step(batch)
    told = [[fed.loader_worker * 6 + place for place in range(fed.first, fed.first + fed.samples)]
            for fed in tape.writer.batches]
    assert told == got
    assert len(got) == 4


def test_a_stream_tells_the_names_in_its_batches(training):
    tape, step = training
    for batch in DataLoader(Stream(3, named=True), batch_size=2):
        step(batch["x"])
    assert [fed.names for fed in tape.writer.batches] == [((0, "a.tar#k0"), (1, "a.tar#k1")), ((2, "a.tar#k2"),)]


def test_names_are_told_once(training):
    tape, step = training
    data = Named(3)
    for _ in range(2):
        for batch in DataLoader(data, batch_size=2):
            step(batch)
    assert [fed.names for fed in tape.writer.batches] == [((0, "0.png"), (1, "1.png")), ((2, "2.png"),), (), ()]


def test_a_function_of_the_user_names_before_the_data_set(training):
    tape, step = training
    tape.integration.feeding.name_samples(lambda index: f"mine {index}" if index else None)
    for batch in DataLoader(Named(2), batch_size=2):
        step(batch)
    assert tape.writer.batches[0].names == ((1, "mine 1"),)


@pytest.mark.parametrize(("data", "index", "expected"), [
    (Named(3), 2, "2.png"),
    (Subset(Named(9), [7, 5]), 1, "5.png"),
    (ConcatDataset([Named(2), Named(3)]), 3, "1.png"),
    (ConcatDataset([Numbers(2), Named(3)]), 3, "1.png"),
    (Files([("d/cat/a.png", 0), ("d/dog/b.png", 1)], root="d"), 1, "dog/b.png"),
    (Files(["d/a.wav"]), 0, "d/a.wav"),
    (type("OfAClass", (Numbers,), {"files": ("a.npy", "b.npy")})(2), 1, "b.npy"),
])
def test_where_a_data_set_has_names_they_are_found(data, index, expected):
    assert source_of(data)(index) == expected


@pytest.mark.parametrize("data", [
    TensorDataset(torch.zeros(2)), Numbers(), [1, 2], Files(["a text to learn from"]), Files([(torch.zeros(1), 0)]),
    Files(["many\nlines.txt"]), Files(["x" * 600 + ".png"]), ConcatDataset([Numbers(2), Numbers(2)]),
])
def test_what_is_no_name_is_none(data):
    assert source_of(data) is None


@pytest.mark.parametrize("batch", [[1, 2], {"x": 1}, {"__key__": 3}, None])
def test_a_batch_without_names_has_none(batch):
    assert names_in(batch) == []


def test_a_source_that_fails_is_told_and_training_goes_on(record):
    tape = record(preset="free", strict=False)
    weight = nn.Parameter(torch.ones(1))
    optimizer = torch.optim.SGD([weight], 0.1)

    class Failing(Numbers):
        def source(self, index):
            raise KeyError("no such sample")

    def train():
        for batch in DataLoader(Failing(4), batch_size=2):
            optimizer.zero_grad()
            (weight * batch).sum().backward()
            optimizer.step()

    with pytest.warns(UserWarning, match="no such sample"):
        train()
    assert len(tape.steps()) == 2
    assert samples(tape) == [[0, 1], [2, 3]]


def test_steps_that_are_passed_over_are_traced(record):
    tape = record(budget=0.0001, preset="free")
    weight = nn.Parameter(torch.ones(1))
    optimizer = torch.optim.SGD([weight], 0.1)
    for batch in DataLoader(Numbers(200), batch_size=1):
        optimizer.zero_grad()
        (weight * batch).sum().backward()
        optimizer.step()
    assert samples(tape) == [[index] for index in range(200)]
    assert steps(tape) == list(range(200))


def test_the_order_and_the_random_numbers_stay_as_they_are(record):
    def drawn():
        torch.manual_seed(7)
        return [batch.tolist() for batch in DataLoader(Numbers(), batch_size=3, shuffle=True)], torch.rand(3).tolist()

    before = drawn()
    record(preset="free")
    assert drawn() == before


def test_no_loader_is_kept_alive(training):
    _, step = training
    data = Named(4)
    loader = DataLoader(data, batch_size=2, shuffle=True)
    for batch in loader:
        step(batch)
        break
    step(torch.ones(1))
    gone = weakref.ref(loader), weakref.ref(data)
    del loader, data
    assert [reference() for reference in gone] == [None, None]


def test_where_it_is_off_nothing_is_wrapped(record):
    original = _BaseDataLoaderIter._next_index
    tape = record(preset="free", trace=False)
    assert _BaseDataLoaderIter._next_index is original
    assert tape.session.output.fed_by is None


def test_the_wrapper_is_taken_out_again(record):
    original = _BaseDataLoaderIter._next_index
    tape = record(preset="free")
    assert _BaseDataLoaderIter._next_index is not original
    tape.close()
    assert _BaseDataLoaderIter._next_index is original


def test_a_batch_sampler_of_torch_with_a_sampler_of_the_users_is_no_order(training):
    tape, step = training

    class Mine(RandomSampler):
        pass

    data = Numbers(4)
    for batch in DataLoader(data, batch_sampler=BatchSampler(Mine(data), 2, drop_last=False)):
        step(batch)
    assert all(fed.hint is None for fed in tape.writer.batches)
