"""Daemons that hide from everything but their parent: found, ended and removed from the table of processes."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="only Linux has subreapers")

DAEMON = "setsid env -i sh -c 'echo $$; exec sleep 600' &"
"""Its own session, no environment, no parent."""


def said(code: str) -> object:
    """Run code in a process of its own, whose children are only those of the code; return what it prints."""
    begin = ("import json, os, subprocess, sys\n"
             "from barograph.machine.marked import kill_unmarked_below\n"
             "from barograph.processes.command import Command\n"
             "from barograph.processes.local_process import LocalProcess\n"
             "from barograph.processes.orphans import adopt_orphans, descendants, parents, reap_orphans\n"
             "def daemon():\n"
             f"    shell = subprocess.Popen(['sh', '-c', {DAEMON!r}], stdout=subprocess.PIPE)\n"
             "    shell.wait()\n"
             "    return int(shell.stdout.readline())\n")
    done = subprocess.run([sys.executable, "-c", begin + code], capture_output=True, text=True, check=True)
    return json.loads(done.stdout)


def test_a_daemon_is_a_child_of_the_process_that_adopts_orphans() -> None:
    assert said("adopt_orphans()\npid = daemon()\n"
                "print(json.dumps([parents()[pid][0] == os.getpid(), pid in descendants(os.getpid())]))\n"
                "os.kill(pid, 9)\n") == [True, True]


def test_processes_that_cleared_their_environment_are_killed_and_the_others_are_not() -> None:
    assert said("adopt_orphans()\n"
                "ours = LocalProcess(Command(('sleep', '600'), environment={**os.environ, 'MARK': 'x'}))\n"
                "daemon()\n"
                "killed = kill_unmarked_below(os.getpid(), 'MARK')\n"
                "print(json.dumps([killed, kill_unmarked_below(os.getpid(), 'MARK'), ours.poll()]))\n"
                "ours.kill()\n") == [1, 0, None]


def test_adopted_processes_are_reaped_and_the_ends_of_ours_stay() -> None:
    assert said("adopt_orphans()\n"
                "ours = LocalProcess(Command(('sh', '-c', 'exit 3')))\n"
                "while parents()[ours.pid][1] != 'Z':\n    pass\n"
                "pid = daemon()\n"
                "os.kill(pid, 9)\n"
                "while parents()[pid][1] != 'Z':\n    pass\n"
                "print(json.dumps([reap_orphans(), reap_orphans(), pid in parents(), ours.wait()]))\n") == \
        [1, 0, False, 3]
