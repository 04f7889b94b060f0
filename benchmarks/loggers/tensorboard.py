"""TensorBoard's writer, as included in PyTorch."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from tensorboard.backend.event_processing.event_file_loader import EventFileLoader
from torch.utils.tensorboard import SummaryWriter

from benchmarks.loggers.log import Log


def open_log(directory: str) -> Log:
    """Return a summary writer with its own defaults."""
    return _Log(directory)


class _Log:
    def __init__(self, directory: str) -> None:
        self._directory = Path(directory)
        self._writer = SummaryWriter(directory)

    def one(self, value: float, step: int) -> None:
        self._writer.add_scalar("loss", value, step)

    def several(self, values: Mapping[str, float], step: int) -> None:
        for name, value in values.items():
            self._writer.add_scalar(name, value, step)

    def close(self) -> None:
        self._writer.close()

    def kept(self) -> int:
        return sum(
            len(event.summary.value)
            for path in self._directory.rglob("events.out.tfevents.*")
            for event in EventFileLoader(str(path)).Load()
        )
