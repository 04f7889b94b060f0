"""A script in a repository with uncommitted changes is run: the run contains its origin."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import pytest

from barograph.model.origin import Origin
from barograph.runs.state.origins import read_file, read_origin
from barograph.store.urls import store_from_url

SHORT = '''
for step in range(3):
    train_step()
'''
TALKING = '''
import builtins, sys
print("numbers", open("numbers.txt").read().strip(), "DB_PASSWORD=hunter22hunter")
for step in range(3):
    train_step()
print("a warning", file=sys.stderr)
print("terminal", sys.stdout.isatty())
'''


def git(folder: Path, *words: str) -> None:
    identity = ["-c", "user.name=somebody", "-c", "user.email=somebody@example.org"]
    subprocess.run(["git", *identity, *words], cwd=folder, check=True, capture_output=True)


def origin_at(place: Path) -> Origin:
    found = read_origin(store_from_url(str(place)))
    assert found is not None
    return found


@pytest.fixture(scope="module")
def told(make_desk: Any) -> Any:
    """A desk whose script was committed, changed and then run."""
    desk = make_desk("repository")
    desk.script(SHORT)
    desk.write("barograph.toml", 'preset = "moments"\n')
    git(desk.folder, "init", "--quiet")
    git(desk.folder, "add", "--all")
    git(desk.folder, "commit", "--quiet", "--message", "first")
    desk.script(SHORT + "# changed\n")
    desk.write("helper.py", "depth = 2\n")
    desk.environment = {"WANDB_API_KEY": "0123456789abcdef", "PYTHONHASHSEED": "0"}
    ended = desk.run("train.py", "--lr", "0.1", "--name", "0123456789abcdef")
    assert ended.code == 0, ended.err
    return desk


def test_code_settings_and_command_are_in_the_run(told: Any) -> None:
    origin, store = origin_at(told.folder / "run"), store_from_url(str(told.folder / "run"))
    assert origin.code is not None
    assert (origin.script, origin.parameters) == ("train.py", {"lr": 0.1, "name": "***"})
    assert b"+# changed" in read_file(store, origin.code.diff)
    assert origin.code.untracked
    assert read_file(store, origin.settings) == b'preset = "moments"\n'
    assert origin.problems == ()


def test_packages_seeds_and_machine_are_in_the_run(told: Any) -> None:
    origin = origin_at(told.folder / "run")
    assert len(origin.packages["numpy"].digest) == 32
    assert origin.seeds["PYTHONHASHSEED"] == "0"
    assert origin.hardware.cores >= 1
    assert "WANDB_API_KEY" not in origin.environment


def test_the_secret_of_the_environment_is_nowhere_in_the_run(told: Any) -> None:
    files = [path for path in (told.folder / "run").rglob("*") if path.is_file()]
    assert len(files) > 5
    assert [path for path in files if b"0123456789abcdef" in path.read_bytes()] == []


def test_show_and_doctor_read_the_origin(told: Any) -> None:
    shown = told.end(told.start("barograph", "show", "run", "--all"))
    assert "with uncommitted changes" in shown.text
    assert "lr=0.1" in shown.text
    assert told.end(told.start("barograph", "doctor", "run")).code == 0


def test_a_changed_file_of_the_origin_is_damage(told: Any) -> None:
    patch = next((told.folder / "run" / "origin").glob("*.diff"))
    whole = patch.read_bytes()
    try:
        patch.write_bytes(whole + b"more")
        ended = told.end(told.start("barograph", "doctor", "run"))
    finally:
        patch.write_bytes(whole)
    assert ended.code == 1
    assert ".diff" in ended.text


def test_attach_records_the_origin_too(told: Any) -> None:
    told.script('import barograph\nrun = barograph.attach(to="attached", watch=False)\n' + SHORT + "run.close()\n",
                name="alone.py")
    ended = told.python("alone.py", "--seed", "3")
    assert ended.code == 0, ended.err
    origin = origin_at(told.folder / "attached")
    assert (origin.script, origin.parameters, origin.seeds["seed"]) == ("alone.py", {"seed": 3}, 3)
    assert origin.code is not None
    assert origin.code.dirty


def test_the_origin_can_be_turned_off(told: Any) -> None:
    ended = told.run("--no-origin", "train.py", to="without")
    assert ended.code == 0, ended.err
    assert read_origin(store_from_url(str(told.folder / "without"))) is None


def test_everything_but_code_is_recorded_outside_a_repository(forked: Any) -> None:
    forked.script(SHORT)
    forked.environment = {"GIT_CEILING_DIRECTORIES": str(forked.folder.parent)}
    assert forked.run("train.py").code == 0
    origin = origin_at(forked.folder / "run")
    assert origin.code is None
    assert "not in a git repository" in origin.problems[0]
    assert origin.packages


@pytest.fixture(scope="module")
def talking(make_desk: Any) -> Any:
    """A desk whose script reads a file before it imports a framework, and prints."""
    desk = make_desk("talking")
    desk.write("numbers.txt", "1 2 3\n")
    desk.write("train.py", 'first = open("numbers.txt", "rb").read()\nprint("before")\n')
    with (desk.folder / "train.py").open("a") as script:
        script.write((desk.folder / desk.script(TALKING, name="rest.py")).read_text())
    ended = desk.run("train.py")
    assert ended.code == 0, ended.err
    assert ended.out == b"before\nnumbers 1 2 3 DB_PASSWORD=hunter22hunter\nterminal False\n"
    return desk


def test_a_file_opened_before_the_framework_is_imported_has_a_fingerprint(talking: Any) -> None:
    (file,) = origin_at(talking.folder / "run").data
    assert (file.path, file.size_bytes) == (str(talking.folder / "numbers.txt"), 6)
    assert len(file.fingerprint) == 32


def test_output_is_shown_without_secrets(talking: Any) -> None:
    ended = talking.end(talking.start("barograph", "show", "run", "--output"))
    lines = sorted(ended.text.splitlines())
    assert lines == ["a warning", "before", "numbers 1 2 3 DB_PASSWORD=***", "terminal False"]
    assert talking.end(talking.start("barograph", "doctor", "run")).code == 0


def test_close_restores_open_and_the_streams(forked: Any) -> None:
    forked.script('''
import barograph, builtins, io, sys
before = builtins.open, io.open, dict(vars(sys.stdout)).get("write")
with barograph.attach(to="run", watch=False):
    assert builtins.open is not before[0]
    for step in range(3):
        train_step()
print("put back", (builtins.open, io.open, dict(vars(sys.stdout)).get("write")) == before)
''')
    ended = forked.python("train.py")
    assert ended.text == "put back True\n", ended.err


def test_a_script_that_fails_before_its_first_step_leaves_its_output(forked: Any) -> None:
    forked.write("numbers.csv", "1,2\n")
    forked.write("train.py", """
