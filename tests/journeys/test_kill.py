"""The training, the writer process or the watcher is killed."""

from __future__ import annotations

import json
import os
import random
import re
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from barograph.errors import NotARun
from barograph.model.settings import Settings
from barograph.rules.registry import rules_from_settings
from barograph.runs.reading.doctor import examine
from barograph.watch.loop import Watcher

pytestmark = pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="processes are found through /proc")

# Goes on from its last checkpoint, and writes down every loss it sees: a step has the same loss in each life.
RESUMABLE = '''
import os, sys, time
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
begin = 0
if os.path.exists("checkpoint.pt"):
    saved = torch.load("checkpoint.pt")
    begin = saved["step"]
    model.load_state_dict(saved["model"])
    optimizer.load_state_dict(saved["optimizer"])
with open("pid", "w") as file:
    print(os.getpid(), file=file)
with open("losses.txt", "a", buffering=1) as losses:
    for step in range(begin, int(sys.argv[1])):
        if step % 25 == 0:
            torch.save({"step": step, "model": model.state_dict(), "optimizer": optimizer.state_dict()}, "new.pt")
            os.replace("new.pt", "checkpoint.pt")
        print(step, repr(train_step().item()), file=losses)
        time.sleep(0.002)
'''


def published(desk: Any, run: str = "run") -> int:
    """Return the number of readable steps, up to the last."""
    try:
        return max(desk.open(run).steps().tolist(), default=-1) + 1
    except NotARun:
        return 0


def seen_by_the_script(desk: Any) -> dict[int, float]:
    lines = (desk.folder / "losses.txt").read_text().splitlines()
    return {int(step): float(loss) for step, loss in (line.split() for line in lines if len(line.split()) == 2)}


def test_a_training_killed_at_any_moment_keeps_what_was_published_and_is_resumed(desk: Any) -> None:
    desk.script(RESUMABLE)
    chance = random.Random(20261120)
    for life in range(2):
        process = desk.start("barograph", "run", "--to", "run", "--budget", "off", "train.py", "1000000")
        target = published(desk) + chance.randrange(40, 140)
        desk.wait_until(lambda target=target: published(desk) > target, f"{target} steps are published")
        os.kill(int((desk.folder / "pid").read_text()), signal.SIGKILL)
        killed = desk.end(process)
        assert killed.code == -signal.SIGKILL
        assert re.search(r"p0 killed .*after \d+ steps", killed.err)
        assert re.search(r"The last (step is|[\d,]+ steps are|steps are) lost: it was killed before it published",
                         killed.err)
        _check_losses(desk)
        diagnosis = examine(desk.open().store)
        assert diagnosis.damaged == []
        assert "were lost when it was killed" in diagnosis.missing[-1]
        assert [str(state.standing) for state in desk.open().workers] == ["killed"] * (life + 1)
    reached = max(seen_by_the_script(desk))
    last = desk.run("--budget", "off", "train.py", str(reached + 40))
    assert last.code == 0, last.err
    _check_losses(desk)
    run = desk.open()
    assert [state.worker.attempt for state in run.workers] == [0, 1, 2]
    assert run.steps()[-1] == reached + 39
    diagnosis = examine(run.store)
    assert (diagnosis.damaged, diagnosis.intact) == ([], not diagnosis.missing)
    again = desk.run("train.py", "5")
    assert again.code == 2
    assert "The run has finished" in again.err


def _check_losses(desk: Any) -> None:
    """Check that each step is recorded once, with the script's loss, or reported as missing."""
    run = desk.open()
    series = run.series("loss:total")
    expected = seen_by_the_script(desk)
    steps = series.steps.tolist()
    assert steps == sorted(set(steps))
    assert series.values.tolist() == [expected[step] for step in steps]
    # A checkpoint may be newer than what was published when its training was killed.
    lost = sorted(set(range(steps[-1])) - set(steps))
    missing = " ".join(examine(run.store).missing)
    for step in lost:
        if step - 1 not in lost:
            assert re.search(rf"Steps? {step} (to \d+ )?of worker p0 .*(was|were) lost when it was killed", missing)


# Trains until it is told to end.
OBEDIENT = '''
import os, sys, threading
told = threading.Event()
threading.Thread(target=lambda: (sys.stdin.read(), told.set()), daemon=True).start()
with open("pid", "w") as file:
    print(os.getpid(), file=file)
steps = 0
while not told.wait(0.01):
    train_step()
    steps += 1
print("trained", steps, flush=True)
'''


