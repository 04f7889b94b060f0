"""Checkpoints are saved when they are due, where a training can go on from, and harm nothing."""

from __future__ import annotations

import json
import os
import secrets
import signal
import sys

import pytest
import torch
from torch import distributed, nn
from torch.nn.functional import cross_entropy
from torch.utils.data import DataLoader, TensorDataset

from barograph.capture.orders import NotDone
from barograph.capture.torch import agreement as torch_agreement
from barograph.capture.torch.capsule import digest
from barograph.errors import StoreUnavailable, TrainingStopped
from barograph.model.checkpoints import CheckpointSettings
from barograph.runs.state.checkpoints import checkpoint_names, last_good, read_checkpoint, read_next
from barograph.runs.state.control import Request
from barograph.store.urls import store_from_url


class Training:
    """A training whose checkpoints go to a store in memory."""

    def __init__(self, record, strict=True, **settings):
        self.url = f"memory://checkpointer-{secrets.token_hex(8)}"
        self.store = store_from_url(self.url)
        self.tape = record(to=self.url, preset="free", strict=strict,
                           checkpoints=CheckpointSettings(**{"on_sigterm": False, **settings}))
        torch.manual_seed(0)
        self.model = nn.Sequential(nn.Linear(4, 8), nn.Dropout(0.3), nn.Linear(8, 3))
        self.optimizer = torch.optim.Adam(self.model.parameters())
        draw = torch.Generator().manual_seed(0)
        self.data = TensorDataset(torch.randn(40, 4, generator=draw), torch.randint(0, 3, (40,), generator=draw))

    def step(self, x, y):
        self.optimizer.zero_grad()
        cross_entropy(self.model(x), y).backward()
        self.optimizer.step()

    def run(self, before_step=lambda number: None, epochs=1):
        for _ in range(epochs):
            for number, (x, y) in enumerate(DataLoader(self.data, 4)):
                before_step(number)
                self.step(x, y)

    def saved(self):
        return [read_checkpoint(self.store, name).steps for name in checkpoint_names(self.store)]


def test_they_are_saved_between_two_steps_and_the_oldest_go(record):
    training = Training(record, every_steps=2, keep=2)
    training.run()
    assert training.saved() == [8, 10]
    assert read_checkpoint(training.store).content["place"]["passes"][0]["given"] == 10


def test_the_records_of_the_steps_before_are_published_with_them(record):
    training = Training(record, every_steps=4, keep=9)
    training.run()
    assert training.tape.writer.flushed_after == [4, 8]


def test_of_batches_that_are_drawn_ahead_those_count_that_steps_have_used(record):
    training = Training(record, every_steps=4, keep=9)
    feeding, loader, waiting = training.tape.integration.feeding, iter(DataLoader(training.data, 4)), []
    digests = []

    def draw():
        with feeding.drawing_ahead() as came:
            batch = next(loader)
        waiting.append((came, batch))

    draw()
    for _ in range(9):
        draw()
        came, batch = waiting.pop(0)
        feeding.feeds(*came)
        digests.append(" ".join(map(digest, batch)))
        training.step(*batch)
    names = checkpoint_names(training.store)
    assert [read_checkpoint(training.store, name).content["place"]["passes"][0]["given"] for name in names] == [4, 8]
    assert [read_next(training.store, name)["batch"] for name in names] == [digests[4], digests[8]]


def test_what_the_next_step_began_with_is_written(record):
    training = Training(record, every_steps=4, keep=9)
    training.run()
    known = [bool(read_next(training.store, name).get("loss")) for name in checkpoint_names(training.store)]
    assert known == [True, True]


def test_one_is_saved_where_the_script_asks(record):
    training = Training(record)
    training.run(
        lambda number: training.tape.integration.feeding.checkpointer.ask_for_one("asked") if number == 2 else None
    )
    assert training.saved() == [3]


def test_one_is_saved_for_a_finding_and_that_is_said(record):
    training = Training(record)
    asked = Request("checkpoint", "L101-1-a", "It rose.", 0, 0.0)
    training.run(lambda number: training.tape.session.steering.orders.hear(asked) if number == 4 else None)
    (done,) = training.tape.session.steering.orders.reports()
    assert training.saved() == [5]
    assert done.done
    assert done.result.startswith("saved a checkpoint in checkpoints/0000-00000005-pid")


def test_weights_that_are_not_finite_are_not_saved(record):
    training = Training(record, every_steps=3)
    training.run(lambda number: training.model[0].weight.data.fill_(torch.nan) if number == 5 else None)
    assert training.saved() == [3]
    assert "no checkpoint was saved: the weights are not finite" in training.tape.session.guard.problems[0]


def test_the_same_seed_with_and_without_them_gives_the_same_weights(record):
    training = Training(record, every_steps=1)
    training.run()
    training.tape.close()
    again = Training(record)
    again.tape.close()
    again.run()
    assert len(training.saved()) == 3
    for one, other in zip(training.model.parameters(), again.model.parameters(), strict=True):
        assert torch.equal(one, other)


def test_a_store_that_fails_stops_no_training(record):
    training = Training(record, strict=False, every_steps=2)
    checkpointer = training.tape.integration.feeding.checkpointer

    def away():
        raise StoreUnavailable("The store is away.")

    checkpointer._open_store = away
    with pytest.warns(UserWarning, match="saving a checkpoint failed: StoreUnavailable: The store is away"):
        training.run()
    assert training.saved() == []


