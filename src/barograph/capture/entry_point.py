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
    """Wraps our code that a training waits for; nested calls count as part of it.

    Frameworks call back from threads of their own, and all write into one step, so one is let in at a time.
    """

    __slots__ = ("_depth", "_lock", "session")

    def __init__(self, session: Session) -> None:
        self.session = session
        # One for all integrations of a session: estimators are fitted in threads side by side.
        self._lock = session.guard.lock
        self._depth = 0

    def guarded(self, doing: str) -> Passage:
        """Return what a block runs in: an error in it becomes one warning, and its time is part of the price.

        Args:
            doing: What the block does, for people, should it fail.
        """
        return Passage(self, doing)

    def enters(self) -> bool:
        """Let the caller in; return whether it came from the training, and not from code of ours."""
        self._lock.acquire()
        self._depth += 1
        return self._depth == 1

    def leaves(self) -> None:
        """Let the caller out."""
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
        # What belongs to starting up has its own account.
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
    """Make a method one of the ways into training, by its object's `entry`; once the run is closed it does nothing.

    Args:
        doing: What it does, for people, should it fail.
    """

    def decorate(method: Callable[Concatenate[_Self, _P], None]) -> Callable[Concatenate[_Self, _P], None]:
        @functools.wraps(method)
        def enter(self: _Self, *args: _P.args, **kwargs: _P.kwargs) -> None:
            if not self.entry.session.closed:
                with self.entry.guarded(doing):
                    method(self, *args, **kwargs)

        return cast("Callable[Concatenate[_Self, _P], None]", enter)

    return decorate
