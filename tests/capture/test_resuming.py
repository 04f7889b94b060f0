"""A script that is started anew comes to where it was, and goes on as if nothing had been."""

from __future__ import annotations

import copy
import gc
import itertools
import random
import secrets
from array import array
from collections import deque

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn.functional import cross_entropy
from torch.utils.data import DataLoader, Dataset, IterableDataset, TensorDataset

from barograph.capture.steps import Steps
from barograph.capture.torch.resuming import begin_resuming
from barograph.errors import ResumeFailed
from barograph.model.checkpoints import CheckpointSettings
from barograph.model.resume import ResumeOrder, result_from_text
from barograph.runs.state.checkpoints import checkpoint_names, last_good, needs_full_evaluations
from barograph.store.urls import store_from_url


class Killed(Exception):
    """Stands for the death of a process."""


class Killer:
    """Ends the script after some steps; it counts where nobody sees it, so that it is not put back."""

    def __init__(self, after=None):
        self.left = iter(range(1, after)) if after is not None else itertools.count()

    def __call__(self):
        if next(self.left, None) is None:
            raise Killed


class Fates:
    """One script: undisturbed; recorded and killed; recorded and resumed."""

    def __init__(self, record, script, **settings):
        self.url = f"memory://resume-{secrets.token_hex(8)}"
        self.store = store_from_url(self.url)
        self.record, self.script = record, script
        self.settings = {"to": self.url, "preset": "free",
                         "checkpoints": CheckpointSettings(**{"every_steps": 3, "on_sigterm": False, **settings})}

    def whole(self):
        return self.script(Killer(), None)

    def lives(self, *, killed_after=None, attempt=0, goes_on=False, inexact=False, result=""):
        """Run the script, recorded, from the start or from the last checkpoint: by one way, as one command would."""
        tape = self.record(installed=not goes_on, **self.settings)
        tape.session.worker.attempt = attempt
        if goes_on:
            begun = []
            order = ResumeOrder(last_good(self.store)[0].name, result, inexact)
            begin_resuming(tape.integration, self.store, order, begun.append)
            (resuming,) = begun
        error = ""
        try:
            return self.script(Killer(killed_after), tape.integration)
        except Killed:
            return None
        except (RuntimeError, KeyboardInterrupt) as failure:
            error = f"{type(failure).__name__}: {failure}"
            raise
        finally:
            if goes_on:
                resuming.ends(error)
            self.problems = tape.session.guard.problems
            self.steps = tape.numbers()
            self.batches = tape.writer.batches
            tape.close()
            gc.collect()


def net(outputs=3):
    torch.manual_seed(3)
    return nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Dropout(0.3), nn.Linear(8, outputs))


def data(samples=24):
    draw = torch.Generator().manual_seed(0)
    return TensorDataset(torch.randn(samples, 4, generator=draw), torch.randint(0, 3, (samples,), generator=draw))


def step(model, optimizer, x, y):
    optimizer.zero_grad()
    loss = cross_entropy(model(x), y)
    loss.backward()
    optimizer.step()
    return loss


def state(*models):
    return [tensor.clone() for model in models for tensor in model.state_dict().values()]


def epochs(tick, integration):
    model = net()
    optimizer = torch.optim.Adam(model.parameters(), 1e-2)
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 1, 0.5)
    loader = DataLoader(data(), 4, shuffle=True)
    for _ in range(3):
        for x, y in loader:
            step(model, optimizer, x, y)
            tick()
        scheduler.step()
    return state(model)


class Trainer:
    """Counts, remembers and averages by itself."""

    def __init__(self):
        self.model = net()
        self.average = copy.deepcopy(self.model)
        self.optimizer = torch.optim.SGD(self.model.parameters(), 0.1, momentum=0.9)
        self.made, self.losses, self.best, self.last = 0, [], {"loss": 1e9}, deque(maxlen=20)
        self.draw = np.random.default_rng(5)

    def train(self, x, y):
        self.optimizer.param_groups[0]["lr"] = 0.1 / (1 + self.made)
        loss = step(self.model, self.optimizer, x + self.draw.normal() + random.random(), y)
        self.made += 1
        self.losses.append(loss.item())
        self.last.append(loss.item())
        self.best["loss"] = min(self.best["loss"], loss.item())
        with torch.no_grad():
            for one, other in zip(self.average.parameters(), self.model.parameters(), strict=True):
                one.mul_(0.9).add_(other, alpha=0.1)


def own_counters(tick, integration):
    random.seed(1)
    trainer = Trainer()
    loader = DataLoader(data(), 4, shuffle=True, generator=torch.Generator().manual_seed(7))
    while trainer.made < 15:
        for x, y in loader:
            trainer.train(x, y)
            tick()
    remembered = torch.tensor([*trainer.losses, *trainer.last, trainer.best["loss"]])
    return [*state(trainer.model, trainer.average), remembered]


