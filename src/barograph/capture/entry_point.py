"""Entry points into a training for all integrations except PyTorch: guarded, timed, one at a time."""

from __future__ import annotations

import functools
from collections.abc import Callable
from types import TracebackType
from typing import Concatenate, ParamSpec, Protocol, TypeVar, cast

from barograph.capture.session import Session
from barograph.capture.thread_clock import cpu_secs

_P = ParamSpec("_P")


class EntryPoint:
    """Wraps code of ours that runs in the training; nested calls count as part of the outer one.

    Frameworks call back from their own threads, and all write into one step, so only one may enter at a time.
    """

    __slots__ = ("_depth", "_lock", "session")

    def __init__(self, session: Session) -> None:
        self.session = session
        # Shared by all integrations of a session: estimators are fitted in parallel threads.
        self._lock = session.guard.lock
        self._depth = 0

    def guarded(self, doing: str) -> Passage:
        """Return a context for a block: its error becomes one warning, and its time counts as cost.

        Args:
            doing: Description of the block for the warning.
        """
        return Passage(self, doing)

    def enters(self) -> bool:
        """Enter; return whether the caller is the training rather than code of ours."""
        self._lock.acquire()
        self._depth += 1
        return self._depth == 1

    def leaves(self) -> None:
        """Leave."""
        self._depth -= 1
        self._lock.release()


class Passage:
    """One block of our code inside a training."""

    __slots__ = ("_begin", "_doing", "_entry", "_outermost", "_started_secs")

    def __init__(self, entry: EntryPoint, doing: str) -> None:
        self._entry = entry
        self._doing = doing
        self._outermost = False
        self._begin = self._started_secs = 0.0

    def __enter__(self) -> None:
        self._outermost = self._entry.enters()
        self._begin, self._started_secs = cpu_secs(), self._entry.session.startup.cpu_secs

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None,
                 trace: TracebackType | None) -> bool:
        session, outermost = self._entry.session, self._outermost
        self._entry.leaves()
        if not outermost:
            return False
        # Start-up time is counted separately.
        session.price.charge(cpu_secs() - self._begin - (session.startup.cpu_secs - self._started_secs))
        if isinstance(error, Exception):
            session.guard.caught(error, self._doing)
            return True
        return False


class _HasEntry(Protocol):
    @property
    def entry(self) -> EntryPoint: ...


_Self = TypeVar("_Self", bound=_HasEntry)


def entry_point(
    doing: str,
) -> Callable[[Callable[Concatenate[_Self, _P], None]], Callable[Concatenate[_Self, _P], None]]:
    """Make a method an entry point from training, using its object's `entry`; does nothing after the run is closed.

    Args:
        doing: Description of the method for the warning.
    """

    def decorate(method: Callable[Concatenate[_Self, _P], None]) -> Callable[Concatenate[_Self, _P], None]:
        @functools.wraps(method)
        def enter(self: _Self, *args: _P.args, **kwargs: _P.kwargs) -> None:
            if not self.entry.session.closed:
                with self.entry.guarded(doing):
                    method(self, *args, **kwargs)

        return cast("Callable[Concatenate[_Self, _P], None]", enter)

    return decorate
