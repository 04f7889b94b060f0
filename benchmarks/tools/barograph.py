"""Barograph, by the one line a user writes. No watcher: it is another process, and the training pays none of it."""

from __future__ import annotations

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
    budget: float | None = None,
) -> Observer:
    """Return Barograph, recording by a preset.

    Args:
        preset: Of `capture.presets`; None: the default.
        budget: Share of the training time; None: no limit. Ignored with the default preset, whose budget
            is the default one too.
    """
    url = f"{directory}/run"
    settings: dict[str, Any] = {} if preset is None else {"preset": preset, "budget": budget}
    return _Attached(url, barograph.attach(model, optimizer, to=url, watch=False, **settings))


class _Attached(Silent):
    def __init__(self, url: str, session: Any) -> None:
        self._url = url
        self._session = session
        session.__enter__()

    def close(self) -> Facts:
        self._session.__exit__(None, None, None)
        run = barograph.open(self._url)
        steps = run.steps()
        return {"steps_recorded": len(steps), "keys": len(run.keys())}