def accumulation(tick, integration):
    model = net()
    optimizer = torch.optim.AdamW(model.parameters(), 1e-2)
    for _ in range(3):
        for number, (x, y) in enumerate(DataLoader(data(40), 4, shuffle=True)):
            (cross_entropy(model(x), y) / 2).backward()
            if number % 2:
                optimizer.step()
                optimizer.zero_grad()
                tick()
    return state(model)


def two_loaders(tick, integration):
    model = net()
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    for _ in range(3):
        pairs = zip(DataLoader(data(), 4, shuffle=True), DataLoader(data(30), 3, shuffle=True), strict=False)
        for (x, y), (u, v) in pairs:
            step(model, optimizer, torch.cat([x, u]), torch.cat([y, v]))
            tick()
    return state(model)


class Stream(IterableDataset):
    def __iter__(self):
        yield from data()


def stream(tick, integration):
    model = net()
    optimizer = torch.optim.Adam(model.parameters(), 1e-2)
    plateau = torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer, patience=0)
    for _ in range(4):
        total = 0.0
        for x, y in DataLoader(Stream(), 4):
            total += step(model, optimizer, x, y).item()
            tick()
        plateau.step(total)
    return [*state(model), torch.tensor(optimizer.param_groups[0]["lr"])]


class Noisy(Dataset):
    def __len__(self):
        return 24

    def __getitem__(self, index):
        x, y = data()[index]
        return x + torch.randn(4), y


def augmented_and_evaluated(tick, integration):
    model = net()
    optimizer = torch.optim.Adam(model.parameters(), 1e-2)
    loader, others = DataLoader(Noisy(), 4, shuffle=True), DataLoader(data(9), 3)
    made, seen = 0, []
    for _ in range(3):
        for x, y in loader:
            step(model, optimizer, x, y)
            made += 1
            if made % 4 == 0:
                model.eval()
                seen.append(sum(cross_entropy(model(u), v).item() for u, v in others))
                model.train()
            tick()
    return [*state(model), torch.tensor(seen)]


def adversaries(tick, integration):
    maker, judge = nn.Sequential(nn.Linear(2, 4)), nn.Sequential(nn.Linear(4, 1))
    torch.manual_seed(0)
    for parameter in (*maker.parameters(), *judge.parameters()):
        nn.init.normal_(parameter)
    ours, theirs = torch.optim.Adam(maker.parameters()), torch.optim.Adam(judge.parameters())
    for _ in range(2):
        for x, _ in DataLoader(data(), 4, shuffle=True):
            made = maker(torch.randn(4, 2))
            theirs.zero_grad()
            (judge(made.detach()) - judge(x)).mean().backward()
            theirs.step()
            ours.zero_grad()
            (-judge(made)).mean().backward()
            ours.step()
            tick()
    return state(maker, judge)


def counted_steps(tick, integration):
    model = net()
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    draw = torch.Generator().manual_seed(1)
    x, y = data().tensors
    for number in range(12) if integration is None else Steps(12, integration):
        rows = torch.randint(0, 24, (4,), generator=draw)
        step(model, optimizer, x[rows] * number, y[rows])
        tick()
    return state(model)


@pytest.mark.parametrize("script", [epochs, own_counters, accumulation, two_loaders, stream, augmented_and_evaluated,
                                    adversaries, counted_steps])
def test_a_killed_training_goes_on_to_the_last_bit(record, script):
    fates = Fates(record, script)
    fates.lives(killed_after=11)
    resumed = fates.lives(goes_on=True)
    whole = fates.whole()

    assert fates.problems[-1].endswith("of the next step are bit-identical.")
    assert len(whole) == len(resumed)
    for one, other in zip(whole, resumed, strict=True):
        assert torch.equal(one, other)


def test_a_training_that_was_resumed_can_be_resumed_again(record):
    fates = Fates(record, epochs)
    fates.lives(killed_after=5)
    fates.lives(killed_after=13, goes_on=True, attempt=1)
    # One batch of the first pass was passed over, two were made again.
    assert last_good(fates.store)[0].name.startswith("checkpoints/0001-00000012-")

    resumed = fates.lives(goes_on=True)
    for one, other in zip(fates.whole(), resumed, strict=True):
        assert torch.equal(one, other)


def test_steps_are_counted_on(record):
    fates = Fates(record, epochs)
    fates.lives(killed_after=8)
    fates.lives(goes_on=True)
    assert fates.steps == list(range(6, 18))


class Numbered(Dataset):
    """What each of its samples is, is its index."""

    def __len__(self):
        return 24

    def __getitem__(self, index):
        return torch.tensor([float(index)])


