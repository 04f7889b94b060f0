"""Takes a script's training over in a process that `barograph replay` started, as soon as it has imported torch."""

from __future__ import annotations

import os
from pathlib import Path

from barograph.capsule.order import REPLAY_VARIABLE, order_from_text
from barograph.capture import autostart


def arm() -> None:
    """Wait for the import of torch."""
    autostart.arm(take_over, ("torch",))


def take_over() -> None:
    """Have the script's first step be the one that the capsule holds."""
    text = os.environ.pop(REPLAY_VARIABLE, "")
    if text:
        # In this process alone: what the script starts is no replay.
        from barograph.capsule.torch.replay import FAILURES, Replayer, failed

        order = order_from_text(text)
        try:
            Replayer(order).install()
        except FAILURES as error:
            Path(order.result).write_text(failed(error).to_text(), encoding="utf-8")
            raise SystemExit(0) from error
