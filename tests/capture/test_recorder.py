"""A step that fails is held: nothing moves, and all that it was made of is saved."""

from __future__ import annotations

import copy
import importlib
import math
import os
import sys
import warnings
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from barograph.capture.script import sources
from barograph.errors import TrainingStopped
from barograph.model.capsule import Held
from barograph.runs.state.control import Request


def net():
    return nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, 3))


def step(model, optimizer, x, y):
    optimizer.zero_grad()
    F.cross_entropy(model(x), y).backward()
    optimizer.step()


def batch(bad=False):
    x = torch.randn(16, 4)
    if bad:
        x[3, 1] = math.nan
    return x, torch.randint(0, 3, (16,))


def test_the_update_is_withheld_and_the_training_stopped(hold):
    tape, model = hold(), net()
    optimizer = torch.optim.Adam(model.parameters(), 0.1, weight_decay=0.1)
    for _ in range(3):
        step(model, optimizer, *batch())
    weights = [parameter.detach().clone() for parameter in model.parameters()]
    before = copy.deepcopy(optimizer.state_dict())
    with pytest.raises(TrainingStopped, match=(
        r"The gradient of 0\.weight, 0\.bias, 1\.weight and 3 more is not finite\. The update of step 3 was withheld\. "
        r"The capsule is in there")):
        step(model, optimizer, *batch(bad=True))
    assert all(map(torch.equal, model.parameters(), weights))
    after = optimizer.state_dict()
    assert all(torch.equal(after["state"][at][name], before["state"][at][name])
               for at in after["state"] for name in after["state"][at])
    assert all(not parameter.grad.isfinite().all() for parameter in model.parameters() if parameter.grad.numel() > 3)
    assert tape.steps()[-1].step.skipped
    assert tape.summary("gradient:0.weight").nan == 32
    head = tape.saved[0][0]
    assert (head.step, head.held, head.optimizer, head.withheld) == (3, Held.NOT_FINITE, "", True)


def test_what_the_step_was_made_of_is_saved_as_it_was(hold):
    tape, model = hold(), net()
    optimizer = torch.optim.SGD(model.parameters(), 0.1, momentum=0.9)
    step(model, optimizer, *batch())
    buffers = {name: value.clone() for name, value in model.named_buffers()}
    state = torch.get_rng_state()
    x, y = batch(bad=True)
    drawn = torch.get_rng_state()
    assert not torch.equal(state, drawn)
    with pytest.raises(TrainingStopped):
        step(model, optimizer, x, y)
    saved = tape.saved
    for name, value in saved.value("models", "", "state").items():
        expected = buffers[name] if name in buffers else dict(model.named_parameters())[name]
        assert torch.equal(value, expected), name
    assert torch.equal(saved.value("random")["torch"], drawn)
    assert saved.value("calls", 0, "args")[0].nan_to_num(nan=7.0).equal(x.nan_to_num(nan=7.0))
    assert saved.value("losses", 0, "args")[1].equal(y)
    assert saved[0][1]["losses"][0]["what"] == "cross_entropy"
    assert saved[0][1]["models"][""]["training"] == ["", "0", "1", "2", "3"]
    assert saved.value("optimizers", "", "state")["param_groups"][0]["momentum"] == 0.9
    assert saved[0][1]["seen"]["losses"] == ["nan"]


def test_all_micro_batches_of_a_step_are_saved(hold):
    tape, model = hold(), nn.Linear(4, 3)
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    data = DataLoader(TensorDataset(torch.randn(12, 4), torch.randint(0, 3, (12,))), batch_size=2)

    def accumulate():
        for number, (x, y) in enumerate(data):
            loss = F.cross_entropy(model(x), y)
            (loss * math.nan if number == 5 else loss).backward()
            if number % 3 == 2:
                optimizer.step()
                optimizer.zero_grad()

    with pytest.raises(TrainingStopped):
        accumulate()
    _, content, _, _ = tape.saved[0]
    assert [len(content[name]) for name in ("batches", "calls", "losses")] == [3, 3, 3]
    assert tape.saved.value("batches", 0)[0].equal(data.dataset.tensors[0][6:8])


def train_over(loader, model, optimizer):
    for part in loader:
        step(model, optimizer, *part)


