"""Installs the Lightning hooks once Lightning is imported by its older name, `pytorch_lightning`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytorch_lightning

from barograph.capture.trainers.lightning_loop import listen_to

if TYPE_CHECKING:
    from barograph.capture.recording import Recording


def listen(recording: Recording) -> None:
    """Record every training of this Lightning in this process."""
    listen_to(pytorch_lightning, recording)