import argparse
parser = argparse.ArgumentParser()
parser.add_argument("--rows", type=int, default=3)
rows = parser.parse_args().rows
print("read", len(open("numbers.csv").readlines()), "rows of", rows, "DB_PASSWORD=hunter22hunter")
raise ValueError("too few rows")
""")
    ended = forked.run("train.py")
    assert ended.code == 1
    shown = forked.end(forked.start("barograph", "show", "run", "--output"))
    assert "read 1 rows of 3 DB_PASSWORD=***" in shown.text
    assert "ValueError: too few rows" in shown.text
    origin = origin_at(forked.folder / "run")
    assert origin.parameters == {"rows": 3}
    assert [(Path(file.path).name, len(file.fingerprint)) for file in origin.data] == [("numbers.csv", 32)]
    assert forked.end(forked.start("barograph", "doctor", "run")).code == 0


def test_the_origin_of_a_script_that_only_logs_is_complete(forked: Any) -> None:
    forked.write("numbers.csv", "1,2\n")
    forked.write("score.py", """
import argparse
from barograph.tracking import load_run
parser = argparse.ArgumentParser()
parser.add_argument("--rows", type=int, default=3)
rows = parser.parse_args().rows
with load_run() as run:
    run.log_metric("rows", len(open("numbers.csv").readlines()) / rows)
print("scored")
""")
    assert forked.run("score.py").code == 0
    assert "scored" in forked.end(forked.start("barograph", "show", "run", "--output")).text
    origin = origin_at(forked.folder / "run")
    assert origin.parameters == {"rows": 3}
    assert [(Path(file.path).name, len(file.fingerprint)) for file in origin.data] == [("numbers.csv", 32)]
    assert forked.end(forked.start("barograph", "doctor", "run")).code == 0


def test_the_current_directory_is_not_a_secret(forked: Any) -> None:
    forked.write("tell.py", "import os\nprint('in', os.getcwd())\n")
    forked.environment["PWD"] = str(forked.folder)
    assert forked.run("tell.py").code == 0
    assert f"in {forked.folder}" in forked.end(forked.start("barograph", "show", "run", "--output")).text
    assert any(str(forked.folder) in problem for problem in origin_at(forked.folder / "run").problems)


def test_files_opened_by_loader_workers_and_c_libraries_are_recorded(desk: Any) -> None:
    for name in ("forked", "spawned", "own"):
        desk.write(f"{name}.txt", "1.5\n")
    desk.write("held.h5", "x" * 100)
    desk.script("""
import os
held = os.open("held.h5", os.O_RDONLY)  # as a library in C does


class Read(torch.utils.data.Dataset):
    def __init__(self, path): self.path = path
    def __len__(self): return 4
    def __getitem__(self, at): return torch.ones(1) * float(open(self.path).read())


if __name__ == "__main__":
    for kind in ("fork", "spawn"):
        path = {"fork": "forked.txt", "spawn": "spawned.txt"}[kind]
        loader = torch.utils.data.DataLoader(Read(path), num_workers=1, multiprocessing_context=kind)
        for batch in loader:
            train_step()
    open("own.txt").close()
""")
    ended = desk.run("--rules", "none", "train.py")
    assert ended.code == 0, ended.err
    files = {Path(file.path).name: len(file.fingerprint) for file in origin_at(desk.folder / "run").data}
    assert files == {"forked.txt": 32, "spawned.txt": 32, "own.txt": 32, "held.h5": 32}
