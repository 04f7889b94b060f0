"""Actions on a real training with a fault."""

from __future__ import annotations

import json
import socket
from typing import Any

import pytest
import torch

from barograph.capture.torch.checkpoint import load
from forking import TORCH

FORKED = TORCH

MINE = '''
from dataclasses import dataclass

from barograph import Key, Kind, Rule, Selection, Severity
from barograph.model.finding import Symptom

LOSS = Key(Kind.LOSS, "total")


@dataclass(frozen=True, kw_only=True)
class High(Rule):
    """X901: The loss is high, or is none."""

    code, name, severity = "X901", "high", Severity.COSTLY
    needs = (Selection(kinds=frozenset({Kind.LOSS})),)

    def judge(self, view, memory):
        loss = view.scalar(LOSS)
        if loss is not None and not loss <= 5:
            yield Symptom(f"The loss is {loss:g}.", "Lower it.")
'''
"""A rule of the user's own, so that nothing here hangs on what ours can see."""

RISING = '''
import os, time

deadline = time.monotonic() + 600


def goes_on():
    return time.monotonic() < deadline and not os.path.exists("enough")


step = 0
while goes_on():
    if step == 20:
        inputs *= 300
    train_step()
    time.sleep(0.01)
    step += 1
print(optimizer.param_groups[0]["lr"])
'''
"""Goes wrong at step 20, and trains on until the test has seen enough."""

OPTIONS = ("--rules", "mine:High", "--budget", "off")


@pytest.fixture
def desk(desk: Any) -> Any:
    desk.write("mine.py", MINE)
    return desk


def until_done(desk: Any, process: Any, action: str) -> Any:
    """Wait for the result of an action, let the training end, and return how it ended."""
    folder = desk.folder / "run" / "control" / "done"
    desk.wait_until(lambda: process.poll() is not None or list(folder.glob(f"{action}-*.json")), f"{action} was done")
    desk.write("enough", "")
    return desk.end(process)


def controls(desk: Any, pattern: str) -> list[Any]:
    return [json.loads(path.read_text()) for path in sorted((desk.folder / "run" / "control").glob(pattern))]


def test_a_training_saves_a_checkpoint_and_stops(desk: Any) -> None:
    desk.script(RISING)
    watched = desk.run(*OPTIONS, "--on-finding", "checkpoint-then-stop", "train.py")

    assert (watched.code, watched.out) == (79, b"")
    (asked,), (done,) = controls(desk, "stop-*.json"), controls(desk, "done/stop-*.json")
    assert asked["checkpoint"] is True
    assert (done["worker"], done["done"], done["finding_id"]) == ("p0", True, asked["finding_id"])
    assert done["result"].startswith("stopped the training; saved a checkpoint in ")
    place = done["result"].partition(" in ")[2]
    assert place in watched.err
    assert desk.ending()["reason"].endswith(f"Barograph saved a checkpoint in {place}.")
    made = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.ReLU(), torch.nn.Linear(16, 3))
    assert load(str(desk.folder / "run"), made, torch.optim.SGD(made.parameters(), 0.1)) == done["step"]
    doctor = desk.end(desk.start("barograph", "doctor", "run"))
    assert doctor.code == 0, doctor.text


def test_the_scripts_own_function_saves_the_checkpoint(desk: Any) -> None:
    desk.script('''
import barograph

def save():
    torch.save(model.state_dict(), "mine.pt")
    return "mine.pt"

run = barograph.attach(model, optimizer, to="run", rules=["mine:High"], budget="off",
                       on_finding="checkpoint_then_stop", checkpoint=save)
''' + RISING)
    ended = desk.python("train.py")

    assert ended.code == 79
    assert (desk.folder / "mine.pt").is_file()
    assert "Barograph saved a checkpoint in mine.pt." in desk.ending()["reason"]
    assert not (desk.folder / "run" / "checkpoints").exists()


def test_learning_rates_are_lowered_and_training_continues(desk: Any) -> None:
    desk.script(RISING)
    watched = until_done(desk, desk.start(
        "barograph", "run", "--to", "run", *OPTIONS, "--on-finding", "lower-lr", "--allow", "lower-lr", "--set",
        "lower-lr.factor=0.25", "train.py"), "lower-lr")

    assert (watched.code, watched.text) == (0, "0.0125\n"), watched.err
    assert "p0 lowered the learning rate from 0.05 to 0.0125 after " in watched.err
    (done,) = controls(desk, "done/lower-lr-*.json")
    rates = desk.open().series("learning_rate:group0")
    assert rates.values[0] == 0.05
    assert next(step for step, rate in zip(rates.steps, rates.values, strict=True) if rate < 0.05) == done["step"]


def test_an_action_that_is_not_allowed_changes_nothing_and_is_reported(desk: Any) -> None:
    desk.script(RISING)
    watched = until_done(desk, desk.start(
        "barograph", "run", "--to", "run", *OPTIONS, "--on-finding", "lower-lr", "train.py"), "lower-lr")

    assert watched.text == "0.05\n"
    assert watched.err.startswith("barograph: action lower-lr needs permission of the training: ")
    assert "p0 did nothing: lower-lr is not allowed; start the training with --allow lower-lr" in watched.err


