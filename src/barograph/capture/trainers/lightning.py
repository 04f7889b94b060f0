"""Installs the Lightning hooks once `lightning.pytorch` is imported."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lightning import pytorch

from barograph.capture.trainers.lightning_loop import listen_to

if TYPE_CHECKING:
    from barograph.capture.recording import Recording


def listen(recording: Recording) -> None:
    """Record every training of Lightning in this process."""
    listen_to(pytorch, recording)
