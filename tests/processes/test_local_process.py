"""A process on this machine: how it ended is known, and its end reaches what it started."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import psutil
import pytest

from barograph.processes.command import Command, environment_without, own_module
from barograph.processes.local_process import PIPE, Group, LocalProcess, is_alive
from barograph.processes.process import ended_reason

WAITS_FOR_INPUT = "import sys; print('on', flush=True); sys.stdin.read()"

SAVES_AFTER_SIGTERM = """
import os, signal, sys
def save(number, frame):
    while os.path.exists(f"/proc/{shell}"):  # until its end was noticed
        pass
    sum(range(10**7))
    open(sys.argv[1], "w").close()
    os._exit(0)
shell = os.getppid()
signal.signal(signal.SIGTERM, save)
print("on", flush=True)
while True:
    signal.pause()
"""

HANDS_ON = """
import subprocess, sys
child = subprocess.Popen([sys.executable, "-c", sys.argv[1]], stdout=subprocess.DEVNULL)
print(child.pid)
"""


def line_of(process: LocalProcess) -> bytes:
    """Return the first line that a process prints."""
    line = b""
    assert process.stdout is not None
    while not line.endswith(b"\n"):
        piece = process.stdout.read(1)
        assert piece, "it ended"
        line += piece
    return line


def close(process: LocalProcess) -> None:
    """Let go of the pipes of a process that has ended."""
    for pipe in (process.stdin, process.stdout):
        if pipe is not None:
            pipe.close()


def test_a_process_that_ends_has_its_exit_code(python: Any) -> None:
    process = LocalProcess(python("raise SystemExit(3)"))
    assert process.wait(600) == 3
    assert process.poll() == 3
    assert ended_reason(3) == "ended with exit code 3"


@pytest.mark.parametrize("group", Group)
def test_a_killed_process_has_the_number_of_the_signal(python: Any, group: Group) -> None:
    process = LocalProcess(python(WAITS_FOR_INPUT), stdin=PIPE, group=group)
    assert process.poll() is None
    assert process.wait(0.0) is None
    process.kill()
    assert process.wait() == -9
    assert ended_reason(-9) == "was ended by SIGKILL"
    close(process)


def test_a_signal_without_a_name_has_a_number() -> None:
    assert ended_reason(-999) == "was ended by signal 999"


def test_a_program_that_is_not_there_is_an_error() -> None:
    with pytest.raises(FileNotFoundError):
        LocalProcess(Command(("/no/such/program",)))


def test_it_starts_in_its_directory_with_its_environment(python: Any, folder: str) -> None:
    command = python("import os; print(os.getcwd(), sorted(name for name in os.environ if name.startswith('MY_')))")
    process = LocalProcess(Command(command.arguments, folder, {"MY_OWN": "1"}), stdout=PIPE)
    assert line_of(process).decode() == f"{os.path.realpath(folder)} ['MY_OWN']\n"
    assert process.wait() == 0
    close(process)


@pytest.mark.parametrize(("group", "expected"), [
    (Group.SESSION, (True, True)), (Group.OWN, (True, False)), (Group.OURS, (False, False)),
])
def test_a_process_is_in_the_group_and_session_asked_for(
    python: Any, group: Group, expected: tuple[bool, bool]
) -> None:
    process = LocalProcess(python(WAITS_FOR_INPUT), stdin=PIPE, group=group)
    assert (os.getpgid(process.pid) == process.pid, os.getsid(process.pid) == process.pid) == expected
    process.kill()
    process.wait()
    close(process)


def test_what_is_fed_arrives_whole(python: Any) -> None:
    process = LocalProcess(python("import sys; print(len(sys.stdin.buffer.read()))"), stdin=PIPE, stdout=PIPE)
    process.feed(b"x" * 3_000_000)
    assert line_of(process) == b"3000000\n"
    assert process.wait() == 0
    close(process)


def test_a_process_that_reads_nothing_can_be_fed(python: Any) -> None:
    process = LocalProcess(python(""), stdin=PIPE)
    process.feed(b"x" * 3_000_000)
    assert process.wait() == 0


def test_an_interrupt_is_that_of_the_terminal(python: Any) -> None:
    process = LocalProcess(python(WAITS_FOR_INPUT), stdin=PIPE, stdout=PIPE)
    line_of(process)
    process.interrupt()
    assert process.wait() == -signal.SIGINT
    close(process)


def test_a_child_that_ignores_sigterm_is_killed(family: Any) -> None:
    process = LocalProcess(family.command, stdout=PIPE)
    child = family.child(line_of(process))
    assert process.end(0.5) == -signal.SIGTERM
    child.wait(600)
    close(process)


def test_kill_reaches_what_a_process_started(family: Any) -> None:
    process = LocalProcess(family.command, stdout=PIPE)
    child = family.child(line_of(process))
    process.kill()
    assert process.wait() == -signal.SIGKILL
    child.wait(600)
    close(process)


def test_what_a_process_left_running_is_killed_after_its_end(python: Any) -> None:
    process = LocalProcess(python(HANDS_ON, "import signal; signal.pause()"), stdout=PIPE)
    child = psutil.Process(int(line_of(process)))
    assert process.wait() == 0
    process.kill()
    child.wait(600)
    close(process)


def test_a_shell_that_ends_at_once_leaves_its_child_the_whole_grace_period(tmp_path: Path) -> None:
    saved = tmp_path / "saved"
    script = f'"{sys.executable}" -c \'{SAVES_AFTER_SIGTERM}\' "{saved}"; true'
    process = LocalProcess(Command(("sh", "-c", script)), stdout=PIPE)
    line_of(process)
    assert process.end(600) == -signal.SIGTERM
    assert saved.exists()
    close(process)


def test_a_group_of_zombies_is_not_alive() -> None:
    process = subprocess.Popen([sys.executable, "-c", ""], start_new_session=True)
    os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
    os.killpg(process.pid, 0)  # it is there
    assert not is_alive(process.pid)
    process.wait()
    assert not is_alive(process.pid)


def test_a_group_with_a_process_is_alive() -> None:
    assert is_alive(os.getpgrp())


def test_a_module_of_ours_does_not_import_files_of_the_current_directory(tmp_path: Path) -> None:
    (tmp_path / "json.py").write_text("raise SystemExit('taken from the current directory')")
    command = own_module("barograph", "--version")
    process = LocalProcess(Command(command.arguments, str(tmp_path)), stdout=PIPE)
    assert line_of(process).startswith(b"barograph ")
    assert process.wait() == 0
    close(process)


def test_variables_are_left_out_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FIRST", "1")
    monkeypatch.setenv("SECOND", "2")
    found = environment_without(["FIRST"])
    assert "FIRST" not in found
    assert found["SECOND"] == "2"


def test_starting_processes_imports_nothing_heavy() -> None:
    code = "import sys; from barograph.processes import local_process, streamed_process; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=600)
    loaded = set(done.stdout.split())
    assert loaded.isdisjoint({"tempfile", "asyncio", "multiprocessing", "numpy", "json", "ray", "psutil"})
    ours = {name for name in loaded if name.startswith("barograph.") and not name.startswith("barograph.processes")}
    assert ours <= {"barograph.late", "barograph.version"}
