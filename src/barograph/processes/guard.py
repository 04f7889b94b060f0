"""Ends a process group when the process that started it is gone, even if that was killed.

    python -m barograph.processes.guard GROUP

Standard input is a pipe from the starter. If it ends without data, the starter is gone; data mean that the group needs
no guard any more. Other programs cannot watch their parent themselves, as `parent.end_with_parent` does in ours.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import sys
import time

from barograph.processes.local_process import exists, is_alive

_LOOK_SECS = 1.0
_GRACE_SECS = 10.0


def main(group: int) -> None:
    """Wait until the starter is gone, then end the group: SIGTERM, and SIGKILL after ten seconds."""
    if os.fork():
        # Without a parent: Ray kills the children of its processes, and would kill the guard but not the whole group.
        os._exit(0)
    while not select.select([0], [], [], _LOOK_SECS)[0]:
        if not exists(group):
            return
    if os.read(0, 1):
        return
    with contextlib.suppress(OSError):
        os.killpg(group, signal.SIGTERM)
        deadline = time.monotonic() + _GRACE_SECS
        while is_alive(group) and time.monotonic() < deadline:
            time.sleep(_LOOK_SECS / 10)
        os.killpg(group, signal.SIGKILL)


if __name__ == "__main__":
    main(int(sys.argv[1]))