class NumberedStream(IterableDataset):
    def __iter__(self):
        return (torch.tensor([float(index)]) for index in range(24))


class Listed:
    """A script that writes down what it was fed."""

    def __init__(self, data, **loading):
        self.data, self.loading, self.fed = data, loading, []

    def __call__(self, tick, integration):
        model = nn.Linear(1, 1)
        optimizer = torch.optim.SGD(model.parameters(), 0.001)
        self.fed = []
        for _ in range(2):
            for x in DataLoader(self.data, 4, **self.loading):
                optimizer.zero_grad()
                model(x).square().mean().backward()
                optimizer.step()
                self.fed.append(x.flatten().long().tolist())
                tick()


@pytest.mark.parametrize("loading", [{}, {"num_workers": 2}], ids=["here", "by workers"])
def test_the_trace_of_a_resumed_training_tells_all_samples_from_where_it_goes_on(record, loading):
    script = Listed(Numbered(), shuffle=True, **loading)
    fates = Fates(record, script)
    fates.lives(killed_after=11)
    fates.lives(goes_on=True)

    assert [(fed.step, fed.first) for fed in fates.batches] == [(9, 12), (10, 16), (11, 20)]
    assert [array("q", fed.indices).tolist() for fed in fates.batches] == script.fed[-3:]


def test_the_trace_of_a_resumed_stream_counts_its_places_on(record):
    fates = Fates(record, Listed(NumberedStream()))
    fates.lives(killed_after=5)
    fates.lives(goes_on=True)

    assert [(fed.step, fed.first) for fed in fates.batches[-9:]] == [
        (3, 12), (4, 16), (5, 20), (6, 0), (7, 4), (8, 8), (9, 12), (10, 16), (11, 20)]


class Loud:
    """A script that prints, and saves by itself."""

    def __init__(self, folder):
        self.folder = folder

    def __call__(self, tick, integration):
        model = net()
        optimizer = torch.optim.SGD(model.parameters(), 0.1)
        print("begun")
        for epoch in range(3):
            for x, y in DataLoader(data(), 4):
                step(model, optimizer, x, y)
                tick()
            print("epoch", epoch)
            torch.save(epoch, self.folder / f"{epoch}.pt")


def test_what_was_printed_and_saved_before_is_not_again(record, tmp_path, capsys):
    fates = Fates(record, Loud(tmp_path))
    fates.lives(killed_after=17)
    for path in tmp_path.iterdir():
        path.unlink()
    capsys.readouterr()
    fates.lives(goes_on=True)
    assert capsys.readouterr().out == "begun\nepoch 2\n"
    assert [path.name for path in tmp_path.iterdir()] == ["2.pt"]


def endless_iterator(tick, integration):
    model = net()
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    loader = DataLoader(data(), 4, shuffle=True)
    batches = iter(loader)
    for _number in range(12):
        try:
            x, y = next(batches)
        except StopIteration:
            batches = iter(loader)
            x, y = next(batches)
        step(model, optimizer, x, y)
        tick()
    return state(model)


def test_a_loop_that_cannot_be_put_forward_is_named_and_nothing_goes_on(record, tmp_path):
    fates = Fates(record, endless_iterator)
    fates.lives(killed_after=8)
    with pytest.raises(SystemExit):
        fates.lives(goes_on=True, result=str(tmp_path / "result"))
    said = (tmp_path / "result").read_text()
    assert "counts with _number, which was 6 and is 1: it cannot be advanced." in said


def test_another_function_is_named(record, tmp_path):
    fates = Fates(record, epochs)
    fates.lives(killed_after=8)
    fates.script = lambda tick, integration: epochs(tick, integration)
    with pytest.raises(SystemExit):
        fates.lives(goes_on=True, result=str(tmp_path / "result"))
    assert "The script is in test_resuming.py:epochs; it was in" in (tmp_path / "result").read_text()


def test_another_batch_is_told(record):
    fates = Fates(record, shifted)
    fates.lives(killed_after=8)
    SHIFT.append(1.0)
    try:
        fates.lives(goes_on=True, inexact=True)
    finally:
        SHIFT.clear()
    assert "the resumed training differs from the original: the batch" in fates.problems[0]


SHIFT: list[float] = []


class Shifted(Dataset):
    def __len__(self):
        return 24

    def __getitem__(self, index):
        x, y = data()[index]
        return x + len(SHIFT), y


def shifted(tick, integration):
    model = net()
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    for _ in range(3):
        for x, y in DataLoader(Shifted(), 4):
            step(model, optimizer, x, y)
            tick()
    return []


