"""smdebug's hook over our runs."""

from __future__ import annotations

import copy
import io
import os
import pickle
import subprocess
import sys
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import barograph
import barograph.smdebug as smd
from barograph.capture.guard import BarographWarning
from barograph.errors import RunFinished
from barograph.runs.reading.doctor import examine
from barograph.store.urls import store_from_url


def train(hook: smd.Hook | None, steps: int = 3, *, close: bool = True) -> torch.nn.Module:
    torch.manual_seed(0)
    model, loss_of = torch.nn.Sequential(torch.nn.Linear(3, 2), torch.nn.ReLU()), torch.nn.CrossEntropyLoss()
    if hook is not None:
        hook.register_module(model)
        hook.register_loss(loss_of)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(steps):
        optimizer.zero_grad()
        loss_of(model(torch.randn(4, 3)), torch.randint(0, 2, (4,))).backward()
        optimizer.step()
    if hook is not None and close:
        hook.close()
    return model


def every_step(**more: object) -> dict[str, object]:
    return {"save_config": smd.SaveConfig(save_interval=1), "save_all": True, **more}


def test_a_training_is_the_same_to_the_last_bit_and_nothing_is_left_behind(tmp_path: Path) -> None:
    bare, hooked = train(None), train(smd.Hook(tmp_path / "run", **every_step()))
    assert all(torch.equal(one, other) for one, other in zip(bare.parameters(), hooked.parameters(), strict=True))
    assert all(not part._forward_hooks and not part._forward_pre_hooks for part in hooked.modules())
    assert all(not parameter._backward_hooks for parameter in hooked.parameters())


def test_the_run_is_whole_and_rules_see_it(tmp_path: Path) -> None:
    train(smd.Hook(tmp_path / "run", **every_step()))
    assert examine(store_from_url(tmp_path / "run")).intact
    run = barograph.open(tmp_path / "run")
    assert [view.step.number for view in run.views()] == [0, 1, 2]
    assert str(run.keys("loss")[0]) == "loss:total"
    assert run.tensor("gradient:0.weight", 1).shape == (2, 3)
    assert run.summary("weight:0.weight", 1).count == 6


def test_without_being_told_otherwise_it_saves_the_loss_every_500_steps(tmp_path: Path) -> None:
    train(smd.Hook(tmp_path / "run"))
    trial = smd.create_trial(tmp_path / "run")
    assert (trial.tensor_names(), trial.steps()) == (["CrossEntropyLoss_output_0"], [0])


def test_numbers_are_kept_with_the_step_and_the_mode_in_which_they_were_saved(tmp_path: Path) -> None:
    hook = smd.Hook(tmp_path / "run")
    model = torch.nn.Linear(1, 1)
    hook.register_module(model)
    for number in range(4):
        hook.set_mode(smd.modes.TRAIN if number < 3 else smd.modes.EVAL)
        model(torch.ones(1, 1))
        hook.save_scalar("rate", 0.1 * number)
    hook.close()
    trial = smd.create_trial(tmp_path / "run")
    assert trial.tensor("scalar/rate").steps(smd.modes.TRAIN) == [0, 1, 2]
    assert trial.tensor("scalar/rate").steps(smd.modes.EVAL) == [0]
    assert trial.tensor("scalar/rate").value(2) == 0.2


def test_what_is_saved_before_the_first_step_is_saved_with_it(tmp_path: Path) -> None:
    hook = smd.Hook(tmp_path / "run", save_config=smd.SaveConfig(save_steps=[1]))
    hook.save_scalar("batch_size", 32)
    train(hook)
    trial = smd.create_trial(tmp_path / "run")
    assert trial.tensor("scalar/batch_size").steps() == [0]
    assert trial.tensor("scalar/batch_size").value(0) == 32


def test_what_is_saved_without_any_step_is_saved_as_step_0(tmp_path: Path) -> None:
    hook = smd.Hook(tmp_path / "run")
    hook.save_scalar("batch_size", 32)
    hook.close()
    assert smd.create_trial(tmp_path / "run").tensor("scalar/batch_size").steps() == [0]


def saved_and_loaded(model: torch.nn.Module) -> torch.nn.Module:
    file = io.BytesIO()
    torch.save(model, file)
    file.seek(0)
    loaded: torch.nn.Module = torch.load(file, weights_only=False)
    return loaded