@pytest.fixture
def unhandled_sigterm():
    """SIGTERM as a process begins with it: libraries that other tests have used leave handlers of their own."""
    before = signal.signal(signal.SIGTERM, signal.SIG_DFL)
    yield
    signal.signal(signal.SIGTERM, before)


def test_sigterm_has_one_saved_and_stops(record, unhandled_sigterm):
    training = Training(record, on_sigterm=True)
    said = r"Received SIGTERM\. A checkpoint was saved in checkpoints/0000-00000004-.*To resume: barograph resume \S"
    with pytest.raises(TrainingStopped, match=said):
        training.run(lambda number: os.kill(os.getpid(), signal.SIGTERM) if number == 3 else None)
    assert last_good(training.store)[0].steps == 4
    training.tape.close()
    assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL


def test_a_handler_of_the_script_stays(record, monkeypatch):
    heard = []
    before = signal.signal(signal.SIGTERM, lambda number, frame: heard.append(number))
    try:
        training = Training(record, on_sigterm=True)
        training.run(lambda number: os.kill(os.getpid(), signal.SIGTERM) if number == 3 else None)
        training.tape.close()
        assert heard == [signal.SIGTERM]
        assert training.saved() == []
    finally:
        signal.signal(signal.SIGTERM, before)


def test_a_loop_that_asks_no_loader_is_named_and_nothing_goes_on_from_its_checkpoints(record):
    training = Training(record, every_steps=10)
    for _ in range(45):
        training.step(*training.data[:4])
    assert training.saved() == [32, 40]
    assert "Count its steps with run.steps" in training.tape.session.guard.problems[0]
    found, told = last_good(training.store)
    assert found is None
    assert "does not count its steps with run.steps" in told[0]


@pytest.fixture
def worker(monkeypatch):
    def start(training, rank):
        monkeypatch.setattr(type(training.tape.session.worker), "rank", property(lambda worker: (rank, 2)))

    return start


def test_each_of_several_workers_saves_its_part_after_the_same_steps(record, worker):
    training = Training(record, every_steps=4)
    worker(training, 1)
    training.run()
    names = [name.removeprefix("checkpoints/") for name in checkpoint_names(training.store)]
    assert names == ["0000-00000004-r1.json", "0000-00000008-r1.json"]
    assert last_good(training.store) == (None, [])


def test_several_workers_save_when_one_of_them_wants_it(record, worker, monkeypatch):
    store = distributed.HashStore()
    monkeypatch.setattr(torch_agreement, "_shared_store", lambda: store)
    monkeypatch.setattr(torch_agreement, "_LOOK_SECS", 0.0)
    for rank in range(2):
        training = Training(record)
        worker(training, rank)
        checkpointer = training.tape.integration.feeding.checkpointer
        training.run(lambda number, rank=rank, own=checkpointer: own.ask_for_one("asked")
                     if (rank, number) == (0, 2) else None)
        training.tape.close()
        assert training.saved() == [4], rank
        (name,) = checkpoint_names(training.store)
        assert name.endswith(f"-r{rank}.json")


def test_where_several_workers_cannot_agree_that_is_said(record, worker):
    training = Training(record)
    worker(training, 1)
    training.run(
        lambda number: training.tape.integration.feeding.checkpointer.ask_for_one("asked") if number == 2 else None
    )
    assert training.saved() == []
    (problem, *_) = training.tape.session.guard.problems
    assert "no checkpoint was saved: the workers share no torch.distributed store" in problem


def test_a_worker_that_was_told_to_end_stops_with_the_others_not_at_their_next_checkpoint(
    record, worker, monkeypatch
):
    store = distributed.HashStore()
    monkeypatch.setattr(torch_agreement, "_shared_store", lambda: store)
    monkeypatch.setattr(torch_agreement, "_LOOK_SECS", 0.0)
    store.set("barograph/checkpoint/0/0", '[4, "it was time"]')
    training = Training(record)
    worker(training, 1)

    def told(number):
        if number == 2:
            training.tape.integration.feeding.checkpointer._asked_to_end()

    with pytest.raises(TrainingStopped):
        training.run(told)
    assert training.saved() == [4, 6]
    assert json.loads(store.get("barograph/checkpoint/0/1"))[1] == "SIGTERM"


def test_gradients_belong_to_it_where_the_script_carries_them(record):
    training = Training(record, every_steps=1, keep=9)
    cleared = [bool(read_checkpoint(training.store, name).content["gradients_before"])
               for name in checkpoint_names(training.store)]
    assert cleared == []
    training.run()
    # It zeroes them: after the first steps that is known.
    assert not read_checkpoint(training.store).content["gradients_before"]

    training.optimizer.zero_grad = lambda: None
    training.run()
    assert read_checkpoint(training.store).content["gradients_before"]


def test_where_none_is_asked_for_nothing_of_it_is_loaded(record):
    for name in [name for name in sys.modules if name.startswith("barograph.capture.torch.checkpointer")]:
        del sys.modules[name]
    tape = record()
    assert tape.integration.feeding.checkpointer is None
    assert "barograph.capture.torch.checkpointer" not in sys.modules


def test_what_cannot_be_saved_is_said(record, monkeypatch):
    training = Training(record, every_steps=2)

    def split(*args, **kwargs):
        raise NotDone("a model is split over workers")

    monkeypatch.setattr("barograph.capture.torch.checkpointer.save", split)
    training.run()
    assert training.tape.session.guard.problems[0].startswith("no checkpoint was saved: a model is split over workers")