def test_a_script_that_ends_before_is_said(record, tmp_path):
    fates = Fates(record, epochs)
    fates.lives(killed_after=8)
    fates.script = lambda tick, integration: []
    fates.lives(goes_on=True, result=str(tmp_path / "result"))
    assert "The script ended before it reached the position of the checkpoint." in (tmp_path / "result").read_text()


class Compared:
    """A script that compares its predictions with all targets, after each of its passes."""

    def __init__(self, **loading):
        self.loading, self.evaluated = loading, 0

    def __call__(self, tick, integration):
        model = net()
        optimizer = torch.optim.SGD(model.parameters(), 0.1)
        loader, others = DataLoader(data(), 4, shuffle=True), DataLoader(data(9), 4, **self.loading)
        seen, self.evaluated = [], 0
        for _ in range(4):
            for number, (x, y) in enumerate(loader):
                (cross_entropy(model(x), y) / 2).backward()
                if number % 2:
                    optimizer.step()
                    optimizer.zero_grad()
                    tick()
            model.eval()
            predicted = torch.cat([model(x).argmax(1) for x, _ in others])
            seen.append((predicted == others.dataset.tensors[1]).float().mean())
            model.train()
            self.evaluated += 1
        return [*state(model), torch.stack(seen)]


@pytest.mark.parametrize("loading", [{}, {"num_workers": 1}], ids=["here", "by workers"])
def test_a_script_that_needs_whole_evaluations_gets_them_once_it_failed_without(record, tmp_path, loading):
    script = Compared(**loading)
    fates = Fates(record, script)
    fates.lives(killed_after=8)
    with pytest.raises(RuntimeError, match="size of tensor a"):
        fates.lives(goes_on=True, result=str(tmp_path / "result"))
    said = result_from_text((tmp_path / "result").read_text())
    assert said.again
    assert said.failure == (
        "The script ended before it reached the position of the checkpoint: RuntimeError: The size of tensor a (4) "
        "must match the size of tensor b (9) at non-singleton dimension 0. Evaluations were shortened; the next "
        "attempt repeats them in full.")

    (tmp_path / "result").unlink()
    resumed = fates.lives(goes_on=True, result=str(tmp_path / "result"))
    assert fates.problems[-1].endswith("of the next step are bit-identical.")
    assert fates.steps[0] == 6, "it was repeated instead of resumed"
    for one, other in zip(fates.whole(), resumed, strict=True):
        assert torch.equal(one, other)


def test_a_script_that_fails_by_itself_is_not_tried_again(record, tmp_path):
    fates = Fates(record, epochs)
    fates.lives(killed_after=8)

    def fails(tick, integration):
        raise RuntimeError("no data\nnowhere")

    fates.script = fails
    with pytest.raises(RuntimeError, match="no data"):
        fates.lives(goes_on=True, result=str(tmp_path / "result"))
    said = result_from_text((tmp_path / "result").read_text())
    assert (said.failure, said.again) == (
        "The script ended before it reached the position of the checkpoint: RuntimeError: no data.", False)
    assert not needs_full_evaluations(fates.store)


def test_a_resumption_that_the_user_interrupts_is_not_tried_again(record, tmp_path):
    fates = Fates(record, interrupted)
    fates.lives(killed_after=11)
    STOPS.append(KeyboardInterrupt)
    try:
        with pytest.raises(KeyboardInterrupt):
            fates.lives(goes_on=True, result=str(tmp_path / "result"))
    finally:
        STOPS.clear()
    assert not result_from_text((tmp_path / "result").read_text()).again
    assert not needs_full_evaluations(fates.store)


STOPS: list[type[BaseException]] = []


def interrupted(tick, integration):
    model = net()
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    loader, others = DataLoader(data(), 4), DataLoader(data(10), 4)
    for _ in range(3):
        for x, y in loader:
            step(model, optimizer, x, y)
            tick()
        for x, _y in others:
            model(x)
        for stop in STOPS:
            raise stop


def test_another_model_is_refused_by_name(record, tmp_path):
    fates = Fates(record, epochs)
    fates.lives(killed_after=8)
    monkey, globals()["net"] = net, lambda: monkey(5)
    try:
        with pytest.raises(SystemExit):
            fates.lives(goes_on=True, result=str(tmp_path / "result"))
    finally:
        globals()["net"] = monkey
    assert "differs from the checkpoint's: 4.weight is (5, 8), and was (3, 8)" in (tmp_path / "result").read_text()


def test_nothing_goes_on_from_a_checkpoint_that_is_not_there(record):
    fates = Fates(record, epochs)
    tape = record(installed=False, **fates.settings)
    with pytest.raises(ResumeFailed, match="it does not exist"):
        begin_resuming(tape.integration, fates.store, ResumeOrder("", ""), lambda _: None)
    assert checkpoint_names(fates.store) == []