def test_a_step_is_skipped_if_a_rule_requests_it_and_the_script_allows_it(desk: Any) -> None:
    desk.script('import barograph\nrun = barograph.attach(allow={"skip_step"})\n' + RISING)
    desk.write("barograph.toml", """
rules = ["mine:High"]
budget = "off"
[rule_settings.high]
actions = ["skip_step"]
severity = "note"
[action_settings.skip-step]
steps = 3
""")
    watched = until_done(desk, desk.start("barograph", "run", "--to", "run", "train.py"), "skip-step")

    (done,) = controls(desk, "done/skip-step-*.json")
    first, last = (int(word) for word in done["result"].split() if word.isdigit())
    assert last - first == 2
    assert f"p0 withheld the updates of steps {first} to {last}" in watched.err
    frame = desk.open().pandas()
    skipped = frame[frame.skipped.fillna(False).astype(bool)].step
    assert set(skipped) == set(range(first, last + 1))
    assert {item.code for item in desk.open().findings} == {"X901"}
    replay = desk.end(desk.start("barograph", "watch", "run", "--fresh", "--rules", "mine:High", "--on-finding", "stop",
                                 "--set", "X901.actions=stop"))
    assert "barograph: would have stopped the training at step 20, because of X901 high" in replay.text


TOGETHER = '''
import os, time

import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

dist.init_process_group("gloo")
model = DistributedDataParallel(model)
torch.manual_seed(dist.get_rank())
deadline, step, go_on = time.monotonic() + 600, 0, torch.ones(1)
while go_on.item():
    if step == 20:
        inputs *= 300
    train_step()
    time.sleep(0.01)
    step += 1
    lowered = optimizer.param_groups[0]["lr"] != 0.05
    go_on.fill_(float(time.monotonic() < deadline and not lowered))
    dist.all_reduce(go_on, op=dist.ReduceOp.MIN)
train_step()
total = model.module[0].weight.double().sum().item()
os.write(1, f"rank {dist.get_rank()} {step} {optimizer.param_groups[0]['lr']} {total!r}\\n".encode())
'''


def test_replicas_lower_their_rates_after_the_same_step(desk: Any) -> None:
    desk.script(TOGETHER)
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    watched = desk.run(*OPTIONS, "--on-finding", "lower-lr", "--allow", "lower-lr", "torchrun",
                       "--nproc-per-node", "2", "--master-port", str(port), "train.py")

    lines = sorted(watched.text.splitlines())
    assert [line.split()[:2] for line in lines] == [["rank", "0"], ["rank", "1"]], watched.err
    assert lines[0].split()[2:] == lines[1].split()[2:]
    assert lines[0].split()[3] == "0.025"
    assert [item["worker"] for item in controls(desk, "done/lower-lr-*.json")] == ["r0", "r1"]


def test_replicas_stop_after_the_first_has_saved_a_checkpoint(desk: Any) -> None:
    desk.script(TOGETHER)
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    watched = desk.run(*OPTIONS, "--on-finding", "checkpoint-then-stop", "torchrun", "--nproc-per-node", "2",
                       "--master-port", str(port), "train.py")

    assert watched.code == 79, watched.err
    metadata = (desk.folder / "run" / "checkpoints").glob("*.json")
    assert [path.stem.rpartition("-")[2] for path in metadata] == ["r0"]


def test_the_step_that_triggers_a_finding_is_saved_and_replayed(desk: Any) -> None:
    few = "inputs, labels = inputs[:2], labels[:2]\n"
    wrong = "inputs *= 300; labels.add_(1).remainder_(3); optimizer.param_groups[0]['lr'] = 1e-9"
    desk.script(few + RISING.replace("inputs *= 300", wrong))
    refused = desk.run("--capsule-on", "hihg", *OPTIONS, "train.py")
    assert (refused.code, refused.out) == (2, b"")
    process = desk.start("barograph", "run", "--to", "run", "--capsule-on", "high", "--set", "recorder.ring=5000",
                         *OPTIONS, "train.py")
    watched = until_done(desk, process, "capsule")

    assert "barograph: asked the training to save step 20, or the next one, as a capsule" in watched.err
    assert "p0 saved step 20. The capsule is in " in watched.err
    (told,) = json.loads(desk.end(desk.start("barograph", "capsules", "run", "--json")).out)
    assert (told["step"], told["held"], told["withheld"]) == (20, "finding", False)
    (desk.folder / "enough").unlink()
    ended = desk.end(desk.start("barograph", "replay", "--json", "run"))
    result = json.loads(ended.out[ended.out.index(b"{"):])
    assert (ended.code, result["grade"], result["finite"]) == (0, "bitwise", True), ended.err
    # No bound says which sample it is: each is weighed, and of two none can stand out.
    weighed = result["weighed"]
    assert (result["guilty"], len(weighed["alone"]), weighed["tries"], weighed["outliers"]) == (None, 2, 2, [])