def scripted(model: torch.nn.Module) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # newer versions of torch warn of TorchScript itself
        return torch.jit.script(model)


@pytest.mark.parametrize("copied", [
    copy.deepcopy, saved_and_loaded, lambda model: pickle.loads(pickle.dumps(model)), scripted,
    lambda model: torch.export.export(model, (torch.ones(1, 3),)).module(),
])
def test_a_model_is_copied_while_it_is_recorded_as_without(copied: Any, tmp_path: Path) -> None:
    hook = smd.Hook(tmp_path / "run", **every_step())
    model = train(hook, close=False)
    other = copied(model)
    assert torch.equal(other(torch.ones(1, 3)), model(torch.ones(1, 3)))
    hooks = [item for part in other.modules() for item in (*part._forward_hooks.values(),
                                                           *part._forward_pre_hooks.values())]
    assert [item for item in hooks if "barograph" in item.__module__] == []
    hook.close()


# torch's compiler looks at the gradients of what a hook is given, and warns of that itself.
@pytest.mark.filterwarnings("ignore:The .grad attribute of a Tensor that is not a leaf")
@pytest.mark.parametrize("order", ["compiled, registered", "registered, compiled", "registered, compiled in place"])
def test_the_layers_of_a_compiled_model_are_saved(order: str, tmp_path: Path) -> None:
    hook = smd.Hook(tmp_path / "run", **every_step())
    model: Any = torch.nn.Sequential(torch.nn.Linear(3, 2), torch.nn.ReLU())
    called = torch.compile(model, backend="eager") if order != "registered, compiled in place" else model
    hook.register_module(called if order == "compiled, registered" else model)
    if called is model:
        model.compile(backend="eager")
    for _ in range(3):
        called(torch.ones(4, 3)).sum().backward()
    hook.close()
    trial = smd.create_trial(tmp_path / "run")
    for name in ("0_output_0", "Sequential_0.weight", "gradient/Sequential_0.weight"):
        assert trial.tensor(name).steps() == [0, 1, 2]


def test_a_model_that_is_one_graph_is_left_alone(tmp_path: Path) -> None:
    hook = smd.Hook(tmp_path / "run", **every_step())
    model = torch.nn.Sequential(torch.nn.Linear(3, 2), torch.nn.ReLU())
    hook.register_module(model)
    torch.compile(model, backend="eager", fullgraph=True)(torch.ones(4, 3)).sum().backward()
    hook.close()


def test_a_script_that_says_its_mode_late_has_two_trainings(tmp_path: Path) -> None:
    hook = smd.Hook(tmp_path / "run", **every_step())
    model = torch.nn.Linear(1, 1)
    hook.register_module(model)
    for number in range(4):
        if number == 2:
            hook.set_mode(smd.modes.TRAIN)
        model(torch.full((1, 1), float(number)))
    hook.close()
    trial = smd.create_trial(tmp_path / "run")
    given = trial.tensor("Linear_input_0")
    assert [float(given.value(step)[0, 0]) for step in trial.steps()] == [0.0, 1.0, 2.0, 3.0]
    assert [float(given.value(step, smd.modes.TRAIN)[0, 0]) for step in (0, 1)] == [2.0, 3.0]


def test_a_collection_of_ones_own_has_its_own_schedule_and_reductions(tmp_path: Path) -> None:
    hook = smd.Hook(tmp_path / "run", include_collections=["mine"])
    mine = smd.Collection("mine", ["^0_output"], reduction_config=smd.ReductionConfig(reductions=["max"]),
                          save_config=smd.SaveConfigMode(save_interval=2))
    hook.add_collection(mine)
    assert hook.get_collection("mine") is mine
    train(hook)
    tensor = smd.create_trial(tmp_path / "run").tensor("0_output_0")
    assert tensor.steps() == [0, 2]
    assert list(tensor.reduction_values(0)) == [("max", False)]
    with pytest.raises(smd.TensorUnavailableForStep):
        tensor.value(0)


