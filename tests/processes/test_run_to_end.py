"""Short commands: their output is captured, and no time or size goes beyond its limit."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import psutil
import pytest

from barograph.processes.command import Command
from barograph.processes.run_to_end import Completed, TimedOut, TooMuchOutput, run_to_end

PRINTS_NUMBER_AND_LOOPS = """
import os, subprocess, sys
child = subprocess.Popen([sys.executable, "-c", "import signal; signal.pause()"])
with open(sys.argv[1] + ".new", "w") as file:
    file.write(str(child.pid))
os.rename(sys.argv[1] + ".new", sys.argv[1])
child.wait()
"""


def test_what_a_command_prints_is_returned(python: Any) -> None:
    code = "import sys; print(sys.stdin.read()); print('no', file=sys.stderr); sys.exit(4)"
    assert run_to_end(python(code), timeout_secs=600, stdin=b"yes") == Completed(4, b"yes\n", b"no\n")


def test_a_command_without_input_reads_nothing(python: Any) -> None:
    assert run_to_end(python("import sys; print(sys.stdin.read() == '')"), timeout_secs=600).out == b"True\n"


def test_output_can_go_to_a_file(python: Any) -> None:
    with tempfile.TemporaryFile() as file:
        assert run_to_end(python("print('yes')"), timeout_secs=None, stdout=file) == Completed(0)
        file.seek(0)
        assert file.read() == b"yes\n"


def test_a_command_that_takes_too_long_is_killed_with_what_it_started(python: Any, tmp_path: Path) -> None:
    number = tmp_path / "number"
    timeout_secs = 1.0
    while not number.exists():  # on a machine that is busy it may not have come so far
        with pytest.raises(TimedOut):
            run_to_end(python(PRINTS_NUMBER_AND_LOOPS, number), timeout_secs=timeout_secs)
        timeout_secs *= 2
    child = int(number.read_text())
    if psutil.pid_exists(child):
        psutil.Process(child).wait(600)


def test_a_command_that_prints_without_end_is_killed(python: Any) -> None:
    with pytest.raises(TooMuchOutput):
        run_to_end(python("while True: print('x' * 1000)"), timeout_secs=600, limit_bytes=100_000)


def test_a_command_that_printed_too_much_before_its_end_is_refused(python: Any) -> None:
    with pytest.raises(TooMuchOutput):
        run_to_end(python("print('x' * 100)"), timeout_secs=600, limit_bytes=100)
    assert run_to_end(python("print('x' * 99)"), timeout_secs=600, limit_bytes=100).out == b"x" * 99 + b"\n"


def test_a_command_that_ends_may_leave_others_running(python: Any) -> None:
    pauses = "[sys.executable, '-c', 'import signal; signal.pause()']"
    code = f"import subprocess, sys; child = subprocess.Popen({pauses}); print(child.pid)"
    done = run_to_end(python(code), timeout_secs=600)
    child = psutil.Process(int(done.out))
    assert child.is_running()
    child.kill()


def test_a_program_that_is_not_there_is_an_error() -> None:
    with pytest.raises(FileNotFoundError):
        run_to_end(Command(("/no/such/program",)), timeout_secs=600)