def test_a_killed_writer_process_is_replaced_and_training_continues(desk: Any) -> None:
    import subprocess

    desk.script(OBEDIENT)
    process = desk.start("barograph", "run", "--to", "run", "--budget", "off", "train.py", stdin=subprocess.PIPE)
    desk.wait_until(lambda: published(desk) > 20, "20 steps are published")
    trainer = int((desk.folder / "pid").read_text())
    for _ in range(2):
        before = published(desk)
        writer_process = next(
            child for child in _children(trainer) if b"barograph.runs.writing.writer_process" in _words(child)
        )
        os.kill(writer_process, signal.SIGKILL)
        desk.wait_until(lambda before=before: published(desk) > before + 20, "more is published")
    ended = desk.end(process, b"")
    assert ended.code == 0
    trained = int(ended.text.split()[1])
    assert ended.err.count("BarographWarning") == 1
    assert "the writer process has ended" in ended.err
    assert "last second may be lost (2 times)" in ended.err
    assert "No problems found. " in ended.err
    run = desk.open()
    steps = run.steps().tolist()
    assert steps[-1] == trained - 1
    assert len(set(steps)) == len(steps)
    assert [str(state.standing) for state in run.workers] == ["finished"]
    assert examine(run.store).damaged == []


def _children(pid: int) -> Iterator[int]:
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            status = (entry / "stat").read_text().rpartition(")")[2].split()
        except OSError:
            continue
        if int(status[1]) == pid:
            yield int(entry.name)


def _words(pid: int) -> bytes:
    return Path(f"/proc/{pid}/cmdline").read_bytes()


def findings_so_far(desk: Any) -> list[Any]:
    try:
        return list(desk.open().findings)
    except NotARun:
        return []


def test_a_killed_watcher_does_not_affect_the_training_and_another_continues(desk: Any) -> None:
    import subprocess

    desk.script(OBEDIENT.replace("    train_step()\n", '''
    if steps == 40:
        model[0].weight.data[3, 2] = float("nan")
    if steps == 4000:
        break
    train_step()
'''))
    process = desk.start("barograph", "run", "--to", "run", "--budget", "off", "train.py", stdin=subprocess.PIPE)
    place = desk.folder / "run"
    desk.wait_until(lambda: any(item.code == "N101" for item in findings_so_far(desk)), "it is found")
    desk.wait_until((place / "watch" / "state.json").exists, "the watcher remembers it")
    process.kill()
    process.wait()
    before = published(desk)
    first = {item.id: item for item in desk.open().findings}
    assert {item.since_step for item in first.values() if item.code == "N101"} == {40}
    desk.wait_until(lambda: published(desk) > before + 20, "the training has gone on")
    state = (place / "watch" / "state.json").read_text()
    second = desk.start("barograph", "watch", "run")
    desk.wait_until(lambda: (place / "watch" / "state.json").read_text() != state, "the second has judged more")
    second.kill()
    second.wait()
    third = desk.start("barograph", "watch", "run", "--json")
    process.stdin.close()
    summary = json.loads(desk.end(third).out)
    run = desk.open()
    assert summary["steps"] == published(desk) == len(run.steps())
    assert [str(state.standing) for state in run.workers] == ["finished"]
    # Each went on where the one before was: the last has left nothing to judge.
    fourth = Watcher(run.store, rules_from_settings(Settings()))
    assert (fourth.steps, fourth.poll().steps) == (summary["steps"], 0)
    # One fault is one finding, whoever watches.
    assert len([item for item in summary["findings"] if item["code"] == "N101"]) == 1
    assert {item["id"] for item in summary["findings"]} >= first.keys()
    assert {item.id for item in run.findings} == {item["id"] for item in summary["findings"]}


def test_findings_are_the_same_live_and_later(desk: Any) -> None:
    desk.script('''
for step in range(200):
    if step == 60:
        optimizer.param_groups[0]["lr"] = 1e4
    train_step()
''')
    live = desk.run("--budget", "off", "train.py")
    assert live.code == 0
    after = json.loads(desk.end(desk.start("barograph", "watch", "run", "--fresh", "--json")).out)
    assert after["findings"]
    recorded = sorted((item.id, item.code, item.since_step, item.message) for item in desk.open().findings)
    assert recorded == sorted(
        (item["id"], item["code"], item["since_step"], item["message"]) for item in after["findings"]
    )
