"""A script for smdebug, and all that its trials answer: run with the real library, and with its names over Barograph.

    python smdebug_script.py smdebug.pytorch FOLDER
    python smdebug_script.py barograph.smdebug FOLDER

The folder gets what three trainings saved, and `answers.json`. Another folder's trials are asked with
`python smdebug_script.py MODULE FOLDER ask`.
"""

from __future__ import annotations

import importlib
import json
import sys
from pathlib import Path
from typing import Any

import numpy as np

REDUCTIONS = ("min", "max", "mean", "std", "variance", "sum", "l1", "l2")


def names(module: str) -> Any:
    """Return the module, with what the real library has elsewhere."""
    smd = importlib.import_module(module)
    if module.startswith("smdebug"):
        for home in ("smdebug.exceptions", "smdebug.rules", "smdebug.trials", "smdebug.core.modes",
                     "smdebug.core.tensor", "smdebug.analysis.utils"):
            for name, value in vars(importlib.import_module(home)).items():
                if not name.startswith("_"):
                    setattr(smd, name, value)
    return smd


def net() -> Any:
    import torch

    class Net(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.body = torch.nn.Sequential(torch.nn.Linear(4, 3), torch.nn.ReLU())
            self.head = torch.nn.Linear(3, 2)
            self.token = torch.nn.Parameter(torch.zeros(1))

        def forward(self, x: Any) -> Any:
            return self.head(self.body(x) + self.token)

    torch.manual_seed(0)
    return Net()


def train(hook: Any, *, numbers_at: tuple[int, ...] = (), set_modes: Any = None) -> None:
    """Train; numbers are saved at steps that are saved anyway, since the real library puts others at a later step."""
    import torch

    model, loss_of = net(), torch.nn.CrossEntropyLoss()
    hook.register_module(model)
    hook.register_loss(loss_of)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for number in range(6):
        if set_modes is not None:
            hook.set_mode(set_modes.TRAIN)
        optimizer.zero_grad()
        loss_of(model(torch.randn(8, 4)), torch.randint(0, 2, (8,))).backward()
        optimizer.step()
        if set_modes is not None and number % 2:
            hook.set_mode(set_modes.EVAL)
            with torch.no_grad():
                loss_of(model(torch.randn(8, 4)), torch.randint(0, 2, (8,)))
        elif number in numbers_at:
            hook.save_scalar("rate", 0.1 * number)
            hook.save_tensor("mine", torch.arange(3))
    hook.close()


def save_all(smd: Any, folder: Path) -> None:
    train(smd.Hook(out_dir=str(folder / "plain"), save_config=smd.SaveConfig(save_interval=2, start_step=1, end_step=9),
                   save_all=True), numbers_at=(2, 4))
    reduced = smd.Hook(
        out_dir=str(folder / "reduced"), include_collections=["weights", "biases", "gradients"],
        include_regex=["^body", "^Net_token"],
        save_config={smd.modes.TRAIN: smd.SaveConfigMode(save_interval=2),
                     smd.modes.EVAL: smd.SaveConfigMode(save_interval=1)},
        reduction_config=smd.ReductionConfig(reductions=["mean", "max", "std"], abs_reductions=["min"],
                                             norms=["l1", "l2"], save_shape=True),
    )
    reduced.get_collection("gradients").reduction_config = smd.ReductionConfig(save_raw_tensor=True, norms=["l2"])
    train(reduced, set_modes=smd.modes)
    both = smd.Hook(out_dir=str(folder / "both"), include_collections=["heads"],
                    reduction_config=smd.ReductionConfig(save_raw_tensor=True, reductions=["mean"]),
                    save_config=smd.SaveConfig(save_steps=[1, 2], save_interval=1000))
    both.get_collection("heads").include(["^head", "Net_head"])
    train(both, numbers_at=(0, 1, 2))


def written(value: Any) -> Any:
    array = np.asarray(value)
    return [array.dtype.name, list(array.shape), array.tobytes().hex()]


def asked(smd: Any, ask: Any) -> Any:
    """Return an answer, or the name of the error."""
    try:
        return ask()
    except Exception as error:  # noqa: BLE001 - which error it is, is the answer
        return type(error).__name__


def answers(smd: Any, place: str) -> dict[str, Any]:
    trial = smd.create_trial(place)
    said: dict[str, Any] = {
        "names": trial.tensor_names(), "workers": trial.workers(), "collections": sorted(trial.collections()),
        "modes": sorted(mode.name for mode in trial.modes()), "over": trial.loaded_all_steps, "tensors": {},
        "steps": {mode.name: trial.steps(mode) for mode in smd.modes},
        "by_regex": trial.tensor_names(regex="relu|weight$"),
        "by_collection": {name: trial.tensor_names(collection=name) for name in ("weights", "losses", "gradients")},
        "global": [[step, trial.mode(step).name, trial.mode_step(step)] for step in trial.steps()],
        "at": {str(step): trial.tensor_names(step=step) for step in trial.steps()},
        "missing": [asked(smd, lambda: trial.tensor("no such")), asked(smd, lambda: trial.wait_for_steps([10_000])),
                    asked(smd, lambda: trial.wait_for_steps([0]))],
    }
    for name in trial.tensor_names():
        tensor = trial.tensor(name)
        said["tensors"][name] = {
            "steps": {mode.name: tensor.steps(mode) for mode in smd.modes},
            "prev": tensor.prev_steps(4, 2),
            "workers": [tensor.workers(step) for step in tensor.steps()],
            "values": {str(step): asked(smd, lambda tensor=tensor, step=step: written(tensor.value(step)))
                       for step in trial.steps()},
            "shapes": {str(step): asked(smd, lambda tensor=tensor, step=step: list(tensor.shape(step)))
                       for step in tensor.steps()},
            "saved": {str(step): asked(smd, lambda tensor=tensor, step=step: sorted(
                [red, absolute, written(value)] for (red, absolute), value in tensor.reduction_values(step).items()))
                for step in tensor.steps()},
            "reduced": {f"{step} {red} {absolute}": asked(smd, lambda tensor=tensor, step=step, red=red,
                                                          absolute=absolute: written(
                tensor.reduction_value(step, red, abs=absolute)))
                for step in tensor.steps()[:2] for red in REDUCTIONS for absolute in (False, True)
                # The real library cannot make a norm of an array without axes.
                if not (red in ("l1", "l2") and "Loss_output" in name)},
        }
    said["rule"] = judged(smd, trial)
    return said


def judged(smd: Any, trial: Any) -> Any:
    class LargeGradient(smd.Rule):  # type: ignore[misc, name-defined]
        def __init__(self, base_trial: Any) -> None:
            super().__init__(base_trial, "")
            self.met: list[int] = []

        def set_required_tensors(self, step: int) -> None:
            for name in self.base_trial.tensor_names(collection="gradients"):
                self.req_tensors.add(name=name, steps=[step])

        def invoke_at_step(self, step: int) -> bool:
            for tensor in self.req_tensors.get():
                if tensor.reduction_value(step, "max", abs=True) > 0.1:
                    self.met.append(step)
                    return True
            return False

    rule = LargeGradient(trial)
    ended = asked(smd, lambda: smd.invoke_rule(rule))
    first = asked(smd, lambda: smd.invoke_rule(LargeGradient(trial), raise_eval_cond=True))
    return [rule.met, ended, first]


def main(module: str, folder: Path, ask_only: bool) -> None:
    smd = names(module)
    if not ask_only:
        save_all(smd, folder)
    found = {place.name: answers(smd, str(place)) for place in sorted(folder.iterdir()) if place.is_dir()}
    (folder / "answers.json").write_text(json.dumps(found, indent=1))
    (folder / "names.json").write_text(json.dumps(dir(smd)))


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), ask_only="ask" in sys.argv[3:])
