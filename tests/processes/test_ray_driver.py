"""The process that drives a Ray cluster, as far as it needs none."""

from __future__ import annotations

import os
import subprocess
import sys

_REFUSED = """
from barograph.errors import BarographError
from barograph.processes import ray_driver

def join(address):
    raise BarographError("There is no cluster.")

ray_driver.join = join
raise SystemExit(ray_driver.main("127.0.0.1:1"))
"""


_TIMEOUT_SECS = 60.0
"""Ten times what it takes."""


def test_it_ends_quietly_when_whoever_started_it_was_killed() -> None:
    out, into = os.pipe()
    os.close(out)
    done = subprocess.run([sys.executable, "-c", _REFUSED], stdout=into, stderr=subprocess.PIPE, check=False,
                          timeout=_TIMEOUT_SECS)
    os.close(into)
    assert (done.returncode, done.stderr) == (1, b"")
