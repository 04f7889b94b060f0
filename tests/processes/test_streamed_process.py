"""Output that is read while a process runs: all of it, in whole lines."""

from __future__ import annotations

import signal
from typing import Any

import psutil

from barograph.processes.process import Output
from barograph.processes.streamed_process import StreamedProcess

MANY_LINES = """
import sys
for number in range(200_000):
    sys.stdout.write(f"out {number}\\n")
    if number % 2 == 0:
        sys.stderr.write(f"err {number}\\n")
"""

HUGE_LINE = """
import signal, sys
sys.stdout.write("x" * 5_000_000)
sys.stdout.flush()
print("written", file=sys.stderr, flush=True)
signal.pause()
"""

HALF_A_LINE = """
import sys
sys.stdout.write("whole\\nhalf")
sys.stdout.flush()
sys.stderr.write("on\\n")
sys.stderr.flush()
import signal
signal.pause()
"""

LEAVES_A_CHILD = """
import subprocess, sys
child = subprocess.Popen([sys.executable, "-c", "import signal; signal.pause()"])
print(child.pid)
"""


class Clock:
    """Seconds that pass when told to."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def collected(process: StreamedProcess) -> tuple[bytes, bytes, int]:
    """Return everything that a process writes, and its exit code."""
    out, err, code = [], [], None
    while code is None:
        code = process.poll()
        piece = process.output(timeout_secs=0.0 if code is not None else 600.0)
        out.append(piece.out)
        err.append(piece.err)
    return b"".join(out), b"".join(err), code


def test_nothing_that_is_written_is_lost(python: Any) -> None:
    out, err, code = collected(StreamedProcess(python(MANY_LINES)))
    assert out == b"".join(b"out %d\n" % number for number in range(200_000))
    assert err == b"".join(b"err %d\n" % number for number in range(0, 200_000, 2))
    assert code == 0


def test_a_process_does_not_wait_for_its_reader(python: Any) -> None:
    process = StreamedProcess(python("print('x' * 5_000_000)"))
    assert process.wait() == 0
    assert process.output() == Output(b"x" * 5_000_000 + b"\n", b"")
    assert process.output() == Output()


def test_a_process_waits_once_too_much_of_its_output_waits(python: Any) -> None:
    process = StreamedProcess(python("print('x' * 5_000_000)"), most_waiting_bytes=1_000_000)
    assert process.wait(1.0) is None
    parts, code = [], None
    while code is None:
        code = process.poll()
        parts.append(process.output(0.1).out)
    assert code == 0
    assert max(map(len, parts)) < 1_200_000
    assert b"".join(parts) == b"x" * 5_000_000 + b"\n"


def test_a_huge_line_comes_in_pieces(python: Any) -> None:
    process = StreamedProcess(python(HUGE_LINE))
    pieces, err = [], b""
    while not err:
        piece = process.output(timeout_secs=600)
        pieces.append(piece.out)
        err = piece.err
    process.interrupt()
    assert process.wait() == -signal.SIGINT
    last = process.output().out
    assert sum(map(len, pieces)) >= 4_000_000
    assert b"".join([*pieces, last]) == b"x" * 5_000_000


def test_half_a_line_comes_at_the_end(python: Any) -> None:
    process = StreamedProcess(python(HALF_A_LINE))
    out = err = b""
    while err != b"on\n" or not out:
        piece = process.output(timeout_secs=600)
        out, err = out + piece.out, err + piece.err
    assert out == b"whole\n"
    process.interrupt()
    assert process.wait() == -signal.SIGINT
    assert process.output().out == b"half"


def test_merged_output_keeps_its_order(python: Any) -> None:
    code = "import os\nfor number in range(100): os.write(1 + number % 2, b'%d\\n' % number)"
    out, err, _ = collected(StreamedProcess(python(code), merged=True))
    assert out == b"".join(b"%d\n" % number for number in range(100))
    assert err == b""


def test_output_that_a_child_keeps_open_is_complete_five_seconds_after_the_end(python: Any) -> None:
    clock = Clock()
    process = StreamedProcess(python(LEAVES_A_CHILD), clock=clock)
    line = process.output(timeout_secs=600).out
    assert super(StreamedProcess, process).wait() == 0
    assert process.poll() is None
    clock.now = 4.9
    assert process.poll() is None
    clock.now = 5.0
    assert process.poll() == 0
    child = psutil.Process(int(line))
    process.kill()
    child.wait(600)


def test_to_wait_for_output_that_was_closed_is_to_wait_for_the_end(python: Any) -> None:
    process = StreamedProcess(python("import os; os.close(1); os.close(2); sum(range(10**7))"))
    assert process.output(timeout_secs=600) == Output()
    assert process.poll() == 0


def test_a_child_that_ignores_sigterm_is_killed_with_its_parent(family: Any) -> None:
    process = StreamedProcess(family.command)
    child = family.child(process.output(timeout_secs=600).out)
    assert process.end(0.5) == -signal.SIGTERM
    child.wait(600)
    assert process.wait() == -signal.SIGTERM
