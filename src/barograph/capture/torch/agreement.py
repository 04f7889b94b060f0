"""Coordinates distributed checkpoints: one worker announces the step after which all save.

It announces the step in the torch.distributed store, early enough for all to read it. Workers never wait for each
other: a late worker saves nothing, and an incomplete checkpoint cannot be resumed.
"""

from __future__ import annotations

import json
import math
from typing import Any

from torch import distributed

from barograph.capture.orders import NotDone

_LOOK_SECS = 0.25
"""Time between two reads of a worker, and the number of such times after which it has certainly read."""
_LOOKS_AHEAD = 3


class Agreement:
    """Finds the steps after which all workers save.

    Args:
        attempt: Attempt of the run.

    Attributes:
        why: Why all workers save at the agreed step; "": none is agreed.
        after_steps: The agreed step; -1: none.
    """

    def __init__(self, attempt: int) -> None:
        self.why = ""
        self.after_steps = -1
        self._attempt = attempt
        self._agreed = 0
        self._looked_secs = -math.inf
        self._asked: tuple[int, float] | None = None
        self._step_secs = 0.0

    def reached(self, steps: int, now_secs: float, wanted: str) -> str:
        """Return why all workers save now, "" if they do not; called between two steps.

        Args:
            steps: Number of steps so far.
            now_secs: Time by a monotonic clock.
            wanted: Why this worker requests a checkpoint; "": it does not.

        Raises:
            NotDone: The workers share no store, or it does not respond.
        """
        self._measure(steps, now_secs)
        if not self.why and (wanted or now_secs - self._looked_secs >= _LOOK_SECS):
            self._looked_secs = now_secs
            try:
                self._look(steps, wanted)
            except RuntimeError as error:  # torch raises it if the process with the store is gone
                raise NotDone(f"the torch.distributed store does not answer ({error})") from error
        if not self.why or steps < self.after_steps:
            return ""
        why = self.why if steps == self.after_steps else ""
        self._agreed += 1
        self.why, self.after_steps = "", -1
        return why

    def _measure(self, steps: int, now_secs: float) -> None:
        if self._asked is not None and steps > self._asked[0]:
            self._step_secs = (now_secs - self._asked[1]) / (steps - self._asked[0])
        self._asked = (steps, now_secs)

    def _look(self, steps: int, wanted: str) -> None:
        store, key = _shared_store(), f"barograph/checkpoint/{self._attempt}/{self._agreed}"
        if wanted:
            ahead = max(1, math.ceil(_LOOKS_AHEAD * _LOOK_SECS / self._step_secs)) if self._step_secs else 1
            # If two workers request one at the same time, the first to write determines the step.
            agreed = store.compare_set(key, "", json.dumps([steps + ahead, wanted]))
        elif store.check([key]):
            agreed = store.get(key)
        else:
            return
        after_steps, why = json.loads(agreed)
        self.after_steps, self.why = int(after_steps), str(why)


def _shared_store() -> Any:
    if not (distributed.is_available() and distributed.is_initialized()):
        raise NotDone("the workers share no torch.distributed store")
    from torch.distributed.distributed_c10d import _get_default_store

    return _get_default_store()
