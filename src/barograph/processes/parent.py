"""Ends a process when its parent is gone."""

from __future__ import annotations

import os
import threading
import time

_LOOK_SECS = 1.0


def end_with_parent() -> None:
    """End this process soon after its parent, whatever it is doing, even in a rule that loops forever.

    Nothing is closed: processes that use this can be killed at any time without harm.
    """
    parent = os.getppid()
    threading.Thread(target=_wait_for_the_end_of, args=(parent,), name="barograph-parent", daemon=True).start()


def _wait_for_the_end_of(parent: int) -> None:
    while os.getppid() == parent:
        time.sleep(_LOOK_SECS)
    os._exit(1)