def test_which_samples_a_batch_was_made_of_is_saved_with_their_names(hold):
    class Pictures(TensorDataset):
        def source(self, index):
            return None if index == 1 else f"{index}.png"

    tape = hold()
    model = net()
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    x, y = batch()
    x[4] = float("nan")
    loader = DataLoader(Pictures(x, y), batch_size=4, sampler=[7, 6, 5, 3, 2, 4, 1, 0])
    with pytest.raises(TrainingStopped):
        train_over(loader, model, optimizer)
    _, content, _, _ = tape.saved[0]
    assert content["samples"] == [{"loader": "Pictures", "first": 4, "samples": 4, "indices": [2, 4, 1, 0],
                                   "loader_worker": None, "names": ["2.png", "4.png", "", "0.png"]}]


@pytest.mark.parametrize("between", [False, True])
def test_batches_of_an_evaluation_are_not_kept_with_the_step(hold, between):
    tape, model = hold(), net()
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    step(model, optimizer, *batch())

    def evaluate() -> None:
        with torch.no_grad():
            for x, _ in DataLoader(TensorDataset(*batch()), batch_size=8):
                model(x)

    if not between:
        evaluate()
    for x, y in DataLoader(TensorDataset(*batch(bad=True)), batch_size=16):
        if between:
            evaluate()
        with pytest.raises(TrainingStopped):
            step(model, optimizer, x, y)
        break
    _, content, _, _ = tape.saved[0]
    assert [made["samples"] for made in content["samples"]] == [16]
    assert tape.saved.value("batches", 0)[0].shape == (16, 4)


def test_a_batch_that_was_drawn_without_gradients_is_kept_where_no_other_came(hold):
    tape, model = hold(), net()
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    with torch.no_grad():
        x, y = next(iter(DataLoader(TensorDataset(*batch(bad=True)), batch_size=16)))
    with pytest.raises(TrainingStopped):
        step(model, optimizer, x, y)
    assert tape.saved.value("batches", 0)[0].shape == (16, 4)


