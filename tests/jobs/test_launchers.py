"""How a script is started on an instance, with real launchers where there are any."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from barograph.errors import JobRefused
from barograph.jobs.frameworks import Framework, framework_of
from barograph.jobs.launchers import LaunchPlan, World, exit_code_of, free_ports, launch_plan, thread_variables
from barograph.processes.command import Command

START_SECS = 600.0


def plan(words: Sequence[str], directory: Path, world: World | None = None, **given: object) -> LaunchPlan:
    return launch_plan(words, world or World(), directory=directory, environment={}, **given)  # type: ignore[arg-type]


def outputs(plans: Sequence[LaunchPlan]) -> tuple[list[int], str]:
    """Start all commands of all instances at once; return their exit codes and what they printed."""
    started = [subprocess.Popen(command.arguments, cwd=command.directory, stdout=subprocess.PIPE, text=True,
                                stderr=subprocess.STDOUT, env={**os.environ, **(command.environment or {})})
               for one in plans for command in one.commands]
    texts = [process.communicate(timeout=START_SECS)[0] for process in started]
    return [process.returncode for process in started], "".join(texts)


@pytest.mark.parametrize(("text", "expected"), [
    ("import torch.nn as nn", Framework.TORCH),
    ("from torchvision import models", Framework.TORCH),
    ("def main():\n    from transformers import Trainer", Framework.TORCH),
    ("import tensorflow as tf", Framework.TENSORFLOW),
    ("import numpy, jax.numpy as jnp", Framework.JAX),
    ("import keras", Framework.TENSORFLOW),
    ("import os\nos.environ['KERAS_BACKEND'] = 'jax'\nimport keras", Framework.JAX),
    ("import os\nos.environ.setdefault('KERAS_BACKEND', 'torch')\nfrom keras import layers", Framework.TORCH),
    ("import torch, keras", Framework.TORCH),
    ("import xgboost", Framework.NONE),
    ("# import torch\nprint('import torch')", Framework.NONE),
    ("this is no Python", Framework.NONE),
    ("", Framework.NONE),
])
def test_the_framework_is_found_in_the_imports(text: str, expected: Framework, tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(text)
    assert framework_of(tmp_path / "train.py") is expected


def test_modules_beside_the_script_are_followed(tmp_path: Path) -> None:
    (tmp_path / "mine/net").mkdir(parents=True)
    (tmp_path / "train.py").write_text("from mine import build\nimport train\n")
    (tmp_path / "mine/build.py").write_text("from .net.layers import Layer\nimport mine.net.layers\nimport train\n")
    (tmp_path / "mine/net/layers.py").write_text("import jax\n")
    assert framework_of(tmp_path / "train.py") is Framework.JAX


def test_the_import_nearest_to_the_script_decides(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text("import data\nimport tensorflow\n")
    (tmp_path / "data.py").write_text("import torch\n")
    assert framework_of(tmp_path / "train.py") is Framework.TENSORFLOW


def test_keras_in_a_module_beside_a_torch_script_does_not_count(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text("import torch\nimport other\n")
    (tmp_path / "other.py").write_text("import os\nos.environ['KERAS_BACKEND'] = 'jax'\nimport keras\n")
    assert framework_of(tmp_path / "train.py") is Framework.TORCH


def test_the_environment_names_the_backend_of_keras(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text("import keras\n")
    assert framework_of(tmp_path / "train.py", environment={"KERAS_BACKEND": "torch"}) is Framework.TORCH


def test_a_missing_script_has_no_framework(tmp_path: Path) -> None:
    assert framework_of(tmp_path / "none.py") is Framework.NONE


@pytest.mark.parametrize(("words", "expected"), [
    (["train.py", "--lr", "1"], ["PY", "-u", "train.py", "--lr", "1"]),
    (["python", "train.py"], ["PY", "-u", "train.py"]),
    (["python3", "-u", "-m", "pkg.train"], ["PY", "-u", "-m", "pkg.train"]),
    (["/env/python3", "train.py"], ["/env/python3", "train.py"]),
    (["python", "-c", "print(1)"], ["python", "-c", "print(1)"]),
    (["./train.sh", "x"], ["./train.sh", "x"]),
    (["torchrun", "train.py"], ["torchrun", "train.py"]),
])
def test_one_process_is_started_as_it_is(words: list[str], expected: list[str], tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text("import torch\n")
    (command,) = plan(words, tmp_path, python="PY").commands
    assert (list(command.arguments), command.environment) == (expected, {})


def test_a_shell_script_finds_the_python_of_the_job(tmp_path: Path) -> None:
    (tmp_path / "environment/bin").mkdir(parents=True)
    (tmp_path / "environment/pyvenv.cfg").touch()
    python = tmp_path / "environment/bin/python"
    python.symlink_to(sys.executable)
    (command,) = launch_plan(["sh", "-c", "command -v python; echo $VIRTUAL_ENV"], World(), directory=tmp_path,
                             environment={"PATH": "/usr/bin:/bin"}, python=str(python)).commands
    done = subprocess.run(command.arguments, env=dict(command.environment or {}), capture_output=True, check=True)
    assert done.stdout.decode().split() == [str(python), str(tmp_path / "environment")]


def test_workers_of_torch_get_what_torchrun_gives_them(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(
        "import json, os, sys\nif 0:\n    import torch\n"
        "sys.stdout.write(json.dumps({'args': sys.argv, **os.environ}) + '\\n')\n")
    world = World(("127.0.0.1",), 0, 2, free_ports(), "job-7")
    torchrun = Command((
        sys.executable, "-u", "-m", "torch.distributed.run", "--nnodes", "1", "--node-rank", "0", "--nproc-per-node",
        "2", "--master-addr", "127.0.0.1", "--master-port", str(world.port), "--rdzv-id", "job-7", "--max-restarts",
        "0", "train.py", "--lr", "1"), str(tmp_path))
    ours, theirs = (
        sorted((json.loads(line) for line in outputs([each])[1].splitlines() if line.startswith("{")),
               key=lambda item: str(item["RANK"]))
        for each in (plan(["train.py", "--lr", "1"], tmp_path, world), LaunchPlan((torchrun,))))
    assert len(ours) == len(theirs) == 2
    for own, other in zip(ours, theirs, strict=True):
        # torchrun reads the file of errors and the signals itself.
        missing = other.keys() - own.keys() - {"TORCHELASTIC_ERROR_FILE", "TORCHELASTIC_SIGNALS_TO_HANDLE"}
        assert missing <= {"OMP_NUM_THREADS", "PYTHONUNBUFFERED", "KINETO_USE_DAEMON"}, missing
        assert {name for name in other.keys() & own.keys() if own[name] != other[name]} <= {
            "TORCHELASTIC_USE_AGENT_STORE"}
        assert own["TORCHELASTIC_USE_AGENT_STORE"] == "False"


def test_tensorflow_gets_the_cluster_and_its_place(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text("import tensorflow\n")
    commands = plan(["train.py"], tmp_path, World(("10.0.0.1", "10.0.0.2"), 1, 2, 4000)).commands
    settings = [json.loads((command.environment or {})["TF_CONFIG"]) for command in commands]
    assert settings[0]["cluster"] == {"worker": ["10.0.0.1:4000", "10.0.0.1:4001", "10.0.0.2:4002", "10.0.0.2:4003"]}
    assert [item["task"] for item in settings] == [{"type": "worker", "index": 2}, {"type": "worker", "index": 3}]


def test_jax_gets_the_coordinator_and_its_place(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text("import jax\n")
    commands = plan(["train.py"], tmp_path, World(("10.0.0.1", "10.0.0.2"), 1, 2, 4000)).commands
    assert [{name: value for name, value in (command.environment or {}).items() if name.startswith("JAX")}
            for command in commands] == [
        {"JAX_COORDINATOR_ADDRESS": "10.0.0.1:4000", "JAX_NUM_PROCESSES": "4", "JAX_PROCESS_ID": "2"},
        {"JAX_COORDINATOR_ADDRESS": "10.0.0.1:4000", "JAX_NUM_PROCESSES": "4", "JAX_PROCESS_ID": "3"}]


def test_any_other_command_is_copied(tmp_path: Path) -> None:
    commands = plan(["./train.sh"], tmp_path, World(("10.0.0.1", "10.0.0.2"), 1, 2, 4000)).commands
    assert [command.arguments for command in commands] == [("./train.sh",)] * 2
    assert commands[1].environment == {
        "RANK": "3", "WORLD_SIZE": "4", "LOCAL_RANK": "1", "LOCAL_WORLD_SIZE": "2", "NODE_RANK": "1",
        "MASTER_ADDR": "10.0.0.1", "MASTER_PORT": "4000"}


@pytest.mark.parametrize(("first", "shell"), [
    ("#!/usr/bin/env bash\n", ("/usr/bin/env", "bash")), ("#!/bin/sh -e\n", ("/bin/sh", "-e")), ("echo\n", ("sh",)),
])
def test_a_shell_script_is_started_with_its_shell(first: str, shell: tuple[str, ...], tmp_path: Path) -> None:
    (tmp_path / "train.sh").write_text(first)
    assert plan(["train.sh", "--lr", "1"], tmp_path, World()).commands[0].arguments == (*shell, "train.sh", "--lr", "1")
    assert plan(["elsewhere.sh"], tmp_path, World()).commands[0].arguments == ("elsewhere.sh",)


@pytest.mark.parametrize("words", [["torchrun", "train.py"], ["python", "-m", "torch.distributed.run", "train.py"],
                                   ["/usr/bin/mpirun", "x"]])
def test_a_launcher_within_a_launcher_is_refused(words: list[str], tmp_path: Path) -> None:
    with pytest.raises(JobRefused, match="starts processes itself, and this job starts 2: submit the script without"):
        plan(words, tmp_path, World(processes=2))


def test_processes_of_an_instance_share_its_cpus(tmp_path: Path) -> None:
    command = launch_plan(["x"], World(processes=2), directory=tmp_path, environment={"MKL_NUM_THREADS": "7"},
                          cpus=5).commands[0]
    assert {name: (command.environment or {})[name] for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS")} == {
        "OMP_NUM_THREADS": "2", "MKL_NUM_THREADS": "7"}
    assert thread_variables(0.5)["OMP_NUM_THREADS"] == "1"


def test_processes_of_one_machine_stay_on_its_loopback_interface(tmp_path: Path) -> None:
    command = plan(["x"], tmp_path, World(("127.0.0.1", "127.0.0.2"))).commands[0]
    assert (command.environment or {})["GLOO_SOCKET_IFNAME"] == "lo"


@pytest.mark.parametrize(("codes", "expected"), [([0, 0], 0), ([], 0), ([0, 1], 1), ([-15, 0, 7], 7), ([143, 2], 2),
                                                 ([-9, -15], -9), ([-11, -15], -11)])
def test_one_failed_process_fails_the_instance(codes: list[int], expected: int) -> None:
    assert exit_code_of(codes) == expected


def test_consecutive_ports_are_free() -> None:
    assert 0 < free_ports(4) <= 2**16 - 4


def two_instances(script: Path, python: str = "") -> list[LaunchPlan]:
    """Return the plans of two instances on this machine with one process each."""
    port = free_ports(2)
    return [launch_plan([script.name], World(("127.0.0.1", "127.0.0.1"), index, 1, port, "attempt-1"),
                        directory=script.parent, environment={"OMP_NUM_THREADS": "1"}) for index in (0, 1)]


def test_two_instances_of_torch_meet(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(
        "import torch, torch.distributed as dist\ndist.init_process_group('gloo')\n"
        "t = torch.ones(1) * dist.get_rank()\ndist.all_reduce(t)\n"
        "print('sum', t.item(), dist.get_world_size(), flush=True)\ndist.destroy_process_group()\n")
    codes, text = outputs(two_instances(tmp_path / "train.py"))
    assert (codes, text.count("sum 1.0 2")) == ([0, 0], 2), text


def test_a_failed_worker_of_torch_fails_its_instance(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text("import os, sys\nif 0:\n    import torch\nsys.exit(int(os.environ['RANK']))\n")
    plans = [launch_plan(["train.py"], World(processes=2, port=free_ports()), directory=tmp_path, environment={})]
    assert plans[0].framework is Framework.TORCH
    codes, text = outputs(plans)
    assert (exit_code_of(codes), sorted(codes)) == (1, [0, 1]), text


def test_two_instances_of_jax_meet(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(
        "import os, jax\njax.distributed.initialize(num_processes=int(os.environ['JAX_NUM_PROCESSES']),\n"
        "    process_id=int(os.environ['JAX_PROCESS_ID']))\nprint('sees', jax.process_count())\n")
    codes, text = outputs(two_instances(tmp_path / "train.py"))
    assert (codes, text.count("sees 2")) == ([0, 0], 2), text


def test_a_script_in_copies_gets_its_rank(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text("import os, sys\nprint('rank', os.environ['RANK'], sys.executable)\n")
    codes, text = outputs(two_instances(tmp_path / "train.py"))
    assert codes == [0, 0]
    assert sorted(text.split("\n")) == ["", f"rank 0 {sys.executable}", f"rank 1 {sys.executable}"]
