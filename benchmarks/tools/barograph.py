"""Barograph, with the user's one line. Without a watcher, which is another process and costs the training nothing."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from torch import nn
from torch.optim import Optimizer

import barograph
from benchmarks.tools.observer import Facts, Observer, Silent


def attach(
    model: nn.Module,
    optimizer: Optimizer,
    loss_fn: nn.Module,
    *,
    directory: str,
    preset: str | None = None,
    recorder: bool = False,
) -> Observer:
    """Return Barograph, recording with a preset.

    Args:
        preset: A preset of `capture.presets`, without a budget; None: the default settings, with their budget.
        recorder: The flight recorder is on.
    """
    url = f"{directory}/run"
    settings: dict[str, Any] = {} if preset is None else {"preset": preset, "budget": None}
    return _Attached(url, barograph.attach(model, optimizer, to=url, watch=False, recorder=recorder or None,
                                           **settings))


class _Attached(Silent):
    def __init__(self, url: str, session: Any) -> None:
        self._url = url
        self._session = session

    def close(self) -> Facts:
        self._session.close()
        # A worker's end record is JSON with its counts and cost: see FORMAT.md.
        (ending,) = Path(self._url, "endings").glob("*.json")
        last = json.loads(ending.read_text(encoding="utf-8"))["last"]
        return {"coverage": last["coverage"], "cost": last["cost"], "dropped_steps": last["dropped_steps"]}