def test_a_sample_that_cannot_be_named_does_not_keep_a_step_from_being_saved(hold):
    tape = hold(strict=False)
    tape.integration.feeding.name_samples(lambda index: 1 // 0)
    model = net()
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    x, y = batch(bad=True)
    loader = DataLoader(TensorDataset(x, y), batch_size=8)
    with warnings.catch_warnings(action="ignore"), pytest.raises(TrainingStopped):
        train_over(loader, model, optimizer)
    assert len(tape.saved) == 1


def test_gradients_that_were_there_before_are_saved(hold):
    tape, model = hold(), nn.Linear(4, 3)
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    F.cross_entropy(model(torch.randn(2, 4)), torch.tensor([0, 1])).backward()
    optimizer.step()
    left = model.weight.grad.clone()
    x, y = batch(bad=True)
    F.cross_entropy(model(x), y).backward()
    with pytest.raises(TrainingStopped):
        optimizer.step()
    assert tape.saved.value("gradients_before", "weight").equal(left)


def test_with_skip_the_training_goes_on_until_too_many_were_held(hold, recwarn):
    tape, model = hold(then="skip", at_most=2), net()
    optimizer = torch.optim.Adam(model.parameters(), 0.1)
    held = 0
    for number in range(20):
        try:
            step(model, optimizer, *batch(bad=number % 4 == 1))
        except TrainingStopped:
            held = number
            break
    assert held == 9
    assert [head.step for head, *_ in tape.saved] == [1, 5, 9]
    assert all(parameter.isfinite().all() for parameter in model.parameters())
    assert all("was withheld" in str(item.message) for item in recwarn)


def test_a_script_that_catches_the_stop_trains_on_and_is_stopped_again(hold):
    def train(bad_at):
        torch.manual_seed(0)
        model = net()
        optimizer = torch.optim.Adam(model.parameters(), 0.01)
        for number in range(4):
            step(model, optimizer, *batch(bad=number == bad_at))
        return [parameter.detach().clone() for parameter in model.parameters()]

    expected = train(-1)
    tape = hold()
    for times in (1, 2):
        with pytest.raises(TrainingStopped, match=r"The gradient of .* was withheld"):
            train(2)
        assert len(tape.saved) == times
        assert all(map(torch.equal, train(-1), expected))
    assert len(tape.saved) == 2


def test_where_the_users_function_is_not_to_be_found_the_training_ends_at_once(hold):
    hold(when="no_such_module:check")
    model = net()
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    with pytest.raises(TrainingStopped, match=r'recorder.when is "no_such_module:check", which cannot be imported'):
        step(model, optimizer, *batch())


def test_the_first_step_of_a_second_training_is_saved_whole(hold):
    tape = hold()
    for bad in (False, True):
        model = net()
        optimizer = torch.optim.SGD(model.parameters(), 0.1)
        if bad:
            with pytest.raises(TrainingStopped):
                step(model, optimizer, *batch(bad=True))
        else:
            step(model, optimizer, *batch())
    _, content, _, _ = tape.saved[0]
    assert len(content["calls"]) == len(content["seen"]["losses"]) == 1
    (saved,) = content["models"]
    assert torch.equal(tape.saved.value("models", saved, "state")["0.weight"], model[0].weight)


def test_a_norm_beyond_the_bound_is_held(hold):
    tape, model = hold(norm_above=1e-6), nn.Linear(4, 3)
    with pytest.raises(TrainingStopped, match="above the bound 1e-6"):
        step(model, torch.optim.SGD(model.parameters(), 0.1), *batch())
    assert tape.saved[0][0].numbers["bound"] == 1e-6


def test_what_a_scaler_skips_is_no_failure(hold):
    tape, model = hold(), nn.Linear(4, 3)
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    scaler = torch.amp.GradScaler("cpu", init_scale=1e38)
    for _ in range(3):
        optimizer.zero_grad()
        x, y = batch()
        scaler.scale(100 * F.cross_entropy(model(x), y)).backward()
        scaler.step(optimizer)
        scaler.update()
    assert tape.saved == []
    assert tape.steps()[0].step.skipped


def test_nothing_is_kept_of_a_step_that_has_ended(hold):
    tape, model = hold(), nn.Linear(4, 3)
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    step(model, optimizer, *batch())
    x, y = batch()
    with torch.no_grad():
        model(x)
    step(model, optimizer, x, y)
    kept = tape.integration._recorder.kept
    assert len(kept.calls) == 1
    assert kept.calls[0].args[0] is x


def test_a_capsule_that_cannot_be_saved_still_withholds(hold):
    tape, model = hold(strict=False), net()

    def full(*_):
        raise OSError("no room is left")

    tape.session.worker.write_capsule = full
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    before = [parameter.detach().clone() for parameter in model.parameters()]
    with (pytest.warns(UserWarning, match="no room is left"),
          pytest.raises(TrainingStopped, match="saving a capsule failed: OSError: no room")):
        step(model, optimizer, *batch(bad=True))
    assert all(map(torch.equal, model.parameters(), before))


def test_recording_a_step_draws_no_random_numbers_and_changes_no_weight(hold):
    def train():
        torch.manual_seed(1)
        model = nn.Sequential(net(), nn.Dropout(0.3))
        optimizer = torch.optim.Adam(model.parameters(), 0.1)
        for _ in range(5):
            step(model, optimizer, *batch())
        return [parameter.detach().clone() for parameter in model.parameters()]

    bare = train()
    hold()
    assert all(map(torch.equal, bare, train()))


def asked(step, finding="f1", optimizer="", **more):
    return Request("capsule", finding, "L101 loss-spike: It leapt.", 0, 0.0, "p0", optimizer,
                   {"step": float(step), **more})


def answers(tape):
    return [(done.finding_id, done.done, done.result) for done in tape.session.steering.orders.reports()]


def test_the_step_of_a_finding_is_saved_from_the_ring_as_it_was(hold):
    tape, model = hold(ring=3), net()
    optimizer = torch.optim.Adam(model.parameters(), 0.1)
    before, batches = [], []
    for number in range(6):
        if number == 5:
            tape.session.steering.orders.hear(asked(3))
        before.append([item.detach().clone() for item in model.parameters()])
        batches.append(batch())
        step(model, optimizer, *batches[-1])
    ((head, *_),) = tape.saved
    assert (head.step, head.held, head.withheld, head.text) == (3, Held.FINDING, False, "L101 loss-spike: It leapt.")
    assert answers(tape) == [("f1", True, "saved step 3. The capsule is in there.")]
    saved = tape.saved.value("models", "", "state")
    for (name, _), value in zip(model.named_parameters(), before[3], strict=True):
        assert torch.equal(saved[name], value), name
    assert torch.equal(tape.saved.value("losses", 0, "args")[1], batches[3][1])
    assert tape.saved.value("optimizers", "", "state")["state"][0]["step"] == 3
    assert len(tape.steps()) == 6
    assert not any(records.step.skipped for records in tape.steps())


@pytest.mark.parametrize(("since", "saved"), [(2.0, 2), (0.0, 4)])
def test_the_first_step_of_a_finding_is_saved_where_the_ring_still_holds_it(hold, since, saved):
    tape, model = hold(ring=4), net()
    optimizer = torch.optim.Adam(model.parameters(), 0.1)
    for number in range(6):
        if number == 5:
            tape.session.steering.orders.hear(asked(4, since=since))
        step(model, optimizer, *batch())
    assert [head.step for head, *_ in tape.saved] == [saved]


@pytest.mark.parametrize("ring", [0, 2])
def test_where_the_ring_has_let_go_of_it_the_next_step_is_saved(hold, ring):
    tape, model = hold(ring=ring), net()
    optimizer = torch.optim.Adam(model.parameters(), 0.1)
    for number in range(6):
        if number == 4:
            tape.session.steering.orders.hear(asked(1))
            tape.session.steering.orders.hear(asked(0, "f2"))
        step(model, optimizer, *batch())
    assert [head.step for head, *_ in tape.saved] == [5]
    assert [(name, done) for name, done, _ in answers(tape)] == [("f1", True), ("f2", True)]
    assert all(text.startswith("saved step 5.") for *_, text in answers(tape))


def test_a_step_is_saved_for_the_optimizer_that_is_meant(hold):
    tape = hold(strict=True)
    models = {name: nn.Linear(4, 3) for name in ("one", "two")}
    optimizers = {name: torch.optim.SGD(model.parameters(), 0.1) for name, model in models.items()}
    for number in range(4):
        for name, model in models.items():
            step(model, optimizers[name], *batch())
        if number == 1:
            label = tape.steps()[1].step.optimizer
            tape.session.steering.orders.hear(asked(0, optimizer=label))
    assert [(head.step, head.optimizer) for head, *_ in tape.saved] == [(2, label)]


def test_no_more_steps_are_saved_than_may_be(hold):
    tape, model = hold(at_most=2), net()
    optimizer = torch.optim.Adam(model.parameters(), 0.1)
    for number in range(10):
        tape.session.steering.orders.hear(asked(0, f"f{number}"))
        step(model, optimizer, *batch())
    assert len(tape.saved) == 2
    assert sum(done for _, done, _ in answers(tape)) == 2
    assert "2 steps were already saved for findings" in answers(tape)[-1][2]


def test_of_an_optimizer_with_a_closure_no_step_is_saved_and_that_is_said(hold):
    tape, model = hold(), nn.Linear(4, 3)
    optimizer = torch.optim.LBFGS(model.parameters(), 0.1, max_iter=2)
    x, y = batch()

    def closure():
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x), y)
        loss.backward()
        return loss

    for number in range(3):
        if number == 1:
            tape.session.steering.orders.hear(asked(0))
        optimizer.step(closure)
    assert tape.saved == []
    ((_, done, text),) = answers(tape)
    assert (done, text.startswith("did nothing: the optimizer computes its gradients in a closure")) == (False, True)


