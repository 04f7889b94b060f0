"""Takes over a script's training in a process of `barograph replay`, once its framework is imported."""

from __future__ import annotations

import importlib
import os
from collections.abc import Mapping
from pathlib import Path

from barograph.capsule.ending import FAILURES, failed
from barograph.capsule.order import REPLAY_VARIABLE, order_from_text
from barograph.capture import armed, replaying

_REPLAYERS: Mapping[str, tuple[str, str]] = {
    "torch": ("barograph.capsule.torch.replay", "Replayer"),
    "keras": ("barograph.capsule.keras.replay", "KerasReplayer"),
    "jax": ("barograph.capsule.jax.replay", "JaxReplayer"),
}
"""Replayers by framework, whose name is also the module to wait for."""

_IN_CHILDREN = ("barograph.capsule.torch.children", "Children")
"""Replayer for child processes that a torch script starts itself."""


def can_be_made_again(framework: str) -> bool:
    """Return whether steps of a framework can be replayed."""
    return framework in _REPLAYERS


def arm() -> None:
    """Wait for the import of the framework."""
    order = order_from_text(os.environ[REPLAY_VARIABLE])
    armed.arm(take_over, (order.framework,))


def take_over() -> None:
    """Replace the script's first step by the capsule's."""
    text = os.environ.get(REPLAY_VARIABLE, "")
    if text:
        order = order_from_text(text)
        if not order.children:
            # Only in this process: child processes of the script do not replay.
            del os.environ[REPLAY_VARIABLE]
        replaying.begin(order.framework)
        module, name = _IN_CHILDREN if order.children else _REPLAYERS[order.framework]
        try:
            getattr(importlib.import_module(module), name)(order).install()
        except FAILURES as error:
            Path(order.result).write_text(failed(error).to_text(), encoding="utf-8")
            raise SystemExit(0) from error
