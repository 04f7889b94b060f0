"""Signals that reach this process are forwarded to one that it started."""

from __future__ import annotations

import os
import pty
import signal
import sys
from pathlib import Path
from typing import Any

import pytest

from barograph.processes.command import Command
from barograph.processes.forwarded_signals import ForwardedSignals
from barograph.processes.local_process import Group, LocalProcess

PAUSES = "import signal; signal.pause()"


def test_a_signal_is_forwarded_to_the_process(python: Any) -> None:
    before = signal.getsignal(signal.SIGTERM)
    with ForwardedSignals() as signals:
        process = LocalProcess(python(PAUSES), group=Group.OURS)
        signals.to(process)
        os.kill(os.getpid(), signal.SIGTERM)
        assert process.wait() == -signal.SIGTERM
    assert signal.getsignal(signal.SIGTERM) is before


def test_a_signal_before_the_start_is_sent_after_it(python: Any) -> None:
    with ForwardedSignals() as signals:
        os.kill(os.getpid(), signal.SIGUSR1)
        process = LocalProcess(python(PAUSES), group=Group.OURS)
        signals.to(process)
        assert process.wait() == -signal.SIGUSR1


def test_an_ignored_signal_stays_ignored() -> None:
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with ForwardedSignals():
            assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGHUP, before)


FOLLOWER = """
import os, signal, sys
from barograph.processes.forwarded_signals import ForwardedSignals

pipe = os.open(sys.argv[1], os.O_WRONLY)

def say(*words):
    os.write(pipe, (" ".join(map(str, words)) + "\\n").encode())  # unlike print, also in a signal handler

class Process:
    def send(self, number):
        say("sent", int(number))

arrived, wakeup = os.pipe()
os.set_blocking(wakeup, False)
signal.set_wakeup_fd(wakeup)
with ForwardedSignals() as signals:
    signals.to(Process())
    say("ready")
    os.read(arrived, 1)
    say("came")
"""


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGQUIT, signal.SIGUSR1])
@pytest.mark.parametrize(("to_the_group", "told"), [(True, ["came\n"]), (False, ["sent {}\n", "came\n"])])
def test_without_a_terminal_a_signal_to_the_whole_group_is_not_sent_again(
    tmp_path: Path, number: signal.Signals, to_the_group: bool, told: list[str]
) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    process = LocalProcess(Command((sys.executable, "-c", FOLLOWER, str(pipe))), group=Group.SESSION)
    with pipe.open() as said:
        assert said.readline() == "ready\n"
        if to_the_group:
            os.killpg(process.pid, number)
        else:
            process.send(number)
        assert said.readlines() == [line.format(number.value) for line in told]
    assert process.wait() == 0


def test_each_of_several_signals_to_the_group_is_noticed(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    program = FOLLOWER.replace('    os.read(arrived, 1)\n', '    for _ in range(3):\n        os.read(arrived, 1)\n'
                                                             '        say("next")\n')
    process = LocalProcess(Command((sys.executable, "-c", program, str(pipe))), group=Group.SESSION)
    with pipe.open() as said:
        assert said.readline() == "ready\n"
        os.killpg(process.pid, signal.SIGTERM)
        assert said.readline() == "next\n"
        process.send(signal.SIGTERM)
        assert [said.readline(), said.readline()] == [f"sent {signal.SIGTERM.value}\n", "next\n"]
        os.killpg(process.pid, signal.SIGTERM)
        assert said.readlines() == ["next\n", "came\n"]
    assert process.wait() == 0


def test_the_witness_ends_with_the_block() -> None:
    signals = ForwardedSignals()
    with signals:
        witness = signals._witness
        assert witness is not None
        assert witness.poll() is None
    assert witness.poll() == 0


def test_ctrl_c_is_not_sent_again_also_if_no_standard_stream_is_the_terminal(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    pid, terminal = pty.fork()
    if pid == 0:
        null = os.open(os.devnull, os.O_RDWR)
        for stream in (0, 1, 2):
            os.dup2(null, stream)
        os.execv(sys.executable, [sys.executable, "-c", FOLLOWER, str(pipe)])
    try:
        with pipe.open() as said:
            assert said.readline() == "ready\n"
            os.write(terminal, b"\x03")
            assert said.read() == "came\n"
    finally:
        os.waitpid(pid, 0)
        os.close(terminal)
