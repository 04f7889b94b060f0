"""Activation checkpointing: forward passes that the backward pass runs again.

Reentrant checkpointing makes the first of the two passes without gradients, which looks like an evaluation.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Iterator
from types import CodeType, FrameType

import torch
from torch.utils.checkpoint import CheckpointFunction, checkpoint

_CHECKPOINT = inspect.unwrap(checkpoint).__code__
_REENTRANT = CheckpointFunction.forward.__code__


def gets_gradients() -> bool:
    """Return whether the current call gets gradients, possibly when the backward pass repeats it."""
    if torch.is_grad_enabled():
        return True
    # Of nested passes, only the outermost started with gradients.
    *_, outermost = None, *_frames_of(_REENTRANT)
    return outermost is not None and bool(outermost.f_locals["ctx"].next_functions)


def is_made_again() -> bool:
    """Return whether the backward pass will repeat the current call with the same arguments."""
    return next(_frames_of(_CHECKPOINT), None) is not None


def _frames_of(code: CodeType) -> Iterator[FrameType]:
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        if frame.f_code is code:
            yield frame
        frame = frame.f_back
