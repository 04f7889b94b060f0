"""Signals that reach this process are forwarded to one that it started."""

from __future__ import annotations

import os
import pty
import signal
import sys
from pathlib import Path
from typing import Any

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

pipe = open(sys.argv[1], "w", buffering=1)

class Process:
    def send(self, number):
        print("sent", number, file=pipe)

arrived, wakeup = os.pipe()
os.set_blocking(wakeup, False)
signal.set_wakeup_fd(wakeup)
with ForwardedSignals() as signals:
    signals.to(Process())
    print("ready", file=pipe)
    os.read(arrived, 1)
    print("came", file=pipe)
"""


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