def test_without_a_recorder_it_is_said(record):
    tape, model = record(), net()
    optimizer = torch.optim.Adam(model.parameters(), 0.1)
    tape.session.steering.orders.hear(asked(0))
    step(model, optimizer, *batch())
    ((_, done, text),) = answers(tape)
    assert (done, text) == (False, "did nothing: the flight recorder is off; start the training with --record")
def quadratic(optimizer, model, x, bad_at=()):
    """Return a closure that is not finite where it is called for the so-manieth time."""
    calls = []

    def closure():
        calls.append(1)
        optimizer.zero_grad()
        loss = model(x).pow(2).mean() * (math.nan if len(calls) in bad_at else 1.0)
        loss.backward()
        return loss

    return closure


def test_a_step_with_a_closure_is_undone(hold):
    tape, model = hold(), nn.Linear(4, 1)
    optimizer = torch.optim.LBFGS(model.parameters(), lr=0.1, max_iter=3)
    x = torch.randn(8, 4)
    optimizer.step(quadratic(optimizer, model, x))
    before = [parameter.detach().clone() for parameter in model.parameters()]
    state = copy.deepcopy(optimizer.state_dict()["state"])
    with pytest.raises(TrainingStopped, match="The update of step 1 was withheld"):
        optimizer.step(quadratic(optimizer, model, x, bad_at=(2, 3, 4)))
    assert all(map(torch.equal, model.parameters(), before))
    assert optimizer.state_dict()["state"][0]["n_iter"] == state[0]["n_iter"]
    assert optimizer.state_dict()["state"][0]["d"].equal(state[0]["d"])
    saved = tape.saved
    assert saved.value("models", "", "state")["weight"].equal(before[0])
    assert saved.value("optimizers", "", "state")["state"][0]["n_iter"] == state[0]["n_iter"]
    assert len(saved[0][1]["seen"]["losses"]) == len(saved[0][1]["calls"]) == 2
    assert tape.steps()[-1].step.skipped


