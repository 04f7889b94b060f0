"""Barograph's `run.log`, with the default settings."""

from __future__ import annotations

from collections.abc import Mapping

import barograph
from benchmarks.loggers.log import Log


def open_log(directory: str) -> Log:
    """Return a session without a model."""
    return _Log(f"{directory}/run")


class _Log:
    def __init__(self, url: str) -> None:
        self._url = url
        self._session = barograph.attach(to=url, watch=False)
        self._run = self._session.__enter__()

    def one(self, value: float, step: int) -> None:
        self._run.log({"loss": value}, step=step)

    def several(self, values: Mapping[str, float], step: int) -> None:
        self._run.log(values, step=step)

    def close(self) -> None:
        self._session.__exit__(None, None, None)

    def kept(self) -> int:
        run = barograph.open(self._url)
        return sum(len(run.series(key, "value").values) for key in run.keys(kind="scalar"))
