"""Signals that reach this process are forwarded to one that it started."""

from __future__ import annotations

import os
import signal
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
