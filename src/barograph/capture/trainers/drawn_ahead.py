"""Prefetched batches: assigns each step the batch it uses, not the latest one drawn."""

from __future__ import annotations

import weakref
from collections import deque
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from barograph.capture.entry_point import EntryPoint

if TYPE_CHECKING:
    from barograph.capture.recording import Recording
    from barograph.capture.torch.feeding import Came

_END = object()


class DrawnAhead:
    """Prefetched batches that are not in use yet, by loop.

    Args:
        recording: Its PyTorch integration is notified of the batches.
    """

    def __init__(self, recording: Recording) -> None:
        self._recording = recording
        self._entry = EntryPoint(recording.session)
        self._waiting: weakref.WeakKeyDictionary[Any, deque[list[Came]]] = weakref.WeakKeyDictionary()

    def drawn(self, drawer: Any, draw: Callable[[], Any]) -> Any:
        """Return the result of `draw`; batches drawn meanwhile wait until they are used."""
        integration = self._recording.torch
        if integration is None:
            return draw()
        with integration.feeding.drawing_ahead() as came:
            batch = draw()
        with self._entry.guarded("noting a prefetched batch"):
            self._waiting.setdefault(drawer, deque()).append(came)
        return batch

    def holds(self, drawer: Any, count: int) -> None:
        """Note how many batches a drawer has before it delivers one.

        Batches drawn before the hooks were installed belong to separate steps, of which nothing is known.
        """
        waiting = self._waiting.setdefault(drawer, deque())
        while len(waiting) < count:
            waiting.appendleft([])

    def handed_over(self, drawer: Any) -> None:
        """Note that the first waiting batch is used now."""
        integration, waiting = self._recording.torch, self._waiting.get(drawer)
        if integration is not None and waiting:
            for came in waiting.popleft():
                integration.feeding.feeds(came)

    def given(self, batches: Iterator[Any], *, skipped: int, together: int) -> Iterator[Any]:
        """Yield the items of a generator that prefetches, each with the batches it was drawn from.

        Args:
            batches: The generator.
            skipped: Number of batches it skips before the first item.
            together: Number of drawn batches per item.
        """
        waiting: deque[Came] = deque()
        over = skipped * together
        while (integration := self._recording.torch) is not None and not self._recording.session.closed:
            with integration.feeding.drawing_ahead() as came:
                batch = next(batches, _END)
            if batch is _END:
                return
            with self._entry.guarded("noting the batch in use"):
                waiting.extend(came)
                for _ in range(min(over, len(waiting))):
                    waiting.popleft()
                for _ in range(min(together, len(waiting))):
                    integration.feeding.feeds(waiting.popleft())
            over = 0
            yield batch
        yield from batches

    def forget(self, drawer: Any) -> None:
        """Release drawn batches that will not be used."""
        self._waiting.pop(drawer, None)