def test_bfloat16_is_kept_as_it_is(tmp_path: Path) -> None:
    hook = smd.Hook(tmp_path / "run", **every_step())
    model = torch.nn.Linear(2, 1, dtype=torch.bfloat16)
    hook.register_module(model)
    model(torch.ones(1, 2, dtype=torch.bfloat16))
    hook.close()
    value = smd.create_trial(tmp_path / "run").tensor("Linear_weight").value(0)
    assert (value.dtype.name, value.shape) == ("bfloat16", (1, 2))
    assert np.array_equal(value.astype(np.float32), model.weight.detach().float().numpy())


def test_what_has_no_mean_is_told_once_and_training_goes_on(tmp_path: Path) -> None:
    hook = smd.Hook(tmp_path / "run", **every_step(reduction_config=smd.ReductionConfig(reductions=["mean"])))
    with pytest.warns(BarographWarning, match="CrossEntropyLoss_input_1 is not saved"):
        train(hook)
    trial = smd.create_trial(tmp_path / "run")
    assert trial.tensor("CrossEntropyLoss_output_0").steps() == [0, 1, 2]


def test_an_error_of_ours_becomes_a_warning(tmp_path: Path) -> None:
    hook = smd.Hook(tmp_path / "run", **every_step())
    hook.get_collection("broken").include("(")
    with pytest.warns(BarographWarning, match="training|Training"):
        train(hook)


def test_a_place_that_is_taken_is_refused(tmp_path: Path) -> None:
    train(smd.Hook(tmp_path / "run"))
    with pytest.raises(RunFinished):
        smd.Hook(tmp_path / "run")


def test_a_dry_run_saves_nothing(tmp_path: Path) -> None:
    train(smd.Hook(tmp_path / "run", dry_run=True))
    assert not (tmp_path / "run").exists()


def test_the_hook_that_was_made_last_is_found(tmp_path: Path) -> None:
    hook = smd.Hook(tmp_path / "run", dry_run=True)
    assert smd.get_hook() is hook
    smd.del_hook()
    assert smd.get_hook() is None
    with pytest.raises(smd.SMDebugNotImplementedError):
        smd.get_hook(create_if_not_exists=True)


@pytest.mark.parametrize("make", [
    lambda: smd.Hook(), lambda: smd.Hook("x", export_tensorboard=True), lambda: smd.SaveConfigMode(save_interval=0),
    lambda: smd.ReductionConfig(reductions=["mode"]), lambda: smd.SaveConfig.parse(7),
    lambda: smd.SaveConfig({"TRAIN": None}),
])
def test_what_cannot_be_is_refused(make: object) -> None:
    with pytest.raises(smd.SMDebugError):
        make()  # type: ignore[operator]


_RANK = """
import sys, torch, barograph.smdebug as smd
hook = smd.Hook(sys.argv[1], save_config=smd.SaveConfig(save_interval=1), save_all=True, include_workers="all")
model, loss_of = torch.nn.Linear(2, 2), torch.nn.CrossEntropyLoss()
hook.register_module(model)
hook.register_loss(loss_of)
loss_of(model(torch.ones(3, 2)), torch.zeros(3, dtype=torch.long)).backward()
hook.close()
"""


def test_every_worker_saves_where_that_is_asked_for(tmp_path: Path) -> None:
    common = {**os.environ, "WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "29511"}
    ranks = [subprocess.Popen([sys.executable, "-c", _RANK, str(tmp_path / "run")], env={**common, "RANK": str(rank)})
             for rank in range(2)]
    assert [process.wait(600) for process in ranks] == [0, 0]
    trial = smd.create_trial(tmp_path / "run")
    assert (trial.workers(), trial.num_workers) == (["worker_0", "worker_1"], 2)
    assert trial.tensor("Linear_weight").workers(0) == ["worker_0", "worker_1"]


def test_a_step_that_is_under_way_may_come(tmp_path: Path) -> None:
    hook = smd.Hook(tmp_path / "run", **every_step())
    train(hook, 2, close=False)
    trial = smd.create_trial(tmp_path / "run")
    assert trial.has_passed_step(1_000) is smd.StepState.NOT_YET_AVAILABLE
    waiting = smd.Trial(barograph.open(tmp_path / "run"), wait=lambda _: hook.close())
    waiting.wait_for_steps([1])
    assert waiting.tensor("Sequential_0.weight").steps() == [0, 1]
    with pytest.raises(smd.NoMoreData):
        waiting.wait_for_steps([2])
