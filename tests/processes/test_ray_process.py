"""A process on a Ray cluster behaves as one on this machine, and the loss of its machine is noticed."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from typing import Any

import pytest
import ray

from barograph.processes.command import Command
from barograph.processes.process import HostLost, Output, Process
from barograph.processes.ray_cluster import Remote
from barograph.processes.ray_process import ProcessHost, RayProcess

WRITES_AND_ENDS = """
import sys
for number in range(10_000):
    print(number)
print("no", file=sys.stderr)
sys.exit(3)
"""

UNTIL_INTERRUPTED = """
import sys
print("on", flush=True)
try:
    import signal
    signal.pause()
except KeyboardInterrupt:
    sys.exit(7)
"""


@pytest.fixture(scope="module", autouse=True)
def cluster(joined_cluster: Any) -> Iterator[None]:
    """A small cluster on this machine, which this process has joined."""
    with joined_cluster(cpus=2):
        yield


def started(command: Command) -> RayProcess:
    host = Remote(ProcessHost)
    try:
        host.call("start", command)
    except OSError:
        host.close()
        raise
    return RayProcess(host)


def first_line(process: RayProcess) -> bytes:
    line = b""
    while not line:
        process.wait(0.5)
        line = process.output().out
    return line


def test_output_and_exit_code_come_back(python: Any) -> None:
    process: Process = started(python(WRITES_AND_ENDS))
    assert process.wait() == 3
    assert process.output() == Output(b"".join(b"%d\n" % number for number in range(10_000)), b"no\n")
    assert process.output() == Output()
    assert (process.poll(), process.end(0.0)) == (3, 3)


def test_waiting_ends_after_its_time(python: Any) -> None:
    process = started(python(UNTIL_INTERRUPTED))
    assert process.wait(0.1) is None
    process.kill()
    assert process.wait() == -signal.SIGKILL


def test_an_interrupt_arrives(python: Any) -> None:
    process = started(python(UNTIL_INTERRUPTED))
    assert first_line(process) == b"on\n"
    process.interrupt()
    assert process.wait() == 7


def test_a_child_that_ignores_sigterm_is_killed(family: Any) -> None:
    process = started(family.command)
    child = family.child(first_line(process))
    assert process.end(0.5) == -signal.SIGTERM
    child.wait(600)


def test_a_program_that_is_not_there_is_an_error() -> None:
    with pytest.raises(OSError, match="No such file"):
        started(Command(("/no/such/program",)))


@pytest.mark.parametrize("by_ray", [True, False])
def test_the_loss_of_its_host_is_noticed_and_ends_the_process(family: Any, by_ray: bool) -> None:
    process = started(family.command)
    child = family.child(first_line(process))
    if by_ray:
        ray.kill(process._host._actor)
    else:
        child.parent().parent().kill()
    with pytest.raises(HostLost):
        process.wait()
    child.wait(600)