def test_a_step_with_a_closure_that_is_well_returns_what_it_returned(hold):
    def train():
        torch.manual_seed(3)
        model = nn.Linear(4, 1)
        optimizer = torch.optim.LBFGS(model.parameters(), lr=0.1)
        x = torch.randn(8, 4)
        losses = [optimizer.step(closure=quadratic(optimizer, model, x)).item() for _ in range(3)]
        return losses, [parameter.detach().clone() for parameter in model.parameters()]

    losses, weights = train()
    tape = hold()
    again, weights_again = train()
    assert losses == again
    assert all(map(torch.equal, weights, weights_again))
    assert tape.saved == []


@pytest.mark.parametrize("fused", [False, True])
def test_a_scale_that_collapses_is_held(hold, fused):
    tape, model = hold(), nn.Linear(4, 3)
    optimizer = torch.optim.Adam(model.parameters(), 0.1, fused=fused)
    scaler = torch.amp.GradScaler("cpu", init_scale=4.0)

    def overflow():
        optimizer.zero_grad()
        x, y = batch(bad=True)
        scaler.scale(F.cross_entropy(model(x), y)).backward()
        scaler.step(optimizer)
        scaler.update()

    overflow()
    overflow()
    with pytest.raises(TrainingStopped, match="lowered its scale to 1, but the gradients are still not finite"):
        overflow()
    head = tape.saved[0][0]
    assert (head.held, head.step, head.numbers["scale"]) == (Held.SCALE, 2, 1.0)
    assert len(tape.saved) == 1


def test_of_two_optimizers_what_the_second_rests_on_is_saved(hold):
    tape = hold()
    maker, critic = nn.Linear(2, 2), nn.Linear(2, 1)
    for_maker, for_critic = torch.optim.SGD(maker.parameters(), 0.1), torch.optim.Adam(critic.parameters(), 0.1)
    data = DataLoader(TensorDataset(torch.randn(12, 2)), batch_size=4)

    def play():
        for number, (real,) in enumerate(data):
            fake = maker(torch.randn(4, 2))
            for_critic.zero_grad()
            (critic(fake.detach()).mean() - critic(real).mean()).backward()
            for_critic.step()
            for_maker.zero_grad()
            (critic(fake).mean() * (math.nan if number == 1 else -1)).backward()
            for_maker.step()

    with pytest.raises(TrainingStopped, match="The update of step 1 was withheld"):
        play()
    head, content, _, _ = tape.saved[0]
    assert (head.optimizer, content["others"]) == ("Linear", 1)
    assert [(step["optimizer"], len(step["batches"]), len(step["calls"])) for step in content["before"]] == [
        ("Linear#2", 1, 3)]
    assert set(content["models"]) == {"Linear", "Linear#2"}
    assert content["batches"] == []
    assert tape.saved.value("before", 0, "batches", 0)[0].equal(data.dataset.tensors[0][4:8])


def test_of_one_optimizer_no_other_step_is_kept(hold):
    tape, model = hold(), nn.Linear(4, 3)
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    for _ in range(3):
        step(model, optimizer, *batch())
    assert tape.integration._recorder._keeper.others_since("another") == []


def test_the_sources_of_a_capsule_are_the_scripts_own(tmp_path, monkeypatch):
    (tmp_path / "real").mkdir()
    (tmp_path / "real" / "mine_and_linked.py").write_text("WORD = 'mine'\n")
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "somewhere_else.py").write_text("WORD = 'not mine'\n")
    (tmp_path / "link").symlink_to(tmp_path / "real")
    monkeypatch.chdir(tmp_path / "link")
    for folder, name in ((tmp_path / "link", "mine_and_linked"), (tmp_path / "outside", "somewhere_else")):
        monkeypatch.syspath_prepend(folder)
        monkeypatch.delitem(sys.modules, name, raising=False)
        importlib.import_module(name)

    assert sources() == {"mine_and_linked.py": "WORD = 'mine'\n"}


def test_pythons_own_library_is_no_source_of_a_script_that_was_started_beside_it(monkeypatch):
    monkeypatch.chdir(Path(os.__file__).parent.parent)
    assert not [name for name in sources() if name.endswith("/json/__init__.py")]
