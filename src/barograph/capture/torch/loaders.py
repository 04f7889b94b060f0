"""The training loader: its current pass, its length, and the time training waits for it."""

from __future__ import annotations

import threading
import weakref
from dataclasses import dataclass
from typing import Any

from torch.utils.data import DataLoader

from barograph.capture.buffer import StepBuffer
from barograph.capture.session import Session
from barograph.model.facts import Fact, fact


@dataclass(slots=True, eq=False)
class _Loader:
    """The recorded facts of one loader.

    Attributes:
        loader: Weak reference.
        passes: Number of passes over it that fed training.
        waited_secs: Time spent waiting for it before it was known to feed training.
        trains: It feeds training.
    """

    loader: weakref.ref[DataLoader[Any]]
    passes: int = 0
    waited_secs: float = 0.0
    trains: bool = False


@dataclass(slots=True, eq=False)
class _Pass:
    """One pass over a loader.

    Attributes:
        of: The loader.
        steps: Number of optimizer steps when its first batch arrived; None: none has arrived.
        counted: It is known to feed training.
        ended: It has no more batches.
    """

    of: _Loader
    steps: int | None = None
    counted: bool = False
    ended: bool = False


class LoaderRecorder:
    """Tracks the passes over data loaders in the training process.

    A pass feeds training if an optimizer has stepped since its first batch: passes of an evaluation, and of a script
    that only inspects a batch, do not.
    """

    def __init__(self, session: Session) -> None:
        self._session = session
        self._loaders: weakref.WeakKeyDictionary[Any, _Loader] = weakref.WeakKeyDictionary()
        self._passes: weakref.WeakKeyDictionary[Any, _Pass] = weakref.WeakKeyDictionary()
        # A strong reference: next(iter(loader)) drops the iterator before the step ends.
        self._last: _Pass | None = None
        self._given: _Pass | None = None
        self._serial = 0

    def begins(self, loader: DataLoader[Any], iterator: Any, secs: float) -> None:
        """Note that a pass starts, and how long starting it took."""
        known = self._loaders.get(loader)
        if known is None:
            known = self._loaders[loader] = _Loader(weakref.ref(loader))
        self._passes[iterator] = _Pass(known)
        self._serial += 1
        self._wait(known, secs)

    def goes_on(self, loader: DataLoader[Any], iterator: Any, passes: int) -> None:
        """Note a pass that continues one of the previous run, after this many passes over its loader."""
        known = self._loaders[loader] = _Loader(weakref.ref(loader), passes=passes)
        self._passes[iterator] = _Pass(known)
        self._serial += 1

    def gave(self, iterator: Any, secs: float, *, ended: bool = False) -> None:
        """Note that the script waited for a batch, or for the end of the pass."""
        current = self._passes.get(iterator)
        if current is None:
            return
        steps = self._session.steps_of_all
        if current.steps is None:
            current.steps = steps
        elif steps > current.steps:
            self._count(current)
        current.ended = ended
        self._last = self._given = current
        self._wait(current.of, secs)

    def take_evaluated(self) -> Any:
        """Return the loader that delivered a batch since the last call, if it is not the training loader."""
        given, self._given = self._given, None
        return None if given is None or given.counted else given.of.loader()

    @property
    def part(self) -> str:
        """Name of the current pass, or of the time since the last one ended; "" without a loader."""
        if self._last is None:
            return ""
        return f"after {self._serial}" if self._last.ended else str(self._serial)

    def step_facts(self, buffer: StepBuffer) -> None:
        """Record facts about the loader that feeds the step that ends."""
        current = self._last
        loader = current.of.loader() if current is not None else None
        if current is None or loader is None:
            return
        self._count(current)
        buffer.scalars[fact(Fact.EPOCH)] = float(current.of.passes)
        buffer.scalars[fact(Fact.LOADER_WORKERS)] = float(loader.num_workers)
        length = _length(loader)
        if length is not None:
            buffer.scalars[fact(Fact.EPOCH_STEPS)] = float(length)
            buffer.scalars[fact(Fact.FULL_BATCH)] = float(length == 1)

    def _count(self, current: _Pass) -> None:
        if not current.counted:
            current.counted = True
            current.of.passes += 1
        if not current.of.trains:
            current.of.trains = True
            self._session.progress.times.waited_for_data(current.of.waited_secs)

    def _wait(self, loader: _Loader, secs: float) -> None:
        if threading.current_thread() is not threading.main_thread():
            return  # a prefetching thread: training does not wait
        if loader.trains:
            self._session.progress.times.waited_for_data(secs)
        else:
            loader.waited_secs += secs


def _length(loader: DataLoader[Any]) -> int | None:
    """Return the number of batches of a pass; None if unknown."""
    try:
        return len(loader)
    except (TypeError, NotImplementedError):
        return None  # a stream
