"""Modules are heard, and while one pass runs of whose inside nobody asks, they take torch's short way."""

from __future__ import annotations

import copy
import io
import subprocess
import sys
import threading

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.nn.modules import module as torch_modules

from barograph.model.recorder import RecorderSettings
from barograph.model.step import Mode


@pytest.fixture
def held(record):
    def start(preset="free"):
        return record(recorder=RecorderSettings(), preset=preset)

    return start


class Noting(nn.Module):
    """Notes whether global hooks are there when it is called, and raises what it is told to."""

    def __init__(self, inside=None):
        super().__init__()
        self.inside, self.scale = inside, nn.Parameter(torch.ones(()))
        self.hooked, self.raises = [], None

    def forward(self, x):
        self.hooked.append(bool(torch_modules._global_forward_hooks or torch_modules._global_forward_pre_hooks))
        if self.raises is not None:
            raise self.raises
        return (x if self.inside is None else self.inside(x)) * self.scale


def own_hooks(model):
    return [hooks for part in model.modules() for hooks in (part._forward_hooks, part._forward_pre_hooks) if hooks]


def step(model, optimizer, x=None):
    optimizer.zero_grad()
    F.mse_loss(model(torch.ones(2, 3) if x is None else x), torch.zeros(2, 3)).backward()
    optimizer.step()


def optimizer_of(model):
    return torch.optim.SGD(model.parameters(), 0.01)


def test_inside_of_a_pass_nothing_is_hooked_and_every_pass_is_heard(held):
    tape, model = held(), Noting(Noting())
    optimizer = optimizer_of(model)
    for _ in range(3):
        step(model, optimizer)
        assert torch_modules._global_forward_hooks
        assert not own_hooks(model)
    # Hooks are put in for the pass of the model itself, which begins with ours.
    assert model.inside.hooked == [False] * 3
    assert [len(tape.integration._recorder._keeper.kept.calls), len(tape.numbers())] == [1, 3]


def test_where_outputs_are_asked_for_every_module_is_heard(held):
    tape, model = held("everything"), nn.Sequential(nn.Linear(3, 3), Noting())
    optimizer = optimizer_of(model)
    for _ in range(2):
        step(model, optimizer)
    assert model[1].hooked == [True, True]
    assert {"output:0", "output:1"} <= set(tape.names())


def test_hooks_of_others_stay_as_they_are_and_in_their_order(held):
    heard = []
    with torch_modules.register_module_forward_hook(lambda module, args, output: heard.append(type(module).__name__)):
        held()
        model = Noting(nn.ReLU())
        step(model, optimizer_of(model))
    assert heard == ["ReLU", "Noting"]
    assert model.hooked == [True]


def test_what_a_model_returns_is_read_before_hooks_of_its_own_change_it(held):
    class Losing(Noting):
        def forward(self, x):
            return {"loss": super().forward(x).sum()}

    tape, model = held(), Losing(nn.Identity())
    model.register_forward_hook(lambda module, args, output: {"loss": output["loss"] * 2})
    optimizer = optimizer_of(model)
    model(torch.ones(2, 3))["loss"].backward()
    optimizer.step()
    assert model.hooked == [False]
    assert (tape.scalar("loss:model[loss]"), tape.scalar("loss:total")) == (6.0, 12.0)


def test_after_a_pass_that_has_raised_the_next_model_is_heard(held):
    tape, broken, model = held(), Noting(), Noting()
    optimizer = torch.optim.SGD([*broken.parameters(), *model.parameters()], 0.01)
    broken.raises = ValueError("no")
    with pytest.raises(ValueError, match="no"):
        broken(torch.ones(2, 3))
    assert not own_hooks(broken)
    assert torch_modules._global_forward_hooks
    step(model, optimizer)
    assert [call.what for call in tape.integration._recorder._keeper.kept.calls] == [tape.integration.names.path(
        tape.integration.names.module(model).root, "")]


def test_a_pass_that_was_interrupted_leaves_a_model_that_can_be_saved_and_trained(held, tmp_path):
    tape, model = held(), nn.Sequential(nn.Linear(3, 3))
    optimizer = optimizer_of(model)
    interrupt = model[0].register_forward_pre_hook(lambda module, args: (_ for _ in ()).throw(KeyboardInterrupt))
    with pytest.raises(KeyboardInterrupt):
        step(model, optimizer)
    interrupt.remove()
    assert own_hooks(model)

    assert copy.deepcopy(model)(torch.ones(2, 3)).shape == (2, 3)
    file = io.BytesIO()
    torch.save(model, file)
    (tmp_path / "model.pt").write_bytes(file.getvalue())
    alone = ("import sys; sys.modules['barograph'] = None; import torch; "
             "print(torch.load('model.pt', weights_only=False)(torch.ones(2, 3)).shape)")
    loaded = subprocess.run([sys.executable, "-c", alone], cwd=tmp_path, capture_output=True, text=True)
    assert (loaded.stdout, loaded.returncode) == ("torch.Size([2, 3])\n", 0), loaded.stderr

    step(model, optimizer)
    assert not own_hooks(model)
    assert tape.numbers() == [0]
    assert len(tape.integration._recorder._keeper.kept.calls) == 1


def test_a_model_that_was_interrupted_is_let_go_of_at_the_next_step_of_another(held):
    held()
    model, other = nn.Sequential(nn.Linear(3, 3)), Noting()
    optimizer = torch.optim.SGD([*model.parameters(), *other.parameters()], 0.01)
    interrupt = model[0].register_forward_pre_hook(lambda module, args: (_ for _ in ()).throw(KeyboardInterrupt))
    with pytest.raises(KeyboardInterrupt):
        model(torch.ones(2, 3))
    interrupt.remove()
    step(other, optimizer)
    assert torch_modules._global_forward_hooks
    assert not own_hooks(model)


def test_a_model_that_is_called_within_itself_is_heard(held):
    class Twice(Noting):
        def forward(self, x):
            return self(x[:1]).expand(2, 3) if len(x) == 2 else super().forward(x)

    tape, model = held(), Twice()
    step(model, optimizer_of(model))
    assert tape.numbers() == [0]
    assert torch_modules._global_forward_hooks
    assert not own_hooks(model)


def test_where_another_thread_calls_models_all_modules_are_heard(held):
    held()
    model, other = Noting(Noting()), Noting()
    optimizer = torch.optim.SGD([*model.parameters(), *other.parameters()], 0.01)
    step(model, optimizer)
    thread = threading.Thread(target=lambda: other(torch.ones(2, 3)))
    thread.start()
    thread.join()
    step(model, optimizer)
    assert model.inside.hooked == [False, True]


def test_a_module_of_torchscript_is_heard_as_before(held):
    tape = held()
    with pytest.warns(DeprecationWarning, match="torch.jit.script"):
        model = torch.jit.script(nn.Linear(3, 3))
    step(model, optimizer_of(model))
    assert tape.numbers(Mode.TRAIN) == [0]
    assert torch_modules._global_forward_hooks


def test_nothing_is_left_of_a_recording_that_ends_within_a_pass(held):
    tape = held()

    class Ending(Noting):
        def forward(self, x):
            tape.close()
            return super().forward(x)

    model = Ending()
    step(model, optimizer_of(model))
    assert not own_hooks(model)
    assert model.hooked == [False]
