"""Checkpoints of the trainers whose libraries save none: one file of arrays in `SM_CHECKPOINT_DIR`, replaced."""

from __future__ import annotations

import json
import os
import signal
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from types import FrameType, TracebackType
from typing import Any, Self

import numpy as np

from barograph.jobs.algorithms.results import say

_EVERY_SECS = 10.0
_FILE = "checkpoint.npz"
_FACTS = "facts"
_OF = "of"


class Checkpoints:
    """Saves the state of a training, every ten seconds and when the job is about to be interrupted.

    After an interruption the training ends within `due`, so nothing of it is repeated.

    Args:
        of: Digest of what is trained, as from `Task.digest`. The models of other folds have seen rows that these
            validate on, so only a checkpoint of the same is used.
        environ: Names the directory. Without it, nothing is saved.
    """

    def __init__(self, of: str, environ: Mapping[str, str] = os.environ) -> None:
        folder = environ.get("SM_CHECKPOINT_DIR")
        self._path = Path(folder, _FILE) if folder else None
        self._of = of
        self._saved_at = time.monotonic()
        self._is_asked_to_end = False
        self._before: Any = None

    def __enter__(self) -> Self:
        if self._path and threading.current_thread() is threading.main_thread():
            self._before = signal.signal(signal.SIGTERM, self._ask_to_end)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._before is not None:
            signal.signal(signal.SIGTERM, self._before)

    def _ask_to_end(self, number: int, frame: FrameType | None) -> None:
        self._is_asked_to_end = True

    @property
    def due(self) -> bool:
        """Whether the state is to be saved now."""
        return self._path is not None and (self._is_asked_to_end or time.monotonic() - self._saved_at >= _EVERY_SECS)

    def save(self, facts: Mapping[str, Any], arrays: Mapping[str, Any]) -> None:
        """Save a state: facts as JSON data, and arrays.

        Raises:
            SystemExit: The state was saved because the job is about to be interrupted.
        """
        assert self._path is not None
        self._path.parent.mkdir(parents=True, exist_ok=True)
        part = self._path.with_suffix(".part")
        with part.open("wb") as file:
            np.savez(file, **{_FACTS: np.array(json.dumps({_OF: self._of, **facts})), **arrays})
        part.replace(self._path)
        self._saved_at = time.monotonic()
        if self._is_asked_to_end:
            raise SystemExit(128 + signal.SIGTERM)

    def load(self) -> tuple[dict[str, Any], dict[str, Any]] | None:
        """Return the facts and the arrays that were saved; None if nothing was, or of something else."""
        if self._path is None or not self._path.exists():
            return None
        with np.load(self._path, allow_pickle=False) as file:
            arrays = {name: file[name] for name in file.files}
        facts: dict[str, Any] = json.loads(str(arrays.pop(_FACTS)))
        if facts.pop(_OF, "") != self._of:
            say("The checkpoint is from a training with other data, folds or parameters: starting again.")
            return None
        return facts, arrays
