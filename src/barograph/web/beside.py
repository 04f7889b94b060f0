"""`python -m barograph.web.beside PLACE`: print the link to a run, and serve a studio if none serves its place.

It is a process in a session of its own, so no training waits for it and Ctrl-C does not end it. It ends half an hour
after the last request, once no run below its root is being recorded.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable

from barograph.errors import BarographError
from barograph.experiments.roots import root_of_places
from barograph.machine.host_lock import HostLock
from barograph.web.idle import Idle, is_any_running
from barograph.web.places import Places
from barograph.web.registry import Registry, Studio
from barograph.web.server import Links, serve

_START_SECS = 60.0
_LOOK_SECS = 0.2


def serve_beside(
    place: str, say: Callable[[str], object], *, registry: Registry | None = None,
    wait: Callable[[float], object] = time.sleep, start: Callable[..., None] = serve,
) -> None:
    """Print the link to a run once, and serve its root if no studio on this machine does.

    Args:
        place: Path or URL of the run.
        say: Called with one line.
        registry: The studios on this machine.
        wait: Waits some seconds while another process starts a studio.
        start: Serves, see `serve`.

    Raises:
        SettingsError: The extra is not installed, or no port is free.
    """
    registry = registry or Registry()
    root = root_of_places([place]) or os.path.dirname(place)
    # Of many trainings that begin together, one starts a studio.
    starting = HostLock(f"studio {root}")
    for _ in range(int(_START_SECS / _LOOK_SECS)):
        link = registry.link_to(place)
        if link:
            say(f"studio at {link}")
            return
        if starting.take():
            break
        wait(_LOOK_SECS)
    # Between our look and the lock, the process that had it may have started one.
    if link := registry.link_to(place):
        say(f"studio at {link}")
        return

    def ready(links: Links) -> None:
        say(f"studio at {Studio(links.page, (root,)).link_to(place)}")

    try:
        start([root], host="127.0.0.1", port=None, on_ready=ready, idle=Idle(lambda: is_any_running(Places([root]))))
    finally:
        starting.release()


def main(place: str) -> int:
    """Serve beside the run at a place; return the exit code."""
    try:
        serve_beside(place, _say)
    except BarographError as error:
        _say(f"no studio: {error}")
        return 1
    return 0


def _say(text: str) -> None:
    print(f"barograph: {text}", file=sys.stderr, flush=True)
    # The terminal, or whoever reads the training's output, must not wait for this process to end.
    nothing = os.open(os.devnull, os.O_WRONLY)
    for stream in (1, 2):
        os.dup2(nothing, stream)
    os.close(nothing)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
