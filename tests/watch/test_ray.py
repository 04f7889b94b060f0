"""Rules and services on a Ray cluster: they find what they find here, and a lost machine takes nothing along."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import ray

from barograph.errors import MissingExtra, WatchError
from barograph.model.clock import ManualClock
from barograph.processes.process import HostLost
from barograph.processes.ray_cluster import connect
from barograph.rules.gradients import VanishingGradient
from barograph.rules.losses import LossNotDecreasing
from barograph.rules.spikes import LossSpike
from barograph.runs.reading.view import StepView
from barograph.watch.executor import NewAttempt
from barograph.watch.far_command import CommandHost, FarCommand, Order
from barograph.watch.far_line import FarLine
from barograph.watch.loop import Watcher
from barograph.watch.process_executor import ProcessExecutor
from barograph.watch.seats import seats

from .foreign_rules import LOSS, Counting, Dying, Looping
from .test_process_executor import WENT_ON, told

STEPS = [StepView.of(step, {LOSS: 2.0 if step >= 5 else 0.5}) for step in range(8)]


@pytest.fixture(scope="module", autouse=True)
def address(joined_cluster: Any) -> Iterator[str]:
    """The address of a small cluster on this machine, which this process has joined."""
    with joined_cluster(cpus=2) as context:
        yield str(context.address_info["gcs_address"])


@pytest.fixture
def executors() -> Iterator[list[ProcessExecutor]]:
    """Panels that are closed at the end."""
    made: list[ProcessExecutor] = []
    yield made
    for executor in made:
        executor.close()


def kill_host(executor: ProcessExecutor) -> None:
    """Kill the process that minds the rules' process, as happens to it where its machine is lost; return when it is
    gone: Ray kills in its own time, and until then an answer may still come."""
    line: Any = executor._line
    actor = line._host._actor
    ray.kill(actor)
    with pytest.raises(ray.exceptions.RayActorError):
        ask_to_its_end(actor)


def ask_to_its_end(actor: Any) -> None:
    while True:
        ray.get(actor.__ray_ready__.remote())


def test_rules_of_a_run_on_two_machines_find_what_they_find_here(store: Any, new_training: Any) -> None:
    training = new_training(store, ManualClock())
    training.steps(*[0.5, 0.6] * 30, *[9.0] * 40)
    training.end()
    rules = [LossSpike(), Counting(), VanishingGradient(), LossNotDecreasing()]
    here = Watcher(store, rules, record=False)
    there = Watcher(store, rules, record=False, executors=seats(processes=2, line=FarLine))
    assert len(there._executors._executors) == 3
    for watcher in (here, there):
        while watcher.poll().more:
            pass
    assert len(here.findings) == 2
    assert there.findings == here.findings
    assert there.not_evaluated() == here.not_evaluated()
    assert there.problems == here.problems
    there.close()


def test_a_host_that_is_killed_is_replaced_and_the_rules_go_on_where_they_were(
    executors: list[ProcessExecutor],
) -> None:
    executor = ProcessExecutor([Counting()], line=FarLine)
    executors.append(executor)
    assert told(executor, STEPS[:3]) == []
    kill_host(executor)
    found, problem = told(executor, [NewAttempt("p1"), *STEPS[3:7]])
    assert found == "High, the 6th."
    assert problem.startswith(WENT_ON)
    kill_host(executor)
    states, _ = executor.state()
    assert [state["broken"] for state in states] == [""]
    assert [finding.last_step for finding in executor.open()] == [6]


def test_rules_that_hang_or_die_are_taken_out_by_name_and_the_others_go_on(executors: list[ProcessExecutor]) -> None:
    executor = ProcessExecutor([Counting(), Looping(), Dying()], line=FarLine, rule_timeout_secs=1.0)
    executors.append(executor)
    assert told(executor, STEPS) == [
        "High, the 6th.",
        "The rule X912 looping is not used any more: it took longer than 1 s over one step.",
        "The rule X913 dying is not used any more: it ended the process that it runs in.",
    ]


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory, address: str) -> Path:
    """A folder with a run that is sound, below "team", and one that is not."""
    # Here, because a fixture of conftest.py is made anew for each test.
    from barograph.store.urls import store_from_url
    from watched import Training

    folder = tmp_path_factory.mktemp("runs")
    for name, losses in (("team/sound", [0.5] * 4), ("sick", [0.5, float("nan")])):
        training = Training(store_from_url(str(folder / name)), ManualClock())
        training.steps(*losses)
        training.end()
    return folder


def barograph(*arguments: str, cwd: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-m", "barograph", *arguments], cwd=cwd, capture_output=True, text=True,
                          check=False, timeout=600, env={**os.environ, **environment})


def test_runs_shared_out_over_machines_are_judged_as_here(runs: Path, address: str) -> None:
    (runs.parent / "some.toml").write_text('rules = ["N101"]\n', encoding="utf-8")
    arguments = ("watch", runs.name, "--all", "--once", "--fresh", "--config", "some.toml", "--json")
    there = barograph(*arguments, "--engine", "ray", "--processes", "2", cwd=runs.parent, RAY_ADDRESS=address)
    assert there.returncode == 0, there.stderr
    assert "sick: breaking" in there.stderr
    here = barograph(*arguments, cwd=runs.parent)
    found = {item["name"]: item["findings"] for item in json.loads(there.stdout)}
    assert found == {item["name"]: item["findings"] for item in json.loads(here.stdout)}
    assert [len(findings) for findings in found.values()] == [1, 0]


def poll_to_its_end(command: FarCommand) -> None:
    while command.poll() is None:
        pass


def test_a_command_whose_machine_is_lost_says_so_and_one_that_is_interrupted_ends_well(runs: Path) -> None:
    arguments = ("watch", str(runs), "--all", "--part", "0/1", "--fresh", "--rules", "N101", "--json")
    order = Order(arguments, None, str(runs), str(runs), "sick", tuple(sys.path))
    first, second = (FarCommand(order, None, io.BytesIO()) for _ in range(2))
    ray.kill(first._host._actor)
    with pytest.raises(HostLost):
        poll_to_its_end(first)  # Ray kills in its own time
    heard = second._err
    assert isinstance(heard, io.BytesIO)
    while b"sick: breaking" not in heard.getvalue():
        assert second.poll() is None
    second.interrupt()
    poll_to_its_end(second)
    assert second.poll() == 130
    assert [item["name"] for item in json.loads(second.said())] == ["sick", "team/sound"]


@pytest.mark.parametrize("changes", [{"witness": "other"}, {"place": "/nowhere"}])
def test_another_directory_of_the_same_name_is_not_taken_for_ours(runs: Path, changes: dict[str, str]) -> None:
    order = {"arguments": (), "config": None, "directory": str(runs), "place": str(runs), "witness": "sick",
             "search_path": (), **changes}
    assert "is not the same directory there" in CommandHost().begin(Order(**order))  # type: ignore[arg-type]


def test_another_version_there_is_refused(runs: Path) -> None:
    order = Order((), None, str(runs), "", "", (), version="0.0.1")
    with pytest.raises(WatchError, match=r"and 0\.0\.1 here"):
        FarCommand(order, None, io.BytesIO())


def test_a_cluster_that_is_not_there_is_named(runs: Path) -> None:
    done = barograph("watch", "sick", "--fresh", "--engine", "ray", cwd=runs, RAY_ADDRESS="127.0.0.1:1")
    assert done.returncode == 2
    assert "Cannot connect to the Ray cluster at 127.0.0.1:1 (RAY_ADDRESS)" in done.stderr


def test_without_ray_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(MissingExtra, match=r"pip install 'barograph\[ray\]'"):
        connect(print)


@pytest.mark.parametrize("arguments", [("watch", "sick"), ("watch", ".", "--all")])
def test_an_engine_that_does_not_exist_is_refused(runs: Path, arguments: tuple[str, ...]) -> None:
    done = barograph(*arguments, "--engine", "rya", cwd=runs)
    assert done.returncode == 2
    assert 'engine is "rya". Did you mean "ray"?' in done.stderr
